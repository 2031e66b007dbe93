"""The catalogue, built from shapes, market and node classes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core.catalogue.build import build_catalogue, instance_types
from simulator.market.embedded import builtin_market, builtin_shapes
from tests.unit.catalogue.one_type import (
    MARKET,
    offered,
    shape,
)


def test_zones_without_a_subnet_price_nodes_but_launch_none() -> None:
    """Otherwise, claims would be planned into zones where the class has no subnet, and fail at launch forever."""
    node_class = {"metadata": {"name": "c"}, "status": {"subnets": [{"id": "subnet-1", "zone": "us-east-1b"}]}}
    assert [(zone, available) for zone, _, _, available in offered(MARKET, node_class)] == [
        ("a", False),
        ("a", False),
        ("b", True),
    ]


@pytest.mark.parametrize(
    ("spec", "changes"),
    [
        ({"connectionTracking": {"udpTimeout": 30}}, {"Hypervisor": "xen"}),
        ({"cpuOptions": {"nestedVirtualization": "enabled"}}, {}),
        ({"amiSelectorTerms": [{"alias": "al2023@latest"}]}, {"InstanceType": "a1.large"}),
        ({"networkInterfaces": [{"networkCardIndex": 1, "deviceIndex": 0}]}, {}),
        ({"amiFamily": "Windows2022"}, {"ProcessorInfo": {"SupportedArchitectures": ["arm64"]}}),
    ],
)
def test_types_that_contradict_the_class_settings_are_not_launched(
    spec: dict[str, Any], changes: dict[str, Any]
) -> None:
    """Otherwise, EC2 would refuse every launch of such a type."""
    name = changes.get("InstanceType", "m5.large")
    market = msgspec.structs.replace(MARKET, offered={name: ("us-east-1a",)}, on_demand={name: 1}, spot=None)
    built = build_catalogue([shape(**changes)], market, [{"metadata": {"name": "c"}, "spec": spec}])
    assert not any(o.available for o in built.types_for("c")[0].offerings)
    assert all(o.available for o in build_catalogue([shape()], MARKET).default[0].offerings)


def test_a_class_that_cannot_be_read_does_not_affect_others() -> None:
    """Otherwise, one typo in one EC2NodeClass would stop the whole cluster from scaling."""
    bad = {"metadata": {"name": "bad"}, "spec": {"kubelet": {"maxPods": -1}}}
    good = {"metadata": {"name": "good"}, "spec": {"kubelet": {"maxPods": 7}}}
    built = build_catalogue([shape()], MARKET, [bad, good])
    assert built.types_for("bad") == ()
    assert built.types_for("good")[0].capacity["pods"] == 7


def test_the_order_of_descriptions_changes_nothing() -> None:
    """EC2 returns pages in any order; a plan must not depend on it."""
    shapes = list(builtin_shapes())[:40]
    market = builtin_market("us-east-1")
    assert instance_types(shapes, market) == instance_types(reversed(shapes), market)
