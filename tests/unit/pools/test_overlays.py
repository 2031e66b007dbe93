"""NodeOverlays with and without conflicts."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.errors import InvalidInputError
from core.model.catalogue import InstanceType
from core.model.feature_gates import FeatureGates
from core.model.node_pool import NodePool
from core.model.overlay import NodeOverlay
from core.model.snapshot import Options
from core.model.values.requirements import Requirement, Requirements
from core.pools.overlays import adjusted_price, overlaid
from core.pools.pool_types import pool_types
from tests.builders import a_pool, a_snapshot, a_type

ON = Options(feature_gates=FeatureGates(node_overlay=True))
SMALL = a_type("m5.large", price=0.1, zones=("us-east-1a",), capacity_types=(labels.ON_DEMAND,))
LARGE = a_type("m5.xlarge", price=0.2, zones=("us-east-1a",), capacity_types=(labels.ON_DEMAND,))
POOLS = (a_pool("one"), a_pool("two"))
DEVICE = "example.com/device"


def found(*overlays: NodeOverlay, pool: str = "one") -> dict[str, tuple[int, int]]:
    """Type → its price in thousandths of a dollar and its devices, as a NodePool sees them."""
    snapshot = a_snapshot(types=(SMALL, LARGE), node_pools=POOLS, overlays=overlays, options=ON)
    types = pool_types(snapshot).of(pool)
    return {t.name: (t.offerings[0].price // 1_000_000, t.capacity.get(DEVICE, 0)) for t in types}


def of_type(name: str) -> tuple[Requirement, ...]:
    """The resources that an overlay of one type adds."""
    return (Requirement.one_of(labels.INSTANCE_TYPE, name),)


@pytest.mark.parametrize("pool", ["one", "two"])
def test_of_two_overlays_with_one_weight_and_one_price_the_other_is_left_out_completely(pool: str) -> None:
    """This includes its undisputed fields, and NodePools where the two do not meet: Karpenter calls it a conflict."""
    wide = NodeOverlay(name="a", weight=10, price=5_000_000, capacity={DEVICE: 1})
    here = (*of_type("m5.xlarge"), Requirement.one_of(labels.NODEPOOL, "one"))
    narrow = NodeOverlay(name="b", weight=10, price=7_000_000, requirements=here)
    assert found(wide, narrow, pool=pool) == {"m5.large": (100, 0), "m5.xlarge": (7 if pool == "one" else 200, 0)}


def test_of_two_overlays_with_one_weight_and_one_resource_the_last_by_name_counts() -> None:
    """The other's price is left out with its capacity, because both belong to one object."""
    first = NodeOverlay(name="a", price=5_000_000, capacity={DEVICE: 1})
    last = NodeOverlay(name="b", capacity={DEVICE: 2})
    assert found(first, last) == {"m5.large": (100, 2), "m5.xlarge": (200, 2)}


@pytest.mark.parametrize(
    "other",
    [
        NodeOverlay(name="b", weight=10, price=7_000_000, requirements=of_type("m5.xlarge")),
        NodeOverlay(name="b", weight=10, capacity={DEVICE: 0}, requirements=of_type("m5.xlarge")),
    ],
    ids=["another type", "another thing"],
)
def test_overlays_of_one_weight_that_do_not_meet_both_count(other: NodeOverlay) -> None:
    """Most users give no weight; otherwise, their overlays conflict without need."""
    own = NodeOverlay(name="a", weight=10, price=5_000_000, requirements=of_type("m5.large"))
    assert found(own, other)["m5.large"] == (5, 0)
    assert found(own, other)["m5.xlarge"] == (7 if other.price else 200, 0)


def test_a_heavier_overlay_hides_a_lighter_one_only_where_they_meet() -> None:
    """A general rule with heavier exceptions is the usual way to write them."""
    rule = NodeOverlay(name="a", weight=1, price=5_000_000, capacity={DEVICE: 1})
    exception = NodeOverlay(name="b", weight=2, price=7_000_000, requirements=of_type("m5.xlarge"))
    assert found(rule, exception) == {"m5.large": (5, 1), "m5.xlarge": (7, 1)}


def test_the_overlaid_types_are_cached_until_an_overlay_or_a_type_changes() -> None:
    """Otherwise, each plan checks thousands of offerings again, or uses an outdated overlay."""

    def priced(price: int, *types: InstanceType) -> tuple[InstanceType, ...]:
        overlay = NodeOverlay(name="a", requirements=of_type("m5.large"), price=price)
        return pool_types(a_snapshot(types=types, node_pools=POOLS, overlays=(overlay,), options=ON)).of("one")

    (first,), (again, _), (other,) = priced(7, SMALL), priced(7, SMALL, LARGE), priced(8, SMALL)
    assert first is again
    assert [one.offerings[0].price for one in (first, other)] == [7, 8]


@pytest.mark.parametrize(
    ("changes", "price"),
    [
        ({"price": 7}, 7),
        ({"price": 7, "price_adjustment": "+1"}, 7),
        ({"price_adjustment": "+0.5"}, 600_000_000),
        ({"price_adjustment": "-0.01"}, 90_000_000),
        ({"price_adjustment": "-0.2"}, 0),
        ({"price_adjustment": "+10%"}, 110_000_000),
        ({"price_adjustment": "-25%"}, 75_000_000),
        ({"price_adjustment": "-150%"}, 0),
        ({}, 100_000_000),
    ],
)
def test_an_adjustment_replaces_a_price_or_moves_it_by_dollars_or_a_percentage(
    changes: dict[str, Any], price: int
) -> None:
    assert adjusted_price(100_000_000, NodeOverlay(name="a", **changes)) == price


@pytest.mark.parametrize("text", ["cheap", "%", "+5$"])
def test_an_adjustment_that_is_no_number_is_named(text: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        adjusted_price(1, NodeOverlay(name="deal", price_adjustment=text))
    assert (caught.value.subject, caught.value.field) == ("NodeOverlay deal", "spec.priceAdjustment")


def test_without_overlays_the_types_stay_the_same() -> None:
    assert overlaid([SMALL, LARGE], (), Requirements(), frozenset()) == (SMALL, LARGE)


TEAM = "example.com/team"


@pytest.mark.parametrize(
    ("offered", "applies"),
    [
        ((), False),
        ((Requirement.one_of(TEAM, "red"),), True),
        ((Requirement.one_of(TEAM, "red", "blue"),), False),
        ((Requirement.one_of(TEAM, "blue"),), False),
    ],
)
def test_an_overlay_goes_by_a_label_of_the_pool_only_where_it_is_certain(
    offered: tuple[Requirement, ...], applies: bool
) -> None:
    """Which of two teams a node is for is not known before it is launched."""
    overlay = NodeOverlay(name="a", price=7, requirements=(Requirement.one_of(TEAM, "red"),))
    assert priced(a_pool("one", *offered), overlay) == {"us-east-1a": 7 if applies else 100_000_000}


def test_an_overlay_applies_to_no_offering_that_the_pool_does_not_buy() -> None:
    zones = ("us-east-1a", "us-east-1b", "us-east-1c")
    some = a_pool("one", Requirement.one_of(labels.ZONE, *zones[:2]))
    kind = a_type("m5.large", price=0.1, zones=zones, capacity_types=(labels.ON_DEMAND,))
    assert priced(some, NodeOverlay(name="a", price=7), kind) == dict(zip(zones, (7, 7, 100_000_000), strict=True))
    in_one = NodeOverlay(name="a", price=7, requirements=(Requirement.one_of(labels.ZONE, zones[1]),))
    assert priced(some, in_one, kind)[zones[1]] == 7
    assert priced(some, in_one, kind)[zones[0]] == 100_000_000


def priced(pool: NodePool, overlay: NodeOverlay, kind: InstanceType = SMALL) -> dict[str, int]:
    """Zone → price in nano-dollars of the type in that NodePool."""
    snapshot = a_snapshot(types=(kind,), node_pools=(pool,), overlays=(overlay,), options=ON)
    (found,) = pool_types(snapshot).of(pool.name)
    return {offering.zone: offering.price for offering in found.offerings}
