"""Stores leases in DynamoDB: who may plan, and a fencing number that grows with each holder."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from lambdas.adapters.aws.dynamodb.records import partition_of
from lambdas.adapters.aws.dynamodb.table import DynamoTable, number
from lambdas.ports import ConflictError
from lambdas.store import Lease

_BELOW: Final = "(attribute_not_exists(#f) OR #f < :now)"
_NOT_BELOW: Final = "#f >= :now"


class DynamoLeases:
    """The leases of one cluster (`lambdas.store.Leases`)."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "leases")

    def acquire(self, name: str, owner: str, *, now: datetime, for_: timedelta) -> Lease | None:
        """Take the lease if it is free, or if `owner` holds it already (the response to an earlier attempt was lost)."""
        fence = _milliseconds(now)
        ahead = self._take(name, owner, now, now + for_, "SET #o = :o, #h = :h, #f = :f", fence, _BELOW)
        return ahead or self._take(name, owner, now, now + for_, "SET #o = :o, #h = :h ADD #f :f", 1, _NOT_BELOW)

    def _take(
        self, name: str, owner: str, now: datetime, until: datetime, update: str, fence: int, condition: str
    ) -> Lease | None:
        """Take the lease with the time as its fence; if an earlier fence is ahead of our clock, with the next number."""
        values = {":o": {"S": owner}, ":h": number(_milliseconds(until)), ":now": number(_milliseconds(now))}
        try:
            item = self._table.update(
                self._partition,
                name,
                UpdateExpression=update,
                ConditionExpression=f"(attribute_not_exists(#h) OR #h <= :now OR #o = :o) AND {condition}",
                ExpressionAttributeNames={"#o": "owner", "#h": "held_until", "#f": "fence"},
                ExpressionAttributeValues={**values, ":f": number(fence)},
            )
        except ConflictError:
            return None
        return Lease(name, int(item["fence"]["N"]))

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


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
