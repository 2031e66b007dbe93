"""Adds the capacity reservations that an EC2NodeClass selects to its instance types, as offerings of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from core import labels
from core.catalogue.node_class import EXPIRING, CapacityReservation, EC2NodeClass, read_node_class
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue, InstanceType, Offering

PRICE_SHARE: Final = 10_000_000
"""The on-demand price divided by this is the price of a prepaid place (Karpenter): smaller machines stay cheaper than larger
ones."""


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


def paid_for(price: int) -> int:
    """Return the price at which prepaid capacity counts, for its on-demand price."""
    return max(1, price // PRICE_SHARE) if price else 0


def selects_reservations(node_class: Mapping[str, Any]) -> bool:
    """Whether an EC2NodeClass manifest has terms for capacity reservations."""
    return bool((node_class.get("spec") or {}).get("capacityReservationSelectorTerms"))


def reservations_of(node_class: EC2NodeClass) -> tuple[CapacityReservation, ...]:
    """Return the resolved reservations of a class, with their places if known; also those that have not begun."""
    annotations, begun = node_class.metadata.annotations, node_class.status.capacity_reservations
    known = _places(annotations.get(labels.RESERVATION_PLACES, ""))
    counted = tuple(
        one if one.places is not None else msgspec.structs.replace(one, places=known.get(one.id)) for one in begun
    )
    if labels.UPCOMING_RESERVATIONS not in annotations:
        return counted
    from core.catalogue.discovered.upcoming_reservations import upcoming_of  # most clusters have booked none

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

    def offered(found: InstanceType) -> InstanceType:
        own = {offering.reservation_id for offering in found.offerings}
        added = [
            _offering(found, one, node_class.zones, taken.get(one.id, 0), now)
            for one in by_type.get(found.name, ())
            if one.id not in own
        ]
        return msgspec.structs.replace(found, offerings=(*found.offerings, *added)) if added else found

    return tuple(map(offered, types))


def _offering(
    found: InstanceType, reservation: CapacityReservation, zones: Iterable[str], taken: int, now: datetime
) -> Offering:
    """Return the offering; one that cannot be launched is marked unavailable and still prices running nodes."""
    from core.catalogue.discovered.reservation_end import takes_instances  # most clusters have no reservations
    from core.catalogue.discovered.upcoming_reservations import has_begun

    left = max(0, (reservation.places or 0) - taken)
    is_open = reservation.state != EXPIRING and has_begun(reservation, now) and takes_instances(reservation, now)
    # The other offerings of the zone say whether the class can run this type at all; a type that is sold in capacity blocks
    # only has none.
    there = [o.available for o in found.offerings if o.zone == reservation.availability_zone and not o.reservation_id]
    fits = reservation.availability_zone in zones and (not there or any(there))
    listed = [o.price for o in found.offerings if o.capacity_type == labels.ON_DEMAND]
    return Offering(
        instance_type=found.name,
        zone=reservation.availability_zone,
        capacity_type=labels.RESERVED,
        price=paid_for(min(listed, default=0)),
        available=bool(left) and fits and is_open,
        reservation_id=reservation.id,
        reservation_capacity=left,
        reservation_type=reservation.reservation_type,
        interruptible=reservation.interruptible,
    )
