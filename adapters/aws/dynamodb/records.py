"""Stores records as items: the record's JSON in `body`, its version in a separate attribute for conditional writes.

An item may have 400 KB, and writes are priced per kilobyte; a claim names all suitable types, and a command all pods that move.
Long bodies are therefore compressed, to about a tenth of their length.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from adapters.aws.dynamodb.readable_rows import decoded, readable_rows
from adapters.aws.dynamodb.table import DynamoTable, Item, as_read, key, number, sort_of
from adapters.store import UnreadableRowError

PACKED_FROM: Final = 1024
"""Bytes from which a body is compressed; shorter ones stay readable in the table.

Writes are priced per kilobyte and a claim's body has more than two: compressed, it costs one write unit and half the read
units.
"""


READ_AT_MOST: Final = 2_000
"""The most decoded records of a partition that are cached if a sandbox reads them singly, some kilobytes each; then the cache
is cleared."""


class Versioned(Protocol):
    """A record with a version that grows with each write."""

    @property
    def version(self) -> int:
        """The version; zero before the first write."""
        ...


R = TypeVar("R", bound=Versioned)


class _Read(msgspec.Struct, Generic[R], frozen=True):
    item: Item
    record: R


class RecordItems(Generic[R]):
    """The records of one type in one partition of the table. Unchanged items are decoded only once."""

    def __init__(self, table: DynamoTable, partition: str, type_: type[R], *, requires_all: bool = False) -> None:
        """Read the records of the partition; with `requires_all` a list that would lack one is an error."""
        self.partition = partition
        self._requires_all = requires_all
        self._table = table
        self._decode = msgspec.json.Decoder(type_).decode
        self._read: dict[str, _Read[R]] = {}

    def all(self) -> tuple[R, ...]:
        """Return every record, in the order of the sort keys."""
        return tuple(record for _, record in self.named())

    def readable(self) -> tuple[R, ...]:
        """Return every record whose row can be read, in the order of the sort keys, even if all are required."""
        return tuple(record for _, record in self._named(requires_all=False))

    def named(self) -> tuple[tuple[str, R], ...]:
        """Return every record with its sort key, in the order of the sort keys; rows that cannot be read are left out.

        Raises:
            UnreadableRowError: If all are required and one cannot be read.
        """
        return self._named(requires_all=self._requires_all)

    def _named(self, *, requires_all: bool) -> tuple[tuple[str, R], ...]:
        known = self._read
        read = readable_rows(
            self._table,
            self.partition,
            lambda item: self._decoded(item, known.get(sort_of(item))),
            is_required=lambda _: requires_all,
        )
        self._read = dict(read)
        return tuple((sort, found.record) for sort, found in read.items())

    def get(self, sort: str) -> R | None:
        """Return one record, None if there is none. Raises UnreadableRowError if its row cannot be read."""
        item = self._table.get(self.partition, sort)
        known = self._read.pop(sort, None)
        if item is None:
            return None
        if len(self._read) >= READ_AT_MOST:
            self._read = {}
        read = self._read[sort] = decoded(item, lambda item: self._decoded(item, known))
        return read.record

    def discard_unreadable(self, sort: str) -> None:
        """Delete a row that cannot be read. Raises ConflictError if it changes meanwhile."""
        item = self._table.get(self.partition, sort)
        if item is None:
            return
        try:
            decoded(item, lambda item: self._decoded(item, known=None))
        except UnreadableRowError:
            self._table.delete(self.partition, sort, condition=as_read(item))

    def item(self, sort: str, record: R) -> Item:
        """Return the item to write for `record`, under its own version."""
        body = packed(msgspec.json.encode(record))
        return {**key(self.partition, sort), "version": number(record.version), "body": body}

    def _decoded(self, item: Item, known: _Read[R] | None) -> _Read[R]:
        """Return the item's record; if the item has not changed since the last read, the cached one."""
        if known is not None and known.item == item:
            return known
        body: Any = self._decode(unpacked(item["body"]))
        record: R = msgspec.structs.replace(body, version=int(item["version"]["N"]))
        return _Read(item, record)


def packed(body: bytes) -> dict[str, Any]:
    """Return JSON as an attribute value, compressed if it is long."""
    return {"S": body.decode()} if len(body) < PACKED_FROM else {"B": zlib.compress(body)}


def unpacked(attribute: Mapping[str, Any]) -> bytes:
    """Return the JSON in an attribute that `packed` made."""
    return attribute["S"].encode() if "S" in attribute else zlib.decompress(attribute["B"])


def partition_of(cluster: str, kind: str) -> str:
    """Return the partition key for one type of item of one cluster."""
    return f"{cluster}#{kind}"
