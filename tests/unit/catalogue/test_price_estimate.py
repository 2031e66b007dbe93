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
