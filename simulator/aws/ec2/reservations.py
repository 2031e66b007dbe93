"""The embedded account's capacity reservations and capacity blocks: they are described, launched into, and end."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from core import labels
from simulator.aws.ec2.filters import filtered, of_fields, of_tags, paged, tag_list
from simulator.aws.ec2.instance import Instance
from simulator.aws.ec2.instances import Instances
from simulator.aws.ec2.templates import Template
from simulator.aws.errors import AwsError
from simulator.aws.exchange import Exchange, Pool
from simulator.clock import VirtualClock

DEFAULT: Final = "default"
BLOCK: Final = "capacity-block"
INTERRUPTIBLE: Final = "interruptible-capacity-reservation"
SCHEDULED: Final = "scheduled"
ACTIVE: Final = "active"
EXPIRED: Final = "expired"
CANCELLED: Final = "cancelled"

NO_PLACE: Final = "ReservationCapacityExceeded"
ENDS_BEFORE: Final = timedelta(minutes=30)
"""EC2 terminates the instances of a capacity block this long before its end."""

_PAGE: Final = 1000
_SIZE_TAG: Final = "aws:ec2capacityreservation:incrementalRequestedQuantity"


class Reservation(msgspec.Struct, kw_only=True):
    """One reservation.

    Attributes:
        total: How many instances it holds at most.
        others: How many of its places are taken by instances outside the cluster.
        starts_at, ends_at: When it becomes active, and when it ends; None: at once, never.
        booked: Its state before its start; it becomes active then if it is `scheduled`.
        members: Ids of this cluster's instances in it.
    """

    id: str
    instance_type: str
    zone: str
    total: int
    owner: str
    others: int = 0
    kind: str = DEFAULT
    criteria: str = "targeted"
    interruptible: bool = False
    tags: dict[str, str] = {}
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    booked: str = SCHEDULED
    state: str = ACTIVE
    members: set[str] = set()

    @property
    def free(self) -> int:
        """Return how many more instances it can take: none before it begins."""
        return 0 if self.state != ACTIVE else max(0, self.total - self.others - len(self.members))


class Reservations:
    """Keeps reservations, and the instances in them."""

    def __init__(self, clock: VirtualClock, exchange: Exchange, instances: Instances) -> None:
        self._clock = clock
        self._exchange = exchange
        self._instances = instances
        self._all: dict[str, Reservation] = {}
        instances.on_end(self._ended)

    def make(self, reservation: Reservation) -> None:
        """Add a reservation, or replace the one with this id and keep its instances."""
        known, now = self._all.get(reservation.id), self._clock.now()
        if known is not None:
            reservation.members = known.members
        self._all[reservation.id] = reservation
        if reservation.starts_at is not None and reservation.starts_at > now:
            reservation.state = reservation.booked
            self._clock.at(reservation.starts_at, lambda: self._begin(reservation))
        if reservation.ends_at is not None:
            self._clock.at(max(now, reservation.ends_at), lambda: self._end(reservation, EXPIRED))
            if reservation.kind == BLOCK:
                self._clock.at(max(now, reservation.ends_at - ENDS_BEFORE), lambda: self._reclaim(reservation))

    def cancel(self, reservation_id: str) -> None:
        """End a reservation now. Raises AwsError for an unknown id."""
        self._end(self._get(reservation_id), CANCELLED)

    def find(self, reservation_id: str) -> Reservation | None:
        """The reservation of this id."""
        return self._all.get(reservation_id)

    def pool_for(self, template: Template, pool: Pool) -> Pool:
        """Return the pool of a launch: launches into a reservation have a capacity type of their own."""
        if not template.reservation:
            return pool
        return msgspec.structs.replace(pool, capacity_type=labels.RESERVED)

    def refuses(self, template: Template, pool: Pool) -> tuple[str, str] | None:
        """The error code and message with which a launch into a reservation is refused now, None where it is not."""
        found = self._all.get(template.reservation)
        if found is None:
            return "InvalidCapacityReservationId.NotFound", f"The reservation '{template.reservation}' does not exist"
        place = (found.instance_type, found.zone)
        if found.state != ACTIVE or place != (pool.instance_type, pool.zone):
            return NO_PLACE, f"The reservation '{found.id}' does not have compatible capacity for this request"
        market = BLOCK if found.kind == BLOCK else INTERRUPTIBLE if found.interruptible else ""
        if template.market != market:
            return "InvalidParameterValue", f"The reservation '{found.id}' needs the market type '{market}'"
        if not found.free or (found.kind == BLOCK and self._is_reclaimed(found)):
            return NO_PLACE, f"The reservation '{found.id}' does not have sufficient available capacity"
        return None

    def take(self, instance: Instance, template: Template) -> None:
        """Count an instance that was launched with this template."""
        found = self._all.get(template.reservation)
        if found is not None:
            found.members.add(instance.id)
            instance.reservation, instance.market = found.id, template.market

    def describe(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeCapacityReservations. Raises AwsError for an unknown id."""
        found: Iterable[Reservation] = self._all.values()
        if asked := request.get("CapacityReservationIds"):
            found = [self._get(one) for one in asked]
        matching = filtered(found, request.get("Filters"), _values)
        return paged("CapacityReservations", [self._described(one) for one in matching], request, _PAGE)

    def _get(self, reservation_id: str) -> Reservation:
        found = self._all.get(reservation_id)
        if found is None:
            message = f"The capacity reservation ID '{reservation_id}' does not exist"
            raise AwsError("InvalidCapacityReservationId.NotFound", message)
        return found

    def _is_reclaimed(self, reservation: Reservation) -> bool:
        return reservation.ends_at is not None and self._clock.now() >= reservation.ends_at - ENDS_BEFORE

    def _begin(self, reservation: Reservation) -> None:
        if reservation.state == SCHEDULED and self._all.get(reservation.id) is reservation:
            reservation.state = ACTIVE

    def _reclaim(self, reservation: Reservation) -> None:
        if self._all.get(reservation.id) is reservation:
            self._instances.reclaim(sorted(reservation.members))

    def _end(self, reservation: Reservation, state: str) -> None:
        """A block's instances have ended by then; instances of other reservations continue as on-demand."""
        if self._all.get(reservation.id) is not reservation or reservation.state in (EXPIRED, CANCELLED):
            return
        reservation.state = state
        members, reservation.members = sorted(reservation.members), set()
        for instance_id in members:
            instance = self._instances.get(instance_id)
            on_demand = msgspec.structs.replace(instance.pool, capacity_type=labels.ON_DEMAND)
            self._instances.change_pool(instance, on_demand, self._exchange.price(on_demand) or 0)

    def _ended(self, instance: Instance) -> None:
        found = self._all.get(instance.reservation)
        if found is not None:
            found.members.discard(instance.id)

    def _described(self, one: Reservation) -> dict[str, Any]:
        described = {
            "CapacityReservationId": one.id,
            "OwnerId": one.owner,
            "InstanceType": one.instance_type,
            "InstancePlatform": "Linux/UNIX",
            "AvailabilityZone": one.zone,
            "Tenancy": "default",
            "TotalInstanceCount": one.total,
            "AvailableInstanceCount": one.free,
            "State": one.state,
            "EndDateType": "unlimited" if one.ends_at is None else "limited",
            "InstanceMatchCriteria": one.criteria,
            "ReservationType": one.kind,
            "Tags": tag_list({**one.tags, _SIZE_TAG: str(one.total)} if one.kind == BLOCK else one.tags),
        }
        if one.interruptible:
            described["Interruptible"] = True
        dates = {"StartDate": one.starts_at, "EndDate": one.ends_at}
        return described | {name: date for name, date in dates.items() if date is not None}


def _values(one: Reservation, name: str) -> tuple[str, ...]:
    by_tag = of_tags(one.tags, name)
    if by_tag is not None:
        return by_tag
    fields = {
        "state": one.state,
        "owner-id": one.owner,
        "instance-type": one.instance_type,
        "instance-match-criteria": one.criteria,
        "availability-zone": one.zone,
    }
    return of_fields(fields, name)
