"""Settings of an installation that size nodes. This module is small because every function loads it at start."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import msgspec

from core.errors import InvalidInputError
from core.model.values.quantity import PPM


class SizingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Karpenter's provider options that size nodes.

    Attributes:
        vm_memory_overhead_ppm: Share of memory that the hypervisor and firmware use, in parts per million.
        reserved_enis: Network interfaces per node that are not for pods.
    """

    vm_memory_overhead_ppm: int = 75_000
    reserved_enis: int = 0


def settings_from(*, vm_memory_overhead_percent: str, reserved_enis: int) -> SizingSettings:
    """Parse the settings in the form of Karpenter's environment; despite its name, the percentage is a share such as `0.075`.

    Raises:
        InvalidInputError: If the share is not between 0 and 1.
    """
    try:
        share = Decimal(vm_memory_overhead_percent)
    except InvalidOperation:
        share = Decimal(-1)
    if not share.is_finite() or not 0 <= share < 1:
        problem = f"{vm_memory_overhead_percent!r} is not a fraction such as 0.075"
        raise InvalidInputError(problem, subject="environment", field="VM_MEMORY_OVERHEAD_PERCENT")
    return SizingSettings(vm_memory_overhead_ppm=int(share * PPM), reserved_enis=reserved_enis)
