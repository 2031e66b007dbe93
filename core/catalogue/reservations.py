"""Adds the capacity reservations that an EC2NodeClass selects to its instance types, as offerings of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from core import labels
from core.catalogue.node_class import (
    CAPACITY_BLOCK,
    DELAYED,
    EXPIRING,
    SCHEDULED,
    UNPAID,
    UPCOMING,
    CapacityReservation,
    EC2NodeClass,
    read_node_class,
)
from core.errors import InvalidInputError
from core.model.catalogue import SERVES_LEAST, Catalogue, InstanceType, Offering, paid_for

# Computes when a capacity reservation ends, when EC2 takes its instances back, and when their nodes must go before that.


RECLAIMED_BEFORE: Final = timedelta(minutes=30)
"""How long before the end of a capacity block EC2 begins to terminate its instances (EC2, Capacity Blocks)."""

ULTRASERVER_RECLAIMED_BEFORE: Final = timedelta(minutes=60)
"""The same for a block of UltraServers."""

ULTRASERVERS: Final = ("p6e-", "trn2u.")
"""Prefixes of the names of instance types that exist only in UltraServers."""

LEAVES_BEFORE: Final = timedelta(minutes=10)
"""The nodes of a block go this long before EC2 takes their instances (Karpenter)."""


def ends_at(reservation: CapacityReservation) -> datetime | None:
    """Return when the reservation ends, None where it has no end or an unreadable one."""
    return moment(reservation.end_time)


def moment(written: str) -> datetime | None:
    """Read a time of a status, which others may write; None for an empty or unreadable one, UTC where it has no zone."""
    try:
        at = datetime.fromisoformat(written)
    except ValueError:
        return None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def reclaimed_before(reservation: CapacityReservation) -> timedelta:
    """Return how long before the end EC2 begins to take the instances; zero where they keep running as on-demand ones."""
    if reservation.reservation_type != CAPACITY_BLOCK:
        return timedelta(0)
    is_ultraserver = reservation.instance_type.startswith(ULTRASERVERS)
    return ULTRASERVER_RECLAIMED_BEFORE if is_ultraserver else RECLAIMED_BEFORE


def leaves_at(reservation: CapacityReservation) -> datetime | None:
    """Return when nodes leave the reservation: those of a block go, others become on-demand. None without an end."""
    end, lead = ends_at(reservation), reclaimed_before(reservation)
    return end - lead - LEAVES_BEFORE if end is not None and lead else end


def takes_instances(reservation: CapacityReservation, now: datetime) -> bool:
    """Whether the reservation lasts long enough for a launch. Its `state` is not enough: it dates from the last `reconcile`."""
    leaves, lead = leaves_at(reservation), reclaimed_before(reservation)
    return leaves is None or leaves - now > (SERVES_LEAST if lead else timedelta(0))


# Capacity reservations that were booked and have not begun, stored in an annotation of their EC2NodeClass.
#
# Karpenter's definition of the class admits only the states of reservations that have begun, and no time of their start.


_SHOWN: Final = 5

_Entries = tuple[CapacityReservation, ...]


def begins_at(reservation: CapacityReservation) -> datetime | None:
    """Return when a reservation that had not begun at the last reading begins; None for any other."""
    return moment(reservation.start_time) if reservation.state in UPCOMING else None


def has_begun(reservation: CapacityReservation, now: datetime) -> bool:
    """Whether the reservation has begun, by the last reading or by the time that EC2 named then.

    One that is not paid for, or that EC2 delays, has begun only once EC2 says so.
    """
    if reservation.state not in UPCOMING:
        return True
    begins = begins_at(reservation)
    return reservation.state == SCHEDULED and begins is not None and begins <= now


def upcoming_of(node_class: EC2NodeClass) -> _Entries:
    """Return the reservations of a class that had not begun at the last reading, each once.

    Users may write anything into the annotation; what its status lists has begun.
    """
    upcoming = read_upcoming(node_class.metadata.annotations.get(labels.UPCOMING_RESERVATIONS, "")) or ()
    begun = {reservation.id for reservation in node_class.status.capacity_reservations}
    by_id = {
        reservation.id: reservation
        for reservation in upcoming
        if reservation.state in UPCOMING and reservation.id not in begun
    }
    return tuple(by_id.values())


def read_upcoming(text: str) -> _Entries | None:
    """Read the annotation `labels.UPCOMING_RESERVATIONS`, None if it has no list of reservations."""
    try:
        return msgspec.json.decode(text, type=_Entries)
    except (msgspec.MsgspecError, RecursionError, ValueError):  # nested too deep, or no valid Unicode
        return None


def written_upcoming(entries: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the value of the annotation `labels.UPCOMING_RESERVATIONS`, None for no annotation."""
    written = [dict(sorted(entry.items())) for entry in entries]
    return msgspec.json.encode(written).decode() if written else None


def upcoming_message(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return for people what begins when, the next first; empty without entries."""
    ordered = sorted(entries, key=lambda entry: (str(entry["startTime"]), str(entry["id"])))
    more = f"and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return "; ".join([*map(_described, ordered[:_SHOWN]), *filter(None, [more])])


def _described(entry: Mapping[str, Any]) -> str:
    kind = "capacity block" if entry["reservationType"] != "default" else "capacity reservation"
    what = f"{kind} {entry['id']} ({entry['places']} {entry['instanceType']} in {entry['availabilityZone']})"
    predicates = {
        SCHEDULED: "begins",
        UNPAID: "is not paid for yet and would begin",
        DELAYED: "is delayed and was to begin",
    }
    return f"{what} {predicates[entry['state']]} at {entry['startTime']}"


def with_reservations(
    catalogue: Catalogue, node_classes: Iterable[Mapping[str, Any]], taken: Mapping[str, int], now: datetime
) -> Catalogue:
    """Return the catalogue in which each class's types are also offered in its reservations.

    Args:
        catalogue: The market. A reservation that it has already is not added again.
        node_classes: EC2NodeClass manifests with their status.
        taken: Reservation id → how many claims have a place in it or are being launched into it.
        now: A reservation that has not begun or has ended by then takes nothing, nor does a capacity block that ends soon.
    """
    by_class = dict(catalogue.by_node_class)
    for manifest in node_classes:
        if not _has_reservations(manifest):
            continue
        try:
            node_class = read_node_class(manifest)
        except InvalidInputError:
            continue  # the class launches nothing, and its validation explains why
        by_class[node_class.name] = _with_offerings(catalogue.types_for(node_class.name), node_class, taken, now)
    return Catalogue(default=catalogue.default, by_node_class=by_class)


def selects_reservations(node_class: Mapping[str, Any]) -> bool:
    """Whether an EC2NodeClass manifest has terms for capacity reservations."""
    return bool((node_class.get("spec") or {}).get("capacityReservationSelectorTerms"))


def reservations_of(node_class: EC2NodeClass) -> tuple[CapacityReservation, ...]:
    """Return the resolved reservations of a class, with their places if known; also those that have not begun."""
    annotations, begun = node_class.metadata.annotations, node_class.status.capacity_reservations
    places = _places(annotations.get(labels.RESERVATION_PLACES, ""))
    counted = tuple(
        reservation
        if reservation.places is not None
        else msgspec.structs.replace(reservation, places=places.get(reservation.id))
        for reservation in begun
    )
    if labels.UPCOMING_RESERVATIONS not in annotations:
        return counted

    return (*counted, *upcoming_of(node_class))


def written_places(places: Mapping[str, int]) -> str:
    """Return the value of the annotation `labels.RESERVATION_PLACES`."""
    return msgspec.json.encode(dict(sorted(places.items()))).decode()


def _has_reservations(manifest: Mapping[str, Any]) -> bool:
    status = manifest.get("status")
    if not isinstance(status, Mapping):
        return False
    annotations = (manifest.get("metadata") or {}).get("annotations") or {}
    return bool(status.get("capacityReservations")) or labels.UPCOMING_RESERVATIONS in annotations


def _places(text: str) -> dict[str, int]:
    """Read the annotation; users may write anything there."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, int])
    except msgspec.MsgspecError:
        return {}


def _with_offerings(
    types: tuple[InstanceType, ...], node_class: EC2NodeClass, taken: Mapping[str, int], now: datetime
) -> tuple[InstanceType, ...]:
    by_type: dict[str, list[CapacityReservation]] = {}
    for reservation in reservations_of(node_class):
        by_type.setdefault(reservation.instance_type, []).append(reservation)

    def offered(instance_type: InstanceType) -> InstanceType:
        identities = {offering.reservation_id for offering in instance_type.offerings}
        added = [
            _offering(instance_type, entry, node_class.zones, taken.get(entry.id, 0), now)
            for entry in by_type.get(instance_type.name, ())
            if entry.id not in identities
        ]
        return (
            msgspec.structs.replace(instance_type, offerings=(*instance_type.offerings, *added))
            if added
            else instance_type
        )

    return tuple(map(offered, types))


def _offering(
    instance_type: InstanceType, reservation: CapacityReservation, zones: Iterable[str], taken: int, now: datetime
) -> Offering:
    """Return the offering; one that cannot be launched is marked unavailable and still prices running nodes."""
    places_left = max(0, (reservation.places or 0) - taken)
    is_open = reservation.state != EXPIRING and has_begun(reservation, now) and takes_instances(reservation, now)
    # The other offerings of the zone say whether the class can run this type at all; a type that is sold in capacity blocks
    # only has none.
    there = [
        o.available for o in instance_type.offerings if o.zone == reservation.availability_zone and not o.reservation_id
    ]
    fits = reservation.availability_zone in zones and (not there or any(there))
    listed = [o.price for o in instance_type.offerings if o.capacity_type == labels.ON_DEMAND]
    return Offering(
        instance_type=instance_type.name,
        zone=reservation.availability_zone,
        capacity_type=labels.RESERVED,
        price=paid_for(min(listed, default=0)),
        available=bool(places_left) and fits and is_open,
        reservation_id=reservation.id,
        reservation_capacity=places_left,
        reservation_type=reservation.reservation_type,
        interruptible=reservation.interruptible,
    )
