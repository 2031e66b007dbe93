"""Instance types as EC2 describes them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core.catalogue import shape as described
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


def test_what_a_description_leaves_out_is_not_there() -> None:
    """EC2 omits what a type does not have: counts are then zero, and nothing is supported."""
    structs = [
        found for found in vars(described).values() if isinstance(found, type) and issubclass(found, msgspec.Struct)
    ]
    defaults = [
        (struct.__name__, field.name, field.default)
        for struct in structs
        for field in msgspec.structs.fields(struct)
        if field.default is not msgspec.NODEFAULT and isinstance(field.default, int | float)
    ]
    assert len(defaults) > 15
    assert [one for one in defaults if one[2]] == []


def test_a_shape_is_written_as_ec2_describes_it() -> None:
    """Stored shapes are read as descriptions; fields that are not there are left out."""
    least = {**M5, "NetworkInfo": {"MaximumNetworkInterfaces": 3, "Ipv4AddressesPerInterface": 10}}
    assert msgspec.json.decode(msgspec.json.encode(read_shape(M5))) == least


@pytest.mark.parametrize(("default", "interfaces"), [(0, 5), (1, 7), (2, 99)])
def test_pods_addresses_come_from_the_default_card(default: int, interfaces: int) -> None:
    """Where EC2 describes no such card, its figure of the whole type counts."""
    cards = [{"NetworkCardIndex": index, "MaximumNetworkInterfaces": count} for index, count in ((0, 5), (1, 7))]
    network = {"DefaultNetworkCardIndex": default, "MaximumNetworkInterfaces": 99, "NetworkCards": cards}
    assert shape(NetworkInfo=network).network_info.default_card.maximum_network_interfaces == interfaces


@pytest.mark.parametrize(
    ("architectures", "name"),
    [
        (["x86_64"], "amd64"), (["arm64"], "arm64"), (["i386", "x86_64"], "amd64"), (["x86_64", "arm64"], "amd64"),
        (["arm64_mac"], ""), ([], ""),
    ],
)  # fmt: skip
def test_the_first_architecture_that_kubernetes_knows_counts(architectures: list[str], name: str) -> None:
    found = shape(ProcessorInfo={"SupportedArchitectures": architectures})
    assert (found.architecture, found.can_run_nodes) == (name, bool(name))
