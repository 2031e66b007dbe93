"""Caches results for large immutable values by identity: hashing a catalogue costs as much as most results."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class ByIdentity(Generic[Key, Answer]):
    """A function of one immutable object that caches its last few results.

    The cache keeps the object alive, so one identity always means one value, and caching never changes a result.
    """

    def __init__(self, compute: Callable[[Key], Answer], *, size: int) -> None:
        self._compute = compute
        self._size = size
        self._known: OrderedDict[int, tuple[Key, Answer]] = OrderedDict()

    def __call__(self, key: Key) -> Answer:
        """Return the result for `key`, cached or computed."""
        found = self._known.get(id(key))
        if found is None:
            found = self._known[id(key)] = (key, self._compute(key))
            if len(self._known) > self._size:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(id(key))
        return found[1]
