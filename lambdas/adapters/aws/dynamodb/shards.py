"""Records dealt out to several partitions by their name: one partition gives 3,000 read units a second and no more.

Five thousand claims are several megabytes, and each whole look reads all of them. A record that an earlier release left in the
single partition is moved to its own by whoever reads it first.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import blake2b
from typing import Final, Generic, TypeVar

from lambdas.adapters.aws.dynamodb.records import RecordItems, Versioned, partition_of
from lambdas.adapters.aws.dynamodb.table import ABSENT, DynamoTable, Item, at_version, key
from lambdas.ports import PortError

SHARDS: Final = 8
"""Partitions for the records of one kind. More would make small clusters pay for queries that find nothing."""

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
        """Every record, by name. What is moved meanwhile is seen in its old place, its new one or both, and counts once."""
        left = {name: self._moved(name, record) for name, record in self._single.named()}
        found = {name: record for shard in self._shards for name, record in shard.named()}
        return tuple(record for _, record in sorted((left | found).items()))

    def get(self, name: str) -> R | None:
        """One record, None if there is none."""
        own = self._shard(name)
        found = own.get(name)
        if found is not None:
            return found
        left = self._single.get(name)
        return own.get(name) if left is None else self._moved(name, left)

    def item(self, name: str, record: R) -> Item:
        """The item to write for `record`, under its own version."""
        return self._shard(name).item(name, record)

    def partition(self, name: str) -> str:
        """Key of the partition that a record is in."""
        return self._shard(name).partition

    def _shard(self, name: str) -> RecordItems[R]:
        return self._shards[_shard_of(name)]

    def _moved(self, name: str, record: R) -> R:
        """The record from the single partition, in its own from now on; where that fails the next who reads it tries again."""
        put = ("Put", {"Item": self.item(name, record), **ABSENT})
        delete = ("Delete", {"Key": key(self._single.partition, name), **at_version(record.version)})
        with suppress(PortError):
            self._table.transact([put, delete])
        return record


def shard_partition(cluster: str, kind: str, name: str) -> str:
    """Key of the partition that a record is in."""
    return _partitions(cluster, kind)[_shard_of(name)]


def _partitions(cluster: str, kind: str) -> list[str]:
    return [partition_of(cluster, f"{kind}#{shard}") for shard in range(SHARDS)]


def _shard_of(name: str) -> int:
    return blake2b(name.encode(), digest_size=1).digest()[0] % SHARDS
