"""Orders types by price once, and yields any subset in that order without sorting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import compress
from operator import itemgetter

from core.scheduling.primitives.bit_set import flags_of
from core.scheduling.primitives.handles import TypeMask


class PriceOrder:
    """Types with a price, the cheapest first; ties by position."""

    def __init__(self, prices: Mapping[int, int], length: int) -> None:
        """Sort the types.

        Args:
            prices: Position → price.
            length: How many positions there are, including those without a price.
        """
        self._entries = sorted((price, position) for position, price in prices.items())
        self._positions = [position for _, position in self._entries]
        self._length = length
        self._in_order = itemgetter(
            *self._positions, 0, 0
        )  # two more, since itemgetter returns a tuple only for two or more

    def among(self, mask: TypeMask) -> Iterator[tuple[int, int]]:
        """Return (price, position) of the types in the mask."""
        return compress(self._entries, self._flags(mask))

    def positions_among(self, mask: TypeMask) -> Iterator[int]:
        """Return the positions of the types in the mask."""
        return compress(self._positions, self._flags(mask))

    def _flags(self, mask: TypeMask) -> tuple[int, ...]:
        flags: tuple[int, ...] = self._in_order(flags_of(mask, max(1, self._length)))
        return flags
