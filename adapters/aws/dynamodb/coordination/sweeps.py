"""Stores the state of `reconcile`'s sweeps, in one DynamoDB item per cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from adapters.aws.dynamodb.readable_rows import readable_row
from adapters.aws.dynamodb.records import packed, partition_of, unpacked
from adapters.aws.dynamodb.table import DynamoTable, Item, key
from adapters.store import SweepState

_SORT: Final = "all"


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
