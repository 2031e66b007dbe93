"""The summary: what is counted, and what it costs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from simulator.aws.ec2.instances import Instance, Subnet
from simulator.aws.installation import Exchange, Pool, Selection
from simulator.clock import VirtualClock
from simulator.outcome import CostMeter, DecisionLog, RunSummary, unschedulable_by_reason
from simulator.record import Event, Recorder
from tests.builders import a_type

# Decisions as a story.


def a_log() -> DecisionLog:
    return DecisionLog(VirtualClock(datetime(2026, 11, 20, tzinfo=UTC)))


def said(log: DecisionLog, *decisions: tuple[str, str, str]) -> list[tuple[str, str, str]]:
    for kind, subject, reason in decisions:
        log.write("provision", {"kind": kind, "subject": subject, "reason": reason, "message": ""})
    return [(told["kind"], told["subject"], told["reason"]) for told in log.entries]


def test_what_stays_the_same_is_told_once() -> None:
    """If this failed, one pod without a place would fill the page."""
    stuck, other = ("unschedulable", "ns/a", "NoOfferingFits"), ("unschedulable", "ns/b", "LimitReached")
    assert said(a_log(), stuck, other, stuck, other, stuck) == [stuck, other]


def test_what_changes_is_told_again() -> None:
    """If this failed, the page would say that a pod has no place which has one, or the other way round."""
    stuck, bound = ("unschedulable", "ns/a", "NoOfferingFits"), ("bind", "ns/a", "FitsExisting")
    assert said(a_log(), stuck, bound, bound, stuck) == [stuck, bound, stuck]


def test_another_pod_of_the_same_name_is_another_story() -> None:
    """If this failed, a StatefulSet's pod would be heard of once in its life."""
    log, bound = a_log(), ("bind", "ns/db-0", "FitsExisting")
    said(log, bound)
    log.see(Event("2026-11-20T00:00:00Z", "podDeleted", {"pod": "ns/db-0", "by": "user"}))
    assert said(log, bound) == [bound, bound]


START = datetime(2026, 11, 20, tzinfo=UTC)


def see(summary: RunSummary, seconds: float, event: str, **fields: Any) -> None:
    """One line of the record."""
    summary.see(Event((START + timedelta(seconds=seconds)).isoformat(), event, fields))


def test_waits_are_counted_by_nearest_rank_without_daemons() -> None:
    """If this failed, the figures that runs are compared by would not be those of the contract."""
    summary = RunSummary()
    for number in range(100):
        see(summary, 0, "podCreated", pod=f"p{number}", owner="ReplicaSet/web")
        see(summary, number + 1, "podBound", pod=f"p{number}", node="n")
    see(summary, 0, "podCreated", pod="agent", owner="DaemonSet/agent")
    see(summary, 500, "podBound", pod="agent", node="n")
    see(summary, 600, "podCreated", pod="late", owner="")
    see(summary, 601, "podCreated", pod="gone", owner="")
    see(summary, 602, "podDeleted", pod="gone", by="user")
    figures = summary.figures({})
    assert figures["pendingSeconds"] == {"p50": 50.0, "p99": 99.0, "max": 100.0}
    assert (figures["podsCreated"], figures["podsScheduled"], figures["podsPending"]) == (102, 100, 1)
    assert summary.pending() == ("late",)


def test_evictions_are_those_by_the_program() -> None:
    """If this failed, a lost node would count as our doing."""
    summary = RunSummary()
    for by in ("eviction", "forced", "nodeLost"):
        see(summary, 0, "podEvicted", pod="p", node="n", by=by)
    assert summary.figures({})["evictions"] == 2


def test_a_pod_is_beyond_help_by_what_was_said_last() -> None:
    """If this failed, a pod that has a node on its way would be called hopeless, or a hopeless one forgotten."""
    told = [("unschedulable", "a", "LimitReached"), ("unschedulable", "b", "NoOfferingFits"), ("bind", "b", "")]
    told += [("unschedulable", "a", "NoOfferingFits"), ("unschedulable", "bound", "NoOfferingFits")]
    decisions = [{"kind": kind, "subject": subject, "reason": reason} for kind, subject, reason in told]
    assert unschedulable_by_reason(("a", "b", "c"), decisions) == {"NoOfferingFits": 1}


def test_instances_cost_what_they_cost_at_each_moment() -> None:
    """If this failed, a price step would change the past, or nothing."""
    clock = VirtualClock(START)
    exchange = Exchange(Recorder(clock), [a_type("m5.large", price=0.1)])
    meter = CostMeter(clock, exchange)
    instance = Instance(
        id="i-1",
        pool=Pool("m5.large", "us-east-1a", "on-demand"),
        image_id="",
        subnet=Subnet("s", "us-east-1a", "10.0.0.0/19", 1),
        private_ip="10.0.0.4",
        launched_at=START,
        price=10**8,
        token="",
        tags={},
    )
    meter.started(instance)
    clock.run_until(START + timedelta(hours=1))
    meter.settle()
    exchange.scale_prices(Selection(capacity_type="on-demand"), Fraction(2))
    clock.run_until(START + timedelta(hours=3))
    meter.ended(instance)
    clock.run_until(START + timedelta(hours=9))
    meter.settle()
    assert meter.instance_hours == pytest.approx(3)
    assert meter.dollars == pytest.approx(0.1 + 2 * 0.2)
