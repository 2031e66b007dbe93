"""Which nodes may go, and which receive pods: a node that is to go never does."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.fleet import WaveBudgets, spot_is_gated, target_fleet
from core.model.node_pool import Budget, Disruption, RolloutGate
from core.model.plan import Command, Move, NodeClaim, StoredSlots
from core.model.pod import LabelSelector
from core.model.snapshot import FeatureGates, Options, PodDisruptionBudget, Snapshot
from core.model.values.requirements import Requirement
from core.reasons.code import TerminationReason
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_selector, a_stored_target
from tests.unit.disruption.nodes_for_tests import (
    MIDDLE,
    ON_DEMAND,
    OPEN,
    drifted,
    expiring,
    pod_on,
    world,
)
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY, drained, fleet_of
from tests.unit.lifecycle.records_for_tests import a_plan


def test_a_drifted_node_must_go_and_receives_nothing() -> None:
    nodes, pods = (drifted(a_node_of(MIDDLE, "a")), a_node_of(MIDDLE, "b")), (pod_on("a"), pod_on("b"))
    fleet = fleet_of(world(*nodes, pods=pods, options=WHOLE_WAY))
    assert [c.name for c in fleet.candidates] == ["a", "b"]
    assert fleet.must_go.tolist() == [True, False]
    assert not fleet.rows.rooms.suits[:, 0].any()


@pytest.mark.parametrize(
    ("gates", "capacity_type", "decided"),
    [({}, "on-demand", ["a", "b"]), ({"default": RolloutGate(1, "wait")}, "on-demand", ["b"]), ({}, "reserved", ["b"])],
)
def test_a_drifted_node_goes_with_the_target_once_its_rollout_is_proven(
    gates: dict[str, RolloutGate], capacity_type: str, decided: list[str]
) -> None:
    """The first goes alone; one of a reservation may have to go before what replaces it."""
    nodes = (drifted(a_node_of(MIDDLE, "a", capacity_type=capacity_type)), a_node_of(MIDDLE, "b"))
    now = fleet_of(world(*nodes, pods=(pod_on("a"), pod_on("b")), rollouts=gates))
    assert [c.name for c in now.candidates] == decided
    assert not now.rows.rooms.suits[:, 0].any(), "it takes no pods in any case"


def test_a_node_that_expires_soon_may_go_and_receives_nothing() -> None:
    """Pods that moved there would move again within hours, for another reason."""
    nodes, pods = (expiring(a_node_of(MIDDLE, "a")), a_node_of(MIDDLE, "b")), (pod_on("a"), pod_on("b"))
    fleet = fleet_of(world(*nodes, pods=pods))
    assert [c.name for c in fleet.candidates] == ["a", "b"]
    assert not fleet.rows.rooms.suits[:, 0].any()
    assert fleet.rows.problem.move_prices.tolist()[0] == 0 < fleet.rows.problem.move_prices.tolist()[1]


def test_a_pod_that_waits_counts_no_room_of_a_node_that_takes_nothing() -> None:
    """Each choice of nodes seemed to make it more expensive, even none, so a stored target was planned again in each pass."""
    waiting = a_pod("waits", cpu="1", is_marked_unschedulable=True)
    nodes = (expiring(a_node_of(MIDDLE, "a")), a_node_of(MIDDLE, "b"))
    fleet = fleet_of(world(*nodes, pods=(pod_on("a", cpu="100m"), pod_on("b", cpu="3500m"), waiting)))
    assert fleet.waiting_price > 0
    assert not drained(fleet).displaces


def test_an_empty_node_goes_alone_and_receives_nothing() -> None:
    fleet = fleet_of(world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=(pod_on("b"),)))
    assert [c.name for c in fleet.candidates] == ["b"]
    assert not fleet.rows.rooms.suits[:, 0].any()


def test_a_budget_of_zero_keeps_nodes_out_of_the_target() -> None:
    closed = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("0"),)))
    snapshot = world(a_node_of(MIDDLE, "a"), pods=(pod_on("a"),), node_pools=(closed,))
    assert target_fleet(DisruptionPass(snapshot)) is None


def test_the_gate_is_the_feature_gate() -> None:
    on = Options(feature_gates=FeatureGates(spot_to_spot_consolidation=True))
    assert spot_is_gated(DisruptionPass(world()))
    assert not spot_is_gated(DisruptionPass(world(options=on)))


GUARD = {"annotations": {labels.DO_NOT_DISRUPT: "true"}}
DB = {"labels": {"app": "db"}}


def budget(*, allowed: int, most: str = "1") -> PodDisruptionBudget:
    selected = {"selector": a_selector(app="db"), "expected_pods": 4}
    return PodDisruptionBudget(
        namespace="default", name="db", max_unavailable=most, disruptions_allowed=allowed, **selected
    )


@pytest.mark.parametrize(
    ("changes", "budgets", "drains", "expected"),
    [
        (DB, (budget(allowed=0),), ("a",), [True]),
        (DB, (budget(allowed=1),), ("a",), [False]),
        ({}, (), ("a",), [False]),
        (DB, (budget(allowed=0),), ("other",), None),
        (DB, (budget(allowed=0),), None, None),
        (DB, (budget(allowed=0, most="0"),), ("a",), None),
        (GUARD, (), ("a",), None),
        ({**DB, **GUARD}, (budget(allowed=0),), ("a",), None),
    ],
    ids=["closed for now", "open", "no budget", "drains another", "no target", "closed for ever", "kept", "kept too"],
)
def test_a_node_of_the_stored_target_stays_in_it_while_nothing_but_a_budget_that_opens_again_keeps_it(
    changes: dict[str, Any],
    budgets: tuple[PodDisruptionBudget, ...],
    drains: tuple[str, ...] | None,
    expected: list[bool] | None,
) -> None:
    """A node that its owner keeps would keep the whole target waiting; one without a closed budget may go now."""
    this_pass = DisruptionPass(world(a_node_of(MIDDLE, "a"), pods=(pod_on("a", **changes),), budgets=budgets))
    fleet = target_fleet(this_pass, a_stored_target(*drains) if drains is not None else None)
    assert (fleet.held.tolist() if fleet is not None else None) == expected


def test_nodes_that_a_waiting_target_has_places_on_or_drains_are_left_as_they_are() -> None:
    """With `besides`, and those that would go for the budgets that are used up; all others may go."""
    pools = tuple(a_pool(name, ON_DEMAND, disruption=OPEN) for name in ("default", "other"))
    names = ("drained", "taken", "free", "drifts")
    pairs = [a_node_of(MIDDLE, name, pool="other") for name in names] + [a_node_of(MIDDLE, "spent")]
    pairs[3] = drifted(pairs[3])
    target = a_stored_target("drained", slots=(StoredSlots("kind", "taken", 1),))
    pods = tuple(pod_on(node.name) for _, node in pairs)
    this_pass = DisruptionPass(world(*pairs, pods=pods, node_pools=pools, stored_target=target))

    def open_beside(*besides: tuple[str, str]) -> list[str]:
        fleet = target_fleet(this_pass, besides=besides)
        return sorted(candidate.name for candidate in fleet.candidates) if fleet is not None else []

    assert open_beside() == sorted((*names, "spent"))
    assert open_beside(("default", "Underutilized")) == ["drifts", "free"]
    assert open_beside(("default", "Drifted")) == ["drifts", "free", "spent"]
    assert open_beside(("default", "Underutilized"), ("other", "Drifted")) == ["free"]
    assert open_beside(("default", "Underutilized"), ("other", "Drifted"), ("other", "Underutilized")) == []


NEVER = Disruption(budgets=(Budget("100%"),), consolidate_after=None)


@pytest.mark.parametrize(
    ("pool", "is_drifted", "pods", "options", "decided"),
    [
        ({"disruption": NEVER}, False, 1, Options(), False),
        ({"disruption": NEVER}, True, 1, Options(), True),
        ({"disruption": NEVER, "replicas": 1}, True, 1, Options(), False),
        ({"disruption": OPEN}, False, 0, Options(), False),
        ({"disruption": OPEN}, True, 0, WHOLE_WAY, True),
        ({"disruption": Disruption(budgets=(Budget("0"),))}, False, 1, WHOLE_WAY, True),
        ({"disruption": Disruption(budgets=(Budget("0", reasons=("Drifted",)),))}, False, 1, Options(), True),
        ({"disruption": Disruption(budgets=(Budget("0", reasons=("Drifted",)),))}, True, 1, Options(), False),
        ({"disruption": Disruption(budgets=(Budget("10%"),))}, False, 1, Options(), True),
    ],
)
def test_a_node_is_decided_about_where_its_pool_lets_any_node_go_for_its_reason(
    pool: dict[str, Any], is_drifted: bool, pods: int, options: Options, *, decided: bool
) -> None:
    node = drifted(a_node_of(MIDDLE, "a")) if is_drifted else a_node_of(MIDDLE, "a")
    pools = (a_pool("default", ON_DEMAND, **pool),)
    snapshot = world(node, pods=(pod_on("a"),) * pods, node_pools=pools, options=options)
    fleet = target_fleet(DisruptionPass(snapshot))
    assert ([candidate.name for candidate in fleet.candidates] if fleet is not None else []) == ["a"] * decided


def test_nodes_to_which_commands_of_the_pass_move_pods_stay() -> None:
    """Each pod moves once."""
    nodes = [a_node_of(MIDDLE, name) for name in ("c", "a", "b")]
    this_pass = DisruptionPass(world(*nodes, pods=tuple(pod_on(name) for name in "abc")))
    moves = (Move("default/gone", "b"),)
    this_pass.commands = [Command(reason="Drifted", method="drift", nodes=("x",), claims=("x",), moves=moves)]
    fleet = target_fleet(this_pass)
    assert fleet is not None
    assert [candidate.name for candidate in fleet.candidates] == ["a", "c"]
    suits = fleet.rows.rooms.suits.any(axis=0)
    assert suits[this_pass.planner.context.positions["b"]], "it takes pods of others, too"


def test_nodes_that_start_or_leave_are_closed_and_those_whose_pods_changed_take_none_by_choice() -> None:
    settles = Disruption(budgets=(Budget("100%"),), consolidate_after=timedelta(minutes=5))
    pools = (a_pool("default", ON_DEMAND, disruption=settles),)
    names = ("stays", "starts", "expires", "changed")
    pairs = {name: a_node_of(MIDDLE, name) for name in names}
    claim, node = pairs["starts"]
    marks = {key: value for key, value in node.labels.items() if key != labels.INITIALIZED}
    pairs["starts"] = claim, msgspec.structs.replace(node, labels=marks)
    pairs["expires"] = expiring(pairs["expires"])
    claim, node = pairs["changed"]
    pairs["changed"] = msgspec.structs.replace(claim, last_pod_event_at=NOW - timedelta(minutes=1)), node
    this_pass = DisruptionPass(
        world(*pairs.values(), pods=tuple(pod_on(name, cpu="100m") for name in names), node_pools=pools)
    )
    fleet = target_fleet(this_pass)
    assert fleet is not None
    at = this_pass.planner.context.positions
    assert fleet.closed == {at["starts"], at["expires"]}
    suits = fleet.rows.rooms.suits.any(axis=0)
    assert {name: bool(suits[at[name]]) for name in names} == {
        "stays": True,
        "starts": False,
        "expires": False,
        "changed": False,
    }
    assert (fleet.waiting, fleet.waiting_price, fleet.has_buffers, fleet.held.any()) == (frozenset(), 0, False, False)


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
        own_node = fleet.candidates[0]
        other = msgspec.structs.replace(own_node, pool=msgspec.structs.replace(own_node.pool, name="other"))
        assert budgets.has_room_for([new], own_node) is from_own
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
    own_node = fleet.candidates[0]
    other = msgspec.structs.replace(own_node, pool=msgspec.structs.replace(own_node.pool, name="other"))
    new = a_plan(instance_types=("t-4",))
    assert [budgets.has_room_for([new] * number, other) for number in (1, 2, 3)] == [room >= n for n in (1, 2, 3)]


def test_a_new_node_of_no_known_type_takes_nothing_of_the_limits() -> None:
    snapshot = cluster(size=1, pool={"limits": {"cpu": 4_000}})
    budgets, (own_node, *_) = WaveBudgets(DisruptionPass(snapshot)), fleet_of(snapshot).candidates
    other = msgspec.structs.replace(own_node, pool=msgspec.structs.replace(own_node.pool, name="other"))
    assert budgets.has_room_for([a_plan(instance_types=("unknown",))], other)
    assert not budgets.has_room_for([a_plan(instance_types=("unknown", "t-1"))], other)


def test_what_is_cancelled_leaves_the_limits_as_they_were() -> None:
    snapshot = cluster(size=2, budget="50%", pool={"limits": {"nodes": 3}})
    this_pass, fleet = DisruptionPass(snapshot), fleet_of(snapshot)
    budgets, (own_node, *_) = WaveBudgets(this_pass), fleet.candidates
    other, new = msgspec.structs.replace(own_node, pool=msgspec.structs.replace(own_node.pool, name="other")), a_plan()
    for _ in range(2):
        budgets.launch(new)
        assert not budgets.has_room_for([new], other)
        budgets.cancel(new)
        assert budgets.has_room_for([new], other)
        assert not budgets.has_room_for([new] * 2, other)
