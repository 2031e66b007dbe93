"""Records the clock of a search and plays it back: only its answers influence the decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

THOUSANDTHS: Final = 1000


class RecordedTime:
    """Calls a clock and keeps its answers in thousandths; callers get the kept values.

    Attributes:
        elapsed: The answers so far.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.elapsed: list[int] = []

    def __call__(self) -> float:
        """Return the elapsed share of the time."""
        self.elapsed.append(int(self._clock() * THOUSANDTHS))
        return self.elapsed[-1] / THOUSANDTHS


def played_back(elapsed: Sequence[int]) -> Callable[[], float]:
    """Return a clock that gives these answers in order, and then reports that time is over."""
    answers = iter(elapsed)
    return lambda: next(answers, THOUSANDTHS) / THOUSANDTHS
