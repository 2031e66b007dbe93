"""Prices where no price list can be read."""

from __future__ import annotations

from typing import Any

import pytest

from core.catalogue.price_estimate import estimated_price, estimated_prices
from core.catalogue.shape import Shape, read_shape


def shape(cpus: int, gib: int, *, name: str = "x.large", **more: Any) -> Shape:
    return read_shape(
        {
            "InstanceType": name,
            "ProcessorInfo": {},
            "VCpuInfo": {"DefaultVCpus": cpus},
            "MemoryInfo": {"SizeInMiB": gib * 1024},
            "NetworkInfo": {},
            **more,
        }
    )


@pytest.mark.parametrize(
    ("cpus", "gib", "listed"), [(2, 4, 89_250_000), (2, 8, 100_800_000), (2, 16, 132_300_000), (96, 384, 4_838_400_000)]
)
def test_an_estimate_is_near_the_list_price(cpus: int, gib: int, listed: int) -> None:
    """c7i, m7i and r7i in us-east-1: with wrong estimates, plans prefer the wrong family."""
    assert abs(estimated_price(shape(cpus, gib)) - listed) * 10 <= listed


def test_an_accelerator_has_a_price() -> None:
    """Otherwise, pods that need no accelerator run on the most expensive machines."""
    with_gpu = shape(4, 16, GpuInfo={"Gpus": [{"Name": "T4", "Count": 1}]})
    assert estimated_price(with_gpu) > estimated_price(shape(8, 32))


def test_what_a_list_lacks_is_estimated_at_the_level_of_its_region() -> None:
    """In a region half again as dear, new types would be launched first wherever the list is older than they are."""
    old, new = shape(2, 8, name="old.large"), shape(4, 16, name="new.xlarge")
    listed = {"old.large": estimated_price(old) * 3 // 2}
    found = estimated_prices([old, new], listed, region="eu-west-1")
    assert found["old.large"] == listed["old.large"]
    assert abs(found["new.xlarge"] - 2 * listed["old.large"]) <= 1_000_000
    assert estimated_prices([new], {}, region="us-iso-east-1") == {"new.xlarge": estimated_price(new)}


def test_estimates_in_china_are_in_yuan_as_its_spot_prices() -> None:
    """Read as dollars, every spot price would exceed the price on demand."""
    large = shape(2, 8, name="m5.large")
    listed = 1_013_000_000
    (found,) = estimated_prices([large], {}, region="cn-north-1").values()
    assert abs(found - listed) * 20 <= listed


@pytest.mark.parametrize(
    ("cpus", "mib", "price"),
    [
        (1, 0, 39_000_000),
        (0, 1024, 2_900_000),
        (0, 1, 2832),
        (3, 2048, 122_800_000),
        (448, 4096 * 1024, 29_350_400_000),
    ],
)
def test_a_machine_costs_39_thousandths_a_vcpu_and_29_ten_thousandths_a_gibibyte(
    cpus: int, mib: int, price: int
) -> None:
    described = shape(cpus, 0, MemoryInfo={"SizeInMiB": mib})
    assert estimated_price(described) == price


@pytest.mark.parametrize(
    ("devices", "count"),
    [
        ({}, 0),
        ({"GpuInfo": {"Gpus": [{"Count": 2}, {"Count": 1}]}}, 3),
        ({"InferenceAcceleratorInfo": {"Accelerators": [{"Count": 4}, {"Count": 1}]}}, 5),
        ({"NeuronInfo": {"NeuronDevices": [{"Count": 16}, {"Count": 1}]}}, 17),
        (
            {
                "GpuInfo": {"Gpus": [{"Count": 2}]},
                "InferenceAcceleratorInfo": {"Accelerators": [{"Count": 4}]},
                "NeuronInfo": {"NeuronDevices": [{"Count": 16}]},
            },
            22,
        ),
    ],
)
def test_every_accelerator_costs_four_tenths_whatever_it_is(devices: dict[str, Any], count: int) -> None:
    assert estimated_price(shape(2, 8, **devices)) - estimated_price(shape(2, 8)) == count * 400_000_000


def test_the_level_of_a_region_is_the_median_of_its_listed_types() -> None:
    """A single odd price moves nothing; of an even count, the upper of the middle two counts."""
    shapes = [shape(2, 8, name=name) for name in "abcdef"]
    (estimate,) = {estimated_price(one) for one in shapes}

    def level(*thousandths: int) -> int:
        listed = {name: -(-estimate * share // 1000) for name, share in zip("abcde", thousandths, strict=False)}
        return estimated_prices(shapes, listed, region="eu-west-1")["f"] * 1000 // estimate

    assert level(1500) == 1500
    assert level(1100, 1300) == 1300
    assert level(9000, 1200, 1100) == 1200
    assert level(1100, 1200, 1300, 1, 9000) == 1200
    assert level() == 1000


def test_the_level_of_china_is_ten() -> None:
    """Where a price is listed, its region's level is known from it."""
    one, other = shape(2, 8, name="a"), shape(4, 16, name="b")
    estimate = estimated_price(one)
    assert estimated_prices([one], {}, region="cn-northwest-1") == {"a": 10 * estimate}
    assert estimated_prices([one, other], {"a": estimate}, region="cn-north-1") == {
        "a": estimate,
        "b": estimated_price(other),
    }
    assert estimated_prices([one], {}, region="us-cn-1") == {"a": estimate}
