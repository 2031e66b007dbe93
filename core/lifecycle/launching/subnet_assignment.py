"""Distributes the claims of a plan over the subnets of a zone, where all of them have few free addresses.

A request to EC2 names one subnet for each instance type and zone, so each claim has one in each zone in which it may be
launched. It is the subnet with most addresses left: the pods of its node take further ones of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from core.lifecycle.records import ClaimRecord
from core.model.node_pool import NodeClass
from core.model.snapshot import Snapshot


def with_subnets(records: Iterable[ClaimRecord], snapshot: Snapshot) -> list[ClaimRecord]:
    """Return the claims, in the given order, with the subnets for their launches.

    A claim takes addresses in every zone in which it may be launched. A zone where a subnet has plenty, or where the
    EC2NodeClass has only one, is left out: its launches go to the subnet that had most at the last reading.
    """
    given = list(records)
    if not snapshot.subnet_addresses:
        return given
    classes = {node_class.name: node_class for node_class in snapshot.node_classes}
    left = dict(snapshot.subnet_addresses)
    return [_assigned(record, classes.get(record.plan.node_class.name), left) for record in given]


def full_zones(node_class: NodeClass, free: Mapping[str, int]) -> frozenset[str]:
    """Return the zones in which no subnet of the class has the addresses that a node takes.

    `free` has only subnets with few addresses, launches in flight subtracted.
    """
    most: dict[str, int] = {}
    for subnet, zone in node_class.subnets:
        most[zone] = max(most.get(zone, 0), free.get(subnet, node_class.addresses_per_node))
    return frozenset(zone for zone, addresses in most.items() if addresses < node_class.addresses_per_node)


def _assigned(record: ClaimRecord, node_class: NodeClass | None, left: dict[str, int]) -> ClaimRecord:
    """Return the claim with its subnets, and take its addresses from `left`."""
    if node_class is None:
        return record
    chosen: dict[str, str] = {}
    for zone in sorted({offering.zone for offering in record.offerings}):
        own = sorted(subnet for subnet, found in node_class.subnets if found == zone)
        if not own or any(subnet not in left for subnet in own):
            continue
        roomiest = max(own, key=lambda subnet: left[subnet])  # the first of several
        left[roomiest] -= node_class.addresses_per_node
        if len(own) > 1:
            chosen[zone] = roomiest
    return msgspec.structs.replace(record, subnets=chosen) if chosen else record
