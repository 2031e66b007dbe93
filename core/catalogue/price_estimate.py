"""Estimates the price of an instance type from its size, for types that no price list has.

Estimates order types as EC2's own lists do, smaller before larger, and none with accelerators before one without; they are not
prices. The rates are the least-squares line through the general, compute and memory families' list prices in us-east-1 (m7i,
c7i, r7i), within a tenth for these; every accelerator counts as the cheapest one that EC2 offers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from core.catalogue.shape import Shape

_NANODOLLARS_A_VCPU: Final = 39_000_000
_NANODOLLARS_A_GIB: Final = 2_900_000
_NANODOLLARS_AN_ACCELERATOR: Final = 400_000_000
_MIB_A_GIB: Final = 1024
_PERMILLE: Final = 1000
_LEVELS: Final = (("cn-", 10_000),)
"""Begin of a region's name → thousandths of the estimate: China's prices are in yuan (m5.large 1.013 in cn-north-1)."""


def estimated_prices(shapes: Iterable[Shape], listed: Mapping[str, int], *, region: str) -> dict[str, int]:
    """Return nano-dollars per hour of each type: the listed price, else an estimate scaled to the listed prices.

    Prices of regions differ by more than half: without the scale, an unlisted type would look cheap in an expensive
    region. Where none is listed the region's currency counts, which spot prices have, too.
    """
    estimates = {shape.instance_type: estimated_price(shape) for shape in shapes}
    levels = sorted(listed[name] * _PERMILLE // estimate for name, estimate in estimates.items() if name in listed)
    level = levels[len(levels) // 2] if levels else _level(region)
    return {name: listed.get(name, estimate * level // _PERMILLE) for name, estimate in estimates.items()}


def _level(region: str) -> int:
    return next((level for prefix, level in _LEVELS if region.startswith(prefix)), _PERMILLE)


def estimated_price(shape: Shape) -> int:
    """Nano-dollars per hour on demand."""
    of_size = shape.v_cpu_info.default_v_cpus * _NANODOLLARS_A_VCPU
    of_memory = shape.memory_info.size_in_mib * _NANODOLLARS_A_GIB // _MIB_A_GIB
    return of_size + of_memory + _accelerators(shape) * _NANODOLLARS_AN_ACCELERATOR


def _accelerators(shape: Shape) -> int:
    gpus = shape.gpu_info.gpus if shape.gpu_info is not None else ()
    others = shape.inference_accelerator_info.accelerators if shape.inference_accelerator_info is not None else ()
    neurons = shape.neuron_info.neuron_devices if shape.neuron_info is not None else ()
    return sum(found.count for found in gpus) + sum(found.count for found in others) + sum(n.count for n in neurons)
