"""The parts of the page: its figures, its rows and its data say what the record says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from cli.report import page, render
from cli.report.page import (
    HITS_MAX,
    NODES_MAX,
    PODS_NAMED_MAX,
    ROWS_MAX,
    Band,
    Comparison,
    PageContent,
    bands,
    page_data,
    paragraph,
    sampled,
)
from cli.report.series import NodeLifetime, Series
from cli.terminal.style import Steps
from core.counterfactual.simulation import SimulationRules
from core.model.plan import DisruptionCost
from core.model.values.quantity import nanodollars
from simulator.outcome import VIOLATIONS
from tests.unit.cli.report.test_report import DECISIONS, content, decision, events, launched
from tests.unit.cli.report.test_report import START as PAGE_START
from tests.unit.cli.report.test_report import SUMMARY as PAGE_SUMMARY

# Bands name what happened in the background: which windows were open, and which steps, faults and shortages came when.


START = datetime(2026, 11, 20, tzinfo=UTC)
USER = {"by": "user"}


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def recorded(
    *events: tuple[float, str, dict[str, Any]], end: float = 180
) -> list[tuple[datetime, str, dict[str, Any]]]:
    return [(START, "simulationStarted", {}), *((at(m), event, f) for m, event, f in events), (at(end), "end", {})]


def pool(name: str, *budgets: dict[str, Any]) -> tuple[float, str, dict[str, Any]]:
    spec = {"spec": {"disruption": {"budgets": list(budgets)}}}
    return 0, "objectApplied", {"kind": "NodePool", "name": name, "by": "user", "object": spec}


def scaled(minutes: float, name: str, replicas: int | None) -> tuple[float, str, dict[str, Any]]:
    spec = {} if replicas is None else {"spec": {"replicas": replicas}}
    return minutes, "objectApplied", {"kind": "Deployment", "name": name, "object": spec, **USER}


def moments(*events: tuple[float, str, dict[str, Any]]) -> list[tuple[float, str, str]]:
    found = bands(recorded(*events))
    assert all(band.start == band.end for band in found)
    return [((band.start - START) / timedelta(minutes=1), band.kind, band.text) for band in found]


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        ({}, "at most 10% of the nodes may go"),
        ({"nodes": "0%"}, "no node may go"),
        ({"nodes": "0", "reasons": ["Drifted", "Empty"]}, "no node may go (Drifted, Empty)"),
        ({"nodes": "3"}, "at most 3 of the nodes may go"),
    ],
)
def test_a_window_says_what_may_go(budget: dict[str, Any], text: str) -> None:
    daily = {"schedule": "30 0 * * *", "duration": "1h", **budget}
    assert bands(recorded(pool("a", daily))) == (Band(start=at(30), end=at(90), kind="window", text=f"a: {text}"),)


def test_a_window_ends_with_the_record_and_one_that_was_open_before_it_begins_with_it() -> None:
    around = {"nodes": "0", "schedule": "30 23 * * *", "duration": "1h"}
    late = {"nodes": "0", "schedule": "30 2 * * *", "duration": "1h"}
    found = [(band.start, band.end) for band in bands(recorded(pool("a", around, late)))]
    assert found == [(at(0), at(30)), (at(150), at(180))]
    assert bands(recorded(pool("a", late), end=150)) == ()  # it opens at the very end
    later = bands([(at(20), "simulationStarted", {}), (at(25), *pool("a", around)[1:]), (at(60), "end", {})])[0]
    assert (later.start, later.end) == (at(20), at(30))


def test_pools_with_the_same_window_share_a_band() -> None:
    daily = {"nodes": "0", "schedule": "0 1 * * *", "duration": "1h"}
    found = bands(recorded(pool("b", daily, daily), pool("a", daily), pool("c", {**daily, "nodes": "1"})))
    assert [band.text for band in found] == ["c: at most 1 of the nodes may go", "a, b: no node may go"]


@pytest.mark.parametrize(
    "budget",
    [
        {"nodes": "0"},
        {"schedule": "0 1 * * *"},
        {"duration": "1h"},
        {"schedule": "0 1 * *", "duration": "1h"},
        {"schedule": "0 0 30 2 *", "duration": "1h"},
    ],
)
def test_a_budget_without_a_readable_window_has_no_band(budget: dict[str, Any]) -> None:
    assert bands(recorded(pool("a", budget))) == ()


def test_the_number_of_windows_of_a_budget_is_bounded() -> None:
    """A window that opens each minute for a day."""
    each_minute = {"nodes": "0", "schedule": "* * * * *", "duration": "1m"}
    assert len(bands(recorded(pool("a", each_minute), end=24 * 60))) == HITS_MAX


def test_steps_of_the_user_have_their_replicas_before_and_after() -> None:
    found = moments(
        scaled(0, "first", 1),
        scaled(1, "web", 2),
        scaled(2, "web", 5),
        scaled(3, "web", 5),
        scaled(4, "job", None),
        (5, "objectDeleted", {"kind": "Deployment", "name": "web", **USER}),
        (6, "objectDeleted", {"kind": "Deployment", "name": "web", "by": "function"}),
        (7, "podBound", {"pod": "a/b", **USER}),
    )
    assert found == [
        (1, "step", "web: 2"),
        (2, "step", "web 2 to 5"),
        (3, "step", "web: 5"),
        (4, "step", "Deployment job"),
        (5, "step", "deleted Deployment web"),
    ]


def test_faults_and_shortages_have_what_they_are_about() -> None:
    found = moments(
        (1, "fault", {"kind": "crash", "call": "RunInstances"}),
        (2, "capacityChanged", {"instanceType": "m5.large", "zone": "us-east-1a", "available": 0}),
        (3, "capacityChanged", {"capacityType": "spot", "available": None}),
    )
    assert found == [
        (1, "fault", "crash at RunInstances"),
        (2, "capacity", "m5.large/us-east-1a/*: 0 left"),
        (3, "capacity", "*/*/spot: as before"),
    ]


def test_moments_of_a_kind_within_five_seconds_are_one() -> None:
    second = 1 / 60
    notice = ("interruptionNotice", {"kind": "spot"})
    found = moments(
        (1, *notice),
        (1 + 5 * second, *notice),
        (1 + 5 * second, "interruptionNotice", {"kind": "rebalance"}),
        (1 + 6 * second, *notice),
    )
    assert found == [(1, "interruption", "2 spot notices, 1 rebalance notice"), (1.1, "interruption", "1 spot notice")]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("abc", "a: 1; b: 1; c: 1"),
        ("abcd", "a: 1; b: 1; c: 1 and 1 more"),
        ("abcde", "a: 1; b: 1; c: 1 and 2 more"),
        ("aab", "a: 1, 2 times; b: 1"),
    ],
)
def test_three_steps_are_named_and_the_rest_counted(names: str, text: str) -> None:
    assert moments(*(scaled(1, name, 1) for name in names)) == [(1, "step", text)]


def test_a_window_stays_if_its_pool_goes_and_a_fault_at_the_start_is_told() -> None:
    """A step at the start is how the cluster began; a fault is none of that."""
    daily = pool("a", {"nodes": "0", "schedule": "30 0 * * *", "duration": "1h"})
    gone = (60.0, "objectDeleted", {"kind": "NodePool", "name": "a", **USER})
    found = bands(recorded(daily, gone))
    assert [(band.kind, band.start) for band in found] == [("window", at(30)), ("step", at(60))]
    fault = (0.0, "fault", {"kind": "throttled", "call": "ec2:CreateFleet"})
    assert moments(fault, scaled(0, "cart", 3)) == [(0, "fault", "throttled at ec2:CreateFleet")]


@pytest.mark.parametrize("lacking", [None, {}, {"spec": None}, {"spec": {"disruption": None}}])
def test_an_object_that_lacks_a_part_has_no_window_and_no_count(lacking: dict[str, Any] | None) -> None:
    own = (0.0, "objectApplied", {"kind": "NodePool", "name": "a", "object": lacking, **USER})
    later = (9.0, "objectApplied", {"kind": "Deployment", "name": "cart", "object": lacking, **USER})
    assert moments(own, later) == [(9, "step", "Deployment cart")]


# Steps of dollars are read off at the times of the page.


def comparison_at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def test_a_step_holds_until_the_next_one() -> None:
    """A line that joined them would show prices that nothing ever had."""
    steps = ((comparison_at(1), nanodollars(0.5)), (comparison_at(3), nanodollars(0.25)))
    assert sampled(steps, [comparison_at(minute) for minute in range(5)]) == [None, 0.5, 0.5, 0.25, 0.25]
    assert sampled((), [comparison_at(0)]) == [None]


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_every_decision_is_simulated(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many, 160 were: what the last one before a quiet time changed was missing in all of that time."""
    seen: list[int] = []
    entries = [SimpleNamespace(snapshot=SimpleNamespace(now=number), plan=None) for number in range(count)]

    def simulated(snapshots: Iterable[Any], rules: Sequence[SimulationRules], until: object) -> Any:
        seen.extend(snapshot.now for snapshot in snapshots)
        assert (rules, until) == ((SimulationRules(karpenter_moves_only=True),), "the end")
        return None, (SimpleNamespace(series=((comparison_at(0), 7),)),)

    period = SimpleNamespace(decisions=lambda: iter(entries), until="the end")
    monkeypatch.setattr(page, "open_ledger", lambda where: where)
    monkeypatch.setattr(page, "PeriodReader", lambda *_: period)
    monkeypatch.setattr(page, "simulated_periods", simulated)
    steps = Steps(0)
    assert page.compared("ledger", steps) == Comparison(karpenter=((comparison_at(0), 7),), minimum=())
    assert seen == list(range(count))
    assert steps.total == count


def test_the_minimum_is_that_of_each_decision_that_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = (None, DisruptionCost(lower_bound=None), DisruptionCost(lower_bound=3))
    entries = [
        SimpleNamespace(
            snapshot=SimpleNamespace(now=comparison_at(n)), plan=None if cost is None else SimpleNamespace(cost=cost)
        )
        for n, cost in enumerate(costs)
    ]
    monkeypatch.setattr(page, "open_ledger", lambda where: where)
    monkeypatch.setattr(
        page, "PeriodReader", lambda *_: SimpleNamespace(decisions=lambda: entries, until=comparison_at(3))
    )
    monkeypatch.setattr(page, "simulated_periods", lambda *_: (None, (SimpleNamespace(series=()),)))
    assert page.compared("ledger", Steps(0)).minimum == ((comparison_at(2), 3),)


def test_lines_have_four_digits() -> None:
    assert sampled([(datetime(2026, 1, 1, tzinfo=UTC), 123_456_789)], [datetime(2026, 1, 2, tzinfo=UTC)]) == [0.1235]


def tiles(text: str) -> dict[str, str]:
    found = re.findall(r'<div class="tile( bad)?"><dt>([^<]*)</dt><dd>(.*?)</dd></div>', text)
    return {name: f"{'BAD ' if bad else ''}{re.sub('<[^>]*>', '', value)}" for bad, name, value in found}


def data_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    return found


def test_the_figures_are_those_of_the_summary() -> None:
    assert tiles(render(content())) == {
        "Pods placed": "1 of 2 1 waits at the end",
        "Wait for a node": "52 s 99 in 100 at most 97 s",
        "Nodes": "1 launched; 0 run at the end",
        "Spent": "$0.20 $0.100 a node and hour",
        "At the end": "$0.20/h $0.40/h without consolidation",
        "Evictions": "0 by the eviction API or forced",
        "Violations": "✓ 0 found by independent checkers",
    }
    broken = {
        **PAGE_SUMMARY,
        VIOLATIONS[0]: 2,
        VIOLATIONS[1]: 1,
        "podsPending": 2,
        "instanceHours": 0.0,
        "dollars": 0.0,
    }
    found = tiles(render(content(summary=broken)))
    assert found["Violations"] == "BAD ✗ 3 found by independent checkers"
    assert found["Pods placed"].endswith("2 wait at the end")
    assert found["Spent"] == "$0.00 $0.000 a node and hour"


def test_the_heading_has_the_period_and_how_long_it_took() -> None:
    text = re.sub("<[^>]*>", " ", render(content()))
    assert "Fri 20 Nov 2026 00:00 to Fri 20 Nov 03:00 UTC. 3 hours of virtual time, simulated in 1.5 s by" in text
    for days, hours in ((2, "48"), (2 + 1 / 1000, "48.02")):
        text = render(content(events=[*events(), (PAGE_START + timedelta(days=days), "simulationEnded", {})]))
        assert f" UTC. {hours} hours of virtual time" in text


def test_a_row_has_its_steps_its_nodes_and_its_reason() -> None:
    text = render(content())
    (row,) = re.findall(r'<tr class="disruption".*?</tr>', text)
    assert f'data-t="{(PAGE_START + timedelta(minutes=119)).timestamp():.0f}" data-nodes="n2"' in row
    assert "<summary>decided → replaced → disrupted → drained → gone</summary>" in row
    assert "<li><time>02:02:00</time> <b>disrupted</b> no new pods come</li>" in row
    assert "<code>Underutilized</code> saves $0.2000 an hour" in row
    assert "<code></code>" not in text
    (lost,) = re.findall(r'<tr class="unschedulable".*?</tr>', text)
    assert "<details>" not in lost
    (batch,) = re.findall(r'<tr class="launch".*?</tr>', text)[:1]
    assert '<span class="name">n1</span>, <span class="name">n2</span>' in batch


@pytest.mark.parametrize(("more", "left_out"), [(0, 0), (3, 3)])
def test_rows_beyond_the_most_are_counted(more: int, left_out: int) -> None:
    own = len(re.findall("<tr class=", render(content())))
    skips = [decision(150, "skip", f"a/{number}") for number in range(ROWS_MAX - own + more)]
    text = render(content(decisions=[*DECISIONS, *skips]))
    assert len(re.findall("<tr class=", text)) == ROWS_MAX
    assert ("later rows are left out here" in text) is bool(left_out)
    assert not left_out or f"<p>{left_out} later rows are left out here.</p>" in text


def waiting(count: int) -> list[Any]:
    created = [(PAGE_START, "podCreated", {"pod": f"w/{number:03}", "owner": None}) for number in range(count)]
    return [*events()[:1], *created, *events()[1:]]


def test_pods_that_wait_are_named_with_the_last_reason_or_none() -> None:
    text = render(content())
    assert "<tr><td>a/lost</td><td>Fri 00:06</td><td><code>NoOfferingFits</code> NodePool general: too big" in text
    assert "<details><summary>every NodePool</summary><ul><li>NodePool gpu: &lt;tainted&gt;</li></ul></details>" in text
    unknown = render(content(decisions=[]))
    assert "<td>no function has said why yet</td>" in unknown
    last = decision(9, "unschedulable", "a/lost", "LimitReached", "full")
    assert "<code>LimitReached</code> full</td>" in render(content(decisions=[*DECISIONS, last]))
    assert "a/d</td>" not in text  # a DaemonSet's pod waits for no node
    owners: list[dict[str, Any]] = [{}, {"owner": ""}, {"owner": "Job/x"}, {"owner": "DaemonSet/x"}]
    created = [(PAGE_START, "podCreated", {"pod": f"w/{number}", **owner}) for number, owner in enumerate(owners)]
    text = render(content(events=[*events()[:1], *created, *events()[1:]]))
    assert re.findall(r"<tr><td>(w/.)</td>", text) == ["w/0", "w/1", "w/2"]


@pytest.mark.parametrize("more", [0, 2])
def test_of_many_pods_that_wait_the_first_are_named(more: int) -> None:
    text = render(content(events=waiting(PODS_NAMED_MAX - 1 + more)))  # a/lost waits, too
    assert len(re.findall(r"<tr><td>(?:w|a)/", text)) == PODS_NAMED_MAX
    assert (f"<p>And {more} more.</p>" in text) is bool(more)


def test_the_data_have_the_lines_the_bands_and_the_nodes() -> None:
    data = data_of(render(content()))
    start = round(PAGE_START.timestamp())
    assert (data["start"], data["end"]) == (start, start + 180 * 60)
    assert len(data["t"]) == len(data["pending"]) == len(data["hourly"]) == len(data["spent"])
    assert data["bands"][0] == {
        "from": start + 3600,
        "to": start + 7200,
        "kind": "window",
        "text": "general: no node may go",
    }
    second = data["lives"][1]
    assert second == {
        "name": "n2",
        "claim": "general-b1-1",
        "pool": "general",
        "type": "m5.large",
        "zone": "us-east-1a",
        "capacity": "on-demand",
        "price": 0.4,
        "cost": round(0.4 * 114 / 60, 4),
        "reason": "Underutilized",
        "pods": ["a/p"],
        "podCount": 1,
        "evicted": 1,
        "launched": start + 600,
        "joined": start + 660,
        "ready": start + 720,
        "disrupted": start + 122 * 60,
        "ended": start + 124 * 60,
    }
    assert "noticed" in data["lives"][0]
    assert "ended" not in data["lives"][2]
    assert "karpenter" not in data


def test_a_comparison_is_read_off_at_the_times_of_the_lines() -> None:
    half = 500_000_000
    found = Comparison(karpenter=((PAGE_START, half),), minimum=((PAGE_START + timedelta(minutes=61), half // 2),))
    data = data_of(render(content(comparison=found)))
    assert set(data["karpenter"]) == {0.5}
    assert set(data["minimum"]) == {None, 0.25}


def test_no_more_nodes_are_drawn_than_a_page_holds() -> None:
    more = [(PAGE_START, "instanceLaunched", launched(number, "x-0")) for number in range(9, 10 + NODES_MAX)]
    assert len(data_of(render(content(events=[*events()[:1], *more, *events()[1:]])))["lives"]) == NODES_MAX


# The data of a page: each node with its moments, its cost to the digit, and the first of its pods.


SECOND = round(START.timestamp())


def data(lines: Series, *lives: NodeLifetime) -> dict[str, Any]:
    events = [(START, "simulationStarted", {}), (START + timedelta(hours=1), "simulationEnded", {})]
    found: dict[str, Any] = json.loads(page_data(PageContent(summary={}, events=events, decisions=()), lines, lives))
    return found


def lines(**changes: Any) -> Series:
    empty: dict[str, Any] = {"times": (), "pending": (), "nodes": {}, "hourly": (), "kept": (), "spent": ()}
    return Series(**{**empty, **changes})


def test_dollars_an_hour_have_four_digits_and_those_that_were_spent_three() -> None:
    third = 1 / 3
    found = data(
        lines(times=(START,), pending=(2,), nodes={"spot": (1,)}, hourly=(third,), kept=(third,), spent=(third,))
    )
    assert found == {
        "start": SECOND,
        "end": SECOND + 3600,
        "t": [SECOND],
        "pending": [2],
        "nodes": {"spot": [1]},
        "hourly": [0.3333],
        "kept": [0.3333],
        "spent": [0.333],
        "bands": [],
        "lives": [],
    }


def test_a_node_has_the_moments_that_happened_and_its_first_pods_once() -> None:
    fields = {"instance": "i-1", "instanceType": "m5.large", "zone": "a", "capacityType": "spot", "price": 0.12345}
    life = NodeLifetime(START, {**fields, "tags": {"karpenter.sh/nodepool": "web"}})
    pods = [f"a/{number}" for number in range(PODS_NAMED_MAX + 2)]
    life.pods = [*pods[:1], *pods]
    life.claim, life.reason, life.joined = "web-1", "<Empty>", START + timedelta(seconds=90)
    life.evicted = [(START, "a/0")]
    (found,) = data(lines(), life)["lives"]
    assert found == {
        "name": "i-1",
        "claim": "web-1",
        "pool": "web",
        "type": "m5.large",
        "zone": "a",
        "capacity": "spot",
        "price": 0.12345,
        "cost": 0.1235,
        "reason": "<Empty>",
        "pods": pods[:PODS_NAMED_MAX],
        "podCount": len(pods),
        "evicted": 1,
        "launched": SECOND,
        "joined": SECOND + 90,
    }
    assert "<" not in page_data(PageContent(summary={}, events=[(START, "x", {})], decisions=()), lines(), [life])


# The paragraph has one sentence for each thing that happened, and none for what did not.


def paragraph_at(minutes: int) -> datetime:
    return START + timedelta(minutes=minutes)


SUMMARY: dict[str, Any] = {
    "podsCreated": 3,
    "podsScheduled": 2,
    "podsPending": 0,
    "pendingSeconds": {"p50": 52.4, "p99": 97.0},
    "nodesLaunched": 2,
    "nodesAtEnd": 1,
    "dollars": 1234.5,
    **dict.fromkeys(VIOLATIONS, 0),
}
LINES = Series(
    times=(paragraph_at(0), paragraph_at(10), paragraph_at(20)),
    pending=(0, 0, 0),
    nodes={"spot": (0, 1, 1), "on-demand": (0, 2, 0)},
    hourly=(0.0, 3.0, 1.0),
    kept=(0.0, 3.0, 2.5),
    spent=(0.0, 0.0, 1.0),
)
NOTHING = Series(times=(), pending=(), nodes={}, hourly=(), kept=(), spent=())
LAWFUL = "The independent checkers found no violation of budgets, limits or protected pods, and no orphan."


def life(**known: Any) -> NodeLifetime:
    found = NodeLifetime(START, {"instance": "i-1"})
    for name, value in known.items():
        setattr(found, name, value)
    return found


def test_a_calm_record_has_three_sentences() -> None:
    assert paragraph(SUMMARY, LINES, [life()]) == (
        "2 pods of 3 found a node, half of them within 52 seconds and 99 percent within 97. "
        "2 nodes were launched, at most 3 at a time (Fri 00:10), 1 at the end; all cost $1,234.50. " + LAWFUL
    )


def test_a_single_node_was_launched_and_pods_that_wait_and_broken_laws_are_counted() -> None:
    broken = dict.fromkeys(VIOLATIONS[:2], 1)
    found = paragraph({**SUMMARY, "nodesLaunched": 1, "podsPending": 1, **broken}, LINES, [])
    assert "1 node was launched" in found
    assert found.endswith("1 pod had no place at the end. The independent checkers found 2 violations.")


def test_interruptions_have_their_first_moment_and_the_pods_that_moved() -> None:
    taken = [
        life(noticed=paragraph_at(9), evicted=[(paragraph_at(9), "a/p"), (paragraph_at(9), "a/q")]),
        life(noticed=paragraph_at(8)),
    ]
    assert "From Fri 00:08 on EC2 took 2 nodes back and 2 pods moved off." in paragraph(SUMMARY, LINES, taken)
    assert "took 1 node back and no pod had to move." in paragraph(SUMMARY, LINES, taken[1:])


def test_consolidation_has_its_span_and_what_the_fleet_would_have_cost() -> None:
    def gone(minutes: int | None) -> NodeLifetime:
        moment = None if minutes is None else paragraph_at(minutes)
        return life(reason="Empty", ended=paragraph_at(30), disrupted=moment, evicted=[(paragraph_at(7), "a/p")])

    cost = "the fleet cost $1.00 an hour at the end, $2.50 had those nodes stayed."
    for minutes, text in (
        ((7, 5), f"Consolidation removed 2 nodes between Fri 00:05 and Fri 00:07 with 2 evictions: {cost}"),
        ((7,), f"Consolidation removed 1 node at Fri 00:07 with 1 eviction: {cost}"),
        ((None,), f"Consolidation removed 1 node with 1 eviction: {cost}"),
    ):
        assert text in paragraph(SUMMARY, LINES, [gone(one) for one in minutes])


def test_an_empty_record_says_that_nothing_happened_and_one_without_nodes_what_waits() -> None:
    assert paragraph(SUMMARY, NOTHING, []) == "Nothing happened."
    lines = Series(times=(START,), pending=(0,), nodes={}, hourly=(0.0,), kept=(0.0,), spent=(0.0,))
    assert "at most 0 at a time (Fri 00:00)" in paragraph(SUMMARY, lines, [])
