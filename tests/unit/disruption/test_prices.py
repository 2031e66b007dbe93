"""Prices of launches at their worst."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption.prices import ReplacementOptions, worst_price
from core.model.catalogue import Offering, paid_for
from core.model.plan import PlannedClaim
from core.model.values.quantity import nanodollars
from core.model.values.requirements import Requirement
from tests.builders import CLASS_REF, ZONES, a_pool, a_snapshot, a_type

SMALL = a_type("small", price=0.1)
LARGE = a_type("large", price=0.4, size="l")
BOTH = a_snapshot(types=(LARGE, SMALL), node_pools=(a_pool(),))


def claim(**changes: Any) -> PlannedClaim:
    """A planned claim that may be either type, anywhere, spot or on-demand."""
    fields: dict[str, Any] = {
        "name": "default-0",
        "node_pool": "default",
        "node_class": CLASS_REF,
        "instance_types": ("small", "large"),
        "zones": ZONES,
        "capacity_types": (labels.ON_DEMAND, labels.SPOT),
    }
    return PlannedClaim(**{**fields, **changes})


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        ([("spot", 3), ("spot", 5), ("on-demand", 9)], 5),
        ([("on-demand", 9), ("on-demand", 8)], 9),
        ([("reserved", 1), ("spot", 3)], 1),
        ([], 0),
    ],
)
def test_worst_launch(offered: list[tuple[str, int]], expected: int) -> None:
    """The most expensive of what a launch would take first: reserved, then spot, then on-demand."""
    assert worst_price(Offering("t", "a", kind, price) for kind, price in offered) == expected


def test_below_is_strict() -> None:
    """An equal price is no saving: two equal nodes would replace each other forever."""
    options = ReplacementOptions.of(claim(capacity_types=(labels.ON_DEMAND,)), BOTH)
    assert [t.name for t, _ in options.below(nanodollars(0.4)).types] == ["small"]
    assert [t.name for t, _ in options.below(nanodollars(0.1)).types] == []


def test_planned_claim_is_narrowed_to_what_can_be_launched() -> None:
    """Every remaining type has an offering that meets all requirements of the claim."""
    planned = ReplacementOptions.of(claim(), BOTH).restricted_to(labels.SPOT).below(nanodollars(0.1)).planned()
    assert planned.instance_types == ("small",)
    assert planned.capacity_types == (labels.SPOT,)
    assert planned.price == nanodollars(0.04)


def test_requirements_follow_the_narrowing() -> None:
    """A launcher that reads the requirements must not launch a type that was filtered out."""
    wide = (
        Requirement.one_of(labels.INSTANCE_TYPE, "small", "large"),
        Requirement.one_of(labels.CAPACITY_TYPE, *claim().capacity_types),
    )
    planned = ReplacementOptions.of(claim(requirements=wide), BOTH).restricted_to(labels.SPOT).first(1).planned()
    assert planned.requirements == (
        Requirement.one_of(labels.INSTANCE_TYPE, "small"),
        Requirement.one_of(labels.CAPACITY_TYPE, "spot"),
    )


def test_types_that_are_excluded_stay_excluded() -> None:
    """A claim without a list of types gets none: launched again later, it may take types that are new by then."""
    not_large = Requirement.of(labels.INSTANCE_TYPE, "NotIn", ["large"])
    planned = ReplacementOptions.of(claim(instance_types=("small",), requirements=(not_large,)), BOTH).planned()
    assert (planned.instance_types, planned.requirements) == (("small",), (not_large,))


def test_min_values() -> None:
    """MinValues count the distinct values of the types, cheapest first."""
    asking_claim = claim(requirements=(Requirement.of(labels.INSTANCE_TYPE, "In", ["small", "large"], 2),))
    options = ReplacementOptions.of(asking_claim, BOTH)
    assert options.missing_values() == ""
    assert options.needed_for_min_values() == 2
    assert options.first(1).missing_values() == labels.INSTANCE_TYPE


def test_zone_requirement_is_respected() -> None:
    """A claim limited to one zone has that zone's price."""
    asking_claim = claim(requirements=(Requirement.one_of(labels.ZONE, ZONES[1]),))
    assert ReplacementOptions.of(asking_claim, BOTH).planned().zones == (ZONES[1],)


def test_a_claim_without_spot_stays_on_demand() -> None:
    """A pool of on-demand nodes never gets a spot node, however cheap."""
    options = ReplacementOptions.of(claim(capacity_types=(labels.ON_DEMAND,)), BOTH)
    assert options.restricted_to(labels.SPOT).types == ()


def test_narrowing_keeps_how_many_values_are_asked_for() -> None:
    """Otherwise, the launch takes what the owner of the NodePool excluded by minValues."""
    wide = (
        Requirement.of(labels.INSTANCE_TYPE, "In", ["small", "large"], 1),
        Requirement.of(labels.CAPACITY_TYPE, "In", list(claim().capacity_types), 2),
        Requirement.of("size", "Exists", [], 1),
    )
    planned = ReplacementOptions.of(claim(requirements=wide), BOTH).planned()
    assert {r.key: r.min_values for r in planned.requirements} == {r.key: r.min_values for r in wide}


def test_a_claim_that_a_commitment_covers_has_the_price_of_what_is_prepaid() -> None:
    """At its full price, what is paid for anyway never takes the place of a dearer node."""
    covered = claim(capacity_types=(labels.ON_DEMAND,), annotations={labels.COMMITMENT: "plan"})
    options = ReplacementOptions.of(covered, BOTH)
    full = ReplacementOptions.of(claim(capacity_types=(labels.ON_DEMAND,)), BOTH)
    assert {t.name: offerings[0].price for t, offerings in options.types} == {
        t.name: paid_for(offerings[0].price) for t, offerings in full.types
    }
    assert 0 < options.price < full.price


@pytest.mark.parametrize(
    ("offering", "asked", "admitted"),
    [
        ({}, {}, True),
        ({"available": False}, {}, False),
        ({}, {"zones": ZONES[1:]}, False),
        ({}, {"capacity_types": (labels.SPOT,)}, False),
        ({}, {"requirements": (Requirement.one_of(labels.ZONE, ZONES[1]),)}, False),
        ({"reservation_id": "cr-1"}, {"requirements": (Requirement.one_of(labels.RESERVATION_ID, "cr-1"),)}, True),
        ({"reservation_id": "cr-2"}, {"requirements": (Requirement.one_of(labels.RESERVATION_ID, "cr-1"),)}, False),
    ],
)
def test_an_offering_is_taken_only_where_the_claim_admits_it(
    offering: dict[str, Any], asked: dict[str, Any], *, admitted: bool
) -> None:
    """EC2 would launch what NodePool or pods exclude."""
    kind = labels.RESERVED if offering.get("reservation_id") else labels.ON_DEMAND
    one = Offering("small", ZONES[0], kind, 5, **offering)
    snapshot = a_snapshot(types=(msgspec.structs.replace(SMALL, offerings=(one,)),), node_pools=(a_pool(),))
    fields = {"capacity_types": (labels.ON_DEMAND, labels.RESERVED), **asked}
    options = ReplacementOptions.of(claim(instance_types=("small", "unknown"), **fields), snapshot)
    assert [(t.name, offerings) for t, offerings in options.types] == ([("small", (one,))] if admitted else [])


def test_types_are_ordered_by_price_and_equals_by_name() -> None:
    types = tuple(a_type(name, price=price) for name, price in (("c", 0.1), ("d", 0.05), ("b", 0.1), ("a", 0.2)))
    names = tuple(t.name for t in types)
    options = ReplacementOptions.of(claim(instance_types=names), a_snapshot(types=types, node_pools=(a_pool(),)))
    assert [t.name for t, _ in options.types] == ["d", "b", "c", "a"]
    assert options.price == nanodollars(0.02)
    assert [t.name for t, _ in options.first(3).types] == ["d", "b", "c"]


@pytest.mark.parametrize(
    ("least", "missing", "needed"),
    [
        ({}, "", 0),
        ({labels.INSTANCE_TYPE: 1}, "", 1),
        ({labels.INSTANCE_TYPE: 2, "size": 1}, "", 2),
        ({"size": 2}, "size", 2),
    ],
)
def test_min_values_of_several_labels(least: dict[str, int], missing: str, needed: int) -> None:
    """The type that has a value of its own may be the most expensive; what all types together lack takes all of them."""
    requirements = tuple(Requirement.of(key, "Exists", [], number) for key, number in least.items())
    options = ReplacementOptions.of(claim(requirements=(Requirement.of("team", "Exists", []), *requirements)), BOTH)
    assert (options.missing_values(), options.needed_for_min_values()) == (missing, needed)
    assert options.can_launch("Strict") is not bool(missing)
    assert options.can_launch("BestEffort")
    assert not options.first(0).can_launch("BestEffort")
