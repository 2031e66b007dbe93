"""Launches that EC2 is asked about."""

from __future__ import annotations

from core import labels
from core.launch.render import render_launch
from core.launch.validation.validation_orders import validation_orders
from core.model.catalogue import InstanceType
from tests.builders import a_type
from tests.unit.launch.orders import CLUSTER, GPU_COUNT, a_node_class

ARM = a_type("c7g.large", price=0.07, **{labels.ARCH: "arm64"})
DEAR, CHEAP = a_type("m5.large", price=0.1), a_type("c5.large", price=0.08)


def asked(*types: InstanceType) -> list[tuple[str, str, str]]:
    """Image, instance type and capacity type of each launch."""
    node_class = a_node_class()
    found = [render_launch(order, node_class, CLUSTER) for order in validation_orders(node_class, {}, types)]
    return [(r.templates[0].data["ImageId"], r.offerings[0].instance_type, r.offerings[0].capacity_type) for r in found]


def test_each_image_is_asked_about_with_the_cheapest_type_that_boots_from_it() -> None:
    assert asked(DEAR, CHEAP, ARM) == [("ami-x86", "c5.large", "on-demand"), ("ami-arm", "c7g.large", "on-demand")]


def test_an_image_without_a_type_is_left_out() -> None:
    gpu = a_type("g5.large", price=1.0, **{GPU_COUNT: "1"})
    assert asked(gpu, CHEAP) == [("ami-gpu", "g5.large", "on-demand"), ("ami-x86", "c5.large", "on-demand")]


def test_types_without_on_demand_are_not_asked_about() -> None:
    assert asked(a_type("c5.large", capacity_types=(labels.SPOT,)), DEAR) == [("ami-x86", "m5.large", "on-demand")]


def test_plain_types_stand_in_before_the_market_was_read() -> None:
    """The first class of an installation is there before the first reading."""
    assert asked() == [("ami-x86", "m5.large", "on-demand"), ("ami-arm", "m6g.large", "on-demand")]
