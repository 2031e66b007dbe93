"""Stores the nodes on which pods are expected soon, in one DynamoDB item per cluster."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Final

import msgspec

from adapters.aws.dynamodb.readable_rows import readable_row
from adapters.aws.dynamodb.records import packed, partition_of, unpacked
from adapters.aws.dynamodb.table import DynamoTable, Item, key

_SORT: Final = "all"


class DynamoNominations:
    """`adapters.store.Nominations`. Only the planner writes, so the last write wins."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "nominations")

    def until(self, now: datetime) -> dict[str, datetime]:
        """Return node or claim name → expiry, for nominations that still hold."""
        known = readable_row(self._table.get(self._partition, _SORT), _nominated) or {}
        return {name: moment for name, moment in sorted(known.items()) if moment > now}

    def nominate(self, names: Iterable[str], *, now: datetime, until: datetime) -> None:
        """Add these nominations to those that still hold."""
        nominated = self.until(now) | dict.fromkeys(sorted(set(names)), until)
        body = packed(msgspec.json.encode(dict(sorted(nominated.items()))))
        self._table.put({**key(self._partition, _SORT), "body": body})


def _nominated(item: Item) -> dict[str, datetime]:
    return msgspec.json.decode(unpacked(item["body"]), type=dict[str, Annotated[datetime, msgspec.Meta(tz=True)]])
