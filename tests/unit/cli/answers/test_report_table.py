"""A period's cost as people read it: text, Markdown, HTML and CSV."""

from __future__ import annotations

from datetime import timedelta

import pytest

from cli.answers.report_document import BaselineSimulation
from cli.answers.report_table import report_csv, report_html, report_markdown, report_table
from core.cost_report.report import IdleCause
from core.counterfactual.proven_minimum import ProvenMinimum
from tests.unit.cli.answers.test_report_document import DOLLAR, decided, reported

HEAD = (
    "2026-11-20 00:00 to 2026-11-20 02:00 UTC: $10.0000 for 4.00 hours of 2 instances; 1 command of consolidation and drift "
    "saved $0.5000 an hour and moved 3 pods"
)
AGAINST = [
    ("spent", "10.0000", ""),
    ("of it covered by commitments", "2.0000", "20.0%"),
    ("on demand", "25.0000", "60.0% less was spent"),
    ("without consolidation (simulated)", "14.0000", "28.6% less was spent"),
    ("proven minimum", "4.0000", "of $8.0000 in 1.50 hours"),
    ("idle", "3.0000", "30.0%"),
]
SHARES = [("shop", "7.0000", "70.0%"), ("(idle)", "3.0000", "30.0%")]
CAUSES = [("2.0000", "Budget", "pool general")]
DOCUMENT = reported(
    decided(moves=3, hourly=-DOLLAR // 2),
    baseline=BaselineSimulation(4, 6, timedelta(days=7)),
    covered=2 * DOLLAR,
    on_demand=25 * DOLLAR,
    minimum=ProvenMinimum(cost=4 * DOLLAR, spent=8 * DOLLAR, over=timedelta(minutes=90)),
    causes=((IdleCause("Budget", "pool general"), 2 * DOLLAR),),
)


def told(text: str) -> str:
    return " ".join(text.split())


def test_a_terminal_gets_every_table() -> None:
    text = report_table(DOCUMENT)
    assert told(text).startswith(HEAD)
    lines = [told(line) for line in text.splitlines()]
    for row in (*AGAINST, *SHARES, *CAUSES):
        assert told(" ".join(row)) in lines
    for heading in ("DOLLARS AGAINST WHAT WAS SPENT", "NAMESPACE DOLLARS SHARE", "IDLE $ KEPT BY ABOVE ALL"):
        assert heading in lines
    assert "how it is counted:" in text
    assert all(assumed in told(text) for assumed in DOCUMENT["assumptions"])


def test_markdown_and_html_have_the_same_tables() -> None:
    markdown, page = report_markdown(DOCUMENT), report_html(DOCUMENT)
    assert markdown.startswith(f"### {HEAD}\n")
    assert f"<p>{HEAD}</p>" in page
    for row in (*AGAINST, *SHARES, *CAUSES):
        assert f"| {' | '.join(row)} |" in markdown
        assert all(f">{cell}</td>" in page for cell in row)
    for headings in (("", "dollars", "against what was spent"), ("namespace", "dollars", "share")):
        assert f"| {' | '.join(headings)} |" in markdown
        assert all(f">{heading}</th>" in page for heading in headings if heading)
    assert "| idle $ | kept by | above all |" in markdown
    assert ">kept by</th>" in page
    assert all(f"- {assumed}\n" in markdown for assumed in DOCUMENT["assumptions"])
    assert "<h2>How it is counted</h2>" in page


def test_a_sheet_has_a_line_for_each_name_of_each_table() -> None:
    assert report_csv(DOCUMENT) == (
        "from,to,by,name,dollars\n"
        "2026-11-20T00:00:00Z,2026-11-20T02:00:00Z,namespace,shop,7.000000\n"
        "2026-11-20T00:00:00Z,2026-11-20T02:00:00Z,namespace,(idle),3.000000\n"
    )


def test_what_is_not_known_has_no_row() -> None:
    text = report_table(reported())
    rows = [line.split("  ")[0] for line in text.splitlines() if line[:1].isalpha()]
    assert [row for row in rows if row in {name for name, *_ in AGAINST}] == ["spent", "idle"]
    assert "KEPT BY" not in text
    assert "kept by" not in report_markdown(reported()) + report_html(reported())


@pytest.mark.parametrize(
    ("on_demand", "words"),
    [
        (20, "50.0% less was spent"),
        (8, "25.0% MORE was spent"),
        (10, "the same was spent"),
        (10.004, "the same was spent"),
        (9.996, "the same was spent"),
        (10.01, "0.1% less was spent"),
        (9.99, "0.1% MORE was spent"),
        (0, ""),
    ],
)
def test_a_higher_cost_than_the_baseline_is_shouted(on_demand: float, words: str) -> None:
    lines = [told(line) for line in report_table(reported(on_demand=round(on_demand * DOLLAR))).splitlines()]
    assert f"on demand {on_demand:.4f} {words}".strip() in lines


def test_a_period_without_cost_has_no_shares() -> None:
    lines = [told(line) for line in report_table(reported(cost=0, idle=0)).splitlines()]
    assert {"spent 0.0000", "idle 0.0000", "shop 7.0000"} <= set(lines)
