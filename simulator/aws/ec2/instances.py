"""The instances of the embedded account: launched, tagged, interrupted, terminated, forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

import msgspec

from core import labels
from simulator.aws.ec2.templates import Template, filtered, of_fields, of_tags, paged, tag_list
from simulator.aws.installation import Exchange, Pool
from simulator.aws.queues import AwsError
from simulator.clock import VirtualClock
from simulator.record import Recorder

# One instance of the embedded account, its states and codes.


PENDING: Final = "pending"
RUNNING: Final = "running"
SHUTTING_DOWN: Final = "shutting-down"
TERMINATED: Final = "terminated"
STOPPING: Final = "stopping"
STOPPED: Final = "stopped"
STATE_CODES: Final = {PENDING: 0, RUNNING: 16, SHUTTING_DOWN: 32, TERMINATED: 48, STOPPING: 64, STOPPED: 80}
BY_CALLER: Final = "Client.UserInitiatedShutdown"
TAKEN_BACK: Final = "Server.SpotInstanceTermination"
RETIRED: Final = "Server.ScheduledStop"
"""Codes of EC2's `StateReason`."""


class Subnet(msgspec.Struct):
    """One subnet; `free` counts the free addresses, `taken` has the addresses of instances."""

    id: str
    zone: str
    network: str
    free: int
    handed_out: int = 0
    taken: set[str] = set()


class Instance(msgspec.Struct, kw_only=True):
    """One instance.

    Attributes:
        price: Nano-dollars per hour at its launch.
        user_data: As in its launch template, base64.
        reservation: Id of the capacity reservation that it was launched into and still is in; empty for none.
        placement_group, partition: Id of the placement group and the number of its partition; empty and 0 for none.
        market: The market type of its launch: `capacity-block` among others; empty for the usual ones.
        end_reason: Why it ended, as in `StateReason`; empty while it runs.
        impaired_since: Since when it fails its status check; None while it is well.
    """

    id: str
    pool: Pool
    image_id: str
    subnet: Subnet
    private_ip: str
    launched_at: datetime
    price: int
    token: str
    tags: dict[str, str]
    user_data: str = ""
    security_groups: tuple[str, ...] = ()
    instance_profile: str = ""
    state: str = PENDING
    ended_at: datetime | None = None
    end_reason: str = ""
    impaired_since: datetime | None = None
    reservation: str = ""
    market: str = ""
    placement_group: str = ""
    partition: int = 0

    @property
    def is_alive(self) -> bool:
        """Return whether the instance is running or pending."""
        return self.state in (PENDING, RUNNING)

    @property
    def is_stopped(self) -> bool:
        """Return whether somebody stopped it: EC2 keeps it, and can terminate it."""
        return self.state in (STOPPING, STOPPED)

    @property
    def node_name(self) -> str:
        """Its private DNS name, under which its kubelet registers."""
        return f"ip-{self.private_ip.replace('.', '-')}.ec2.internal"

    @property
    def provider_id(self) -> str:
        """Return its providerID in Kubernetes."""
        return f"aws:///{self.pool.zone}/{self.id}"


UNSETTLED: Final = timedelta(minutes=1)
"""For how long a list may leave out a new instance."""


def as_of(instance: Instance, moment: datetime, *, with_tags: bool = True) -> Instance:
    """The instance before it ended, where it had not ended then; without its tags if they are not known yet."""
    if not with_tags:
        instance = msgspec.structs.replace(instance, tags={})
    if instance.ended_at is None or instance.ended_at <= moment:
        return instance
    return msgspec.structs.replace(instance, state=RUNNING, ended_at=None, end_reason="")


def is_spot(instance: Instance) -> bool:
    """Return whether EC2 may reclaim it: spot, or in an interruptible reservation."""
    return instance.pool.capacity_type == labels.SPOT or instance.market == "interruptible-capacity-reservation"


STARTS_AFTER: Final = timedelta(seconds=8)
ENDS_AFTER: Final = timedelta(seconds=20)
FORGOTTEN_AFTER: Final = timedelta(hours=1)
SPOT_NOTICE: Final = timedelta(seconds=120)
MAINTENANCE_NOTICE: Final = timedelta(days=14)
"""AWS announces a retirement at least two weeks ahead."""

STRANGER: Final = "stranger"
"""Who launches instances that no function launched, in the record."""

STATE_CHANGE: Final = "EC2 Instance State-change Notification"
SPOT_WARNING: Final = "EC2 Spot Instance Interruption Warning"
RESERVATION_WARNING: Final = "EC2 Capacity Reservation Instance Interruption Warning"
REBALANCE: Final = "EC2 Instance Rebalance Recommendation"
STATUS_CHECK: Final = "statusCheck"
HEALTH: Final = "AWS Health Event"
HEALTH_AGAIN: Final = timedelta(minutes=1)
RETIREMENT: Final = "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED"

Bus = Callable[[str, str, dict[str, Any]], None]


class Instances:
    """All instances. Listeners are called for launches and ends; EC2's own events go to `bus(source, detail type, detail)`.

    Attributes:
        updates_health: Whether Health sends an event again, and names an instance that it no longer concerns.
    """

    def __init__(
        self, clock: VirtualClock, recorder: Recorder, rng: Random, bus: Bus, *, ends_after: timedelta = ENDS_AFTER
    ) -> None:
        self._clock = clock
        self._ends_after = ends_after
        self._recorder = recorder
        self._rng = rng
        self._bus = bus
        self.updates_health = False
        self._all: dict[str, Instance] = {}
        self._on_launch: list[Callable[[Instance], None]] = []
        self._on_change: list[Callable[[], None]] = []
        self._on_end: list[Callable[[Instance], None]] = []

    def on_launch(self, listener: Callable[[Instance], None]) -> None:
        """Call `listener` with each instance that is launched."""
        self._on_launch.append(listener)

    def on_end(self, listener: Callable[[Instance], None]) -> None:
        """Call `listener` with each instance that ends."""
        self._on_end.append(listener)

    def all(self) -> tuple[Instance, ...]:
        """Return every instance that EC2 still lists, oldest first."""
        return tuple(self._all.values())

    def get(self, instance_id: str) -> Instance:
        """One instance.

        Raises:
            AwsError: If the id is unknown.
        """
        instance = self._all.get(instance_id)
        if instance is None:
            raise no_instance(instance_id)
        return instance

    def seen(
        self, age: timedelta, tag_age: timedelta = timedelta(0), is_missing: Callable[[], bool] = lambda: False
    ) -> Mapping[str, Instance]:
        """Return every instance as it was `age` ago, oldest first.

        Args:
            age: How old the list is.
            tag_age: How old its tags are: an instance that is younger has none.
            is_missing: Whether it leaves out an instance of the last minute.
        """
        now = self._clock.now()
        then = now - age
        young = [name for name, instance in self._all.items() if instance.launched_at > now - UNSETTLED]
        missing = {name for name in young if is_missing()}
        if not (age or tag_age or missing):
            return self._all
        untagged = now - tag_age
        return {
            name: as_of(instance, then, with_tags=instance.launched_at <= untagged)
            for name, instance in self._all.items()
            if instance.launched_at <= then and name not in missing
        }

    def stop(self, instance: Instance) -> None:
        """Somebody stops an instance; EC2 keeps it."""
        if not instance.is_alive:
            return
        instance.state = STOPPING
        self._recorder.emit("instanceStopped", instance=instance.id)
        self._announce(instance)
        self._clock.after(self._ends_after, lambda: self._advance(instance, STOPPING, STOPPED))

    def launch(self, instance: Instance, *, by_stranger: bool = False) -> None:
        """Add a new instance, one that no function launched if `by_stranger`."""
        self._all[instance.id] = instance
        self._recorder.emit(
            "instanceLaunched",
            instance=instance.id,
            instanceType=instance.pool.instance_type,
            zone=instance.pool.zone,
            capacityType=instance.pool.capacity_type,
            price=instance.price / 10**9,
            clientToken=instance.token,
            tags=dict(sorted(instance.tags.items())),
            **({"by": STRANGER} if by_stranger else {}),
        )
        self._announce(instance)
        self._clock.after(STARTS_AFTER, lambda: self._advance(instance, PENDING, RUNNING))
        for listener in self._on_launch:
            listener(instance)

    def new_id(self, prefix: str = "i") -> str:
        """A fresh resource id, drawn from the seed."""
        return f"{prefix}-{self._rng.getrandbits(68):017x}"

    def tag(self, instance_id: str, tags: Mapping[str, str | None]) -> None:
        """Set tags; None removes one.

        Raises:
            AwsError: If there is no such instance.
        """
        instance = self.get(instance_id)
        for key, value in tags.items():
            if value is None:
                instance.tags.pop(key, None)
            else:
                instance.tags[key] = value
        self._recorder.emit("instanceTagged", instance=instance_id, tags=dict(sorted(instance.tags.items())))

    def terminate(self, instance_ids: Iterable[str], by: str) -> None:
        """Terminate instances; all or none, as EC2 does.

        Raises:
            AwsError: If one of them does not exist.
        """
        for instance in [self.get(instance_id) for instance_id in instance_ids]:
            if instance.is_alive or instance.is_stopped:
                self._end(instance, by, BY_CALLER)

    def fail_start(self, instance: Instance, reason: str) -> None:
        """EC2 ends an instance that cannot start for this reason: a code of `StateReason`."""
        if instance.is_alive:
            self._end(instance, "ec2", reason)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` before an instance's price changes."""
        self._on_change.append(listener)

    def change_pool(self, instance: Instance, pool: Pool, price: int) -> None:
        """Move the instance from its reservation to this pool at this price."""
        for listener in self._on_change:
            listener()
        instance.pool, instance.price, instance.reservation, instance.market = pool, price, "", ""

    def reclaim(self, instance_ids: Iterable[str]) -> None:
        """Terminate instances on EC2's behalf (spot reclaim)."""
        for instance_id in instance_ids:
            self._reclaim(self.get(instance_id))

    def interrupt(self, instance: Instance, kind: str) -> None:
        """Give notice: `spot` (reclaimed after two minutes), `rebalance` (a recommendation), `scheduledChange`.

        After `statusCheck` the check fails from now on; no event reports it.
        """
        notice = {"spot": SPOT_NOTICE, "scheduledChange": MAINTENANCE_NOTICE}.get(kind)
        deadline = None if notice is None else self._clock.now() + notice
        self._recorder.emit(
            "interruptionNotice",
            instance=instance.id,
            kind=kind,
            deadline=None if deadline is None else stamp(deadline),
        )
        if kind == STATUS_CHECK:
            instance.impaired_since = self._clock.now()
        elif kind == "spot":
            warning = RESERVATION_WARNING if instance.reservation else SPOT_WARNING
            self._bus("aws.ec2", warning, {"instance-id": instance.id, "instance-action": "terminate"})
        elif kind == "rebalance":
            self._bus("aws.ec2", REBALANCE, {"instance-id": instance.id})
        else:
            self._tell_health(instance, deadline or self._clock.now())
        if deadline is not None:
            self._clock.at(deadline, lambda: self._reclaim(instance))

    def _tell_health(self, instance: Instance, deadline: datetime) -> None:
        event = _maintenance(instance.id, deadline)
        if self.updates_health:
            others = [running.id for running in self._all.values() if running.is_alive and running is not instance]
            resolved = [{"entityValue": name, "status": "RESOLVED"} for name in others[:1]]
            event["affectedEntities"] = [*event["affectedEntities"], *resolved]
            self._clock.after(HEALTH_AGAIN, lambda: self._bus("aws.health", HEALTH, event))
        self._bus("aws.health", HEALTH, event)

    def _reclaim(self, instance: Instance) -> None:
        if instance.is_alive:
            self._end(instance, "interruption", TAKEN_BACK if is_spot(instance) else RETIRED)

    def _end(self, instance: Instance, by: str, reason: str) -> None:
        instance.state, instance.ended_at, instance.end_reason = SHUTTING_DOWN, self._clock.now(), reason
        instance.subnet.free += 1
        instance.subnet.taken.discard(instance.private_ip)
        self._recorder.emit("instanceTerminated", instance=instance.id, by=by)
        self._announce(instance)
        self._clock.after(self._ends_after, lambda: self._advance(instance, SHUTTING_DOWN, TERMINATED))
        self._clock.after(FORGOTTEN_AFTER, lambda: self._forget(instance))
        for listener in self._on_end:
            listener(instance)

    def _forget(self, instance: Instance) -> None:
        self._all.pop(instance.id, None)

    def _advance(self, instance: Instance, before: str, after: str) -> None:
        if instance.state == before:
            instance.state = after
            self._announce(instance)

    def _announce(self, instance: Instance) -> None:
        self._bus("aws.ec2", STATE_CHANGE, {"instance-id": instance.id, "state": instance.state})


def no_instance(instance_id: str) -> AwsError:
    """Return the error for an unknown instance id."""
    return AwsError("InvalidInstanceID.NotFound", f"The instance ID '{instance_id}' does not exist")


def stamp(moment: datetime) -> str:
    """Return a moment in RFC 3339."""
    return moment.isoformat().replace("+00:00", "Z")


def _maintenance(instance_id: str, start: datetime) -> dict[str, Any]:
    return {
        "eventArn": f"arn:aws:health:us-east-1::event/EC2/{RETIREMENT}/{RETIREMENT}_{instance_id}",
        "service": "EC2",
        "eventTypeCode": RETIREMENT,
        "eventTypeCategory": "scheduledChange",
        "eventScopeCode": "ACCOUNT_SPECIFIC",
        "statusCode": "upcoming",
        "startTime": start.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "eventDescription": [{"language": "en_US", "latestDescription": "The instance's hardware is to be retired."}],
        "affectedEntities": [{"entityValue": instance_id}],
        "page": "1",
        "totalPages": "1",
    }


# The embedded account's capacity reservations and capacity blocks: they are described, launched into, and end.


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
        replaced, now = self._all.get(reservation.id), self._clock.now()
        if replaced is not None:
            reservation.members = replaced.members
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
        reservation = self._all.get(template.reservation)
        if reservation is None:
            return "InvalidCapacityReservationId.NotFound", f"The reservation '{template.reservation}' does not exist"
        place = (reservation.instance_type, reservation.zone)
        if reservation.state != ACTIVE or place != (pool.instance_type, pool.zone):
            return NO_PLACE, f"The reservation '{reservation.id}' does not have compatible capacity for this request"
        market = BLOCK if reservation.kind == BLOCK else INTERRUPTIBLE if reservation.interruptible else ""
        if template.market != market:
            return "InvalidParameterValue", f"The reservation '{reservation.id}' needs the market type '{market}'"
        if not reservation.free or (reservation.kind == BLOCK and self._is_reclaimed(reservation)):
            return NO_PLACE, f"The reservation '{reservation.id}' does not have sufficient available capacity"
        return None

    def take(self, instance: Instance, template: Template) -> None:
        """Count an instance that was launched with this template."""
        reservation = self._all.get(template.reservation)
        if reservation is not None:
            reservation.members.add(instance.id)
            instance.reservation, instance.market = reservation.id, template.market

    def describe(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ec2:DescribeCapacityReservations. Raises AwsError for an unknown id."""
        reservations: Iterable[Reservation] = self._all.values()
        if ids := request.get("CapacityReservationIds"):
            reservations = [self._get(identity) for identity in ids]
        matching = filtered(reservations, request.get("Filters"), _values)
        return paged("CapacityReservations", [self._described(identity) for identity in matching], request, _PAGE)

    def _get(self, reservation_id: str) -> Reservation:
        reservation = self._all.get(reservation_id)
        if reservation is None:
            message = f"The capacity reservation ID '{reservation_id}' does not exist"
            raise AwsError("InvalidCapacityReservationId.NotFound", message)
        return reservation

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
        reservation = self._all.get(instance.reservation)
        if reservation is not None:
            reservation.members.discard(instance.id)

    def _described(self, reservation: Reservation) -> dict[str, Any]:
        described = {
            "CapacityReservationId": reservation.id,
            "OwnerId": reservation.owner,
            "InstanceType": reservation.instance_type,
            "InstancePlatform": "Linux/UNIX",
            "AvailabilityZone": reservation.zone,
            "Tenancy": "default",
            "TotalInstanceCount": reservation.total,
            "AvailableInstanceCount": reservation.free,
            "State": reservation.state,
            "EndDateType": "unlimited" if reservation.ends_at is None else "limited",
            "InstanceMatchCriteria": reservation.criteria,
            "ReservationType": reservation.kind,
            "Tags": tag_list(
                {**reservation.tags, _SIZE_TAG: str(reservation.total)}
                if reservation.kind == BLOCK
                else reservation.tags
            ),
        }
        if reservation.interruptible:
            described["Interruptible"] = True
        dates = {"StartDate": reservation.starts_at, "EndDate": reservation.ends_at}
        return described | {name: date for name, date in dates.items() if date is not None}


def _values(reservation: Reservation, name: str) -> tuple[str, ...]:
    by_tag = of_tags(reservation.tags, name)
    if by_tag is not None:
        return by_tag
    fields = {
        "state": reservation.state,
        "owner-id": reservation.owner,
        "instance-type": reservation.instance_type,
        "instance-match-criteria": reservation.criteria,
        "availability-zone": reservation.zone,
    }
    return of_fields(fields, name)
