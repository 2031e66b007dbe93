"""Records the readings of a search's clock and replays them: only these readings influence the decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from core.ledger.entry import LedgerEntry

THOUSANDTHS: Final = 1000


class RecordedTime:
    """Reads a clock and stores its readings in thousandths; callers get the stored values.

    Attributes:
        elapsed: The readings so far.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.elapsed: list[int] = []

    def __call__(self) -> float:
        """Return the elapsed share of the time."""
        self.elapsed.append(int(self._clock() * THOUSANDTHS))
        return self.elapsed[-1] / THOUSANDTHS


def replayed_clock(elapsed: Sequence[int]) -> Callable[[], float]:
    """Return a clock that gives these readings in order, and then reports that time is over."""
    answers = iter(elapsed)
    return lambda: next(answers, THOUSANDTHS) / THOUSANDTHS


def recorded_clock(entry: LedgerEntry) -> Callable[[], float] | None:
    """Return the clock that bounded a decision's search, as it was read then; None if there was none."""
    if entry.is_greedy or (entry.improve_iterations is not None and not entry.elapsed):
        return None
    return replayed_clock(entry.elapsed)
