"""Stores EC2's launch denials of one cluster in DynamoDB: a row for each EC2NodeClass and code."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from adapters.aws.dynamodb.records import RecordItems, partition_of
from adapters.aws.dynamodb.table import ABSENT, DynamoTable, at_version, number
from adapters.ports import ConflictError
from core.launch.denials.denial import LaunchDenial
from installation.wiring import TABLE

KEPT_FOR: Final = timedelta(days=1)
"""How long a row is kept after its last denial: a deleted EC2NodeClass leaves its rows behind."""


class DynamoDenials:
    """`adapters.store.LaunchDenials`."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._items = RecordItems(table, partition_of(cluster, "denials"), LaunchDenial)

    def all(self) -> tuple[LaunchDenial, ...]:
        """Return every denial, by EC2NodeClass and code."""
        return self._items.all()

    def change(self, before: LaunchDenial | None, after: LaunchDenial) -> LaunchDenial:
        """Store `after`. Raises ConflictError if the stored version is not that of `before`, or for None if there is one."""
        version = before.version if before is not None else 0
        stored = msgspec.structs.replace(after, version=version + 1)
        item = self._items.item(_sort_of(after), stored)
        if stored.denied_at is not None:
            item[TABLE.expiry] = number(int((stored.denied_at + KEPT_FOR).timestamp()))
        self._table.put(item, condition=at_version(version) if before is not None else ABSENT)
        return stored

    def remove(self, denial: LaunchDenial) -> None:
        """Delete the denial; no error if it is gone. Raises ConflictError if it has changed."""
        sort = _sort_of(denial)
        try:
            self._table.delete(self._items.partition, sort, condition=at_version(denial.version))
        except ConflictError:
            if self._items.get(sort) is not None:
                raise


def _sort_of(denial: LaunchDenial) -> str:
    return f"{denial.node_class}#{denial.code}"
