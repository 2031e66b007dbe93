"""Two plans beside each other: a pod is lost or gained, a node drifts, and an amount has its sign."""

from __future__ import annotations

from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.answers.difference import (
    Side,
    as_markdown,
    as_table,
    difference_document,
    html_page,
    html_table,
    report_csv,
    report_html,
    report_markdown,
    report_table,
    shadow_html,
    shadow_markdown,
    shadow_table,
)
from cli.answers.periods import BaselineSimulation, shadow_document
from cli.report import render
from core.api.objects import JsonObject
from core.cost_report import IdleCause
from core.counterfactual.overrides import ProvenMinimum
from core.counterfactual.simulation import BrokenRule
from core.model.plan import Plan, Unschedulable
from core.model.snapshot import Snapshot
from core.reasons.nodes import DriftReason
from tests import page
from tests.accessible_page import SHAPE_CONTRAST, TEXT_CONTRAST, barriers, contrast, palettes
from tests.builders import NOW, a_node_of, a_pod, a_snapshot, a_type
from tests.unit.cli.answers.test_periods import (
    DOLLAR,
    PERIOD,
    SHADOW_DOCUMENT_RECORDED,
    SIMULATED,
    START,
    decided,
    reported,
)
from tests.unit.cli.report.test_report import content

TYPE = a_type("m5.large")
CLAIM, NODE = a_node_of(TYPE)
PODS = tuple(a_pod(name) for name in ("both", "gained", "lost", "placed"))
WORLD = a_snapshot(types=(TYPE,), pods=PODS, nodes=(NODE,), node_claims=(CLAIM,))


def side(*unplaced: str, hourly: float = 0.5, snapshot: Snapshot = WORLD) -> Side:
    lost = tuple(Unschedulable(f"default/{name}", "NoOfferingFits", "too big") for name in unplaced)
    plan = Plan(now=NOW, claims=(), bindings=(), unschedulable=lost)
    return Side(snapshot=snapshot, plan=plan, hourly=round(hourly * 1_000_000_000), prices={"region": ""})


def compared(before: Side, after: Side) -> JsonObject:
    return difference_document(before, after)


def test_pods_are_lost_or_gained_only_if_they_are_there_afterwards() -> None:
    document = compared(side("both", "gained", "deleted"), side("both", "lost"))
    assert (document["podsLost"], document["podsGained"]) == (["default/lost"], ["default/gained"])
    assert list(document["reasons"]) == ["default/both", "default/lost"]
    assert document["reasons"]["default/lost"]["message"] == "too big"
    assert document["before"] == {
        "hourly": 0.5,
        "monthly": 365.0,
        "nodes": 1,
        "unschedulable": ["default/both", "default/deleted", "default/gained"],
    }


def test_nodes_that_begin_to_drift_are_named() -> None:
    (pool,) = WORLD.node_pools
    drifted = msgspec.structs.replace(WORLD, node_pools=(msgspec.structs.replace(pool, labels={"team": "b"}),))
    document = compared(side(), side(snapshot=drifted))
    for found in document["nodesDrifted"]:
        assert (found["node"], found["nodePool"]) == (NODE.name, pool.name)
    assert compared(side(), side())["nodesDrifted"] == []


def a_document(**changes: Any) -> JsonObject:
    plain = {"hourly": 0.5, "monthly": 365.0, "nodes": 4, "unschedulable": []}
    fixed: JsonObject = {"before": plain, "after": plain, "prices": None, "podsLost": [], "podsGained": []}
    return {**fixed, "nodesDrifted": [], "reasons": {}, **changes}


def rows(document: JsonObject) -> dict[str, str]:
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in as_markdown(document).splitlines()]
    return {cells[0]: cells[3] for cells in lines if len(cells) == 4 and cells[0] and "-" not in cells[0][:2]}


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (("0.5", 4, 0), ("0.5", 4, 0), ("=", "=", "=", "=")),
        (("0.5", 4, 0), ("0.75", 6, 2), ("+2", "+0.2500 (+50%)", "+182 (+50%)", "+2")),
        (("0.5", 4, 3), ("0.25", 3, 1), ("-1", "-0.2500 (-50%)", "-182 (-50%)", "-2")),
        (("0", 0, 0), ("2.5", 1, 0), ("+1", "+2.5000", "+1,825", "=")),
        (("0.5", 4, 0), ("0.50004", 4, 0), ("=", "=", "=", "=")),
    ],
)
def test_each_change_has_its_sign_and_its_share(
    before: tuple[str, int, int], after: tuple[str, int, int], changes: tuple[str, ...]
) -> None:
    def one(hourly: str, nodes: int, lost: int) -> JsonObject:
        cost = float(hourly)
        monthly = round(cost * 730, 2)
        return {"hourly": cost, "monthly": monthly, "nodes": nodes, "unschedulable": ["p"] * lost}

    found = rows(a_document(before=one(*before), after=one(*after)))
    assert tuple(found[name] for name in ("nodes", "$ an hour", "$ a month", "pods without a place")) == changes


def drift(node: str, reason: str, pool: str = "general") -> JsonObject:
    return {"node": node, "nodePool": pool, "reason": reason}


def test_what_changed_is_named_below_the_table_ten_at_most() -> None:
    pods = [f"shop/{number:02}" for number in range(11)]
    known = next(iter(DriftReason))
    document = a_document(
        podsLost=pods,
        podsGained=["shop/a|b"],
        reasons={"shop/00": {"reason": "NoOfferingFits"}},
        nodesDrifted=[drift("a", str(known)), drift("b", str(known)), drift("c", "Own", "gpu")],
        drift={"nodes": 3, "evictions": 1, "surgeDollars": 0.0123},
    )
    text, markdown = as_table(document), as_markdown(document)
    for part in (
        "11 pods left without a place\n  shop/00  [NoOfferingFits]\n  shop/01\n",
        "  shop/09\n  and 1 more\n",
        "1 pod given a place\n  shop/a|b\n",
        "3 nodes to be replaced, as the disruption budgets allow\n  1 eviction; $0.0123 while old and new nodes both run\n",
        f"  NodePool general: 2 nodes, {known}: {known.clause}\n",
        "  NodePool gpu: 1 node, Own\n  a\n  b\n  c",
    ):
        assert part in f"{text}\n"
    assert "shop/10" not in text
    assert "**11 pods left without a place**\n\n- shop/00  [NoOfferingFits]\n- shop/01\n" in markdown
    assert "- shop/a b" in markdown
    assert "| nodes that drift | - | 3 | +3 |" in markdown


def test_of_equal_sides_only_the_table_is_shown() -> None:
    assert len(as_table(a_document()).splitlines()) == 6
    assert as_table(a_document(podsLost=["a"] * 10)).count("more") == 0
    assert "prices: eu-west-1" in as_table(a_document(prices={"region": "eu-west-1", "date": "", "source": "a file"}))


# A period's cost as people read it: text, Markdown, HTML and CSV.


REPORT_TABLE_HEAD = (
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
REPORT_TABLE_DOCUMENT = reported(
    decided(moves=3, hourly=-DOLLAR // 2),
    baseline=BaselineSimulation(4, 6, timedelta(days=7)),
    covered=2 * DOLLAR,
    on_demand=25 * DOLLAR,
    minimum=ProvenMinimum(cost=4 * DOLLAR, spent=8 * DOLLAR, over=timedelta(minutes=90)),
    causes=((IdleCause("Budget", "pool general"), 2 * DOLLAR),),
)


def report_table_told(text: str) -> str:
    return " ".join(text.split())


def test_a_terminal_gets_every_table() -> None:
    text = report_table(REPORT_TABLE_DOCUMENT)
    assert report_table_told(text).startswith(REPORT_TABLE_HEAD)
    lines = [report_table_told(line) for line in text.splitlines()]
    for row in (*AGAINST, *SHARES, *CAUSES):
        assert report_table_told(" ".join(row)) in lines
    for heading in ("DOLLARS AGAINST WHAT WAS SPENT", "NAMESPACE DOLLARS SHARE", "IDLE $ KEPT BY ABOVE ALL"):
        assert heading in lines
    assert "how it is counted:" in text
    assert all(assumed in report_table_told(text) for assumed in REPORT_TABLE_DOCUMENT["assumptions"])


def test_markdown_and_html_have_the_same_tables() -> None:
    markdown, page = report_markdown(REPORT_TABLE_DOCUMENT), report_html(REPORT_TABLE_DOCUMENT)
    assert markdown.startswith(f"### {REPORT_TABLE_HEAD}\n")
    assert f"<p>{REPORT_TABLE_HEAD}</p>" in page
    for row in (*AGAINST, *SHARES, *CAUSES):
        assert f"| {' | '.join(row)} |" in markdown
        assert all(f">{cell}</td>" in page for cell in row)
    for headings in (("", "dollars", "against what was spent"), ("namespace", "dollars", "share")):
        assert f"| {' | '.join(headings)} |" in markdown
        assert all(f">{heading}</th>" in page for heading in headings if heading)
    assert "| idle $ | kept by | above all |" in markdown
    assert ">kept by</th>" in page
    assert all(f"- {assumed}\n" in markdown for assumed in REPORT_TABLE_DOCUMENT["assumptions"])
    assert "<h2>How it is counted</h2>" in page


def test_a_sheet_has_a_line_for_each_name_of_each_table() -> None:
    assert report_csv(REPORT_TABLE_DOCUMENT) == (
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
    lines = [
        report_table_told(line) for line in report_table(reported(on_demand=round(on_demand * DOLLAR))).splitlines()
    ]
    assert f"on demand {on_demand:.4f} {words}".strip() in lines


# The comparison as text, Markdown and HTML: the same figures, and a dash for what one side does not have.


def document(recorded: dict[str, Any] | None = None, **simulated: Any) -> dict[str, Any]:
    theirs = msgspec.structs.replace(SHADOW_DOCUMENT_RECORDED, **(recorded or {}))
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


def test_a_proven_minimum_is_shown_beside_what_was_spent_meanwhile() -> None:
    def head(spent: int) -> str:
        minimum = ProvenMinimum(cost=3 * DOLLAR, spent=spent, over=timedelta(minutes=90))
        return told(shadow_table(document({"minimum": minimum})).split("\n\n")[0])

    assert head(9 * DOLLAR).endswith("-730.00 a month; of $9.0000 in 1.50 h any fleet must spend $3.0000")
    assert head(0) == HEAD


# Tables of a document as one HTML page, on a phone and for a screen reader.


def test_numbers_are_aligned_and_an_empty_heading_is_no_heading() -> None:
    """A screen reader announced a heading without a name."""
    table = html_table(("", "dollars", "why"), [("spent", "1,204.50", "3 pods"), ("saved", "-", "")])
    assert table.startswith(
        '<table><tr><td></td><th scope="col" class="number">dollars</th><th scope="col">why</th></tr>'
    )
    assert '<tr><td>spent</td><td class="number">1,204.50</td><td>3 pods</td></tr>' in table


def test_a_page_fits_a_phone_and_says_what_its_notes_are() -> None:
    """Without a viewport a phone draws a page of 980 pixels, too small to read."""
    page = html_page("Report <one>", "a & b", [html_table(("x",), [])], ("Assumed", ["prices stay"]))
    assert '<meta name="viewport" content="width=device-width,initial-scale=1">' in page
    assert "<title>Report &lt;one&gt;</title>" in page
    assert "<main><h1>Report &lt;one&gt;</h1><p>a &amp; b</p>" in page
    assert "<h2>Assumed</h2><ul><li>prices stay</li></ul></main>" in page


# Pages can be read and used without a mouse, without colours, and by those who hear them.


BACKGROUNDS = ("ground", "card")
TEXTS = ("ink", "quiet", "accent", "bad", "step", "interruption", "capacity", "fault")
"""Also the words over a chart, which have the colours of their bands."""
SHAPES = ("on-demand", "spot", "reserved", "kept")
STYLE = (files("cli") / "assets" / "report.css").read_text()


def test_the_page_of_a_simulation_has_no_barrier() -> None:
    assert barriers(render(content())) == []


def test_nor_has_it_one_once_its_script_has_run(tmp_path: Path) -> None:
    """The timeline, the legends and the panel of a node are made by the script."""
    program = page.browser()
    if program is None:
        pytest.skip("no Chromium on this machine")
    target = tmp_path / "report.html"
    target.write_text(render(content()), encoding="utf-8")
    told = page.drawn(target, program, "node=n2")
    assert "NodeClaim general-b1-1" in told
    assert barriers(told) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("background", BACKGROUNDS)
def test_text_and_lines_stand_out(scheme: str, background: str) -> None:
    colours = palettes(STYLE)[scheme]
    faint = {name: contrast(colours[name], colours[background]) for name in (*TEXTS, *SHAPES)}
    assert {name: ratio for name, ratio in faint.items() if ratio < SHAPE_CONTRAST} == {}
    assert {name: ratio for name, ratio in faint.items() if name in TEXTS and ratio < TEXT_CONTRAST} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_on_the_bars_of_nodes_stand_out(scheme: str) -> None:
    colours = palettes(STYLE)[scheme]
    for bar in ("on-demand", "spot", "reserved"):
        assert contrast(colours["on-bar"], colours[bar]) >= TEXT_CONTRAST


def test_contrast_is_what_the_standard_defines() -> None:
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.01)


GOOD = '<html lang="en"><head><title>t</title></head><body><main><h1>h</h1>{}</main></body></html>'


@pytest.mark.parametrize(
    ("part", "rule"),
    [
        ("<h3>x</h3>", "1.3.1"),
        ("<h2></h2>", "2.4.6"),
        ("<h1>again</h1>", "1.3.1"),
        ('<i id="a"></i><i id="a"></i>', "4.1.1"),
        ("<button></button>", "4.1.2"),
        ("<input>", "1.3.1"),
        ('<label for="none">x</label>', "1.3.1"),
        ('<img src="a">', "1.1.1"),
        ('<div role="img"></div>', "1.1.1"),
        ("<table><tr><td>x</td></tr></table>", "1.3.1"),
        ("<table><tr><th>x</th></tr></table>", "1.3.1"),
        ('<table><tr><th scope="col"></th></tr></table>', "1.3.1"),
        ("<li>x</li>", "1.3.1"),
        ('<p tabindex="3">x</p>', "2.4.3"),
        ('<div class="scroll">x</div>', "2.1.1"),
        ("</main><p>x</p>", "1.3.1"),
    ],
)
def test_each_barrier_is_found(part: str, rule: str) -> None:
    """A rule that finds nothing holds for every page."""
    assert [found.partition(" ")[0] for found in barriers(GOOD.format(part))] == [rule]


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [(' lang="en"', "", "3.1.1"), ("<title>t</title>", "", "2.4.2"), ("main>", "div>", "1.3.1")],
)
def test_a_document_without_language_title_or_landmark_is_found(old: str, new: str, rule: str) -> None:
    told: list[Any] = barriers(GOOD.format("").replace(old, new))
    assert {found.partition(" ")[0] for found in told} == {rule}
