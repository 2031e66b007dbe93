"""The instances of the embedded account: launched, tagged, interrupted, terminated, forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from simulator.aws.ec2.instance import (
    BY_CALLER,
    PENDING,
    RETIRED,
    RUNNING,
    SHUTTING_DOWN,
    TAKEN_BACK,
    TERMINATED,
    Instance,
    as_of,
    is_spot,
)
from simulator.aws.errors import AwsError
from simulator.aws.exchange import Pool
from simulator.clock import VirtualClock
from simulator.record import Recorder

STARTS_AFTER: Final = timedelta(seconds=8)
ENDS_AFTER: Final = timedelta(seconds=20)
FORGOTTEN_AFTER: Final = timedelta(hours=1)
SPOT_NOTICE: Final = timedelta(seconds=120)
MAINTENANCE_NOTICE: Final = timedelta(days=14)
"""AWS announces a retirement at least two weeks ahead."""

STATE_CHANGE: Final = "EC2 Instance State-change Notification"
SPOT_WARNING: Final = "EC2 Spot Instance Interruption Warning"
RESERVATION_WARNING: Final = "EC2 Capacity Reservation Instance Interruption Warning"
REBALANCE: Final = "EC2 Instance Rebalance Recommendation"
STATUS_CHECK: Final = "statusCheck"
HEALTH: Final = "AWS Health Event"
RETIREMENT: Final = "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED"

Bus = Callable[[str, str, dict[str, Any]], None]


class Instances:
    """All instances. Listeners are called for launches and ends; EC2's own events go to `bus(source, detail type, detail)`."""

    def __init__(
        self, clock: VirtualClock, recorder: Recorder, rng: Random, bus: Bus, *, ends_after: timedelta = ENDS_AFTER
    ) -> None:
        self._clock = clock
        self._ends_after = ends_after
        self._recorder = recorder
        self._rng = rng
        self._bus = bus
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
        found = self._all.get(instance_id)
        if found is None:
            raise no_instance(instance_id)
        return found

    def seen(self, age: timedelta) -> Mapping[str, Instance]:
        """Return every instance as it was `age` ago, oldest first."""
        if not age:
            return self._all
        then = self._clock.now() - age
        return {name: as_of(found, then) for name, found in self._all.items() if found.launched_at <= then}

    def launch(self, instance: Instance) -> None:
        """Add a new instance."""
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
            if instance.is_alive:
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
            self._bus("aws.health", HEALTH, _maintenance(instance.id, deadline or self._clock.now()))
        if deadline is not None:
            self._clock.at(deadline, lambda: self._reclaim(instance))

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
