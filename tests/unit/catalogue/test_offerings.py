"""What is for sale, where and for how much."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from core import labels
from core.catalogue.build import build_catalogue, instance_types
from core.catalogue.market import Market
from core.catalogue.shape import Shape, read_shape
from core.errors import InvalidInputError
from core.model.values.quantity import nanodollars
from simulator.market.embedded import DATA, REGIONS, builtin_catalogue, builtin_market, builtin_shapes
from simulator.market.generate import generate

M5: dict[str, Any] = {
    "InstanceType": "m5.large",
    "SupportedUsageClasses": ["on-demand", "spot"],
    "SupportedVirtualizationTypes": ["hvm"],
    "Hypervisor": "nitro",
    "ProcessorInfo": {"SupportedArchitectures": ["x86_64"], "Manufacturer": "Intel", "SustainedClockSpeedInGhz": 3.1},
    "VCpuInfo": {"DefaultVCpus": 2},
    "MemoryInfo": {"SizeInMiB": 8192},
    "NetworkInfo": {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10, "NetworkCards": []},
}
MARKET = Market(
    region="us-east-1",
    offered={"m5.large": ("us-east-1b", "us-east-1a")},
    on_demand={"m5.large": 96_000_000},
    spot={"m5.large": {"us-east-1a": 30_000_000}},
)


def shape(**changes: Any) -> Shape:
    return read_shape({**M5, **changes})


def offered(market: Market, *node_classes: dict[str, Any]) -> list[tuple[str, str, int, bool]]:
    built = build_catalogue([shape()], market, node_classes)
    types = built.types_for("c") if node_classes else built.default
    return [(o.zone[-1], o.capacity_type, o.price, o.available) for o in types[0].offerings]


def test_spot_is_sold_only_where_it_has_a_price() -> None:
    """Without this a launch is planned at a price that nobody asks."""
    assert offered(MARKET) == [
        ("a", "on-demand", 96_000_000, True),
        ("a", "spot", 30_000_000, True),
        ("b", "on-demand", 96_000_000, True),
    ]


def test_before_the_first_spot_prices_on_demand_stands_in() -> None:
    """A fresh installation could launch no spot at all."""
    assert ("b", "spot", 96_000_000, True) in offered(msgspec.structs.replace(MARKET, spot=None))


def test_zones_without_a_subnet_price_nodes_but_launch_none() -> None:
    """Claims would be planned into zones where the class has no subnet, and fail at launch for ever."""
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
def test_types_that_the_class_settings_do_not_work_on_are_not_launched(
    spec: dict[str, Any], changes: dict[str, Any]
) -> None:
    """EC2 would refuse every launch of such a type."""
    name = changes.get("InstanceType", "m5.large")
    market = msgspec.structs.replace(MARKET, offered={name: ("us-east-1a",)}, on_demand={name: 1}, spot=None)
    built = build_catalogue([shape(**changes)], market, [{"metadata": {"name": "c"}, "spec": spec}])
    assert not any(o.available for o in built.types_for("c")[0].offerings)
    assert all(o.available for o in build_catalogue([shape()], MARKET).default[0].offerings)


@pytest.mark.parametrize(
    "changes",
    [
        {"SupportedVirtualizationTypes": ["paravirtual"]},
        {"ProcessorInfo": {"SupportedArchitectures": ["arm64_mac"]}},
        {"InstanceType": "m5.unsold"},
    ],
)
def test_machines_that_cannot_be_nodes_are_left_out(changes: dict[str, Any]) -> None:
    """A Mac, a paravirtual type, or one that the region does not sell."""
    assert instance_types([shape(**changes)], MARKET) == ()


def test_a_class_that_cannot_be_read_sinks_no_other() -> None:
    """One typo in one EC2NodeClass would stop the whole cluster from scaling."""
    bad = {"metadata": {"name": "bad"}, "spec": {"kubelet": {"maxPods": -1}}}
    good = {"metadata": {"name": "good"}, "spec": {"kubelet": {"maxPods": 7}}}
    built = build_catalogue([shape()], MARKET, [bad, good])
    assert built.types_for("bad") == ()
    assert built.types_for("good")[0].capacity["pods"] == 7


def test_an_incomplete_description_names_the_type_and_the_field() -> None:
    """Somebody has to find out which type EC2 describes in a new way."""
    with pytest.raises(InvalidInputError, match=r"m5\.large.*VCpuInfo"):
        read_shape({k: v for k, v in M5.items() if k != "VCpuInfo"})


def test_the_order_of_descriptions_changes_nothing() -> None:
    """Pages of EC2's answer come in any order; a plan must not depend on it."""
    shapes = list(builtin_shapes("us-east-1"))[:40]
    market = builtin_market("us-east-1")
    assert instance_types(shapes, market) == instance_types(reversed(shapes), market)


def test_the_built_in_market_is_what_its_sources_give() -> None:
    """Somebody edited the file by hand, or forgot to generate it again."""
    assert (DATA / "us-east-1.market.json.gz").read_bytes() == generate()


def test_the_built_in_catalogue_is_large_priced_and_quick() -> None:
    """The command line waits for it on every start."""
    builtin_catalogue("us-east-1")
    started = time.process_time()
    built = {t.name: t for t in builtin_catalogue("us-east-1").default}
    assert time.process_time() - started < 1.0
    assert len(built) > 1300
    by_offering = {(o.zone, o.capacity_type): o.price for o in built["c5.4xlarge"].offerings}
    assert by_offering["us-east-1a", labels.ON_DEMAND] == nanodollars("0.68")
    for name, instance_type in built.items():
        on_demand = {o.zone: o.price for o in instance_type.offerings if o.capacity_type == labels.ON_DEMAND}
        for offering in instance_type.offerings:
            if offering.capacity_type == labels.SPOT and offering.zone in on_demand:
                assert 0.29 < offering.price / on_demand[offering.zone] < 0.46, name


def test_an_unknown_region_says_which_are_known() -> None:
    """A user who passes --region eu-west-1 must learn what to do instead."""
    with pytest.raises(InvalidInputError, match=REGIONS[0]):
        builtin_catalogue("eu-west-1")
