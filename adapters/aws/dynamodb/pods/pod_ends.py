"""Stores in DynamoDB when pods last ended on a node: an item for each node."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from adapters.aws.dynamodb.readable_rows import aware, readable_rows
from adapters.aws.dynamodb.records import partition_of
from adapters.aws.dynamodb.table import DynamoTable, Item, key, number
from adapters.ports import ConflictError
from installation.wiring import TABLE

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
