"""Launches that EC2 is asked about."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from core import labels
from core.launch.render import render_launch
from core.launch.validation.validation_orders import validation_orders
from core.model.catalogue import InstanceType, Offering
from core.model.node_pool import NodePool
from core.model.values.requirements import Requirement
from tests.builders import ZONES, a_pool, a_type
from tests.unit.launch.orders import CLUSTER, GPU_COUNT, a_node_class

ARM = a_type("c7g.large", price=0.07, **{labels.ARCH: "arm64"})
DEAR, CHEAP = a_type("m5.large", price=0.1), a_type("c5.large", price=0.08)


def asked(*types: InstanceType, pools: Iterable[NodePool] = ()) -> list[tuple[str, str, str]]:
    """Image, instance type and capacity type of each launch."""
    node_class = a_node_class()
    orders = validation_orders(node_class, {}, types, pools)
    found = [render_launch(order, node_class, CLUSTER) for order in orders]
    return [(r.templates[0].data["ImageId"], r.offerings[0].instance_type, r.offerings[0].capacity_type) for r in found]


def test_each_image_is_asked_about_with_the_cheapest_type_that_boots_from_it() -> None:
    assert asked(DEAR, CHEAP, ARM) == [("ami-x86", "c5.large", "on-demand"), ("ami-arm", "c7g.large", "on-demand")]


def test_an_image_without_a_type_is_left_out() -> None:
    gpu = a_type("g5.large", price=1.0, **{GPU_COUNT: "1"})
    assert asked(gpu, CHEAP) == [("ami-gpu", "g5.large", "on-demand"), ("ami-x86", "c5.large", "on-demand")]


def test_on_demand_comes_before_spot() -> None:
    assert asked(a_type("c5.large", capacity_types=(labels.SPOT,)), DEAR) == [("ami-x86", "m5.large", "on-demand")]
    assert asked(a_type("c5.large", capacity_types=(labels.SPOT,))) == [("ami-x86", "c5.large", "spot")]


def test_types_that_no_pool_may_launch_are_not_asked_about() -> None:
    """A policy of the organization may forbid them, and the class would be refused although its nodes could be launched."""
    only_m5 = a_pool("m5", Requirement.one_of(labels.INSTANCE_TYPE, "m5.large"))
    only_arm = a_pool("arm", Requirement.one_of(labels.ARCH, "arm64"))
    assert asked(DEAR, CHEAP, ARM, pools=[only_m5]) == [("ami-x86", "m5.large", "on-demand")]
    assert asked(DEAR, CHEAP, ARM, pools=[only_m5, only_arm]) == [
        ("ami-x86", "m5.large", "on-demand"),
        ("ami-arm", "c7g.large", "on-demand"),
    ]


def test_pools_for_spot_alone_are_asked_about_with_spot() -> None:
    """A policy may forbid on-demand capacity, too."""
    spot = a_pool("spot", Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT))
    assert asked(DEAR, CHEAP, pools=[spot]) == [("ami-x86", "c5.large", "spot")]


def test_zones_of_the_pools_count() -> None:
    east = a_pool("b", Requirement.one_of(labels.ZONE, ZONES[1]))
    node_class = a_node_class()
    (order,) = validation_orders(node_class, {}, (CHEAP,), (east,))
    assert [offering.zone for offering in order.offerings] == [ZONES[1]]


def test_all_types_count_where_no_pool_admits_any() -> None:
    """The class is applied before its NodePools, or they wait for a type that the region does not sell."""
    nothing = a_pool("none", Requirement.one_of(labels.INSTANCE_TYPE, "z99.large"))
    assert asked(DEAR, CHEAP, pools=[nothing]) == [("ami-x86", "c5.large", "on-demand")]


def test_plain_types_stand_in_before_the_market_was_read() -> None:
    """The first class of an installation is there before the first reading."""
    assert asked() == [("ami-x86", "m5.large", "on-demand"), ("ami-arm", "m6g.large", "on-demand")]


def test_an_offering_that_is_sold_out_or_reserved_is_not_asked_about() -> None:
    """A reservation's places would be taken, and the answer about what is sold out says nothing of the class."""
    gone = tuple(
        msgspec.structs.replace(offering, available=offering.capacity_type == labels.SPOT)
        for offering in CHEAP.offerings
    )
    reserved = Offering("c5.large", ZONES[0], labels.RESERVED, 0, True, "cr-1", 1, "default")
    kind = msgspec.structs.replace(CHEAP, offerings=(*gone, reserved))
    assert asked(kind) == [("ami-x86", "c5.large", "spot")]
    none = msgspec.structs.replace(CHEAP, offerings=(reserved,))
    assert asked(none, DEAR) == [("ami-x86", "m5.large", "on-demand")]


def test_types_with_equal_offerings_stay_in_their_order() -> None:
    """The same type twice, of two NodePools: instance types have no order of their own."""
    twice = [a_pool(name, Requirement.one_of(labels.INSTANCE_TYPE, "c5.large")) for name in ("a", "b")]
    assert asked(CHEAP, pools=twice) == [("ami-x86", "c5.large", "on-demand")]


def test_before_the_market_was_read_one_zone_is_asked_about_at_no_price() -> None:
    orders = validation_orders(a_node_class(), {}, (), uses_reservations=False)
    assert [order.offerings for order in orders] == [
        (Offering("m5.large", "us-east-1a", labels.ON_DEMAND, 0),),
        (Offering("m6g.large", "us-east-1a", labels.ON_DEMAND, 0),),
    ]
    assert {order.uses_reservations for order in orders} == {False}
    assert {order.uses_reservations for order in validation_orders(a_node_class(), {}, ())} == {True}
