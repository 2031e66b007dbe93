"""Stores leases in DynamoDB: who may plan, and a fencing number that grows with each holder."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from adapters.aws.dynamodb.readable_rows import decoded
from adapters.aws.dynamodb.records import partition_of
from adapters.aws.dynamodb.table import DynamoTable, Item, number
from adapters.ports import ConflictError
from adapters.store import Lease

LONGEST: Final = timedelta(hours=1)
"""A lease that is held for longer than this is free: functions run for fifteen minutes at most, so a clock was wrong, or a
person wrote the time."""

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
