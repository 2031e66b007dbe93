"""A launch costs about what was planned: one capacity type, no type far more expensive, and never an equal replacement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption.consolidation_nodes import narrowed_claims, payback_minutes
from core.disruption.prices import ReplacementOptions, worst_price
from core.model.catalogue import InstanceType
from core.model.plan import Command, Move, ObjectRef, PlannedClaim
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from core.reasons.code import TerminationReason
from tests.builders import CLASS_REF, ZONES, a_node_of, a_pool, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import OPEN, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import drained, fleet_of

TYPES = tuple(a_type(f"k{n}", cpu="4", price=0.1 * n) for n in (1, 2, 3, 9))


def planned() -> tuple[Snapshot, tuple[PlannedClaim, ...]]:
    snapshot = world(a_node_of(TYPES[-1], "a"), pods=(pod_on("a"),), node_pools=(a_pool("default", disruption=OPEN),))
    snapshot = a_snapshot(types=TYPES, pods=snapshot.pods, nodes=snapshot.nodes, node_claims=snapshot.node_claims,
                          node_pools=snapshot.node_pools)  # fmt: skip
    return snapshot, drained(fleet_of(snapshot), "a").claims


def test_the_most_expensive_launches_together_stay_below_the_budget() -> None:
    snapshot, claims = planned()
    budget = 10**8
    narrowed = narrowed_claims(claims, budget, {}, snapshot)
    assert narrowed is not None
    for claim in narrowed:
        assert claim.capacity_types == ("spot",)
        options = ReplacementOptions.of(claim, snapshot)
        assert max(worst_price(instance_type) for _, instance_type in options.types) < budget


def test_without_a_budget_types_near_the_cheapest_are_kept() -> None:
    snapshot, claims = planned()
    narrowed = narrowed_claims(claims, None, {}, snapshot)
    assert narrowed is not None
    assert narrowed[0].instance_types == ("k1",)


def test_the_type_of_a_leaving_node_is_launched_again_only_for_less() -> None:
    snapshot, claims = planned()
    narrowed = narrowed_claims(claims, None, {"k1": 1}, snapshot)
    assert narrowed is not None
    assert narrowed[0].instance_types == ("k2", "k3", "k9"), "nothing is near what was planned, and nothing bounds it"
    assert narrowed_claims(claims, 10**9, {"k1": 1}, snapshot) is None


def test_no_types_are_left_if_the_budget_is_too_small() -> None:
    snapshot, claims = planned()
    assert narrowed_claims(claims, 1, {}, snapshot) is None


CENT = 10_000_000
ONLY_ON_DEMAND = (labels.ON_DEMAND,)


def narrowed(
    *types: InstanceType,
    budget: int | None = None,
    price: int = 10 * CENT,
    going: Mapping[str, int] = {},
    **claim: Any,
) -> PlannedClaim | None:
    """A new node of any of these types that was planned for ten cents."""
    names = tuple(t.name for t in types)
    fields = {"instance_types": names, "zones": ZONES, "capacity_types": ONLY_ON_DEMAND, **claim}
    planned = PlannedClaim(name="new", node_pool="default", node_class=CLASS_REF, price=price, **fields)
    claims = narrowed_claims([planned], budget, going, a_snapshot(types=types))
    return None if claims is None else claims[0]


def on_demand(name: str, cents: int, *, zones: tuple[str, ...] = ZONES) -> InstanceType:
    return a_type(name, price=cents / 100, capacity_types=ONLY_ON_DEMAND, zones=zones)


def test_a_launch_costs_at_most_eight_fifths_of_what_was_planned() -> None:
    claim = narrowed(on_demand("ten", 10), on_demand("sixteen", 16), on_demand("seventeen", 17))
    assert claim is not None
    assert (claim.instance_types, claim.price) == (("ten", "sixteen"), 10 * CENT)


def test_new_nodes_share_a_budget_by_what_each_was_planned_for() -> None:
    """Forty-five cents for one of ten and one of twenty: fifteen and thirty, and each stays below."""
    types = tuple(on_demand(f"t{cents}", cents) for cents in (10, 14, 15, 20, 29, 30))
    planned = [
        PlannedClaim(
            name=f"new-{cents}",
            node_pool="default",
            node_class=CLASS_REF,
            price=cents * CENT,
            instance_types=tuple(t.name for t in types if int(t.name[1:]) >= cents),
            zones=ZONES,
            capacity_types=ONLY_ON_DEMAND,
        )
        for cents in (10, 20)
    ]
    claims = narrowed_claims(planned, 45 * CENT, {}, a_snapshot(types=types))
    assert claims is not None
    assert [claim.instance_types for claim in claims] == [("t10", "t14"), ("t20", "t29")]
    assert [claim.name for claim in claims] == ["new-10", "new-20"]


def test_a_type_that_is_cheap_in_one_zone_alone_is_bought_there() -> None:
    expensive = on_demand("one", 90, zones=ZONES[1:]).offerings
    cheap = on_demand("one", 10, zones=ZONES[:1])
    claim = narrowed(msgspec.structs.replace(cheap, offerings=(*expensive, *cheap.offerings)))
    assert claim is not None
    assert (claim.zones, claim.price) == (ZONES[:1], 10 * CENT)


def test_a_new_node_is_spot_where_that_is_no_more_expensive_and_meets_what_its_pool_asks_for() -> None:
    """Else it is on demand, and a reservation keeps its name."""
    both = (labels.ON_DEMAND, labels.SPOT)
    cheap, other = a_type("cheap", price=0.25), on_demand("other", 26)
    claim = narrowed(cheap, other, capacity_types=both)
    assert claim is not None
    assert (claim.capacity_types, claim.instance_types) == ((labels.SPOT,), ("cheap",))
    two = Requirement(labels.INSTANCE_TYPE, False, ("cheap", "other"), min_values=2)
    claim = narrowed(cheap, other, capacity_types=both, requirements=(two,), price=25 * CENT)
    assert claim is not None
    assert (claim.capacity_types, claim.instance_types) == (ONLY_ON_DEMAND, ("cheap", "other"))
    costly = a_type("cheap", price=0.5, capacity_types=(labels.SPOT,))
    claim = narrowed(costly, on_demand("other", 10), capacity_types=both)
    assert claim is not None
    assert claim.capacity_types == ONLY_ON_DEMAND


def test_what_is_sold_nowhere_is_not_launched() -> None:
    assert narrowed(on_demand("one", 10), instance_types=("another",)) is None
    assert narrowed(on_demand("one", 10), budget=10 * CENT) is None
    assert narrowed(on_demand("one", 10), budget=10 * CENT + 1) is not None


def test_a_node_is_replaced_by_its_like_only_where_that_costs_less() -> None:
    types = (on_demand("ten", 10), on_demand("eleven", 11))
    for least, names in ((11 * CENT, ("ten", "eleven")), (10 * CENT, ("eleven",))):
        claim = narrowed(*types, going={"ten": least})
        assert claim is not None
        assert claim.instance_types == names


def test_the_cheapest_type_is_kept_though_another_is_near_in_more_zones() -> None:
    expensive = on_demand("one", 90, zones=ZONES[1:]).offerings
    cheap = on_demand("one", 10, zones=ZONES[:1])
    both = msgspec.structs.replace(cheap, offerings=(*cheap.offerings, *expensive)), on_demand("two", 15)
    claim = narrowed(*both)
    assert claim is not None
    assert (claim.instance_types, claim.zones, claim.price) == (("one", "two"), ZONES[:1], 10 * CENT)


def test_min_values_count_more_than_what_was_planned_and_less_than_a_budget() -> None:
    two = Requirement(labels.INSTANCE_TYPE, False, ("ten", "seventeen"), min_values=2)
    types = (on_demand("ten", 10), on_demand("seventeen", 17))
    claim = narrowed(*types, requirements=(two,))
    assert claim is not None
    assert claim.instance_types == ("ten", "seventeen")
    assert narrowed(*types, requirements=(two,), budget=18 * CENT) is None


def test_a_reservation_keeps_its_fallback_where_no_spot_is_admitted_and_none_where_it_is() -> None:
    fallback = (labels.ON_DEMAND, labels.RESERVED)
    reserved, other = a_type("one", price=0.9, capacity_types=fallback), on_demand("two", 15)
    claim = narrowed(reserved, other, capacity_types=fallback)
    assert claim is not None
    assert (claim.capacity_types, claim.instance_types) == (fallback, ("one", "two"))
    kinds = (*fallback, labels.SPOT)
    claim = narrowed(a_type("one", price=0.2, capacity_types=kinds), capacity_types=kinds)
    assert claim is not None
    assert claim.capacity_types == (labels.RESERVED,)
    claim = narrowed(on_demand("two", 10), capacity_types=(labels.ON_DEMAND, labels.SPOT))
    assert claim is not None
    assert claim.capacity_types == ONLY_ON_DEMAND


# Minutes until savings have paid for a move.


HALF = PlannedClaim(name="new", node_pool="default", node_class=ObjectRef("", "", "default"), price=500)
MOVES = (Move("default/a", "new"),)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"savings": 500, "replacements": (HALF,), "moves": MOVES}, 5),  # 3 minutes of 500 and one of 1,000, over 500
        ({"savings": 501, "replacements": (HALF,), "moves": MOVES}, 5),  # rounded up
        ({"savings": 500, "moves": MOVES}, 1),
        ({"savings": 500, "reason": TerminationReason.EMPTY}, 0),
        ({"savings": 0, "replacements": (HALF,), "moves": MOVES}, None),
        ({"savings": 500, "reason": TerminationReason.DRIFTED, "moves": MOVES}, None),
    ],
    ids=["replaced", "rounded up", "deleted", "empty", "nothing saved", "drifted"],
)
def test_double_running_and_restarts_are_paid_from_savings(changes: dict[str, object], expected: int | None) -> None:
    fields = {
        "reason": TerminationReason.UNDERUTILIZED,
        "method": "repack",
        "nodes": ("n",),
        "claims": ("c",),
        **changes,
    }
    assert payback_minutes(Command(**fields)) == expected  # type: ignore[arg-type]
