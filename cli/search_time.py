"""How the arguments bound the search for cheaper nodes."""

from __future__ import annotations

import argparse
import time
from typing import Final

_PATIENCE: Final = 4
"""A search may take so many times its processor time: where others have the processor, the same work takes longer."""


class TimeBrake:
    """Answers which share of a time budget is over, counted from the first question; 1 or more for all of it.

    Attributes:
        has_braked: Whether any answer was that all of it is over, so that the plan may depend on the machine.
    """

    def __init__(self, seconds: float) -> None:
        self.has_braked = False
        self._seconds = seconds
        self._began: tuple[float, float] | None = None

    def __call__(self) -> float:
        """The share."""
        worked, now = time.process_time(), time.monotonic()
        if self._began is None:
            self._began = (worked, now)
        passed = max(worked - self._began[0], (now - self._began[1]) / _PATIENCE)
        share = passed / self._seconds if self._seconds > 0 else 1.0
        self.has_braked |= share >= 1
        return share


def share_of_time(arguments: argparse.Namespace) -> TimeBrake | None:
    """The brake of `--time-budget`; None where `--improve-iterations` alone bounds the search."""
    return None if arguments.improve_iterations is not None else TimeBrake(arguments.time_budget)
