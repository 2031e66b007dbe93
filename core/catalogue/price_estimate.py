"""Estimates the price of an instance type from its size alone, where the price list cannot be read.

Estimates order types as EC2's own lists do, smaller before larger, and none with accelerators before one without; they are not
prices. The rates are the least-squares line through the general, compute and memory families' list prices in us-east-1 (m7i,
c7i, r7i), within a tenth for these; an accelerator stands for the cheapest one that EC2 rents out.
"""

from __future__ import annotations

from typing import Final

from core.catalogue.shape import Shape

_NANODOLLARS_A_VCPU: Final = 39_000_000
_NANODOLLARS_A_GIB: Final = 2_900_000
_NANODOLLARS_AN_ACCELERATOR: Final = 400_000_000
_MIB_A_GIB: Final = 1024


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
