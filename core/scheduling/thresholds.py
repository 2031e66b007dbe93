"""Which of many amounts reach a bound, as a bit mask, by binary search."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence


class Thresholds:
    """One amount for each bit position, ready to be asked which ones are at least, or at most, so much."""

    def __init__(self, amounts: Sequence[int]) -> None:
        self._descending = sorted(((amount, position) for position, amount in enumerate(amounts)), reverse=True)
        self._sorted = sorted(amounts)
        self._prefixes = [0]
        for _, position in reversed(self._descending):
            self._prefixes.append(self._prefixes[-1] | 1 << position)
        self._all = self._prefixes[-1]

    def at_least(self, bound: int) -> int:
        """Positions whose amount is `bound` or more."""
        return self._all & ~self._prefixes[bisect_left(self._sorted, bound)]

    def at_most(self, bound: int) -> int:
        """Positions whose amount is `bound` or less."""
        return self._prefixes[bisect_right(self._sorted, bound)]

    def largest(self, mask: int) -> int:
        """The largest amount in the mask, zero in an empty one."""
        return next((amount for amount, position in self._descending if mask >> position & 1), 0)
