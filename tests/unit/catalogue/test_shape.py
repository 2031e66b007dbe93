"""Instance types as EC2 describes them."""

from __future__ import annotations

from typing import Any

import pytest

from core.catalogue.build import instance_types
from core.catalogue.shape import read_shape
from core.errors import InvalidInputError
from tests.unit.catalogue.one_type import (
    M5,
    MARKET,
    shape,
)


@pytest.mark.parametrize(
    "changes",
    [
        {"SupportedVirtualizationTypes": ["paravirtual"]},
        {"ProcessorInfo": {"SupportedArchitectures": ["arm64_mac"]}},
        {"InstanceType": "m5.unsold"},
    ],
)
def test_machines_that_cannot_be_nodes_are_left_out(changes: dict[str, Any]) -> None:
    """Examples: a Mac, a paravirtual type, a type that the region does not sell."""
    assert instance_types([shape(**changes)], MARKET) == ()


def test_an_incomplete_description_names_the_type_and_the_field() -> None:
    """An operator must find out which type EC2 describes in a new way."""
    with pytest.raises(InvalidInputError, match=r"m5\.large.*VCpuInfo"):
        read_shape({k: v for k, v in M5.items() if k != "VCpuInfo"})
