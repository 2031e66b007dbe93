"""Finds which of many amounts reach a bound, as a bit mask, by binary search."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from operator import or_

from core.scheduling.primitives.handles import TypeMask


class ThresholdIndex:
    """One amount for each bit position, with queries for amounts at least, or at most, a bound.

    Most indexes are only queried for bounds that all amounts meet, so sorting waits for the first other query.
    """

    def __init__(self, amounts: Sequence[int]) -> None:
        self._amounts = amounts
        self._least = min(amounts, default=0)
        self._all = (1 << len(amounts)) - 1
        self._steps: list[int] = []
        self._prefixes: list[int] = []

    def at_least(self, bound: int) -> int:
        """Return positions whose amount is `bound` or more."""
        if bound <= self._least:
            return self._all
        self.prepare()
        return self._all & ~self._prefixes[bisect_left(self._steps, bound)]

    def at_most(self, bound: int) -> int:
        """Return positions whose amount is `bound` or less."""
        self.prepare()
        return self._prefixes[bisect_right(self._steps, bound)]

    def largest(self, mask: TypeMask) -> int:
        """Return the largest amount in the mask, zero for an empty one."""
        self.prepare()
        mask &= self._all
        low, high = 0, len(self._steps)
        while low < high:
            middle = (low + high) // 2
            if mask & ~self._prefixes[middle]:
                low = middle + 1
            else:
                high = middle
        return self._steps[low - 1] if low else 0

    def prepare(self) -> None:
        """Sort the different amounts, and gather the positions up to each of them."""
        if self._prefixes:
            return
        members: dict[int, int] = {}
        for position, amount in enumerate(self._amounts):
            members[amount] = members.get(amount, 0) | 1 << position
        # _prefixes[n] is the union of the n smallest amounts' positions, so a bound is one binary search away from its mask.
        self._steps = sorted(members)
        self._prefixes = list(accumulate((members[amount] for amount in self._steps), or_, initial=0))
