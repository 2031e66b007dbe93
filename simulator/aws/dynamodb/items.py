"""The table's content, with a journal of every write: items can be read and restored as of any moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import NamedTuple

from simulator.aws.dynamodb.values import Item, bytes_of


class Key(NamedTuple):
    """Partition and sort key."""

    partition: str
    sort: str


class Written(NamedTuple):
    """One write, with the item before and after; None if it did not exist."""

    at: datetime
    key: Key
    before: Item | None
    after: Item | None


Listener = Callable[[Key, Item | None], None]
"""Called for each write with the key and the present item, None if it is gone."""


class Items:
    """Items by partition in the order of their sort keys. They are replaced, never changed."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._partitions: dict[str, dict[str, Item]] = {}
        self._sorted: dict[str, tuple[str, ...]] = {}
        self._bytes: dict[str, int] = {}
        self._journal: list[Written] = []

    def get(self, key: Key) -> Item | None:
        """One item."""
        return self._partitions.get(key.partition, {}).get(key.sort)

    def partition(self, name: str) -> Iterator[tuple[str, Item]]:
        """The sort keys of a partition with their items, in order."""
        stored = self._partitions.get(name, {})
        if name not in self._sorted:
            # DynamoDB sorts by the bytes of UTF-8, which is the order of code points.
            self._sorted[name] = tuple(sorted(stored))
        return ((sort, stored[sort]) for sort in self._sorted[name])

    def bytes_in(self, name: str) -> int:
        """Return the size in bytes of a partition's items together."""
        return self._bytes.get(name, 0)

    def all(self) -> Iterator[tuple[Key, Item]]:
        """Every item, in the order of keys."""
        for name in sorted(self._partitions):
            for sort, item in self.partition(name):
                yield Key(name, sort), item

    def write(self, at: datetime, key: Key, item: Item | None) -> None:
        """Store an item, or remove it if `item` is None."""
        stored = self._partitions.setdefault(key.partition, {})
        before = stored.get(key.sort)
        size = self._bytes.get(key.partition, 0)
        self._bytes[key.partition] = size + bytes_of(item or {}) - bytes_of(before or {})
        if item is None:
            stored.pop(key.sort, None)
        else:
            stored[key.sort] = item
        if (before is None) != (item is None):
            self._sorted.pop(key.partition, None)
        if before is not None or item is not None:
            self._journal.append(Written(at, key, before, item))
            for listener in self._listeners:
                listener(key, item)

    def listen(self, listener: Listener) -> None:
        """Call `listener` with each item written or removed from now on."""
        self._listeners.append(listener)

    def changed_since(self, moment: datetime) -> dict[Key, Item | None]:
        """Return what was written after `moment`, with the items as they were then."""
        then: dict[Key, Item | None] = {}
        for written in reversed(self._journal):
            if written.at <= moment:
                break
            then[written.key] = written.before
        return then

    def newest(self) -> Iterator[Key]:
        """Return the keys of all items, the most recently written first."""
        seen: set[Key] = set()
        for written in reversed(self._journal):
            if written.key not in seen and self.get(written.key) is not None:
                yield written.key
            seen.add(written.key)
