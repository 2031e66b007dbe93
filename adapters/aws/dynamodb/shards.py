"""Distributes records over several partitions by their name: one partition serves at most 3,000 read units a second.

Five thousand claims are several megabytes, and each full observation reads all of them. A record that an earlier release left
in the single partition is moved by the first run that reads it.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import blake2b
from typing import Final, Generic, TypeVar

from adapters.aws.dynamodb.records import RecordItems, Versioned, partition_of
from adapters.aws.dynamodb.table import ABSENT, DynamoTable, Item, at_version, key
from adapters.ports import PortError

SHARDS: Final = 8
"""Partitions for the records of one type. With more, small clusters would pay for queries that find nothing."""

R = TypeVar("R", bound=Versioned)


class ShardedItems(Generic[R]):
    """The records of one type in `SHARDS` partitions of the table."""

    def __init__(self, table: DynamoTable, cluster: str, kind: str, type_: type[R]) -> None:
        self._table = table
        self._cluster = cluster
        self._kind = kind
        self._single = RecordItems(table, partition_of(cluster, kind), type_)
        self._shards = [RecordItems(table, shard, type_) for shard in _partitions(cluster, kind)]

    def all(self) -> tuple[R, ...]:
        """Return every record, by name.

        A record that is being moved is seen in its old partition, its new one or both, and counts once.
        """
        left = {name: self._moved(name, record) for name, record in self._single.named()}
        found = {name: record for shard in self._shards for name, record in shard.named()}
        return tuple(record for _, record in sorted((left | found).items()))

    def get(self, name: str) -> R | None:
        """Return one record, None if there is none."""
        own = self._shard(name)
        found = own.get(name)
        if found is not None:
            return found
        left = self._single.get(name)
        return own.get(name) if left is None else self._moved(name, left)

    def discard_unreadable(self, name: str) -> None:
        """Delete the record's row if it cannot be read. Raises ConflictError if it changes meanwhile."""
        for items in (self._shard(name), self._single):
            items.discard_unreadable(name)

    def item(self, name: str, record: R) -> Item:
        """Return the item to write for `record`, under its own version."""
        return self._shard(name).item(name, record)

    def partition(self, name: str) -> str:
        """Return the key of the partition that holds the record."""
        return self._shard(name).partition

    def _shard(self, name: str) -> RecordItems[R]:
        return self._shards[_shard_of(name)]

    def _moved(self, name: str, record: R) -> R:
        """Move the record out of the single partition and return it; if that fails, the next reader tries again."""
        put = ("Put", {"Item": self.item(name, record), **ABSENT})
        delete = ("Delete", {"Key": key(self._single.partition, name), **at_version(record.version)})
        with suppress(PortError):
            self._table.transact([put, delete])
        return record


def shard_partition(cluster: str, kind: str, name: str) -> str:
    """Return the key of the partition that holds the record."""
    return _partitions(cluster, kind)[_shard_of(name)]


def _partitions(cluster: str, kind: str) -> list[str]:
    return [partition_of(cluster, f"{kind}#{shard}") for shard in range(SHARDS)]


def _shard_of(name: str) -> int:
    return blake2b(name.encode(), digest_size=1).digest()[0] % SHARDS
