"""`consolidate`: what is asked of the core, and what is shown of its answer."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from cli.__main__ import main
from cli.answers.plan import disruption_document, disruption_table
from cli.arguments import TimeLimit
from cli.commands import consolidate, diff, ledger
from core.model.plan import Blocked, Command, DisruptionCost, DisruptionPlan
from core.reasons.nodes import NodeReason

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What was asked; nothing can go."""
    found: list[dict[str, Any]] = []

    def disrupt(snapshot: Any, **words: Any) -> DisruptionPlan:
        found.append({"options": snapshot.options, **words})
        return DisruptionPlan(now=snapshot.now)

    monkeypatch.setattr("core.disruption.disrupt", disrupt)
    return found


def test_the_core_is_asked_once_with_the_time_that_may_be_used(
    cluster: list[str], asked: list[dict[str, Any]], capsys: Capture
) -> None:
    words = (
        "--policy",
        "karpenter",
        "--ignore-budgets",
        "--move-price",
        "0.5",
        "--moves",
        "gentle",
        "--part-nodes",
        "7",
    )
    for more, has_clock in (((), True), (("--improve-iterations", "3"), False)):
        assert main(["consolidate", *cluster, *words, *more, "-o", "json"]) == 0
        found = asked.pop()
        assert isinstance(found["out_of_time"], TimeLimit) == has_clock
        assert found["proves_continued"] is True
        options = found["options"]
        assert (options.karpenter_moves_only, options.ignore_budgets) == (True, True)
        assert (options.move_price, options.moves, options.part_nodes) == (500_000_000, "gentle", 7)
        timing = json.loads(capsys.readouterr().out)["timing"]
        assert timing["solveSeconds"] is None if not has_clock else 0 <= timing["solveSeconds"] < 60
    assert asked == []


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("words", "shows_all"), [((), False), (("--all",), True), (("-o", "wide"), True), (("-o", "wide", "--all"), True)]
)
def test_every_node_that_stays_is_named_where_it_is_asked_for(
    words: tuple[str, ...], shows_all: bool, cluster: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def table(_: Any, *, shows_all: bool = False) -> str:
        return f"all: {shows_all}"

    monkeypatch.setattr("cli.answers.plan.disruption_table", table)
    assert main(["consolidate", *cluster, *words]) == 0
    assert capsys.readouterr().out == f"all: {shows_all}\n"


WAITING = Blocked(node="n1", reason=NodeReason.BUDGET, message="n1 waits for a budget")
STAYING = Blocked(node="n1", reason=NodeReason.NO_CHEAPER_OPTION, message="nothing is cheaper")
GOING = Command(claims=("c1",), reason="Underutilized", method="repack", nodes=("n1",), wave=3, savings=500_000_000)


@pytest.mark.parametrize(
    ("words", "stays", "asks"),
    [
        ((), WAITING, True),
        (("-o", "wide"), WAITING, True),
        (("-o", "json"), WAITING, False),
        (("--ignore-budgets",), WAITING, False),
        ((), STAYING, False),
    ],
)
def test_the_headline_says_where_later_waves_end(
    words: tuple[str, ...],
    stays: Blocked,
    asks: bool,
    cluster: list[str],
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[bool] = []

    def disrupt(snapshot: Any, **_: Any) -> DisruptionPlan:
        asked.append(snapshot.options.ignore_budgets)
        if len(asked) == 1:
            cost = DisruptionCost(before=10**9, after=10**9, lower_bound=4 * 10**8)
            return DisruptionPlan(now=snapshot.now, blocked=(stays,), cost=cost)
        cost = DisruptionCost(before=10**9, after=5 * 10**8)
        return DisruptionPlan(now=snapshot.now, commands=(GOING,), cost=cost)

    monkeypatch.setattr("core.disruption.disrupt", disrupt)
    monkeypatch.setattr(consolidate, "_gap_parts", lambda *_: None)
    assert main(["consolidate", *cluster, *words]) == 0
    assert asked == ([False, True] if asks else ["--ignore-budgets" in words])
    lines = capsys.readouterr().out.splitlines()
    if asks:
        assert lines[:3] == [
            "in the end 1 node goes, none comes, with 0 evictions in 3 waves: saves $0.5000 an hour, $365 a month, 50%",
            "$1.0000 an hour before, $0.5000 in the end; 25.0% above the proven minimum of $0.4000 an hour",
            "now, within the budgets: no node goes",
        ]
    else:
        assert not any("in the end" in line for line in lines)


GAP_LINE = "of it 62.5 points for the price of moves, 0.0 for spot nodes that no spot node replaces, 12.5 for the rest"


@pytest.mark.parametrize(
    ("words", "limits", "is_told"),
    [
        ((), ["with", "without", "free"], True),
        (("--ignore-budgets",), ["without", "free"], True),
        (("--ignore-budgets", "-o", "json"), ["without", "free"], True),
        (("--ignore-budgets", "-o", "json", "--moves", "thorough"), ["without"], True),
        (("-o", "json"), ["with"], False),
        (("-o", "name"), ["with"], False),
        (("--policy", "karpenter", "--ignore-budgets"), ["without"], False),
    ],
)
def test_the_gap_is_told_apart_where_the_end_is_told(
    words: tuple[str, ...],
    limits: list[str],
    is_told: bool,
    cluster: list[str],
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decided_with: list[str] = []

    def disrupt(snapshot: Any, **_: Any) -> DisruptionPlan:
        options = snapshot.options
        is_free = options.move_price == 0
        decided_with.append("free" if is_free else "without" if options.ignore_budgets else "with")
        cost = DisruptionCost(before=10**9, after=45 * 10**7 if is_free else 7 * 10**8, lower_bound=4 * 10**8)
        return DisruptionPlan(now=snapshot.now, commands=(GOING,), blocked=(WAITING,), cost=cost)

    monkeypatch.setattr("core.disruption.disrupt", disrupt)
    assert main(["consolidate", *cluster, *words]) == 0
    assert decided_with == limits
    text = capsys.readouterr().out
    if "json" in words:
        parts = {"moves": 0.25, "spotToSpot": 0.0, "rest": 0.05}
        thorough = {"moves": 0.0, "spotToSpot": 0.0, "rest": 0.3}
        told = thorough if "thorough" in words else parts
        assert json.loads(text)["cost"].get("gapParts") == (told if is_told else None)
    else:
        assert (GAP_LINE in text) is is_told


# Values of options: amounts, months and conditions, and what is said of those that are none.


def parsed(command: Any, *words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.configure(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(("text", "nano"), [("0", 0), ("0.05", 50_000_000), ("1e-9", 1), ("2", 2_000_000_000)])
def test_the_price_of_a_move_is_dollars(text: str, nano: int) -> None:
    assert parsed(consolidate, "-f", "x", "--move-price", text).move_price == nano


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", ""])
def test_a_part_has_at_least_one_node(text: str) -> None:
    with pytest.raises(argparse.ArgumentError, match="is not a whole number of one or more"):
        parsed(consolidate, "-f", "x", f"--part-nodes={text}")


@pytest.mark.parametrize(
    ("division", "line"),
    [
        ({}, None),
        ({"parts": 3}, "planned in 3 parts that share no pods"),
        ({"undivided": "all NodePools share commitments"}, "planned as a whole: all NodePools share commitments"),
    ],
)
def test_the_answer_says_how_a_large_cluster_was_planned(division: dict[str, Any], line: str | None) -> None:
    document = disruption_document(DisruptionPlan(now=datetime(2026, 11, 20, tzinfo=UTC), **division))
    assert document.get("division") == ({"parts": 1, "undivided": "", **division} if division else None)
    lines = disruption_table(document | {"prices": None}).splitlines()
    assert [text for text in lines if text.startswith("planned")] == ([line] if line else [])


@pytest.mark.parametrize("text", ["-0.01", "NaN", "Infinity", "-Infinity", "much", ""])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentError, match="is not an amount of dollars"):
        parsed(consolidate, "-f", "x", f"--move-price={text}")


def test_a_month_ends_with_its_last_moment_or_now() -> None:
    month = ledger._month
    assert month("2024-02") == (datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC))
    assert month("2024-12") == (datetime(2024, 12, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC))
    now = datetime.now(UTC)
    first, last = month(f"{now:%Y-%m}")
    assert first.day == 1
    assert now <= last <= datetime.now(UTC)
    later = datetime(now.year + 1, 1, 1, tzinfo=UTC)
    assert month(f"{later:%Y-%m}") == (later, later)
    with pytest.raises(argparse.ArgumentTypeError, match="is not a month such as 2026-11"):
        month("2026-13")


@pytest.mark.parametrize(
    ("condition", "changes", "why"),
    [
        ("pods-lost", {"podsLost": ["a/b"]}, "1 pod lost"),
        ("pods-lost", {"nodesDrifted": ["n"]}, ""),
        ("drift", {"nodesDrifted": ["n", "m"]}, "2 nodes drifted"),
        ("drift", {"podsLost": ["a/b"]}, ""),
        ("cost+10", {"after": {"hourly": 1.1}}, ""),
        ("cost+10", {"after": {"hourly": 1.2}}, "it costs $0.2000 an hour more, which is over 10 percent"),
        ("cost+0%", {"after": {"hourly": 1.0}}, ""),
    ],
)
def test_a_condition_of_a_change_is_violated(condition: str, changes: dict[str, Any], why: str) -> None:
    document = {"before": {"hourly": 1.0}, "after": {"hourly": 1.0}, "podsLost": [], "nodesDrifted": [], **changes}
    assert diff._broken(diff._condition(condition), document, ()) == why
