"""The comparison as text, Markdown and HTML: the same figures, and a dash for what one side does not have."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from cli.answers.shadow_document import shadow_document
from cli.answers.shadow_table import shadow_html, shadow_markdown, shadow_table
from core.counterfactual.broken_rules import BrokenRule
from core.counterfactual.proven_minimum import ProvenMinimum
from tests.unit.cli.answers.test_shadow_document import DOLLAR, PERIOD, RECORDED, SIMULATED, START


def document(recorded: dict[str, Any] | None = None, **simulated: Any) -> dict[str, Any]:
    theirs = msgspec.structs.replace(RECORDED, **(recorded or {}))
    return shadow_document(PERIOD, theirs, msgspec.structs.replace(SIMULATED, **simulated))


def told(written: str) -> str:
    return " ".join(written.split())


WAITED = {"arrived": {"a/p": START}, "waits": {"a/p": timedelta(seconds=90)}}
HEAD = "2026-11-20 00:00 to 2026-11-20 02:00 UTC, 3 snapshots: -2.0000 dollars (-20.0%), -730.00 a month"
ROWS = [
    ("dollars", "10.0000", "8.0000", "-2.0000"),
    ("a month", "3,650.00", "2,920.00", "-730.00"),
    ("node hours", "4.00", "3.00", "-1.00"),
    ("nodes launched", "2", "1", "-1"),
    ("nodes at the end", "2", "1", "-1"),
    ("evictions by choice", "5", "4", "-1"),
    ("evictions otherwise", "1", "-", ""),
    ("pods that waited > 2 min", "0", "0", "+0"),
    ("median wait, s", "90", "-", ""),
    ("longest wait, s", "90", "-", ""),
    ("pods without a place", "0", "1", "+1"),
    ("rules that would be violated", "-", "1", ""),
]
DOCUMENT = document(WAITED, unplaced=("a/p",), broken=(BrokenRule(START, "budget", "general"),))
WORSE = ["1 pod had no place only with us: a/p", "1 rule would have been violated"]


def test_a_terminal_gets_the_difference_every_row_and_where_we_are_worse() -> None:
    text = shadow_table(DOCUMENT)
    assert told(text.split("\n\n")[0]) == HEAD
    lines = [told(line) for line in text.splitlines()]
    assert all(told(" ".join(row)) in lines for row in ROWS)
    assert f"where we would have been worse: {WORSE[0]} {WORSE[1]} assumed:" in told(text)
    assert all(assumed in told(text) for assumed in DOCUMENT["assumptions"])


def test_markdown_and_html_have_the_same_rows() -> None:
    markdown, page = shadow_markdown(DOCUMENT), shadow_html(DOCUMENT)
    assert HEAD in markdown
    assert HEAD in page
    assert "|  | Karpenter did | We would have | Difference |" in markdown
    for row in ROWS:
        assert f"| {' | '.join(row)} |" in markdown
        for cell in row:
            assert f">{cell.replace('>', '&gt;')}</td>" in page
    for line in WORSE:
        assert f"- {line}\n" in markdown
        assert f"<td>{line}</td>" in page
    for assumed in DOCUMENT["assumptions"]:
        assert f"- {assumed}\n" in markdown
    assert "<h2>Assumed</h2>" in page


def test_fleets_that_are_nowhere_worse_say_so() -> None:
    better = document()
    assert "nowhere, in what is compared here" in told(shadow_table(better))
    assert "- nowhere, in what is compared here" in shadow_markdown(better)


def test_a_fleet_that_cost_nothing_has_no_share() -> None:
    head = told(shadow_table(document({"cost": 0}, cost=0)).split("\n\n")[0])
    assert head.endswith("3 snapshots: +0.0000 dollars, +0.00 a month")


def test_a_proven_minimum_is_shown_beside_what_was_spent_meanwhile() -> None:
    def head(spent: int) -> str:
        minimum = ProvenMinimum(cost=3 * DOLLAR, spent=spent, over=timedelta(minutes=90))
        return told(shadow_table(document({"minimum": minimum})).split("\n\n")[0])

    assert head(9 * DOLLAR).endswith("-730.00 a month; of $9.0000 in 1.50 h any fleet must spend $3.0000")
    assert head(0) == HEAD


def test_a_wait_that_only_we_would_have_has_no_difference() -> None:
    waits = {**DOCUMENT["simulated"]["waits"], "long": 1, "p50": 130.0}
    ours = {**DOCUMENT, "simulated": {**DOCUMENT["simulated"], "waits": waits}}
    theirs = {**DOCUMENT["recorded"], "waits": {**DOCUMENT["recorded"]["waits"], "p50": None}}
    rows = [told(line) for line in shadow_table({**ours, "recorded": theirs}).splitlines()]
    assert "pods that waited > 2 min 0 1 +1" in rows
    assert "median wait, s - 130" in rows
