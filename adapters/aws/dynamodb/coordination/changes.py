"""Stores when the cluster was last seen to have changed, in one DynamoDB item per cluster."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from adapters.aws.dynamodb.readable_rows import aware, readable_row
from adapters.aws.dynamodb.records import partition_of
from adapters.aws.dynamodb.table import DynamoTable, Item, key

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
