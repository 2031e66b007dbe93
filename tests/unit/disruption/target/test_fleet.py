"""Which nodes may go, and which receive pods: a node that is to go never does."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.fleet import spot_is_gated, target_fleet
from core.model.node_pool import Budget, Disruption, RolloutGate
from core.model.plan import Command, Move, StoredSlots
from core.model.snapshot import FeatureGates, Options, PodDisruptionBudget
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_selector, a_stored_target
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, OPEN, drifted, expiring, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY, drained, fleet_of


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
    found = target_fleet(this_pass, a_stored_target(*drains) if drains is not None else None)
    assert (found.held.tolist() if found is not None else None) == expected


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
        found = target_fleet(this_pass, besides=besides)
        return sorted(candidate.name for candidate in found.candidates) if found is not None else []

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
    found = target_fleet(DisruptionPass(snapshot))
    assert ([candidate.name for candidate in found.candidates] if found is not None else []) == ["a"] * decided


def test_nodes_to_which_commands_of_the_pass_move_pods_stay() -> None:
    """Each pod moves once."""
    nodes = [a_node_of(MIDDLE, name) for name in ("c", "a", "b")]
    this_pass = DisruptionPass(world(*nodes, pods=tuple(pod_on(name) for name in "abc")))
    moves = (Move("default/gone", "b"),)
    this_pass.commands = [Command(reason="Drifted", method="drift", nodes=("x",), claims=("x",), moves=moves)]
    found = target_fleet(this_pass)
    assert found is not None
    assert [candidate.name for candidate in found.candidates] == ["a", "c"]
    suits = found.rows.rooms.suits.any(axis=0)
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
    found = target_fleet(this_pass)
    assert found is not None
    at = this_pass.planner.context.positions
    assert found.closed == {at["starts"], at["expires"]}
    suits = found.rows.rooms.suits.any(axis=0)
    assert {name: bool(suits[at[name]]) for name in names} == {
        "stays": True,
        "starts": False,
        "expires": False,
        "changed": False,
    }
    assert (found.waiting, found.waiting_price, found.has_buffers, found.held.any()) == (frozenset(), 0, False, False)
