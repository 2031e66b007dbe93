"""Subnets with few addresses."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.catalogue.free_addresses import (
    FEW_NODES,
    address_reading,
    addresses_per_node,
    lacks_addresses,
    read_reading,
    reading_of,
    written_reading,
)
from core.catalogue.node_class import AddressReading, EC2NodeClass, has_address_reading, read_node_class
from tests.builders import NOW, a_class_manifest

PRIMARY = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
READING = AddressReading(read_at=NOW, per_node=1, free={"subnet-1": 7})


def node_class(**spec: Any) -> EC2NodeClass:
    return read_node_class(a_class_manifest(**spec))


@pytest.mark.parametrize(
    ("spec", "is_ipv6", "each"),
    [
        ({}, False, 1),
        ({"ipPrefixCount": 2}, False, 33),
        ({"ipPrefixCount": 2}, True, 1),
        ({"networkInterfaces": [PRIMARY, {**PRIMARY, "deviceIndex": 1}]}, False, 2),
        ({"networkInterfaces": [PRIMARY, {**PRIMARY, "deviceIndex": 1}], "ipPrefixCount": 1}, False, 34),
        ({"networkInterfaces": [PRIMARY, {**PRIMARY, "deviceIndex": 1, "interfaceType": "efa-only"}]}, False, 1),
    ],
)
def test_a_node_takes_an_address_for_each_interface_and_sixteen_for_each_prefix(
    spec: dict[str, Any], is_ipv6: bool, each: int
) -> None:
    """Prefixes of IPv6 are not taken from the subnet's IPv4 addresses, and an interface for EFA alone has none."""
    assert addresses_per_node(node_class(**spec), is_ipv6=is_ipv6) == each


def test_only_subnets_with_few_addresses_are_named() -> None:
    """Most clusters have none, so their classes get no annotation."""
    free = {"subnet-2": FEW_NODES - 1, "subnet-1": FEW_NODES}
    found = address_reading(node_class(), free, is_ipv6=False, read_at=NOW)
    assert found == AddressReading(read_at=NOW, per_node=1, free={"subnet-2": FEW_NODES - 1})
    assert address_reading(node_class(), {"subnet-1": FEW_NODES}, is_ipv6=False, read_at=NOW) is None
    prefixes = address_reading(node_class(ipPrefixCount=1), {"subnet-1": FEW_NODES}, is_ipv6=False, read_at=NOW)
    assert prefixes is not None


def test_what_is_written_is_read_again() -> None:
    text = written_reading(READING, "")
    assert text is not None
    manifest = a_class_manifest(metadata={"annotations": {labels.SUBNET_ADDRESSES: text}})
    assert has_address_reading(manifest)
    assert reading_of(read_node_class(manifest)) == READING
    assert written_reading(AddressReading(read_at=NOW + timedelta(1), per_node=1, free=READING.free), text) == text
    assert written_reading(AddressReading(read_at=NOW, per_node=2, free=READING.free), text) != text
    assert written_reading(None, text) is None
    forged = written_reading(msgspec.structs.replace(READING, read_at=NOW + timedelta(9)), "")
    assert written_reading(READING, str(forged)) == text


def test_a_class_without_a_reading_has_none() -> None:
    assert not has_address_reading(a_class_manifest())
    assert reading_of(node_class()) is None


NO_NODE = '{"readAt":"2026-07-01T00:00:00Z","perNode":0}'
NO_ZONE = '{"readAt":"2026-07-01T00:00:00"}'


FEWER_THAN_NONE = '{"readAt":"2026-07-01T00:00:00Z","free":{"subnet-1":-1}}'
TOO_MANY_DIGITS = f'{{"readAt":"2026-07-01T00:00:00Z","free":{{"subnet-1":{"9" * 4_300}}}}}'
TOO_DEEP = '{"a":' + "[" * 1_100
NO_UNICODE = '{"a":"\ud800"}'


@pytest.mark.parametrize(
    "text",
    ["", "[}", "[]", '{"perNode":1}', NO_NODE, NO_ZONE, FEWER_THAN_NONE, TOO_MANY_DIGITS, TOO_DEEP, NO_UNICODE],
)
def test_whatever_somebody_wrote_there_is_no_reading(text: str) -> None:
    assert read_reading(text) is None


@pytest.mark.parametrize(("free", "each", "lacks"), [(1, 1, False), (0, 1, True), (16, 17, True), (17, 17, False)])
def test_a_subnet_lacks_addresses_when_no_further_node_fits(free: int, each: int, lacks: bool) -> None:
    text = written_reading(AddressReading(read_at=NOW, per_node=each, free={"a": 90, "b": free}), "")
    assert lacks_addresses({labels.SUBNET_ADDRESSES: text}) is lacks
    assert not lacks_addresses({})


def test_few_are_addresses_for_fewer_than_256_nodes() -> None:
    """A node that takes 17 has few below 4352."""
    assert FEW_NODES == 256
    free = {"subnet-2": 4351, "subnet-1": 4352, "subnet-0": 0}
    found = address_reading(node_class(ipPrefixCount=1), free, is_ipv6=False, read_at=NOW)
    assert found == AddressReading(read_at=NOW, per_node=17, free={"subnet-0": 0, "subnet-2": 4351})


def test_the_status_counts_before_the_annotation() -> None:
    """A cluster whose definition has the field gets it from there."""
    annotation = {labels.SUBNET_ADDRESSES: written_reading(READING, "")}
    status = {"subnetAddresses": {"readAt": NOW.isoformat(), "free": {"subnet-9": 1}}}
    both = read_node_class(a_class_manifest(metadata={"annotations": annotation}, status=status))
    assert reading_of(both) == AddressReading(read_at=NOW, per_node=1, free={"subnet-9": 1})


def test_the_annotation_changes_with_the_numbers_alone() -> None:
    """A reading of the same moment is no news, and neither is one when nothing was known that cannot be read."""
    text = written_reading(READING, "")
    assert written_reading(READING, str(text)) == text
    spaced = str(text).replace(",", ", ")
    assert written_reading(READING, spaced) == spaced
    assert written_reading(READING, "nonsense") == text
