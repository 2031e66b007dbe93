"""The end of a capacity block moves, EC2 hides it, or pods have nowhere to go. EC2 takes instances half an hour earlier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
