"""The clock of a search, written down and played back: what it answered is all that of it that decides anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

THOUSANDTHS: Final = 1000


class RecordedTime:
    """Asks a clock and keeps its answers in thousandths; callers get the kept values.

    Attributes:
        elapsed: The answers so far.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.elapsed: list[int] = []

    def __call__(self) -> float:
        """Which share of the time is over."""
        self.elapsed.append(int(self._clock() * THOUSANDTHS))
        return self.elapsed[-1] / THOUSANDTHS


def played_back(elapsed: Sequence[int]) -> Callable[[], float]:
    """A clock that gives these answers in their order, and then says that time is over."""
    answers = iter(elapsed)
    return lambda: next(answers, THOUSANDTHS) / THOUSANDTHS
