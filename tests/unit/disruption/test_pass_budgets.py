"""Ceilings on evictions an hour hold over what was evicted, what is about to be, and what a pass decides."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.pass_budgets import BudgetReservation, EvictionRate, PassBudgets, WaveBudgets
from core.model.node_pool import Budget, Disruption
from core.model.plan import DisruptionPlan, NodeClaim
from core.model.pod import LabelSelector
from core.model.snapshot import EvictedNode, Options, PodDisruptionBudget, Snapshot
from core.model.values.requirements import Requirement
from core.reasons.code import TerminationReason
from core.reasons.nodes import NodeReason
from tests.builders import NOW, a_node_of, a_pool, a_selector
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, ON_DEMAND, OPEN, blocked, drifted, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY, drained, fleet_of
from tests.unit.lifecycle.records_for_tests import a_plan

# Commands of one pass share the budgets; a trial does not use them up.


def test_a_trial_uses_only_its_own_copy() -> None:
    pools = (a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),))),)
    cluster = msgspec.structs.replace(world(a_node_of(MIDDLE), a_node_of(MIDDLE, "node-2")), node_pools=pools)
    this_pass = DisruptionPass(cluster)
    first, second = this_pass.survey.candidates
    left: BudgetReservation = this_pass.budgets.reservation()
    assert left.allows(second, TerminationReason.DRIFTED)
    assert left.take(first, TerminationReason.DRIFTED)
    assert not left.allows(second, TerminationReason.DRIFTED)
    assert not left.take(second, TerminationReason.DRIFTED)
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


def evicted_before(pods: int, ago: timedelta) -> dict[str, EvictedNode]:
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
    assert evicted(disrupt(spare(ceiling=4, evicted_nodes=evicted_before(2, ago)))) == expected


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
    assert disrupt(spare()) == disrupt(msgspec.structs.replace(spare(), evicted_nodes=evicted_before(9, HOUR / 2)))


def test_a_node_without_pods_to_evict_goes_beyond_the_ceiling() -> None:
    """More may have been evicted than the ceiling allows since it was lowered."""
    snapshot = spare(ceiling=1, evicted_nodes=evicted_before(9, HOUR / 2), pods=(pod_on("n0"),))
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
    assert budgets.rate_objection(second)


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


# Each wave has its own budgets, and limits hold while old and new nodes both exist.


UNDERUTILIZED = TerminationReason.UNDERUTILIZED


def cluster(*, size: int = 4, budget: str = "2", options: Options | None = None, **changes: object) -> Snapshot:
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget(budget),)), **changes.pop("pool", {}))  # type: ignore[arg-type]
    nodes = [a_node_of(MIDDLE, f"n{n}") for n in range(size)]
    pods = tuple(pod_on(f"n{n}", labels={"app": "web"}) for n in range(size))
    return world(*nodes, pods=pods, node_pools=(pool,), options=options or Options(), **changes)


def taken(snapshot: Snapshot) -> list[int]:
    """How many nodes each of two waves takes."""
    this_pass = DisruptionPass(snapshot)
    budgets, left, found = WaveBudgets(this_pass), list(this_pass.survey.candidates), []
    for _ in range(2):
        budgets.begin()
        going = []
        for candidate in left:
            if budgets.admits(candidate, UNDERUTILIZED):
                budgets.take(candidate)
                going.append(candidate)
        budgets.end()
        left = [candidate for candidate in left if candidate not in going]
        found.append(len(going))
    return found


def test_a_wave_uses_the_budget_and_the_next_one_again() -> None:
    assert taken(cluster()) == [2, 2]


def test_a_percentage_applies_to_the_remaining_nodes() -> None:
    assert taken(cluster(budget="50%")) == [2, 1]


def test_with_budgets_ignored_a_closed_budget_does_not_stop_the_sequence() -> None:
    assert taken(cluster(budget="0", options=WHOLE_WAY)) == [4, 0]


def test_a_pod_disruption_budget_bounds_each_wave_and_not_the_sum() -> None:
    guard = PodDisruptionBudget(
        namespace="default",
        name="web",
        selector=LabelSelector((Requirement.one_of("app", "web"),)),
        max_unavailable="1",
        disruptions_allowed=1,
    )
    assert taken(cluster(budget="100%", budgets=(guard,))) == [1, 1]


def test_limits_count_nodes_that_still_run() -> None:
    snapshot = cluster(pool={"limits": {"cpu": 28000}})
    this_pass = DisruptionPass(snapshot)
    budgets, fleet = WaveBudgets(this_pass), fleet_of(snapshot)
    budgets.begin()
    claims = drained(fleet, "n0", "n1", "n2", "n3").claims
    candidate = fleet.candidates[0]
    assert budgets.has_room_for(claims[:1], candidate)
    budgets.launch(claims[0])
    assert not budgets.has_room_for(claims[:1], candidate)


def test_what_others_of_a_wave_leave_is_free_for_new_nodes_of_the_next_wave() -> None:
    """Their command may start later, or never: a launch before it would be over the limit."""
    snapshot = cluster(pool={"limits": {"nodes": 4}})
    budgets, fleet = WaveBudgets(DisruptionPass(snapshot)), fleet_of(snapshot)
    claims = drained(fleet, "n0", "n1", "n2", "n3").claims
    budgets.begin()
    assert not budgets.has_room_for([*claims[:1], *claims[:1]], fleet.candidates[0])
    budgets.take(fleet.candidates[1])
    assert not budgets.has_room_for([*claims[:1], *claims[:1]], fleet.candidates[0])
    budgets.end()
    assert budgets.has_room_for([*claims[:1], *claims[:1]], fleet.candidates[0])


def test_the_first_wave_has_what_nodes_leave_that_go_already() -> None:
    """Later ones have the whole budget: those have gone by then."""
    assert taken(cluster(size=6, marked_for_deletion=("default-n5",))) == [1, 2]


def test_nodes_that_would_exceed_the_evictions_of_an_hour_wait_and_say_so() -> None:
    snapshot = cluster(budget="100%", options=Options(evictions_per_hour=3))
    this_pass = DisruptionPass(snapshot)
    budgets = WaveBudgets(this_pass)
    budgets.begin()
    going = []
    for candidate in this_pass.survey.candidates:
        if budgets.admits(candidate, UNDERUTILIZED):
            budgets.take(candidate)
            going.append(candidate.name)
    assert going == ["n0", "n1", "n2"]
    assert {name: refusal.reason for name, refusal in this_pass.refusals.items()} == {"n3": "EvictionRate"}


def test_new_nodes_count_in_a_percentage_from_the_next_wave_on() -> None:
    snapshot = cluster(budget="50%")
    this_pass, fleet = DisruptionPass(snapshot), fleet_of(snapshot)
    (claim, *_), budgets = drained(fleet, "n0", "n1", "n2", "n3").claims, WaveBudgets(this_pass)
    budgets.begin()
    for candidate in fleet.candidates[:2]:
        budgets.take(candidate)
        budgets.launch(claim)
    budgets.end()
    budgets.begin()
    going = []
    for candidate in fleet.candidates[2:]:
        if budgets.admits(candidate, UNDERUTILIZED):
            budgets.take(candidate)
            going.append(candidate.name)
    assert going == ["n2", "n3"], "half of the two that stayed and two new ones"


def test_only_a_node_of_the_same_pool_makes_room_in_its_limits() -> None:
    for limit, from_own, from_other in (
        (16000, True, False),
        (15999, False, False),
        (19999, True, False),
        (20000, True, True),
    ):
        snapshot = cluster(pool={"limits": {"cpu": limit}})
        fleet, budgets = fleet_of(snapshot), WaveBudgets(DisruptionPass(snapshot))
        (new,) = drained(fleet, "n0").claims or (a_plan(instance_types=("t-4",)),)
        own = fleet.candidates[0]
        other = msgspec.structs.replace(own, pool=msgspec.structs.replace(own.pool, name="other"))
        assert budgets.has_room_for([new], own) is from_own
        assert budgets.has_room_for([new], other) is from_other


def test_what_a_wave_leaves_is_counted_once() -> None:
    snapshot = cluster(pool={"limits": {"nodes": 4}})
    budgets, fleet = WaveBudgets(DisruptionPass(snapshot)), fleet_of(snapshot)
    (new, *_) = drained(fleet, "n0", "n1", "n2", "n3").claims
    for candidate in fleet.candidates[:2]:
        budgets.begin()
        budgets.take(candidate)
        budgets.end()
    assert budgets.has_room_for([new] * 3, fleet.candidates[2])
    assert not budgets.has_room_for([new] * 4, fleet.candidates[2])


def test_a_node_without_a_claim_counts_in_no_limits() -> None:
    """Someone started it by hand with the NodePool's label: Karpenter's limits count what the NodePool launches."""
    snapshot = cluster(pool={"limits": {"nodes": 5}})
    foreign = a_node_of(MIDDLE, "foreign")[1]
    joined = msgspec.structs.replace(snapshot, nodes=(*snapshot.nodes, foreign))
    budgets, fleet = WaveBudgets(DisruptionPass(joined)), fleet_of(joined)
    other = msgspec.structs.replace(
        fleet.candidates[0], pool=msgspec.structs.replace(fleet.candidates[0].pool, name="other")
    )
    assert foreign.labels[labels.NODEPOOL] == "default"
    assert budgets.has_room_for([a_plan(instance_types=("t-4",))], other)
    assert not budgets.has_room_for([a_plan(instance_types=("t-4",))] * 2, other)


def test_a_node_that_is_released_leaves_room_for_one_other() -> None:
    this_pass = DisruptionPass(cluster())
    budgets, candidates = WaveBudgets(this_pass), this_pass.survey.candidates
    budgets.begin()
    for candidate in candidates[:2]:
        budgets.take(candidate)
    budgets.release(candidates[1])
    assert budgets.admits(candidates[2], UNDERUTILIZED)
    budgets.take(candidates[2])
    assert not budgets.admits(candidates[3], UNDERUTILIZED)


def test_a_closed_budget_lets_no_node_go_in_any_wave() -> None:
    assert taken(cluster(budget="0")) == [0, 0]


@pytest.mark.parametrize(("deleted_at", "room"), [(None, 1), (NOW, 2)])
def test_claims_that_are_launching_count_in_limits_until_they_are_deleted(
    deleted_at: datetime | None, room: int
) -> None:
    """Their nodes come: beside them and new ones, the limit would be exceeded."""
    snapshot = cluster(size=2, pool={"limits": {"nodes": 4, "cpu": 16_000}})
    coming = NodeClaim(
        name="coming", labels={labels.NODEPOOL: "default"}, resources={"cpu": 4_000}, deleted_at=deleted_at
    )
    snapshot = msgspec.structs.replace(snapshot, node_claims=(*snapshot.node_claims, coming))
    budgets, fleet = WaveBudgets(DisruptionPass(snapshot)), fleet_of(snapshot)
    own = fleet.candidates[0]
    other = msgspec.structs.replace(own, pool=msgspec.structs.replace(own.pool, name="other"))
    new = a_plan(instance_types=("t-4",))
    assert [budgets.has_room_for([new] * number, other) for number in (1, 2, 3)] == [room >= n for n in (1, 2, 3)]


def test_a_new_node_of_no_known_type_takes_nothing_of_the_limits() -> None:
    snapshot = cluster(size=1, pool={"limits": {"cpu": 4_000}})
    budgets, (own, *_) = WaveBudgets(DisruptionPass(snapshot)), fleet_of(snapshot).candidates
    other = msgspec.structs.replace(own, pool=msgspec.structs.replace(own.pool, name="other"))
    assert budgets.has_room_for([a_plan(instance_types=("unknown",))], other)
    assert not budgets.has_room_for([a_plan(instance_types=("unknown", "t-1"))], other)


def test_what_is_cancelled_leaves_the_limits_as_they_were() -> None:
    snapshot = cluster(size=2, budget="50%", pool={"limits": {"nodes": 3}})
    this_pass, fleet = DisruptionPass(snapshot), fleet_of(snapshot)
    budgets, (own, *_) = WaveBudgets(this_pass), fleet.candidates
    other, new = msgspec.structs.replace(own, pool=msgspec.structs.replace(own.pool, name="other")), a_plan()
    for _ in range(2):
        budgets.launch(new)
        assert not budgets.has_room_for([new], other)
        budgets.cancel(new)
        assert budgets.has_room_for([new], other)
        assert not budgets.has_room_for([new] * 2, other)
