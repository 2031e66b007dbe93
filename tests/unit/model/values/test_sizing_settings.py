"""How users give the settings that size nodes."""

from __future__ import annotations

import pytest

from core.errors import InvalidInputError
from core.model.values.sizing_settings import SizingSettings, settings_from


def test_the_share_is_a_decimal_whatever_its_name_says() -> None:
    """Karpenter's variable ends in PERCENT, too."""
    assert settings_from(vm_memory_overhead_percent="0.075", reserved_enis=2) == SizingSettings(
        vm_memory_overhead_ppm=75_000, reserved_enis=2
    )


@pytest.mark.parametrize("share", ["7.5%", "1.5", "-0.1", "NaN", ""])
def test_a_memory_overhead_that_is_not_a_fraction_is_refused(share: str) -> None:
    """75 instead of 0.075 would leave nodes without memory, and every pod unschedulable."""
    with pytest.raises(InvalidInputError, match="VM_MEMORY_OVERHEAD_PERCENT"):
        settings_from(vm_memory_overhead_percent=share, reserved_enis=0)
