"""Capacity reservations that were booked and have not begun, stored in an annotation of their EC2NodeClass.

Karpenter's definition of the class admits only the states of reservations that have begun, and no time of their start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from core import labels
from core.catalogue.discovered.reservation_end import moment
from core.catalogue.node_class import DELAYED, SCHEDULED, UNPAID, UPCOMING, CapacityReservation, EC2NodeClass

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
    found = read_upcoming(node_class.metadata.annotations.get(labels.UPCOMING_RESERVATIONS, "")) or ()
    begun = {one.id for one in node_class.status.capacity_reservations}
    by_id = {one.id: one for one in found if one.state in UPCOMING and one.id not in begun}
    return tuple(by_id.values())


def read_upcoming(text: str) -> _Entries | None:
    """Read the annotation `labels.UPCOMING_RESERVATIONS`, None if it has no list of reservations."""
    try:
        return msgspec.json.decode(text, type=_Entries)
    except (msgspec.MsgspecError, RecursionError, ValueError):  # nested too deep, or no valid Unicode
        return None


def written_upcoming(entries: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the value of the annotation `labels.UPCOMING_RESERVATIONS`, None for no annotation."""
    found = [dict(sorted(entry.items())) for entry in entries]
    return msgspec.json.encode(found).decode() if found else None


def upcoming_message(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return for people what begins when, the next first; empty without entries."""
    ordered = sorted(entries, key=lambda entry: (str(entry["startTime"]), str(entry["id"])))
    more = f"and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return "; ".join([*map(_described, ordered[:_SHOWN]), *filter(None, [more])])


def _described(entry: Mapping[str, Any]) -> str:
    kind = "capacity block" if entry["reservationType"] != "default" else "capacity reservation"
    what = f"{kind} {entry['id']} ({entry['places']} {entry['instanceType']} in {entry['availabilityZone']})"
    said = {SCHEDULED: "begins", UNPAID: "is not paid for yet and would begin", DELAYED: "is delayed and was to begin"}
    return f"{what} {said[entry['state']]} at {entry['startTime']}"
