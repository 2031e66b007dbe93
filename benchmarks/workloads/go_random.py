"""Go's `math/rand` with seed 42, so that the pods of Karpenter's benchmark are the ones that Go draws.

The generator is an additive lagged Fibonacci sequence, x[n] = x[n-607] + x[n-273] modulo 2^64, so its first 607 words determine
all others. They lie in `go_seed_42.txt`, printed by a Go program.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

_FIRST_WORDS: Final = Path(__file__).parent / "go_seed_42.txt"
_LONG_LAG: Final = 607
_SHORT_LAG: Final = 273
_INT31_END: Final = 1 << 31


class GoRandom:
    """Draws the same numbers as Go's `rand.New(rand.NewSource(42))`."""

    def __init__(self) -> None:
        self._words: NDArray[np.uint64] = np.array(_FIRST_WORDS.read_text().split(), dtype=np.uint64)
        self._coming = self._int31s()

    def intn(self, n: int) -> int:
        """A number from 0 to n - 1, drawn as Go's Intn does for n < 2^31: values that would favour small ones are skipped."""
        if n & (n - 1) == 0:
            return self._next() & (n - 1)
        largest = _INT31_END - 1 - _INT31_END % n
        drawn = self._next()
        while drawn > largest:
            drawn = self._next()
        return drawn % n

    def _next(self) -> int:
        if not self._coming:
            self._advance()
            self._coming = self._int31s()
        return self._coming.pop()

    def _int31s(self) -> list[int]:
        """The present words' upper 31 bits below the sign, the next one last."""
        words: list[int] = ((self._words & np.uint64((1 << 63) - 1)) >> np.uint64(32))[::-1].tolist()
        return words

    def _advance(self) -> None:
        """Compute the next 607 words, in runs that need only known words."""
        words = np.concatenate([self._words, np.zeros(_LONG_LAG, dtype=np.uint64)])
        for start in range(_LONG_LAG, 2 * _LONG_LAG, _SHORT_LAG):
            end = min(start + _SHORT_LAG, 2 * _LONG_LAG)
            words[start:end] = words[start - _LONG_LAG : end - _LONG_LAG] + words[start - _SHORT_LAG : end - _SHORT_LAG]
        self._words = words[_LONG_LAG:]
