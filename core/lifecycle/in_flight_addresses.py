"""Counts the addresses of subnets that launches in flight take beside what EC2 reported last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from core.catalogue.discovered.address_reading import reading_of
from core.catalogue.node_class import AddressReading, EC2NodeClass, has_address_reading, read_node_class
from core.errors import InvalidInputError
from core.lifecycle.records import ClaimRecord

COUNTED_FOR: Final = timedelta(minutes=10)
"""How long a launched claim counts at most: twice the period of readings. A reading with the same numbers is not stored."""


def addresses_left(
    node_classes: Iterable[Mapping[str, Any]], records: Iterable[ClaimRecord], now: datetime
) -> dict[str, int]:
    """Return subnet id → free addresses, of subnets with few: as last read, less the claims launched since.

    `node_classes` are manifests with their status. A claim without an instance counts in every zone in which it may get one:
    in its subnet there, or in the one with the most left if it has none.
    """
    known = map(_readable, filter(has_address_reading, node_classes))
    classes = {found.name: found for found in known if found is not None}
    readings = {name: found for name in sorted(classes) if (found := reading_of(classes[name])) is not None}
    latest: dict[str, AddressReading] = {}
    for name, reading in sorted(readings.items(), key=lambda one: one[1].read_at):
        own = {subnet.id for subnet in classes[name].status.subnets}
        latest |= {subnet: reading for subnet in reading.free if subnet in own}
    left = {subnet: latest[subnet].free[subnet] for subnet in sorted(latest)}
    for record in sorted(records, key=lambda record: record.name) if left else ():
        name = record.plan.node_class.name
        each = readings[name].per_node if name in readings else 1
        for subnet in _subnets_of(record, classes.get(name), latest, left, now):
            left[subnet] -= each
    return left


def _readable(manifest: Mapping[str, Any]) -> EC2NodeClass | None:
    try:
        return read_node_class(manifest)
    except InvalidInputError:
        return None  # the class launches nothing, and its validation explains why


def _subnets_of(
    record: ClaimRecord,
    node_class: EC2NodeClass | None,
    latest: Mapping[str, AddressReading],
    left: Mapping[str, int],
    now: datetime,
) -> list[str]:
    """Return the subnets in which a claim takes addresses that no reading counts."""
    machine = record.machine
    if machine is not None:
        reading = latest.get(machine.subnet_id)
        launched_at = record.moments.launched_at or record.phase_since  # an adopted launch has no moment of its own
        is_uncounted = reading is not None and launched_at > max(reading.read_at, now - COUNTED_FOR)
        return [machine.subnet_id] if is_uncounted else []
    if record.deletion is not None or node_class is None:
        return []
    zones = {offering.zone for offering in record.offerings} or set(record.plan.zones)
    return [subnet for zone in sorted(zones) for subnet in _subnet_in(zone, record, node_class, left)]


def _subnet_in(zone: str, record: ClaimRecord, node_class: EC2NodeClass, left: Mapping[str, int]) -> list[str]:
    """Return the claim's subnet in the zone, by default the one with the most addresses left; none if one has plenty."""
    own = [subnet.id for subnet in node_class.status.subnets if subnet.zone == zone]
    if not own or any(subnet not in left for subnet in own):
        return []
    chosen = record.subnets.get(zone)
    return [chosen] if chosen in own else [max(own, key=lambda subnet: (left[subnet], subnet))]
