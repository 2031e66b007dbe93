"""The fleet request."""

from __future__ import annotations

from tests.builders import a_type
from tests.unit.launch.orders import (
    a_node_class,
    overrides,
    rendered,
)

_WEIGHED = (("m8g.large", 0.10), ("m5a.large", 0.12))


def test_a_fleet_asks_for_one_instance_of_what_the_claim_allows() -> None:
    """More would be orphans, fewer would leave pods pending."""
    request = rendered(a_type("m5.large")).request
    assert request["Type"] == "instant"
    assert request["ClientToken"] == "t-1"
    assert request["TargetCapacitySpecification"] == {
        "TotalTargetCapacity": 1,
        "DefaultTargetCapacityType": "spot",
    }
    assert request["SpotOptions"] == {"AllocationStrategy": "price-capacity-optimized"}
    assert {spec["ResourceType"] for spec in request["TagSpecifications"]} == {"instance", "volume", "fleet"}


def test_on_demand_is_bought_where_it_is_cheapest() -> None:
    """The strategy for spot is refused for on-demand."""
    request = rendered(a_type("m5.large", capacity_types=("on-demand",))).request
    assert request["OnDemandOptions"] == {"AllocationStrategy": "lowest-price"}
    assert "SpotOptions" not in request


def test_a_pool_s_own_prices_rank_the_offerings() -> None:
    """EC2 would take what its price list calls cheapest, which is what the price factors were written against."""
    weighed = [a_type(name, price=price, capacity_types=("on-demand",)) for name, price in _WEIGHED]
    request = rendered(*weighed, is_ranked=True).request
    assert request["OnDemandOptions"] == {"AllocationStrategy": "prioritized"}
    overrides = [override for config in request["LaunchTemplateConfigs"] for override in config["Overrides"]]
    ranks = sorted((override["Priority"], override["InstanceType"]) for override in overrides)
    assert [name for _, name in ranks] == ["m8g.large"] * 2 + ["m5a.large"] * 2
    assert [rank for rank, _ in ranks] == [0.0, 1.0, 2.0, 3.0]


def test_each_zone_gets_its_roomiest_subnet_and_zones_without_one_are_left_out() -> None:
    """Instances would run out of addresses, or EC2 would refuse the request."""
    assert {(t, s) for t, s, _ in overrides(rendered(a_type("m5.large")))} == {
        ("m5.large", "subnet-a2"),
        ("m5.large", "subnet-b1"),
    }


def test_the_class_context_reaches_the_fleet() -> None:
    """Accounts that EC2 Fleet bills or routes by context need it."""
    assert rendered(a_type("m5.large"), node_class=a_node_class({"context": "c-1"})).request["Context"] == "c-1"
    assert "Context" not in rendered(a_type("m5.large")).request
