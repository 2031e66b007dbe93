"""Stores who may plan and what has changed in DynamoDB: leases, marks, sweeps, pods that ended."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from adapters.aws.dynamodb.table import (
    DynamoTable,
    Item,
    aware,
    decoded,
    key,
    number,
    packed,
    partition_of,
    readable_row,
    readable_rows,
    unpacked,
)
from adapters.ports import ConflictError
from adapters.store import Lease, SweepState
from installation.wiring import TABLE

if TYPE_CHECKING:
    from core.forecast import Forecast, GrowthHistory

T = TypeVar("T")

# Stores when the cluster was last seen to have changed, in one DynamoDB item per cluster.


_SORT: Final = "all"


class DynamoChanges:
    """`adapters.store.Changes`. Concurrent times differ by seconds at most, so the last write wins."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "changes")

    def last(self) -> datetime | None:
        """Return the moment, None if no change was ever recorded."""
        return readable_row(self._table.get(self._partition, _SORT), _moment)

    def record(self, now: datetime) -> None:
        """Replace the moment."""
        self._table.put({**key(self._partition, _SORT), "at": {"S": now.isoformat()}})


def _moment(item: Item) -> datetime:
    return aware(item["at"]["S"])


LONGEST: Final = timedelta(hours=1)
"""A lease that is held for longer than this is free: functions run for fifteen minutes at most, and an execution of theirs for
half an hour, so a clock was wrong, or a person wrote the time."""

LARGEST_FENCE: Final = 10**15
"""A larger fence is no time in milliseconds before the year 33658, and soon has more digits than DynamoDB counts."""

_FREE: Final = "(#o = :o OR NOT (#h BETWEEN :after AND :longest))"
_AHEAD: Final = "#f BETWEEN :now AND :largest"
"""These conditions also decide about rows whose attributes are missing or no numbers: no such value is between two numbers."""


class DynamoLeases:
    """The leases of one cluster (`adapters.store.Leases`)."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "leases")

    def acquire(self, name: str, owner: str, *, now: datetime, for_: timedelta) -> Lease | None:
        """Take the lease if it is free, or if `owner` holds it already (the response to an earlier attempt was lost).

        A row that cannot be read is replaced, since nothing else would ever free it. The time as its fence exceeds all
        fences that were taken by an earlier clock.
        """
        fence, behind = _milliseconds(now), f"NOT ({_AHEAD})"
        timed = self._take(name, owner, now, now + for_, "SET #o = :o, #h = :h, #f = :f", fence, behind)
        return timed or self._take(name, owner, now, now + for_, "SET #o = :o, #h = :h ADD #f :f", 1, _AHEAD)

    def _take(
        self, name: str, owner: str, now: datetime, until: datetime, update: str, fence: int, condition: str
    ) -> Lease | None:
        """Take the lease with the time as its fence; if an earlier fence is ahead of our clock, with the next number."""
        values = {
            ":o": {"S": owner},
            ":h": number(_milliseconds(until)),
            ":now": number(_milliseconds(now)),
            ":after": number(_milliseconds(now) + 1),
            ":longest": number(_milliseconds(now + LONGEST)),
            ":largest": number(LARGEST_FENCE),
        }
        try:
            item = self._table.update(
                self._partition,
                name,
                UpdateExpression=update,
                ConditionExpression=f"{_FREE} AND {condition}",
                ExpressionAttributeNames={"#o": "owner", "#h": "held_until", "#f": "fence"},
                ExpressionAttributeValues={**values, ":f": number(fence)},
            )
        except ConflictError:
            return None
        return Lease(name, decoded(item, _fence))

    def release(self, lease: Lease) -> None:
        """Release the lease; no error if another owner holds it by now."""
        with suppress(ConflictError):
            self._table.update(
                self._partition,
                lease.name,
                UpdateExpression="REMOVE #h",
                ConditionExpression="#f = :f",
                ExpressionAttributeNames={"#h": "held_until", "#f": "fence"},
                ExpressionAttributeValues={":f": number(lease.fence)},
            )


def _fence(item: Item) -> int:
    return int(item["fence"]["N"])


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


# Stores the state of `reconcile`'s sweeps, in one DynamoDB item per cluster.


class DynamoSweeps:
    """`adapters.store.SweepLog`. One run of `reconcile` writes at a time, so the last write wins."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "sweeps")

    def read(self) -> dict[str, SweepState]:
        """Return the state by sweep name."""
        return readable_row(self._table.get(self._partition, _SORT), _states) or {}

    def write(self, states: Mapping[str, SweepState]) -> None:
        """Replace all states."""
        body = packed(msgspec.json.encode(dict(sorted(states.items()))))
        self._table.put({**key(self._partition, _SORT), "body": body})


def _states(item: Item) -> dict[str, SweepState]:
    return msgspec.json.decode(unpacked(item["body"]), type=dict[str, SweepState])


# Stores in DynamoDB when pods last ended on a node: an item for each node.


KEPT_FOR: Final = timedelta(hours=3)
"""How long an item is kept. Observations of pods copy the times from here, and `reconcile` observes at least once an hour."""

_FIELD: Final = "ended_at"


class DynamoPodEnds:
    """`adapters.store.PodEnds`."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "pod-ends")

    def latest(self, now: datetime) -> dict[str, datetime]:
        """Return node → time; DynamoDB deletes items some time after they expire."""
        ends = readable_rows(self._table, self._partition, lambda item: _end(item, now))
        return {node: at for node, at in ends.items() if at is not None}

    def record(self, ended: Mapping[str, datetime], now: datetime) -> None:
        """Replace earlier times."""
        expiry = number(int((now + KEPT_FOR).timestamp()))
        for node, at in sorted(ended.items()):
            item = {**key(self._partition, node), _FIELD: {"S": at.isoformat()}, TABLE.expiry: expiry}
            with suppress(ConflictError):  # a later event was stored first
                self._table.put(item, condition=_later_than(at))


def _end(item: Item, now: datetime) -> datetime | None:
    """Return the time in a row, None if the row has expired."""
    at = aware(item[_FIELD]["S"])
    return at if int(item[TABLE.expiry]["N"]) > now.timestamp() else None


def _later_than(at: datetime) -> dict[str, Any]:
    """Return the condition that the stored time, if any, is earlier.

    Times of equal zone and precision sort like their texts.
    """
    return {
        "ConditionExpression": "attribute_not_exists(#f) OR #f < :at",
        "ExpressionAttributeNames": {"#f": _FIELD},
        "ExpressionAttributeValues": {":at": {"S": at.isoformat()}},
    }


# Stores what is forecast of a cluster's pods, in two DynamoDB items per cluster.


_HISTORY: Final = "history"
_FORECAST: Final = "forecast"

HISTORY_MAX: Final = 390_000
"""The most bytes of a history: an item may have 400 KB, and a write that fails would end all learning."""


class DynamoForecasts:
    """`adapters.store.ForecastStore`. A damaged history is read from the ledger again, and a damaged forecast keeps no room."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "forecast")

    def history(self) -> GrowthHistory | None:
        """Return what was read so far."""
        from core.forecast import GrowthHistory  # only installations with a forecast need it

        return readable_row(self._table.get(self._partition, _HISTORY), lambda item: _body(item, GrowthHistory))

    def write_history(self, history: GrowthHistory) -> None:
        """Replace it; one that is too large loses the smallest slots of all days."""
        from core.forecast import SLOTS_MAX, thinned

        slots, body = SLOTS_MAX, packed(msgspec.json.encode(history))
        while slots and _size(body) > HISTORY_MAX:
            slots = min(slots - 1, slots * HISTORY_MAX // _size(body))
            body = packed(msgspec.json.encode(thinned(history, slots)))
        self._table.put({**key(self._partition, _HISTORY), "body": body})

    def forecast(self) -> Forecast | None:
        """Return the last forecast."""
        from core.forecast import Forecast

        return readable_row(self._table.get(self._partition, _FORECAST), lambda item: _body(item, Forecast))

    def write_forecast(self, forecast: Forecast) -> None:
        """Replace it."""
        self._table.put({**key(self._partition, _FORECAST), "body": packed(msgspec.json.encode(forecast))})


def _size(body: Mapping[str, Any]) -> int:
    (value,) = body.values()
    return len(value)


def _body(item: Item, type_: type[T]) -> T:
    return msgspec.json.decode(unpacked(item["body"]), type=type_)
