"""The CreateFleet request."""

from __future__ import annotations

from tests.builders import a_type
from tests.unit.launch.orders import (
    a_node_class,
    overrides,
    rendered,
)

_WEIGHED = (("m8g.large", 0.10), ("m5a.large", 0.12))


def test_a_fleet_requests_one_instance_of_the_claims_offerings() -> None:
    """More instances would be orphans; fewer would leave pods pending."""
    request = rendered(a_type("m5.large")).request
    assert request["Type"] == "instant"
    assert request["ClientToken"] == "t-1"
    assert request["TargetCapacitySpecification"] == {
        "TotalTargetCapacity": 1,
        "DefaultTargetCapacityType": "spot",
    }
    assert request["SpotOptions"] == {"AllocationStrategy": "price-capacity-optimized"}
    assert {spec["ResourceType"] for spec in request["TagSpecifications"]} == {"instance", "volume", "fleet"}


def test_on_demand_is_launched_where_it_is_cheapest() -> None:
    """EC2 refuses spot's strategy for on-demand."""
    request = rendered(a_type("m5.large", capacity_types=("on-demand",))).request
    assert request["OnDemandOptions"] == {"AllocationStrategy": "lowest-price"}
    assert "SpotOptions" not in request


def test_a_pools_own_prices_rank_the_offerings() -> None:
    """Otherwise, EC2 takes the cheapest by its own price list, which the price factors are meant to change."""
    weighed = [a_type(name, price=price, capacity_types=("on-demand",)) for name, price in _WEIGHED]
    request = rendered(*weighed, is_ranked=True).request
    assert request["OnDemandOptions"] == {"AllocationStrategy": "prioritized"}
    overrides = [override for config in request["LaunchTemplateConfigs"] for override in config["Overrides"]]
    ranks = sorted((override["Priority"], override["InstanceType"]) for override in overrides)
    assert [name for _, name in ranks] == ["m8g.large"] * 2 + ["m5a.large"] * 2
    assert [rank for rank, _ in ranks] == [0.0, 1.0, 2.0, 3.0]


def test_each_zone_gets_its_subnet_with_most_addresses_and_zones_without_one_are_left_out() -> None:
    """Otherwise, instances run out of addresses, or EC2 refuses the request."""
    assert {(t, s) for t, s, _ in overrides(rendered(a_type("m5.large")))} == {
        ("m5.large", "subnet-a2"),
        ("m5.large", "subnet-b1"),
    }


def test_the_class_context_reaches_the_fleet() -> None:
    """Accounts whose fleets are billed or routed by context need it."""
    assert rendered(a_type("m5.large"), node_class=a_node_class({"context": "c-1"})).request["Context"] == "c-1"
    assert "Context" not in rendered(a_type("m5.large")).request


def test_without_prices_of_its_own_a_pool_leaves_the_order_to_ec2() -> None:
    """EC2 refuses priorities beside its own strategies."""
    request = rendered(a_type("m5.large")).request
    (config,) = request["LaunchTemplateConfigs"]
    assert {tuple(sorted(override)) for override in config["Overrides"]} == {
        ("AvailabilityZone", "ImageId", "InstanceType", "SubnetId")
    }


def test_a_fleet_for_several_claims_requests_as_many_instances() -> None:
    assert rendered(a_type(), count=7).request["TargetCapacitySpecification"]["TotalTargetCapacity"] == 7
