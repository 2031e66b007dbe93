"""Remembering answers about large immutable values, by identity: hashing a catalogue costs as much as most answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Answer = TypeVar("Answer")


class ByIdentity(Generic[Key, Answer]):
    """A function of one immutable object that remembers its last few answers.

    The object is kept alive with its answer, so one identity means one value, and what is remembered never shows in a result.
    """

    def __init__(self, compute: Callable[[Key], Answer], *, size: int) -> None:
        self._compute = compute
        self._size = size
        self._known: OrderedDict[int, tuple[Key, Answer]] = OrderedDict()

    def __call__(self, key: Key) -> Answer:
        """The answer for `key`, computed or remembered."""
        found = self._known.get(id(key))
        if found is None:
            found = self._known[id(key)] = (key, self._compute(key))
            if len(self._known) > self._size:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(id(key))
        return found[1]
