"""Computes when a capacity reservation ends, when EC2 takes its instances back, and when their nodes must go before that."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from core.catalogue.node_class import CAPACITY_BLOCK, CapacityReservation

RECLAIMED_BEFORE: Final = timedelta(minutes=30)
"""How long before the end of a capacity block EC2 begins to terminate its instances (EC2, Capacity Blocks)."""

ULTRASERVER_RECLAIMED_BEFORE: Final = timedelta(minutes=60)
"""The same for a block of UltraServers."""

ULTRASERVERS: Final = ("p6e-", "trn2u.")
"""Prefixes of the names of instance types that exist only in UltraServers."""

LEAVES_BEFORE: Final = timedelta(minutes=10)
"""The nodes of a block go this long before EC2 takes their instances (Karpenter)."""

SERVES_LEAST: Final = timedelta(minutes=10)
"""A block takes a new node only if the node can stay at least this long: its pods run only after several minutes."""


def ends_at(reservation: CapacityReservation) -> datetime | None:
    """Return when the reservation ends, None where it has no end or an unreadable one."""
    return moment(reservation.end_time)


def moment(written: str) -> datetime | None:
    """Read a time of a status, which others may write; None for an empty or unreadable one, UTC where it has no zone."""
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


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
