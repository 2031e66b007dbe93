"""The summary: what is counted, and what it costs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from simulator.aws.ec2.instance import Instance, Subnet
from simulator.aws.exchange import Exchange, Pool, Selection
from simulator.clock import VirtualClock
from simulator.outcome.cost_meter import CostMeter
from simulator.outcome.summary import RunSummary, unschedulable_by_reason
from simulator.record import Event, Recorder
from tests.builders import a_type

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
    said = [("unschedulable", "a", "LimitReached"), ("unschedulable", "b", "NoOfferingFits"), ("bind", "b", "")]
    said += [("unschedulable", "a", "NoOfferingFits"), ("unschedulable", "bound", "NoOfferingFits")]
    decisions = [{"kind": kind, "subject": subject, "reason": reason} for kind, subject, reason in said]
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
