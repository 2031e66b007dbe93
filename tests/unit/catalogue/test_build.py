"""The catalogue, built from shapes, market and node classes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core.catalogue.build import CatalogueBuilder, build_catalogue, instance_types, is_compatible
from core.catalogue.node_class import read_node_class
from core.catalogue.sizing import sizing_of
from core.model.values.sizing_settings import SizingSettings
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


CARDS = [
    {"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 2},
    {"NetworkCardIndex": 1, "MaximumNetworkInterfaces": 1},
]
NETWORK = {"EnaSupport": "required", "NetworkCards": CARDS, "EfaInfo": {"MaximumEfaInterfaces": 1}}


def interface(card: int, device: int, kind: str = "interface") -> dict[str, Any]:
    return {"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind}


def compatible(spec: dict[str, Any], **changes: Any) -> bool:
    return is_compatible(shape(**changes), sizing_of(read_node_class({"spec": spec}), SizingSettings()))


@pytest.mark.parametrize(
    ("interfaces", "network", "fits"),
    [
        ([], {"NetworkCards": []}, True),
        ([interface(0, 0)], {}, True),
        ([interface(0, 1)], {}, True),
        ([interface(0, 2)], {}, False),  # the first card has two, 0 and 1
        ([interface(1, 0)], {}, True),
        ([interface(1, 1)], {}, False),
        ([interface(2, 0)], {}, False),  # there is no third card
        ([interface(0, 0), interface(1, 1)], {}, False),
        ([interface(0, 0)], {"EnaSupport": "unsupported"}, False),
        ([interface(0, 0)], {"NetworkCards": []}, False),
        ([interface(0, 0), interface(0, 1, "efa-only")], {}, True),
        ([interface(0, 0), interface(0, 1, "efa-only"), interface(1, 0, "efa-only")], {}, False),
        ([interface(0, 0)], {"EfaInfo": None}, True),
        ([interface(0, 0), interface(0, 1, "efa-only")], {"EfaInfo": None}, False),
        ([interface(0, 2), interface(0, 0, "efa-only")], {}, False),
    ],
)
def test_interfaces_fit_where_each_has_a_slot_on_its_card(
    interfaces: list[dict[str, Any]], network: dict[str, Any], *, fits: bool
) -> None:
    """EC2 refuses a launch with an interface on a card that the type lacks, or more EFA interfaces than it has."""
    assert compatible({"networkInterfaces": interfaces}, NetworkInfo={**NETWORK, **network}) is fits


@pytest.mark.parametrize("hypervisor", ["nitro", "xen"])
@pytest.mark.parametrize("features", [[], ["amd-sev-snp"], ["nested-virtualization"]])
@pytest.mark.parametrize("tracking", [None, {"udpTimeout": 30}])
@pytest.mark.parametrize("nested", [None, {"nestedVirtualization": "disabled"}, {"nestedVirtualization": "enabled"}])
def test_a_setting_excludes_only_the_types_that_lack_what_it_needs(
    hypervisor: str, features: list[str], tracking: dict[str, Any] | None, nested: dict[str, Any] | None
) -> None:
    """Each combination of two settings and two properties of a type."""
    spec = {"connectionTracking": tracking, "cpuOptions": nested}
    processor = {"SupportedArchitectures": ["x86_64"], "SupportedFeatures": features}
    lacks_nitro = tracking is not None and hypervisor == "xen"
    lacks_nesting = nested == {"nestedVirtualization": "enabled"} and features != ["nested-virtualization"]
    found = compatible(spec, Hypervisor=hypervisor, ProcessorInfo=processor)
    assert found is not (lacks_nitro or lacks_nesting)


def test_each_usage_class_has_an_offering_of_its_own() -> None:
    """P4d is sold without spot, and some old types as spot alone."""
    both = [("on-demand", 96_000_000), ("spot", 30_000_000)]
    for sold in (["spot"], ["on-demand"], ["on-demand", "spot"]):
        (found,) = instance_types([shape(SupportedUsageClasses=sold)], MARKET)
        here = [(o.capacity_type, o.price) for o in found.offerings if o.zone == "us-east-1a"]
        assert here == [one for one in both if one[0] in sold]


def test_spot_that_is_no_longer_listed_prices_nodes_and_launches_none() -> None:
    """On-demand instances of the zone are sold as before."""
    unlisted = msgspec.structs.replace(MARKET, unlisted_spot={"m5.large": ("us-east-1a",)})
    assert offered(unlisted) == [
        ("a", "on-demand", 96_000_000, True),
        ("a", "spot", 30_000_000, False),
        ("b", "on-demand", 96_000_000, True),
    ]


def test_types_without_a_class_have_the_settings_of_the_installation() -> None:
    settings = SizingSettings(vm_memory_overhead_ppm=0)
    assert build_catalogue([shape()], MARKET, settings=settings).default[0].capacity["memory"] == 8192 * 2**20


@pytest.mark.parametrize("manifest", [{}, {"metadata": None}, {"metadata": {"name": None}}])
def test_a_class_without_a_name_stops_nothing(manifest: dict[str, Any]) -> None:
    assert build_catalogue([shape()], MARKET, [manifest]).by_node_class.keys() == {""}


def test_sizes_of_earlier_classes_are_kept() -> None:
    """Tables of a plan are kept by the identity of types, and a class may be away for one round."""
    builder = CatalogueBuilder([shape()], MARKET)
    one, other = ({"metadata": {"name": "c"}, "spec": {"kubelet": {"maxPods": pods}}} for pods in (7, 8))
    first = builder.catalogue([one]).types_for("c")
    assert builder.catalogue([other]).types_for("c")[0].capacity["pods"] == 8
    assert builder.catalogue([one]).types_for("c") is first
