"""The end of a capacity block moves, EC2 hides it, or pods have nowhere to go. EC2 takes instances half an hour earlier."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from core import labels
from simulator.run import Result
from tests.simulation.test_reservations import BLOCK, launched, node_class, pool
from tests.simulation.worlds import assert_lawful, deployment, happened, play

BLOCK_ENDS = "CapacityBlockEnds"
LEAVES = "00:20"
"""When the nodes of a block leave that ends after an hour."""


def played(
    tmp_path: Path, *steps: dict[str, Any], ends: str = "60m", kinds: tuple[str, ...] = ("reserved", "on-demand")
) -> Result:
    """Two pods that need a node each, in a block for two; budgets close everything that is voluntary."""
    closed = pool(list(kinds))
    closed["spec"]["disruption"]["budgets"] = [{"nodes": "0"}]
    blocks = [{**BLOCK, "ends": ends}]
    objects = (node_class({"id": "cr-block"}), closed, deployment(2, cpu="12"))
    result = play(tmp_path, *objects, steps=list(steps), capacityReservations=blocks, duration="45m")
    assert_lawful(result)
    return result


def minutes(result: Result, event: str, **fields: str) -> list[str]:
    return [one.t[11:16] for one in happened(result, event) if fields.items() <= one.fields.items()]


def check_nodes_leave_in_time(result: Result, at: str) -> None:
    """Their pods have other nodes before the drain, and EC2 finds no instance to take."""
    assert minutes(result, "nodeTainted", reason=BLOCK_ENDS) == [at, at]
    assert launched(result) == ["reserved", "reserved", "on-demand", "on-demand"]
    assert {event.fields["by"] for event in happened(result, "instanceTerminated")} == {"api"}
    assert result.summary["podsPending"] == 0


def test_nodes_leave_although_ec2_hides_the_reservation_until_its_end(tmp_path: Path) -> None:
    """The status keeps the end that was read last."""
    fault = {"call": "ec2:DescribeCapacityReservations", "kind": "throttle", "for": "60m"}
    check_nodes_leave_in_time(played(tmp_path, {"at": "10m", "fault": fault}), LEAVES)


def test_a_block_that_is_extended_keeps_its_nodes(tmp_path: Path) -> None:
    result = played(tmp_path, {"at": "15m", "capacityReservation": {**BLOCK, "ends": "5h"}})
    assert launched(result) == ["reserved", "reserved"]
    assert minutes(result, "nodeTainted", reason=BLOCK_ENDS) == []


def test_an_end_that_moves_forward_is_kept_to(tmp_path: Path) -> None:
    result = played(tmp_path, {"at": "15m", "capacityReservation": {**BLOCK, "ends": "45m"}}, ends="5h")
    check_nodes_leave_in_time(result, LEAVES)


def test_pods_without_another_place_stay_until_shortly_before_ec2_takes_their_nodes(tmp_path: Path) -> None:
    """They are evicted in time to end in order, and not ten minutes earlier for nothing."""
    result = played(tmp_path, kinds=("reserved",))
    assert minutes(result, "nodeTainted", reason=BLOCK_ENDS) == [LEAVES, LEAVES]
    assert minutes(result, "podEvicted", by="eviction") == ["00:29", "00:29"]
    assert {event.fields["by"] for event in happened(result, "instanceTerminated")} == {"api"}
    assert result.summary["podsPending"] == 2


def unmovable(replicas: int, cpu: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A Deployment whose pods carry do-not-disrupt, and a PodDisruptionBudget that never lets one go."""
    found = deployment(replicas, cpu=cpu)
    found["spec"]["template"]["metadata"]["annotations"] = {labels.DO_NOT_DISRUPT: "true"}
    selector = {"matchLabels": {"app": "web"}}
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": selector},
    }
    return found, budget


def waits(result: Result) -> list[timedelta]:
    """How long each pod waited that replaces one that its node took along."""
    lost = datetime.fromisoformat(happened(result, "podEvicted")[0].t)
    made = {e.fields["pod"]: datetime.fromisoformat(e.t) for e in happened(result, "podCreated")}
    bound = {e.fields["pod"]: datetime.fromisoformat(e.t) for e in happened(result, "podBound")}
    return [bound[pod] - moment for pod, moment in made.items() if moment >= lost]


@pytest.mark.parametrize("budgets", ["0", "100%"])
def test_pods_that_may_not_be_disrupted_find_nodes_ready_when_ec2_takes_theirs(tmp_path: Path, budgets: str) -> None:
    """They got nodes only after the block had taken theirs, two minutes later. Open budgets leave the empty nodes alone."""
    allowed = pool(["reserved", "on-demand"])
    allowed["spec"]["disruption"] |= {"budgets": [{"nodes": budgets}], "consolidateAfter": "0s"}
    objects = (node_class({"id": "cr-block"}), allowed, *unmovable(2, "12"))
    result = play(tmp_path, *objects, capacityReservations=[{**BLOCK, "ends": "60m"}], duration="45m")
    assert_lawful(result)
    assert launched(result) == ["reserved", "reserved", "on-demand", "on-demand"]
    assert min(minutes(result, "podEvicted", by="nodeLost")) >= "00:30", "nobody moves them before"
    assert {event.fields["by"] for event in happened(result, "podEvicted")} == {"nodeLost"}
    assert max(waits(result)) < timedelta(seconds=15)
    assert result.summary["podsPending"] == 0


def test_pods_that_may_not_be_disrupted_are_replaced_within_the_notice_of_a_spot_instance(tmp_path: Path) -> None:
    """Their nodes were launched when the notice was over."""
    steps = [{"at": "10m", "interrupt": {"fraction": 1.0}}]
    result = play(tmp_path, pool(["spot"]), *unmovable(2, "12"), steps=steps, duration="20m")
    assert_lawful(result)
    assert launched(result) == ["spot"] * 4
    assert {event.fields["by"] for event in happened(result, "podEvicted")} == {"nodeLost"}
    assert max(waits(result)) < timedelta(seconds=15)
