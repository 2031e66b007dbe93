"""Each slot of a target is taken once, by a pod that may have it, and what is given back is as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec
import numpy as np
import pytest

from core import labels
from core.disruption.consolidation.consolidation import FLEXIBLE_TYPES
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.realization import Realization
from core.disruption.target.slot_assignment import SlotAssignment
from core.model.catalogue import Catalogue
from core.model.node import Node
from core.model.node_claim import NodeClaim
from core.model.node_pool import Budget, Disruption
from core.model.plan import Binding, Move, Plan, PlannedClaim
from core.model.values.requirements import Requirement
from core.scheduling.plan_output import SchedulingResults
from tests.builders import CLASS_REF, NOW, ZONES, a_node_of, a_pool, a_type
from tests.unit.disruption.nodes_for_tests import MIDDLE, SMALL, drifted, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY, drained, fleet_of

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
        found = Realization(keeps, results, tuple(planned), cost=0, moves=0, unmoved=0, displaces=False)
        changes = {"instance_types": instance_types} if instance_types else {}
        narrowed = [msgspec.structs.replace(claim, **changes) for claim in planned]
        self.slots = SlotAssignment(fleet, found, narrowed, is_gated=is_gated)

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
