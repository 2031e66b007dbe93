"""Each wave has its own budgets, and limits hold while old and new nodes both exist."""

from __future__ import annotations

from datetime import datetime

import msgspec
import pytest

from core import labels
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.wave_budgets import WaveBudgets
from core.model.node_claim import NodeClaim
from core.model.node_pool import Budget, Disruption
from core.model.pod import LabelSelector
from core.model.policy import PodDisruptionBudget
from core.model.snapshot import Options, Snapshot
from core.model.values.requirements import Requirement
from core.reasons.termination import TerminationReason
from tests.builders import NOW, a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY, drained, fleet_of
from tests.unit.lifecycle.records_for_tests import a_plan

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
