"""Instances that EC2 reclaims with notice: pods move in time, and not before they have somewhere to go."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core.lifecycle.commands import DUE_BEFORE
from simulator.aws.ec2 import instances
from simulator.run import Result
from tests.simulation.worlds import assert_lawful, deployment, happened, named, node_pool, play

NOTICE = {"at": "6m", "interrupt": {"fraction": 0.5}}
NO_CAPACITY = {"at": "5m", "capacity": {"available": 0}}


def moments(result: Result, event: str) -> list[datetime]:
    return [datetime.fromisoformat(found.t) for found in happened(result, event)]


def test_the_replacement_is_ready_before_the_first_pod_is_evicted(tmp_path: Path) -> None:
    """If this failed, the pods of a spot node would be down for as long as a node takes to boot, with time left unused."""
    result = play(tmp_path, node_pool(), deployment(2, cpu="12"), steps=[NOTICE], duration="12m")
    (notice,) = moments(result, "interruptionNotice")
    (evicted,) = moments(result, "podEvicted")
    ready = [moment for moment in moments(result, "nodeReady") if moment > notice]
    tainted = [moment for moment in moments(result, "nodeTainted") if moment > notice]
    assert len(ready) == 1
    assert tainted[0] < ready[0] < evicted < notice + instances.SPOT_NOTICE
    assert (result.summary["nodesLaunched"], result.summary["podsPending"]) == (3, 0)
    assert_lawful(result)


def test_without_capacity_pods_leave_at_the_last_moment_that_leaves_them_their_grace(tmp_path: Path) -> None:
    """If this failed, pods would be evicted early for nothing, or be killed with their instance."""
    steps = [NO_CAPACITY, NOTICE]
    result = play(tmp_path, node_pool(), deployment(2, cpu="12"), steps=steps, duration="12m")
    (notice,) = moments(result, "interruptionNotice")
    (evicted,) = moments(result, "podEvicted")
    assert timedelta(seconds=60) < evicted - notice < timedelta(seconds=85)
    assert result.summary["nodesLaunched"] == 2
    (ended,) = moments(result, "instanceTerminated")
    gone = [moment for moment in moments(result, "podDeleted") if moment >= evicted]
    assert gone[0] <= ended
    assert_lawful(result)


ANNOUNCED = {"at": "6m", "interrupt": {"fraction": 1.0, "kind": "scheduledChange"}}


def a_fleet(budget: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Three nodes that only a scheduled change takes away."""
    pool = node_pool()
    pool["spec"]["disruption"] |= {"budgets": [{"nodes": budget}], "consolidateAfter": "Never"}
    return pool, deployment(3, cpu="12")


def test_a_change_two_weeks_ahead_is_remembered_and_nobody_moves_yet(tmp_path: Path) -> None:
    """If this failed, an announcement of AWS would evict all pods of a rack at once, two weeks too early."""
    result = play(tmp_path, *a_fleet("100%"), steps=[ANNOUNCED], duration="30m")
    told = [(d["kind"], d["reason"]) for d in result.decisions if d["reason"].startswith("Scheduled")]
    assert told == [("interrupt", "ScheduledChange")] * 3
    assert (named(result, "podEvicted"), result.summary["nodesLaunched"]) == ([], 3)
    assert_lawful(result)


def test_before_its_date_nodes_go_one_by_one_as_the_budget_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this failed, AWS' announcement would be a way around budgets, or nodes would end with their pods."""
    monkeypatch.setattr(instances, "MAINTENANCE_NOTICE", timedelta(hours=20))
    result = play(tmp_path, *a_fleet("1"), steps=[ANNOUNCED], duration="40m")
    started = moments(result, "nodeTainted")
    ended = moments(result, "instanceTerminated")
    assert len(started) == len(ended) == 3
    assert all(end < start for end, start in zip(ended, started[1:], strict=False))
    ready = [moment for moment in moments(result, "nodeReady") if moment > started[0]]
    evicted = moments(result, "podEvicted")
    assert all(there < gone for there, gone in zip(ready, evicted, strict=True))
    assert {d["reason"] for d in result.decisions if d["kind"] == "drain"} == {"ScheduledChange"}
    assert_lawful(result)


def test_in_the_last_hours_no_budget_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this failed, a budget of zero would let pods die with their instance."""
    monkeypatch.setattr(instances, "MAINTENANCE_NOTICE", DUE_BEFORE + timedelta(minutes=20))
    result = play(tmp_path, *a_fleet("0"), steps=[ANNOUNCED], duration="40m")
    (first, *_) = moments(result, "nodeTainted")
    assert first >= moments(result, "interruptionNotice")[0] + timedelta(minutes=20)
    assert (len(named(result, "instanceTerminated")), result.summary["podsPending"]) == (3, 0)
    assert {d["reason"] for d in result.decisions if d["kind"] == "drain"} == {"ScheduledChangeDue"}
    assert_lawful(result)


@pytest.mark.slow
def test_days_ahead_they_are_gone_before_their_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in full length, from the announcement over the first hours of quiet to the last node."""
    monkeypatch.setattr(instances, "MAINTENANCE_NOTICE", timedelta(hours=76))
    result = play(tmp_path, *a_fleet("1"), steps=[ANNOUNCED], duration="30h")
    notice = moments(result, "interruptionNotice")[0]
    assert all(moment > notice + timedelta(hours=4) for moment in moments(result, "nodeTainted"))
    assert len(named(result, "instanceTerminated")) == 3
    assert_lawful(result)
