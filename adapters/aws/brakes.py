"""Brakes in DynamoDB: those that functions engage, and a breaker per NodePool; one partition, read by one query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from adapters.aws.dynamodb.table import (
    ABSENT,
    DynamoTable,
    Item,
    as_read,
    decoded,
    key,
    number,
    packed,
    partition_of,
    sort_of,
    unpacked,
)
from adapters.aws.services import AwsService
from adapters.ports import Clock, ConflictError, NotFoundError
from adapters.store import UnreadableRowError
from core.brakes import Brake, BrakeKind, kill_switch
from core.breakers import Breaker
from installation.wiring import TABLE

# The user's CloudWatch alarms that pause voluntary disruption while they are in ALARM.


NAMES_MAX: Final = 100
"""The most alarms that one DescribeAlarms call may name."""


class PausingAlarms:
    """`adapters.brakes.Source` over alarms of the functions' own account and region, metric or composite."""

    def __init__(self, cloudwatch: AwsService, alarms: Sequence[str]) -> None:
        self._cloudwatch = cloudwatch
        self._alarms = tuple(sorted(set(alarms)))
        self.name = "the CloudWatch alarms that pause disruption"

    def read(self) -> tuple[Brake, ...]:
        """Return the brakes of alarms that are in ALARM or do not exist. Raises PortError."""
        states: dict[str, str] = {}
        for start in range(0, len(self._alarms), NAMES_MAX):
            answer = self._cloudwatch.call(
                "DescribeAlarms",
                AlarmNames=list(self._alarms[start : start + NAMES_MAX]),
                AlarmTypes=["MetricAlarm", "CompositeAlarm"],
                MaxRecords=NAMES_MAX,
            )
            alarms = [*(answer.get("MetricAlarms") or ()), *(answer.get("CompositeAlarms") or ())]
            states |= {alarm["AlarmName"]: alarm["StateValue"] for alarm in alarms}
        return tuple(brake for name in self._alarms if (brake := _alarm_brake(name, states.get(name))) is not None)


def _alarm_brake(name: str, state: str | None) -> Brake | None:
    """Return the brake of one alarm.

    Missing data engages none (CloudWatch's default); an alarm that does not exist engages one.
    """
    if state is None:
        return Brake(BrakeKind.ALARM, f"alarm {name} does not exist; create it or take it from the setting")
    if state == "ALARM":
        return Brake(BrakeKind.ALARM, f"alarm {name} is in ALARM; it continues when the alarm is over")
    return None


# The kill switch: an SSM parameter that an operator sets.


class KillSwitch:
    """`adapters.brakes.Source` over one parameter."""

    def __init__(self, ssm: AwsService, parameter: str) -> None:
        self._ssm = ssm
        self.name = f"parameter {parameter}"
        self._parameter = parameter

    def read(self) -> tuple[Brake, ...]:
        """Return the brake that the parameter engages. Raises PortError; a parameter that does not exist cannot be read."""
        answer = self._ssm.call("GetParameter", Name=self._parameter)
        brake = kill_switch(answer["Parameter"]["Value"], self._parameter)
        return () if brake is None else (brake,)


TRIES: Final = 5
"""How often a conflicting write of a breaker's row is retried; failures of one pool come together."""

KEPT_FOR: Final = timedelta(days=90)
"""How long a breaker's row is kept after its last result: a deleted NodePool leaves its row behind."""

_HELD: Final = "held#"
_BREAKER: Final = "breaker#"


class DynamoBrakes:
    """`HeldBrakes` and `Breakers` of `adapters.brakes`, and an `adapters.brakes.Source` for both."""

    name = "the brakes in the table"

    def __init__(self, table: DynamoTable, cluster: str, clock: Clock) -> None:
        self._table = table
        self._partition = partition_of(cluster, "brakes")
        self._clock = clock

    def read(self) -> tuple[Brake, ...]:
        """Return all engaged brakes; a breaker whose row cannot be read stops its own NodePool. Raises PortError."""
        now, items = self._clock.now(), tuple(self._table.query(self._partition))
        breakers, damaged = self._breakers(items, now)
        brakes = (breaker.brake(now) for breaker in breakers)
        return (
            *(_row_brake(item) for item in items if _is_held(item)),
            *(brake for brake in brakes if brake is not None),
            *damaged,
        )

    def held(self) -> tuple[Brake, ...]:
        """Return the brakes that functions engaged."""
        return tuple(_row_brake(item) for item in self._table.query(self._partition) if _is_held(item))

    def hold(self, brake: Brake, now: datetime) -> None:
        """Engage the brake, or replace its message."""
        item = key(self._partition, _held(brake.kind, brake.node_pool))
        since = {"since": {"S": now.isoformat()}}
        self._table.put({**item, **since, "body": packed(msgspec.json.encode(brake))})

    def release(self, kind: BrakeKind, node_pool: str = "") -> None:
        """Release the brake; no error if it is not engaged."""
        self._table.delete(self._partition, _held(kind, node_pool))

    def failed(self, node_pool: str, message: str, now: datetime) -> bool:
        """Count a failure; return whether that opens the breaker. Raises ConflictError if others keep writing the row."""
        before, after = self._change(node_pool, lambda breaker: breaker.after_failure(message, now), now)
        return after.openings > before.openings

    def joined(self, node_pool: str, now: datetime) -> bool:
        """Forget the failures; return whether that closes an open breaker.

        Raises ConflictError if others keep writing the row.
        """
        before, _ = self._change(node_pool, Breaker.after_success, now)
        return before.brake(now) is not None

    def breakers(self) -> tuple[Breaker, ...]:
        """Return all breakers that can be read, open or not."""
        breakers, _ = self._breakers(self._table.query(self._partition), self._clock.now())
        return tuple(breakers)

    def _breakers(self, items: Iterable[Item], now: datetime) -> tuple[list[Breaker], list[Brake]]:
        """Return the breakers among the items, and the brakes for those that cannot be read."""
        breakers, damaged = list[Breaker](), dict[str, Brake]()
        for item in items:
            if _is_held(item):
                continue
            try:
                breakers.append(_breaker(item, now))
            except UnreadableRowError as error:
                name = sort_of(item).removeprefix(_BREAKER)
                damaged[sort_of(item)] = Brake(BrakeKind.POOL_BREAKER, error.detail, node_pool=name)
        self._table.leave_out(self._partition, {sort: brake.message for sort, brake in damaged.items()})
        return breakers, list(damaged.values())

    def renew(self, node_pool: str, generations: str, now: datetime) -> None:
        """Drop the results of other generations of NodePool and EC2NodeClass. Raises ConflictError."""
        self._change(node_pool, lambda breaker: breaker.at(generations), now)

    def _change(self, node_pool: str, change: Callable[[Breaker], Breaker], now: datetime) -> tuple[Breaker, Breaker]:
        """Return the breaker before and after the change; a conflicting write is retried on the new row."""
        for _ in range(TRIES - 1):
            try:
                return self._change_once(node_pool, change, now)
            except ConflictError:
                continue
        return self._change_once(node_pool, change, now)

    def _change_once(
        self, node_pool: str, change: Callable[[Breaker], Breaker], now: datetime
    ) -> tuple[Breaker, Breaker]:
        item = self._table.get(self._partition, _BREAKER + node_pool)
        before, is_readable = Breaker(node_pool=node_pool), True
        if item is not None:
            try:
                before = _breaker(item, now)
            except UnreadableRowError:
                is_readable = False  # the next result begins a new row
        after = change(before)
        if after != before or not is_readable:
            condition = ABSENT if item is None else as_read(item)
            self._table.put(self._item(after, now, before.version + 1), condition=condition)
        return before, after

    def _item(self, breaker: Breaker, now: datetime, version: int) -> Item:
        stored = msgspec.structs.replace(breaker, version=version)
        return {
            **key(self._partition, _BREAKER + breaker.node_pool),
            "body": packed(msgspec.json.encode(stored)),
            "version": number(version),
            TABLE.expiry: number(int((now + KEPT_FOR).timestamp())),
        }


def _held(kind: BrakeKind, node_pool: str) -> str:
    return f"{_HELD}{kind}#{node_pool}"


def _is_held(item: Item) -> bool:
    return sort_of(item).startswith(_HELD)


def _row_brake(item: Item) -> Brake:
    """Return the brake of a row. Raises DeniedError if it cannot be read."""
    return decoded(item, lambda item: msgspec.json.decode(unpacked(item["body"]), type=Brake))


def _breaker(item: Item, now: datetime) -> Breaker:
    """Return the breaker of a row; one that has expired and is not yet deleted counts as empty. Raises DeniedError."""

    def read(item: Item) -> Breaker:
        stored = msgspec.json.decode(unpacked(item["body"]), type=Breaker)
        if int(item[TABLE.expiry]["N"]) <= now.timestamp():
            return Breaker(node_pool=stored.node_pool, version=stored.version)
        return stored

    return decoded(item, read)


# Zonal shifts and autoshifts of the cluster, from Application Recovery Controller (ARC).


class ZonalShifts:
    """`adapters.brakes.Source` over one EKS cluster; a cluster that is not registered with ARC has no shifts."""

    def __init__(self, arc: AwsService, cluster_arn: str) -> None:
        self._arc = arc
        self._cluster_arn = cluster_arn
        self.name = "zonal shifts of the cluster"

    def read(self) -> tuple[Brake, ...]:
        """Return the shifts that are applied now. Raises PortError."""
        try:
            answer = self._arc.call("GetManagedResource", resourceIdentifier=self._cluster_arn)
        except NotFoundError:
            return ()
        shifts = [*(answer.get("zonalShifts") or ()), *(answer.get("autoshifts") or ())]
        zones = {shift["awayFrom"] for shift in shifts if shift.get("appliedStatus") == "APPLIED"}
        return tuple(_shift_brake(zone) for zone in sorted(zones))


def _shift_brake(zone: str) -> Brake:
    message = f"traffic is shifted away from {zone}; it continues when the shift ends or is cancelled"
    return Brake(BrakeKind.ZONAL_SHIFT, message, zone=zone)
