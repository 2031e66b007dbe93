"""A target waits for nodes whose PodDisruptionBudgets are closed while moved pods start, and for nothing else."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.model.moved_workload import EvictedNode, MovedWorkload
from core.model.plan import DisruptionPlan
from core.model.pod import Owner
from core.model.snapshot import Snapshot
from tests.builders import NOW, a_node_of
from tests.unit.disruption.nodes_for_tests import SMALL, pod_on
from tests.unit.disruption.target.fleets_for_tests import half_full
from tests.unit.disruption.target.test_stored_target_check import guarded, under_way

DB: Final = {"app": "db"}
JUST_BEFORE: Final = timedelta(minutes=10) - timedelta(seconds=1)


def held(later: timedelta, **changes: object) -> Snapshot:
    """A target whose nodes all wait for one budget, that much later; a small node, which saves, and a leaving one are new."""
    pods = tuple(pod_on(f"n{n}", cpu="400m", labels=DB) for n in range(8))
    snapshot, _ = under_way(half_full(8, at_once=3, pods=pods, budgets=guarded(1)))
    small, leaving = a_node_of(SMALL, "small"), a_node_of(SMALL, "leaving")
    other = (Owner("ReplicaSet", "other"),)
    more = (
        pod_on("small", cpu="100m", owners=other),
        pod_on("leaving", cpu="100m", owners=other, annotations={labels.DO_NOT_DISRUPT: "true"}),
    )
    now = msgspec.structs.replace(
        snapshot,
        now=snapshot.now + later,
        budgets=guarded(0),
        nodes=(*snapshot.nodes, small[1], leaving[1]),
        node_claims=(*snapshot.node_claims, small[0], leaving[0]),
        pods=(*snapshot.pods, *more),
    )
    return msgspec.structs.replace(now, **changes)


def moved(name: str) -> dict[str, MovedWorkload]:
    """The workload was moved when the target began."""
    return {name: MovedWorkload(name=name, moving_since=NOW, moved_at=NOW)}


def goes(plan: DisruptionPlan) -> bool:
    """Whether the small node goes, which a new target finds; otherwise it says that it waits."""
    if plan.commands:
        assert [command.nodes for command in plan.commands] == [("small",)]
        return True
    (block,) = (block for block in plan.blocked if block.node == "small")
    assert (plan.target_reason, block.reason) == ("TargetContinued", "TargetWaits")
    assert f"until {NOW + timedelta(minutes=10):%Y-%m-%dT%H:%M:%SZ}" in block.message
    assert "keep n1 and 5 more" in block.message
    return False


@pytest.mark.parametrize(
    ("workload", "later", "is_made"),
    [
        ("default/ReplicaSet/web", timedelta(minutes=1), False),
        ("default/ReplicaSet/web", JUST_BEFORE, False),
        ("default/ReplicaSet/web", timedelta(minutes=10), True),
        ("default/ReplicaSet/other", timedelta(minutes=1), True),
    ],
)
def test_a_target_waits_ten_minutes_for_moved_pods_of_the_closed_budget(
    workload: str, later: timedelta, *, is_made: bool
) -> None:
    """A pod that never gets ready may keep its budget closed for days, and pods of other budgets open none."""
    assert goes(disrupt(held(later, moved_workloads=moved(workload)))) == is_made


@pytest.mark.parametrize("by_command", [True, False])
@pytest.mark.parametrize(
    ("is_selected", "later", "is_made"),
    [
        (True, timedelta(minutes=1), False),
        (True, JUST_BEFORE, False),
        (True, timedelta(minutes=10), True),
        (True, timedelta(hours=5), True),
        (False, timedelta(minutes=1), True),
    ],
)
def test_a_target_waits_ten_minutes_for_a_drain_of_pods_of_the_closed_budget(
    later: timedelta, *, by_command: bool, is_selected: bool, is_made: bool
) -> None:
    """A drain of another workload, or one that is blocked, kept every other node of the cluster for up to six hours."""
    snapshot = held(later)
    *others, claim = snapshot.node_claims
    *running, pod = snapshot.pods
    draining = msgspec.structs.replace(
        snapshot, pods=(*running, msgspec.structs.replace(pod, labels=DB if is_selected else {}))
    )
    if by_command:
        drain = {claim.name: EvictedNode(node_pool="default", pods=1, at=NOW)}
        draining = msgspec.structs.replace(draining, marked_for_deletion=(claim.name,), evicted_nodes=drain)
    else:
        deleted = msgspec.structs.replace(claim, deleted_at=NOW)
        draining = msgspec.structs.replace(draining, node_claims=(*others, deleted))
    assert goes(disrupt(draining)) == is_made


def test_a_target_does_not_wait_for_a_drain_that_has_not_begun() -> None:
    """Its command still waits for new nodes, so none of its pods has been evicted."""
    snapshot = held(timedelta(minutes=1))
    assert goes(disrupt(msgspec.structs.replace(snapshot, marked_for_deletion=(snapshot.node_claims[-1].name,))))
