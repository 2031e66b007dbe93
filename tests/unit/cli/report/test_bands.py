"""Bands name what happened in the background: which windows were open, and which steps, faults and shortages came when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli.report.bands import HITS_MAX, Band, bands

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
