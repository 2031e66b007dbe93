"""Ceilings on evictions an hour hold over what was evicted, what is about to be, and what a pass decides."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.pass_budgets import BudgetReservation, EvictionRate, PassBudgets
from core.model.node_pool import Budget, Disruption
from core.model.plan import DisruptionPlan
from core.model.snapshot import EvictedNode, Options, PodDisruptionBudget, Snapshot
from core.reasons.code import TerminationReason
from core.reasons.nodes import NodeReason
from tests.builders import NOW, a_node_of, a_pool, a_selector
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, ON_DEMAND, OPEN, blocked, drifted, pod_on, world

# Commands of one pass share the budgets; a trial does not use them up.


def test_a_trial_uses_only_its_own_copy() -> None:
    pools = (a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),))),)
    cluster = msgspec.structs.replace(world(a_node_of(MIDDLE), a_node_of(MIDDLE, "node-2")), node_pools=pools)
    this_pass = DisruptionPass(cluster)
    first, second = this_pass.survey.candidates
    reservation: BudgetReservation = this_pass.budgets.reservation()
    assert reservation.allows(second, TerminationReason.DRIFTED)
    assert reservation.take(first, TerminationReason.DRIFTED)
    assert not reservation.allows(second, TerminationReason.DRIFTED)
    assert not reservation.take(second, TerminationReason.DRIFTED)
    assert this_pass.budgets.reservation().take(second, TerminationReason.DRIFTED)


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
    refusal = trial.objection([other])
    assert refusal is not None
    assert refusal.reason is NodeReason.EVICTION_RATE
    assert "allows 2 evictions an hour" in refusal.message


def test_a_plan_without_ceilings_does_not_depend_on_what_was_evicted() -> None:
    assert disrupt(spare()) == disrupt(msgspec.structs.replace(spare(), evicted_nodes=drained(9, HOUR / 2)))


def test_a_node_without_pods_to_evict_goes_beyond_the_ceiling() -> None:
    """More may have been evicted than the ceiling allows since it was lowered."""
    snapshot = spare(ceiling=1, evicted_nodes=drained(9, HOUR / 2), pods=(pod_on("n0"),))
    with_pod, without, *_ = DisruptionPass(snapshot).survey.candidates
    rate = EvictionRate.of(snapshot, ())
    assert (rate.allows([with_pod]), rate.allows([without])) == (False, True)


# All budgets of a pass are used up together.


REASON = TerminationReason.UNDERUTILIZED


def a_pass(budget: str, **options: int) -> DisruptionPass:
    """Two nodes with a pod each."""
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget(budget),)))
    nodes = (a_node_of(MIDDLE), a_node_of(MIDDLE, "node-2"))
    return DisruptionPass(
        world(*nodes, pods=(pod_on("node-1"), pod_on("node-2")), node_pools=(pool,), options=Options(**options))
    )


def test_a_node_that_goes_uses_up_its_pools_budget() -> None:
    this_pass = a_pass("1")
    first, second = this_pass.survey.candidates
    assert not this_pass.budgets.allow([first, second], REASON)
    assert this_pass.budgets.within([first, second], REASON) == [first]
    assert this_pass.budgets.allow([second], REASON), "a trial takes nothing"
    this_pass.budgets.take(first, REASON)
    assert this_pass.budgets.left("default", REASON) == 0
    assert not this_pass.budgets.allow([second], REASON)


def test_a_node_that_goes_uses_up_evictions_of_the_hour() -> None:
    this_pass = a_pass("100%", evictions_per_hour=1)
    first, second = this_pass.survey.candidates
    budgets: PassBudgets = this_pass.budgets
    budgets.take(first, REASON)
    assert budgets.has_place(second, REASON)
    assert not budgets.allow([second], REASON)
    refusal = budgets.refusal(second, REASON)
    assert refusal is not None
    assert refusal.reason is NodeReason.EVICTION_RATE


def test_nodes_go_together_only_if_their_pods_disruption_budgets_let_all_pods_go() -> None:
    """Each alone may go; the second would wait in its drain for the pod of the first to run again."""
    guard = PodDisruptionBudget(
        namespace="default", name="web", selector=a_selector(app="web"), max_unavailable="1", disruptions_allowed=1
    )
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("100%"),)))
    nodes = [a_node_of(MIDDLE, name) for name in ("node-1", "node-2")]
    pods = tuple(pod_on(node.name, labels={"app": "web"}) for _, node in nodes)
    guarded = world(*nodes, pods=pods, node_pools=(pool,), budgets=(guard,))
    budgets, (first, second) = DisruptionPass(guarded).budgets, DisruptionPass(guarded).survey.candidates
    assert budgets.allow([first], REASON)
    assert budgets.allow([second], REASON)
    assert not budgets.allow([first, second], REASON)
    assert budgets.within([first, second], REASON) == [first]
    budgets.take(first, REASON)
    later = budgets.evictions_left(is_first=False)
    assert not budgets.evictions_left().allows_together([second.state.pods])
    assert later.allows_together([second.state.pods]), "what moved before runs again by then"


@pytest.mark.parametrize(
    ("reason", "is_ready", "left"),
    [
        (REASON, True, 1),
        (REASON, False, 1),
        (TerminationReason.UNHEALTHY, True, 1),
        (TerminationReason.UNHEALTHY, False, 2),
    ],
)
def test_only_a_repaired_node_that_is_not_ready_has_its_place_already(
    reason: str, *, is_ready: bool, left: int
) -> None:
    """It counts as long as it is not Ready, for every reason but Unhealthy."""
    this_pass = a_pass("2")
    first, second = this_pass.survey.candidates
    assert first.state.node is not None
    node = msgspec.structs.replace(first.state.node, is_ready=is_ready)
    state = msgspec.structs.replace(first.state, node=node)
    this_pass.budgets.take(msgspec.structs.replace(first, state=state), reason)
    assert this_pass.budgets.left("default", REASON) == left
    assert this_pass.budgets.left("default", TerminationReason.UNHEALTHY) == 1
    this_pass.budgets.take(second, REASON)
    assert this_pass.budgets.left("default", REASON) == left - 1
