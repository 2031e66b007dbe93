"""Ceilings on evictions an hour hold over what was evicted, what is about to be, and what a pass decides."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core.disruption import disrupt
from core.disruption.budgets.eviction_rate import EvictionRate
from core.disruption.disruption_pass import DisruptionPass
from core.model.moved_workload import EvictedNode
from core.model.plan import DisruptionPlan
from core.model.snapshot import Options, Snapshot
from core.reasons.node import NodeReason
from tests.builders import NOW, a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import LARGE, ON_DEMAND, OPEN, blocked, drifted, pod_on, world

HOUR = timedelta(hours=1)


def spare(ceiling: int | None = None, pool: int | None = None, **changes: Any) -> Snapshot:
    """Five nodes with two small pods each: four of them can go."""
    fields: dict[str, Any] = {
        "pods": tuple(pod_on(f"n{n}", f"p{n}-{i}", cpu="100m") for n in range(5) for i in range(2)),
        "node_pools": (a_pool("default", ON_DEMAND, disruption=OPEN, evictions_per_hour=pool),),
        "options": Options(evictions_per_hour=ceiling),
        **changes,
    }
    return world(*(a_node_of(LARGE, f"n{n}") for n in range(5)), **fields)


def evicted(plan: DisruptionPlan) -> int:
    return sum(len(command.moves) for command in plan.commands)


def drained(pods: int, ago: timedelta) -> dict[str, EvictedNode]:
    """A node that was drained so long ago."""
    return {"gone": EvictedNode(node_pool="default", pods=pods, at=NOW - ago)}


@pytest.mark.parametrize(
    "limits", [{"ceiling": 5}, {"pool": 5}, {"ceiling": 5, "pool": 90}, {"ceiling": 90, "pool": 4}]
)
def test_a_pass_evicts_no_more_than_the_lowest_ceiling(limits: dict[str, Any]) -> None:
    """The third node would make it six."""
    assert evicted(disrupt(spare())) > 5
    plan = disrupt(spare(**limits))
    assert evicted(plan) == 4
    assert NodeReason.EVICTION_RATE in blocked(plan).values()


@pytest.mark.parametrize(("ago", "expected"), [(HOUR - timedelta(seconds=1), 2), (HOUR, 4)])
def test_what_was_evicted_counts_for_an_hour(ago: timedelta, expected: int) -> None:
    assert evicted(disrupt(spare(ceiling=4, evicted_nodes=drained(2, ago)))) == expected


def test_pods_of_nodes_that_commands_are_about_to_drain_count_already() -> None:
    """Otherwise, two waves of the same minute take the ceiling twice."""
    assert evicted(disrupt(spare(ceiling=4, marked_for_deletion=("default-n0",)))) == 2
    noted = {"default-n0": EvictedNode(node_pool="default", pods=2, at=NOW)}
    again = spare(ceiling=4, marked_for_deletion=("default-n0",), evicted_nodes=noted)
    assert evicted(disrupt(again)) == 2, "a node whose drain has begun counts once"


def test_drift_is_held_back_and_told() -> None:
    nodes = tuple(drifted(a_node_of(LARGE, f"n{n}")) for n in range(2))
    plan = disrupt(world(*nodes, pods=(pod_on("n0"), pod_on("n1")), options=Options(evictions_per_hour=1)))
    assert [command.nodes for command in plan.commands] == [("n0",)]
    assert blocked(plan)["n1"] == NodeReason.EVICTION_RATE


def test_nodes_without_pods_go_whatever_was_evicted() -> None:
    plan = disrupt(spare(ceiling=0, pods=()))
    assert len(plan.commands) == 5


def test_the_way_to_the_target_has_no_ceiling() -> None:
    """It is shown as it would be in the end; when its waves come is not known."""
    assert evicted(disrupt(spare(options=Options(evictions_per_hour=1, ignore_budgets=True)))) > 5


def test_a_copy_is_independent() -> None:
    snapshot = spare(ceiling=2)
    candidate, other, *_ = DisruptionPass(snapshot).survey.candidates
    rate = EvictionRate.of(snapshot, ())
    trial = rate.copy()
    trial.take(candidate)
    assert not trial.allows([other])
    assert rate.allows([other])
    assert "allows 2 evictions an hour" in trial.objection([other])


def test_a_plan_without_ceilings_does_not_depend_on_what_was_evicted() -> None:
    assert disrupt(spare()) == disrupt(msgspec.structs.replace(spare(), evicted_nodes=drained(9, HOUR / 2)))


def test_a_node_without_pods_to_evict_goes_beyond_the_ceiling() -> None:
    """More may have been evicted than the ceiling allows since it was lowered."""
    snapshot = spare(ceiling=1, evicted_nodes=drained(9, HOUR / 2), pods=(pod_on("n0"),))
    with_pod, without, *_ = DisruptionPass(snapshot).survey.candidates
    rate = EvictionRate.of(snapshot, ())
    assert (rate.allows([with_pod]), rate.allows([without])) == (False, True)
