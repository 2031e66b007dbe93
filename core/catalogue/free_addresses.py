"""The free addresses of an EC2NodeClass's subnets, stored in an annotation of the class while a subnet has few.

Karpenter's definition of the class has no field for them in the status, and most clusters have plenty.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from core import labels
from core.catalogue.node_class import AddressReading, EC2NodeClass

FEW_NODES: Final = 256
"""A subnet with addresses for fewer nodes has few: it is a /24 or smaller, or nearly used up. A plan rarely launches more."""

_PREFIX: Final = 16
"""IPv4 addresses in a prefix that EC2 assigns (a /28)."""


def address_reading(
    node_class: EC2NodeClass, free: Mapping[str, int], *, is_ipv6: bool, read_at: datetime
) -> AddressReading | None:
    """Return what is known of the subnets with few addresses; None if all have plenty.

    Args:
        node_class: The class.
        free: Subnet id → its free IPv4 addresses.
        is_ipv6: Whether pods have IPv6 addresses, so that prefixes use none of these.
        read_at: Just before EC2 was asked.
    """
    per_node = addresses_per_node(node_class, is_ipv6=is_ipv6)
    few = {subnet: free[subnet] for subnet in sorted(free) if free[subnet] < FEW_NODES * per_node}
    return AddressReading(read_at=read_at, per_node=per_node, free=few) if few else None


def addresses_per_node(node_class: EC2NodeClass, *, is_ipv6: bool) -> int:
    """Return how many addresses of its subnet a node takes at launch, at least.

    Pods take further ones, of the same subnets or others (custom networking), which EC2 does not check at a launch.
    """
    spec = node_class.spec
    interfaces = max(1, len(spec.network_interfaces) - spec.efa_only_interfaces)
    prefixes = 0 if is_ipv6 else spec.ip_prefix_count
    return interfaces * (1 + prefixes * _PREFIX)


def reading_of(node_class: EC2NodeClass) -> AddressReading | None:
    """Return the class's last reading, None if no subnet had few addresses."""
    written = node_class.metadata.annotations.get(labels.SUBNET_ADDRESSES, "")
    return node_class.status.subnet_addresses or read_reading(written)


def written_reading(reading: AddressReading | None, before: str) -> str | None:
    """Return the new value of the annotation `labels.SUBNET_ADDRESSES`, None for no annotation.

    It changes only with the numbers: a new time alone is not worth a write.
    """
    earlier = read_reading(before)
    if reading is None:
        return None
    is_older = earlier is not None and earlier.read_at <= reading.read_at
    if earlier is not None and is_older and msgspec.structs.replace(earlier, read_at=reading.read_at) == reading:
        return before
    return msgspec.json.encode(reading).decode()


def lacks_addresses(annotations: Mapping[str, Any]) -> bool:
    """Whether a subnet of a class with these annotations had no room for another node."""
    reading = read_reading(str(annotations.get(labels.SUBNET_ADDRESSES, "")))
    return reading is not None and any(free < reading.per_node for free in reading.free.values())


def read_reading(text: str) -> AddressReading | None:
    """Read the annotation, None if it has no reading: users may write anything there."""
    try:
        return msgspec.json.decode(text, type=AddressReading)
    except (msgspec.MsgspecError, RecursionError, ValueError):  # nested too deep, or no valid Unicode
        return None
