"""Stores the current target of the fleet, in one DynamoDB item per cluster."""

from __future__ import annotations

from typing import Final

from adapters.aws.dynamodb.readable_rows import readable_row
from adapters.aws.dynamodb.records import partition_of
from adapters.aws.dynamodb.table import DynamoTable, Item, key
from core.disruption.stored_targets import decode, encode
from core.model.plan import StoredTarget

_SORT: Final = "all"


class DynamoTargets:
    """`adapters.store.Targets`. One run of `disrupt` writes at a time, so the last write wins.

    A target takes about 25 bytes for each node to drain: some 60 KB for 2,000. An item may have 400 KB.
    """

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "target")

    def read(self) -> StoredTarget | None:
        """Return the target, None if there is none or another release wrote it."""
        return readable_row(self._table.get(self._partition, _SORT), _target)

    def write(self, target: StoredTarget | None) -> None:
        """Replace the target."""
        body = {"body": {"B": encode(target)}} if target is not None else {}
        self._table.put({**key(self._partition, _SORT), **body})


def _target(item: Item) -> StoredTarget | None:
    return decode(bytes(item["body"]["B"])) if "body" in item else None
