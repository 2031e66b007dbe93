"""Leases in DynamoDB: who may plan, and a number that grows with each holder."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

from lambdas.adapters.aws.dynamo_records import partition_of
from lambdas.adapters.aws.dynamo_table import DynamoTable, number
from lambdas.ports import ConflictError
from lambdas.store import Lease


class DynamoLeases:
    """The leases of one cluster (`lambdas.store.Leases`)."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "leases")

    def acquire(self, name: str, owner: str, *, now: datetime, for_: timedelta) -> Lease | None:
        """Take the lease if nobody holds it, or if `owner` does already (the answer to an earlier try was lost)."""
        try:
            item = self._table.update(
                self._partition,
                name,
                UpdateExpression="SET #o = :o, #h = :h ADD #f :one",
                ConditionExpression="attribute_not_exists(#h) OR #h <= :now OR #o = :o",
                ExpressionAttributeNames={"#o": "owner", "#h": "held_until", "#f": "fence"},
                ExpressionAttributeValues={
                    ":o": {"S": owner},
                    ":h": number(_milliseconds(now + for_)),
                    ":now": number(_milliseconds(now)),
                    ":one": number(1),
                },
            )
        except ConflictError:
            return None
        return Lease(name, int(item["fence"]["N"]))

    def release(self, lease: Lease) -> None:
        """Give it back; no error if it is another's by now."""
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
