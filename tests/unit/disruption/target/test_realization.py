"""The scheduler decides what a choice of nodes means: a node stays if its pods find no other place."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from core import labels
from core.disruption.target.realization import Realization, Realizations
from core.disruption.target.target_fleet import TargetFleet
from core.model.catalogue import InstanceType
from core.model.node import Node
from core.model.node_claim import NodeClaim
from core.model.snapshot import Options, Snapshot
from core.model.values.requirements import Requirement
from core.packing.problem import Bools
from core.scheduling.optimization.drained_fleet import DrainedFleet
from core.scheduling.plan_output import SchedulingResults
from core.scheduling.replanning.greedy_plans import Drains
from tests.builders import a_node_of, a_pod, a_pool
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, OPEN, SMALL, drifted, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY, fleet_of


def test_pods_move_and_cost_what_their_new_places_cost() -> None:
    fleet = fleet_of(world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=(pod_on("a"), pod_on("b"))))
    found = Realizations(fleet, is_gated=True, keep_discount=0).of(np.array([False, True]), None, None)
    assert (found.cost, len(found.claims)) == (2 * 10**8, 0)


def test_a_node_stays_whose_pods_fit_nowhere_else() -> None:
    stuck = pod_on("a", node_selector=(Requirement.one_of("rack", "a"),))
    fleet = fleet_of(world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=(stuck, pod_on("b"))))
    realizations = Realizations(fleet, is_gated=True, keep_discount=0)
    found = realizations.of(np.array([False, True]), None, None)
    assert found.keeps.all()
    assert realizations.unplaced_items == {fleet.rows.row_of_pod[stuck.key]}


def test_a_spot_node_stays_whose_pods_would_need_a_new_spot_node() -> None:
    spot = a_node_of(LARGE, "a", capacity_type=labels.SPOT)
    snapshot = world(spot, pods=(pod_on("a"),), node_pools=(a_pool("default", disruption=OPEN),))
    fleet = fleet_of(snapshot)
    gone = np.array([False])
    gated = Realizations(fleet, is_gated=True, keep_discount=0)
    assert gated.of(gone, None, None).keeps.all()
    assert gated.gated.all()
    assert not Realizations(fleet, is_gated=False, keep_discount=0).of(gone, None, None).keeps.any()


def test_of_spot_nodes_that_all_go_as_many_stay_as_their_pods_need() -> None:
    """Each pod would need a new spot node, and each node holds one of them."""
    names = [f"n{number}" for number in range(8)]
    spot = [a_node_of(MIDDLE, name, capacity_type=labels.SPOT) for name in names]
    pool = a_pool("default", disruption=OPEN)
    fleet = fleet_of(world(*spot, pods=tuple(pod_on(name, cpu="900m") for name in names), node_pools=(pool,)))
    found = Realizations(fleet, is_gated=True, keep_discount=0).of(np.zeros(8, dtype=bool), None, None)
    assert (int(found.keeps.sum()), found.claims) == (2, ())


def test_a_spot_node_of_the_choice_goes_where_one_that_stays_after_all_has_the_room() -> None:
    """The program's node and the one that rules keep both stayed, each of them half empty."""
    stuck = pod_on("b", node_selector=(Requirement.one_of("rack", "a"),))
    pairs = (a_node_of(LARGE, "a", capacity_type=labels.SPOT), a_node_of(MIDDLE, "b", capacity_type=labels.SPOT))
    pool = a_pool("default", disruption=OPEN)
    fleet, expensive = (
        fleet_of(world(*pairs, pods=(pod_on("a"), stuck), node_pools=(pool,), options=Options(move_price=price)))
        for price in (None, 2 * 10**9)
    )
    choice = np.array([True, False])

    def kept(*, is_gated: bool, releases: int, fleet: TargetFleet = fleet) -> list[bool]:
        realizations = Realizations(fleet, is_gated=is_gated, keep_discount=0)
        keeps: list[bool] = realizations.of(choice, None, None, releases=releases).keeps.tolist()
        return keeps

    assert kept(is_gated=True, releases=1) == [False, True]
    assert kept(is_gated=True, releases=0) == kept(is_gated=False, releases=1) == [True, True]
    assert kept(is_gated=True, releases=1, fleet=expensive) == [True, True], "its move costs more than the node"


def realized(snapshot: Snapshot, *keeps: bool, discount: int = 0) -> Realization:
    """The result of keeping these nodes, in the order of the fleet."""
    found = Realizations(fleet_of(snapshot), is_gated=False, keep_discount=discount)
    return found.of(np.array(keeps), None, None)


def a_and_b() -> Snapshot:
    """Two equal nodes, with two pods and one."""
    pods = (pod_on("a"), pod_on("a", "more"), pod_on("b"))
    return world(*(a_node_of(MIDDLE, name) for name in ("a", "b")), pods=pods)


class TestCost:
    """What a choice costs an hour, and what it costs to get there."""

    def test_counts_the_nodes_that_stay(self) -> None:
        assert realized(a_and_b(), True, True).cost == 4 * 10**8
        assert realized(a_and_b(), True, False).cost == 2 * 10**8

    def test_counts_running_nodes_at_their_discount(self) -> None:
        """In thousandths, rounded down: a running node is worth more than the same one to be launched."""
        assert realized(a_and_b(), True, False, discount=25).cost == 195_000_000

    def test_counts_new_nodes_in_full(self) -> None:
        found = realized(a_and_b(), False, False, discount=25)
        assert [claim.price for claim in found.claims] == [found.cost]
        assert found.cost > 0

    def test_leaves_out_the_new_nodes_of_pods_that_wait_in_any_case(self) -> None:
        """Otherwise, moved pods join such a node, and its whole price counts against their move."""
        alone = realized(a_and_b(), False, False)
        waiting = a_pod("waits", cpu="12", is_marked_unschedulable=True)
        beside = realized(msgspec.structs.replace(a_and_b(), pods=(*a_and_b().pods, waiting)), False, False)
        assert (beside.cost, beside.displaces) == (alone.cost, False)
        assert [claim.pods for claim in beside.claims] == [claim.pods for claim in alone.claims]

    def test_counts_the_moves_of_the_nodes_that_go(self) -> None:
        prices = fleet_of(a_and_b()).rows.problem.move_prices.tolist()
        assert [realized(a_and_b(), *keeps).moves for keeps in ((False, True), (True, False))] == prices
        assert realized(a_and_b(), True, True).moves == 0
        assert prices[0] > prices[1] > 0


class TestGoal:
    """Of two choices the lower one is better."""

    def of(self, **changes: object) -> tuple[object, ...]:
        found = realized(a_and_b(), True, True)
        return replace(found, **changes).goal  # type: ignore[arg-type] - fields by name

    def test_a_node_that_must_go_and_stays_outweighs_every_price(self) -> None:
        assert self.of(unmoved=1, cost=0, moves=0) > self.of(unmoved=0, displaces=True, cost=10**12)

    def test_pods_that_wait_must_not_pay_for_the_move(self) -> None:
        assert self.of(displaces=True, cost=0) > self.of(displaces=False, cost=10**12)

    def test_a_move_counts_like_a_price(self) -> None:
        assert self.of(cost=10, moves=5) == self.of(cost=5, moves=10) > self.of(cost=10, moves=4)

    def test_at_equal_cost_fewer_nodes_go(self) -> None:
        few, many = np.array([True, False]), np.array([False, False])
        assert self.of(keeps=few) < self.of(keeps=many)


def test_a_drifted_node_whose_pods_find_no_place_counts_as_unmoved() -> None:
    stuck = pod_on("a", node_selector=(Requirement.one_of("rack", "a"),))
    pairs = (drifted(a_node_of(MIDDLE, "a")), a_node_of(MIDDLE, "b"))
    snapshot = world(*pairs, pods=(stuck, pod_on("b")), options=WHOLE_WAY)
    assert [realized(snapshot, *keeps).unmoved for keeps in ((False, True), (True, True), (True, False))] == [1, 1, 1]
    free = world(*pairs, pods=(pod_on("a"), pod_on("b")), options=WHOLE_WAY)
    assert realized(free, False, True).unmoved == 0


def in_rack(kind: InstanceType, name: str) -> tuple[NodeClaim, Node]:
    """A node with a label that no new node can have."""
    claim, node = a_node_of(kind, name)
    return claim, msgspec.structs.replace(node, labels={**node.labels, "rack": "a"})


def test_of_nodes_whose_pods_find_no_place_the_cheapest_stays() -> None:
    """Room for one pod is left: the pod of either node may have it."""
    own = {"node_selector": (Requirement.one_of("rack", "a"),)}
    pairs = [in_rack(kind, name) for kind, name in ((LARGE, "a"), (MIDDLE, "b"), (SMALL, "c"))]
    pods = (pod_on("a", **own), pod_on("b", **own), pod_on("c", cpu="400m", **own))
    assert realized(world(*pairs, pods=pods), False, False, True).keeps.tolist() == [False, True, True]


def test_waiting_pods_keep_no_node() -> None:
    """They have no place with or without the move."""
    waiting = a_pod("waits", cpu="64", is_marked_unschedulable=True)
    snapshot = world(*(a_node_of(MIDDLE, name) for name in ("a", "b")), pods=(pod_on("a"), pod_on("b"), waiting))
    found = realized(snapshot, False, True)
    assert (found.keeps.tolist(), found.displaces) == ([False, True], False)


def test_each_evaluation_is_counted() -> None:
    """A search of a small fleet ends after so many."""
    realizations = Realizations(fleet_of(a_and_b()), is_gated=False, keep_discount=0)
    counted = [realizations.asked]
    for keeps in ((True, True), (True, False)):
        realizations.of(np.array(keeps), None, None)
        counted.append(realizations.asked)
    assert counted == [0, 1, 2]
    assert (realizations.unplaced_items, realizations.gated.tolist()) == (set(), [False, False])


class Intended:
    """A slot for a pod of the first group on the second node, and no new nodes."""

    new_nodes = ()

    def slots(self, keeps: Bools) -> dict[int, list[tuple[int, int]]]:
        assert not keeps.all(), "where none goes, nothing is intended"
        return {0: [(1, 1)]}


def test_the_scheduler_is_told_which_nodes_go_by_choice_or_must_and_where_their_pods_are_to_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = (drifted(a_node_of(MIDDLE, "a")), a_node_of(MIDDLE, "b"), a_node_of(MIDDLE, "c"))
    fleet = fleet_of(world(*nodes, pods=tuple(pod_on(name) for name in "abc"), options=WHOLE_WAY))
    asked, original = list[Drains](), fleet.planner.drained

    def noted(drains: Drains) -> DrainedFleet[SchedulingResults]:
        asked.append(drains)
        return original(msgspec.structs.replace(drains, slots={}))

    monkeypatch.setattr(fleet.planner, "drained", noted)
    realizations = Realizations(fleet, is_gated=False, keep_discount=0)
    for keeps in ((True, True, True), (False, False, True)):
        realizations.of(np.array(keeps), Intended(), None)
    at = fleet.planner.context.positions
    assert asked == [
        Drains(leaving=frozenset(), mandatory=frozenset(), closed=fleet.closed, slots={}),
        Drains(leaving=frozenset({at["b"]}), mandatory=frozenset({at["a"]}), closed=fleet.closed, slots={0: [(1, 1)]}),
    ]
