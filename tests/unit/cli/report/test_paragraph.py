"""The paragraph has one sentence for each thing that happened, and none for what did not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from cli.report.node_lifetimes import NodeLifetime
from cli.report.paragraph import paragraph
from cli.report.series import Series
from simulator.outcome.summary import VIOLATIONS

START = datetime(2026, 11, 20, tzinfo=UTC)


def at(minutes: int) -> datetime:
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
    times=(at(0), at(10), at(20)),
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
    taken = [life(noticed=at(9), evicted=[(at(9), "a/p"), (at(9), "a/q")]), life(noticed=at(8))]
    assert "From Fri 00:08 on EC2 took 2 nodes back and 2 pods moved off." in paragraph(SUMMARY, LINES, taken)
    assert "took 1 node back and no pod had to move." in paragraph(SUMMARY, LINES, taken[1:])


def test_consolidation_has_its_span_and_what_the_fleet_would_have_cost() -> None:
    def gone(minutes: int | None) -> NodeLifetime:
        moment = None if minutes is None else at(minutes)
        return life(reason="Empty", ended=at(30), disrupted=moment, evicted=[(at(7), "a/p")])

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
