"""Prices where no price list can be read."""

from __future__ import annotations

from typing import Any

import pytest

from core.catalogue.price_estimate import estimated_price
from core.catalogue.shape import Shape, read_shape


def shape(cpus: int, gib: int, **more: Any) -> Shape:
    return read_shape(
        {
            "InstanceType": "x.large",
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
