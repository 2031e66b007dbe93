"""The scheduler decides what a choice of nodes means: a node stays if its pods find no other place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from core import labels
from core.disruption.consolidation import FLEXIBLE_TYPES
from core.disruption.deletion_costs import UNIT
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.fleet import TargetFleet
from core.disruption.target.realization import (
    ProgramSlots,
    Realization,
    Realizations,
    SlotAssignment,
    StoredTargetSlots,
)
from core.disruption.target.stored import PodKinds
from core.model.catalogue import Catalogue, InstanceType
from core.model.node_pool import Budget, Disruption
from core.model.plan import Binding, Move, NodeClaim, Plan, PlannedClaim, StoredNewNode, StoredSlots
from core.model.snapshot import Node, Options, Snapshot
from core.model.values.requirements import Requirement
from core.packing.problem import Bools
from core.scheduling.planner import DrainedFleet
from core.scheduling.replanning import Drains
from core.scheduling.results import SchedulingResults
from tests.builders import CLASS_REF, NOW, ZONES, a_node_of, a_pod, a_pool, a_stored_target, a_type
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, OPEN, SMALL, drifted, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY, drained, fleet_of, half_full

# Places of a stored target go to the pods that exist now, even if their names have changed.


def test_stored_places_go_to_pods_of_the_same_kind_on_staying_nodes() -> None:
    fleet = fleet_of(half_full(3, at_once=1))
    kind = PodKinds().of(fleet.rows.pods[0][0])
    target = a_stored_target(
        "n0",
        slots=(StoredSlots(kind, "n0", 1), StoredSlots(kind, "n2", 4), StoredSlots("other", "n1", 1)),
        new_nodes=(StoredNewNode(name="new", pods={kind: 2}),),
    )
    planned = StoredTargetSlots(fleet, target)
    group = int(fleet.rows.items[0].index)
    n2 = fleet.planner.context.positions["n2"]
    assert planned.slots(np.array([False, True, True])) == {group: [(n2, 1)]}
    assert list(planned.new_nodes) == [{kind: 2}]


def test_every_planned_place_is_assigned() -> None:
    fleet = fleet_of(half_full(3, at_once=1))
    problem = fleet.rows.problem
    into = np.zeros((len(problem.requests), len(problem.group_free)))
    into[0, fleet.rows.rooms.groups[fleet.planner.context.positions["n1"]]] = 1
    slots = ProgramSlots(fleet, into, 0, is_gated=True).slots(np.array([False, True, True]))
    assert sum(pods for slots_of_node in slots.values() for _, pods in slots_of_node) == 1


def test_stored_places_on_a_node_that_no_longer_suits_the_pods_are_given_up() -> None:
    fleet = fleet_of(half_full(3, at_once=1))
    kind, n2 = PodKinds().of(fleet.rows.pods[0][0]), fleet.planner.context.positions["n2"]
    target = a_stored_target(
        "n0",
        slots=(StoredSlots(kind, "n2", 4),),
    )
    fleet.rows.rooms.suits[:, n2] = False
    assert StoredTargetSlots(fleet, target).slots(np.array([False, True, True])) == {}


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
    realizations_found = Realizations(fleet, is_gated=True, keep_discount=0).of(np.zeros(8, dtype=bool), None, None)
    assert (int(realizations_found.keeps.sum()), realizations_found.claims) == (2, ())


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
    realizations = Realizations(fleet_of(snapshot), is_gated=False, keep_discount=discount)
    return realizations.of(np.array(keeps), None, None)


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
        realization = realized(a_and_b(), False, False, discount=25)
        assert [claim.price for claim in realization.claims] == [realization.cost]
        assert realization.cost > 0

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
        realization = realized(a_and_b(), True, True)
        return replace(realization, **changes).goal  # type: ignore[arg-type] - fields by name

    def test_a_node_that_must_go_and_stays_outweighs_every_price(self) -> None:
        assert self.of(unmoved=1, cost=0, moves=0) > self.of(unmoved=0, displaces=True, cost=10**12)

    def test_pods_that_wait_must_not_pay_for_the_move(self) -> None:
        assert self.of(displaces=True, cost=0) > self.of(displaces=False, cost=10**12)

    def test_a_move_counts_like_a_price(self) -> None:
        assert self.of(cost=10, moves=5) == self.of(cost=5, moves=10) > self.of(cost=10, moves=4)

    def test_at_equal_cost_the_least_disruption_is_better(self) -> None:
        """A unit for each node that goes, and what its pods cost: two nodes may be less than one with many pods."""
        first, second, both = (realized(a_and_b(), *k) for k in ((False, True), (True, False), (False, False)))
        assert (first.disruption, second.disruption, both.disruption) == (3 * UNIT, 2 * UNIT, 5 * UNIT)
        assert self.of(disruption=2 * UNIT) < self.of(disruption=3 * UNIT) < self.of(disruption=0, moves=1)


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
    realization = realized(snapshot, False, True)
    assert (realization.keeps.tolist(), realization.displaces) == ([False, True], False)


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


# Each slot of a target is taken once, by a pod that may have it, and what is given back is as it was.


TYPES: Final = tuple(a_type(f"t-{n:02}", cpu="4", price=n / 100) for n in range(1, 31))
"""A cent to thirty cents on demand, and two fifths of that on spot."""
MARKET: Final = Catalogue(default=TYPES)
WAITING: Final = "default/waits-anyway"
STAYS: Final = "stays"
CHANGED: Final = "changed"


def a_new_node(price: int, **changes: Any) -> PlannedClaim:
    """A new node of any of the types."""
    fields = {"capacity_types": (labels.ON_DEMAND,), "instance_types": tuple(t.name for t in TYPES), **changes}
    return PlannedClaim(name="", node_pool="default", node_class=CLASS_REF, zones=ZONES, price=price, **fields)


class Leaving:
    """Nodes with equal pods that go, and the slots that the scheduler has for these pods; asked by names of nodes.

    Attributes:
        slots: The assignment of slots.
    """

    def __init__(
        self,
        pods: Mapping[str, int],
        *,
        slots: Sequence[str] = (),
        new: Sequence[int] = (),
        claims: Sequence[PlannedClaim] = (),
        instance_types: tuple[str, ...] = (),
        spot: str = "",
        has_drifted: str = "",
        is_gated: bool = False,
    ) -> None:
        """Prepare the world.

        Args:
            pods: Node that goes → how many pods are on it.
            slots: Names of the nodes that exist, one for each slot there.
            new: How many pods each new node is for.
            claims: What the new nodes may become.
            instance_types: The fewer types that the target launches, if there are others.
            spot: The one node that is a spot node.
            has_drifted: The one node that must go.
            is_gated: Whether pods of spot nodes may not take slots on new spot nodes.
        """
        pairs = [_pair(name, is_spot=name == spot, is_old=name == has_drifted) for name in (*pods, STAYS, CHANGED)]
        running = tuple(pod_on(node, f"{node}{n}", cpu="100m") for node, count in pods.items() for n in range(count))
        soon = Disruption(consolidate_after=timedelta(minutes=5), budgets=(Budget("100%"),))
        running += (pod_on(STAYS, cpu="100m"),)
        pool = a_pool("default", disruption=soon)
        fleet = fleet_of(world(*pairs, pods=running, node_pools=(pool,), options=WHOLE_WAY, catalogue=MARKET))
        self._rows = {candidate.name: row for row, candidate in enumerate(fleet.candidates)}
        keys = [pod.key for pod in running if pod.node_name in pods]
        self._item = fleet.rows.row_of_pod[keys[0]]
        planned, rest = [], keys[len(slots) :]
        for number, count in enumerate(new):
            claim = claims[number] if claims else a_new_node(1)
            planned.append(msgspec.structs.replace(claim, name=f"new-{number}", pods=(WAITING, *rest[:count])))
            rest = rest[count:]
        bindings = (Binding(WAITING, STAYS), *map(Binding, keys, slots))
        results = SchedulingResults(plan=Plan(now=NOW, bindings=bindings), displaced=tuple(keys))
        keeps = np.array([candidate.name not in pods for candidate in fleet.candidates])
        realization = Realization(
            keeps, results, tuple(planned), cost=0, moves=0, disruption=0, unmoved=0, displaces=False
        )
        changes = {"instance_types": instance_types} if instance_types else {}
        narrowed = [msgspec.structs.replace(claim, **changes) for claim in planned]
        self.slots = SlotAssignment(fleet, realization, narrowed, is_gated=is_gated)

    def moves(self, node: str, wanted: int = 0) -> list[Move] | None:
        """Take slots for a node's pods, where the wave moves so many others."""
        return self.slots.take(self._rows[node], Counter({self._item: wanted}))

    def take(self, node: str, wanted: int = 0) -> list[str] | None:
        """The same, and say where they are."""
        moves = self.moves(node, wanted)
        return None if moves is None else [move.to for move in moves]

    def release(self, node: str, moves: Sequence[Move] | None, launched: Sequence[int] = ()) -> None:
        """Give slots back."""
        self.slots.release(self._rows[node], moves or (), launched)

    @property
    def open_slots(self) -> int:
        """Slots on nodes that exist or are launched."""
        return self.slots.open_slots()[self._item]


def _pair(name: str, *, is_spot: bool, is_old: bool) -> tuple[NodeClaim, Node]:
    claim, node = a_node_of(TYPES[-1], name, capacity_type=labels.SPOT if is_spot else labels.ON_DEMAND)
    if name == CHANGED:
        claim = msgspec.structs.replace(claim, last_pod_event_at=NOW - timedelta(minutes=1))
    return drifted((claim, node)) if is_old else (claim, node)


class TestSlots:
    def test_nodes_that_exist_are_filled_before_new_ones_are_launched(self) -> None:
        leaving = Leaving({"a": 1, "b": 1}, slots=[STAYS], new=[1])
        assert leaving.take("a") == [STAYS]
        assert leaving.slots.launched == set()
        assert leaving.take("b") == ["new-0"]
        assert leaving.slots.launched == {0}
        assert leaving.take("b") is None

    def test_pods_take_slots_in_the_order_of_their_names(self) -> None:
        moves = Leaving({"a": 3}, slots=[STAYS, STAYS], new=[1]).moves("a")
        assert moves == [Move("default/a0", STAYS), Move("default/a1", STAYS), Move("default/a2", "new-0")]

    def test_a_node_whose_pods_do_not_all_find_a_slot_takes_none(self) -> None:
        for slots, new in (([STAYS], []), ([], [1]), ([STAYS], [1])):
            leaving = Leaving({"a": 1, "b": 3}, slots=slots, new=new)
            assert leaving.take("b") is None
            assert leaving.open_slots == len(slots)
            assert leaving.slots.launched == set()
            assert leaving.take("a") == [STAYS if slots else "new-0"]
            assert leaving.take("a") == (["new-0"] if slots and new else None)

    def test_what_is_released_is_as_it_was(self) -> None:
        """On nodes that exist, on new ones, and on those whose pods changed lately."""
        leaving = Leaving({"a": 4, "b": 1}, slots=[STAYS, CHANGED], new=[2], has_drifted="a")
        before, taken = leaving.open_slots, leaving.moves("a")
        assert taken is not None
        assert (leaving.open_slots, leaving.slots.launched) == (0, {0})
        leaving.release("a", taken, [0])
        assert (leaving.open_slots, leaving.slots.launched) == (before, set())
        assert leaving.moves("a") == taken
        assert leaving.moves("b") is None

    def test_slots_on_launched_nodes_are_open(self) -> None:
        leaving = Leaving({"a": 1, "b": 3}, new=[2, 2])
        assert leaving.open_slots == 0
        leaving.take("a")
        assert leaving.open_slots == 1

    def test_only_pods_that_must_move_go_to_nodes_whose_pods_changed_lately(self) -> None:
        """Consolidation moves nothing there: those nodes are not settled (consolidateAfter)."""
        leaving = Leaving({"a": 1, "b": 1}, slots=[CHANGED, STAYS], has_drifted="a")
        assert leaving.take("a") == [CHANGED], "the other slot is left to those who have no other"
        assert leaving.take("b") == [STAYS]
        voluntary = Leaving({"a": 1}, slots=[CHANGED])
        assert voluntary.take("a") is None


class TestNewNodes:
    def test_the_new_node_that_takes_most_of_the_wave_for_its_price_is_launched_first(self) -> None:
        for prices, wanted, first in (
            ((1, 1), 3, "new-1"),  # takes two of the three
            ((1, 1), 1, "new-0"),  # each takes the one; the first of equals
            ((1, 3), 3, "new-0"),  # the larger costs more for each
            ((0, 0), 3, "new-1"),  # paid already
        ):
            leaving = Leaving({"a": 1, "b": 2}, new=[1, 2], claims=[a_new_node(price) for price in prices])
            assert leaving.take("a", wanted) == [first]

    def test_a_launched_node_is_filled_before_another_is_launched(self) -> None:
        leaving = Leaving({"a": 1, "b": 1, "c": 2}, new=[1, 3])
        assert leaving.take("a", 3) == ["new-1"]
        assert leaving.take("b", 1) == ["new-1"], "for one pod alone it would be new-0"
        assert leaving.take("c") == ["new-1", "new-0"]

    def test_pods_of_one_node_share_the_node_that_is_launched_for_the_first(self) -> None:
        leaving = Leaving({"a": 2, "b": 2}, new=[1, 3])
        assert leaving.take("a", 1) == ["new-0", "new-1"]
        leaving = Leaving({"a": 2, "b": 2}, new=[2, 2])
        leaving.release("a", leaving.moves("a", 4), [0])
        assert leaving.take("b", 2) == ["new-0", "new-0"]


class TestSpot:
    """Pods of spot nodes get no new spot node while SpotToSpotConsolidation is off."""

    def test_others_leave_them_the_slots_that_they_need(self) -> None:
        leaving = Leaving({"a": 1, "b": 1}, slots=[STAYS], new=[1], spot="a", is_gated=True)
        assert leaving.take("b") == ["new-0"]
        taken = leaving.moves("a")
        assert taken == [Move("default/a0", STAYS)]
        leaving.release("a", taken)
        assert leaving.take("b") is None, "the slot is kept for them again"

    def test_others_take_what_they_do_not_need(self) -> None:
        leaving = Leaving({"a": 1, "b": 2}, slots=[STAYS, STAYS], new=[1], spot="a", is_gated=True)
        assert leaving.take("b") == [STAYS, "new-0"]
        leaving = Leaving({"a": 1, "b": 1}, slots=[STAYS, STAYS], spot="a", is_gated=True)
        assert leaving.take("a") == [STAYS]
        assert leaving.take("b") == [STAYS], "they have theirs"

    def test_nothing_is_kept_for_them_while_the_gate_is_on_or_they_stay(self) -> None:
        leaving = Leaving({"a": 1, "b": 1}, slots=[STAYS], new=[1], spot="a")
        leaving.release("a", leaving.moves("a"))
        assert leaving.take("b") == [STAYS]
        assert Leaving({"a": 1}, slots=[STAYS], spot=STAYS, is_gated=True).take("a") == [STAYS]

    def test_what_others_give_back_is_not_kept_for_them(self) -> None:
        leaving = Leaving({"a": 1, "b": 1}, slots=[STAYS, STAYS], spot="a", is_gated=True)
        leaving.release("b", leaving.moves("b"))
        assert leaving.take("b") == [STAYS]

    @pytest.mark.parametrize(
        ("spot", "is_gated", "kind", "place"),
        [
            ("a", True, labels.SPOT, None),
            ("a", True, labels.ON_DEMAND, ["new-0"]),
            ("a", False, labels.SPOT, ["new-0"]),
            ("", True, labels.SPOT, ["new-0"]),
        ],
    )
    def test_a_new_spot_node_is_for_pods_of_other_nodes(
        self, spot: str, is_gated: bool, kind: str, place: list[str] | None
    ) -> None:
        claims = [a_new_node(1, capacity_types=(kind,))]
        assert Leaving({"a": 1}, new=[1], claims=claims, spot=spot, is_gated=is_gated).take("a") == place


CENT: Final = 10_000_000


class TestLimits:
    """New nodes become what they were planned as, and nothing that costs more than the nodes that go for them."""

    def types(self, *claims: PlannedClaim, price: int | None = None, flexible: bool = False) -> list[int] | None:
        """How many types each new node may become, None where one may become nothing."""
        leaving = Leaving({"a": len(claims)}, new=[1] * len(claims), claims=claims)
        before = leaving.slots.claims
        if not leaving.slots.narrow_to(range(len(claims)), price, flexible=flexible):
            assert leaving.slots.claims == before
            return None
        return [len(claim.instance_types) for claim in leaving.slots.claims]

    def test_a_launch_costs_less_than_what_goes(self) -> None:
        assert self.types(a_new_node(CENT), price=CENT) is None
        assert self.types(a_new_node(CENT), price=CENT - 1) is None
        assert self.types(a_new_node(2 * CENT), price=2 * CENT) is None, "also where a type has become cheaper since"
        assert self.types(a_new_node(CENT), price=CENT + 1) == [1]
        assert self.types(a_new_node(CENT), price=3 * CENT) == [2]
        assert self.types(a_new_node(CENT)) == [30]

    def test_what_is_left_of_the_price_is_shared_by_the_new_nodes(self) -> None:
        """Six cents go for one and two: each may cost a cent and a half more."""
        assert self.types(a_new_node(CENT), a_new_node(2 * CENT), price=6 * CENT) == [2, 3]

    def test_a_new_node_that_would_cost_more_than_planned_is_not_launched(self) -> None:
        assert self.types(a_new_node(CENT - 1)) is None
        assert self.types(a_new_node(CENT, instance_types=("sold-out",))) is None
        assert self.types(a_new_node(CENT), a_new_node(CENT, instance_types=("sold-out",))) is None

    def test_too_few_values_for_the_pool_are_none(self) -> None:
        three = Requirement(labels.INSTANCE_TYPE, True, (), min_values=3)
        assert self.types(a_new_node(CENT, requirements=(three,)), price=4 * CENT) == [3]
        assert self.types(a_new_node(CENT, requirements=(three,)), price=3 * CENT) is None

    def test_a_lone_spot_node_needs_a_choice_of_fifteen_types_and_is_launched_as_one_of_the_cheapest(self) -> None:
        spot = a_new_node(CENT * 2 // 5, capacity_types=(labels.SPOT,))
        names = spot.instance_types
        assert self.types(spot, flexible=True) == [FLEXIBLE_TYPES] == [15]
        assert self.types(spot) == [30]
        assert self.types(a_new_node(CENT), flexible=True) == [30]
        few = {count: msgspec.structs.replace(spot, instance_types=names[:count]) for count in (14, 15)}
        assert self.types(few[15], flexible=True) == [15]
        assert self.types(few[14], flexible=True) is None
        assert self.types(few[14]) == [14]
        many = Requirement(labels.INSTANCE_TYPE, True, (), min_values=20)
        assert self.types(msgspec.structs.replace(spot, requirements=(many,)), flexible=True) == [20]

    def test_a_lone_spot_node_has_all_types_that_cost_less(self) -> None:
        """The target's own are close to the planned price, and mostly fewer than fifteen: such a node never went."""
        spot = a_new_node(CENT * 2 // 5, capacity_types=(labels.ON_DEMAND, labels.SPOT))
        few = spot.instance_types[:3]
        leaving = Leaving({"a": 1}, new=[1], claims=[spot], instance_types=few)
        assert leaving.slots.narrow_to([0], 8 * CENT, flexible=True)
        (claim,) = leaving.slots.claims
        assert (len(claim.instance_types), claim.capacity_types, claim.price) == (15, (labels.SPOT,), spot.price)
        assert claim.name == "new-0"
        assert not Leaving({"a": 1}, new=[1], claims=[spot], instance_types=few).slots.narrow_to(
            [0], 5 * CENT, flexible=True
        )

    def test_without_a_limit_on_the_price_a_lone_spot_node_has_the_planned_types_only(self) -> None:
        """It could have fifteen of all, most of them dearer than the node that leaves."""
        spot = a_new_node(CENT * 2 // 5, capacity_types=(labels.SPOT,))
        few = Leaving({"a": 1}, new=[1], claims=[spot], instance_types=spot.instance_types[:3])
        assert not few.slots.narrow_to([0], None, flexible=True)
        assert [len(claim.instance_types) for claim in few.slots.claims] == [3]


def test_slots_of_a_real_plan() -> None:
    """Two nodes go: one pod has a place on the third, the other gets a new node."""
    pods = (pod_on("a", "a1", cpu="900m"), pod_on("b", "b1", cpu="900m"), pod_on("c", "c1", cpu="3100m"))
    snapshot = world(*(a_node_of(MIDDLE, name) for name in "abc"), pods=pods)
    found = drained(fleet := fleet_of(snapshot), "a", "b")
    slots = SlotAssignment(fleet, found, DisruptionPass(snapshot).names.named_apart(found.claims), is_gated=True)
    moves = [slots.take(0, Counter()), slots.take(1, Counter())]
    assert [move.to for found in moves for move in found or ()] == ["c", slots.claims[0].name]
    assert slots.narrow_to([0], 10**9, flexible=False)
    assert SMALL.name in slots.claims[0].instance_types
