"""Distributes records over several partitions by their name: one partition serves at most 3,000 read units a second.

Five thousand claims are several megabytes, and each full observation reads all of them.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, Generic, TypeVar

from adapters.aws.dynamodb.records import RecordItems, Versioned, partition_of
from adapters.aws.dynamodb.table import DynamoTable, Item

SHARDS: Final = 8
"""Partitions for the records of one type. With more, small clusters would pay for queries that find nothing."""

R = TypeVar("R", bound=Versioned)


class ShardedItems(Generic[R]):
    """The records of one type in `SHARDS` partitions of the table."""

    def __init__(self, table: DynamoTable, cluster: str, kind: str, type_: type[R]) -> None:
        self._shards = [RecordItems(table, shard, type_) for shard in _partitions(cluster, kind)]

    def all(self) -> tuple[R, ...]:
        """Return every record, by name."""
        found = {name: record for shard in self._shards for name, record in shard.named()}
        return tuple(record for _, record in sorted(found.items()))

    def get(self, name: str) -> R | None:
        """Return one record, None if there is none."""
        return self._shard(name).get(name)

    def discard_unreadable(self, name: str) -> None:
        """Delete the record's row if it cannot be read. Raises ConflictError if it changes meanwhile."""
        self._shard(name).discard_unreadable(name)

    def item(self, name: str, record: R) -> Item:
        """Return the item to write for `record`, under its own version."""
        return self._shard(name).item(name, record)

    def partition(self, name: str) -> str:
        """Return the key of the partition that holds the record."""
        return self._shard(name).partition

    def _shard(self, name: str) -> RecordItems[R]:
        return self._shards[_shard_of(name)]


def shard_partition(cluster: str, kind: str, name: str) -> str:
    """Return the key of the partition that holds the record."""
    return _partitions(cluster, kind)[_shard_of(name)]


def _partitions(cluster: str, kind: str) -> list[str]:
    return [partition_of(cluster, f"{kind}#{shard}") for shard in range(SHARDS)]


def _shard_of(name: str) -> int:
    return blake2b(name.encode(), digest_size=1).digest()[0] % SHARDS
