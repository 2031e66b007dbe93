"""Bounds the search for cheaper nodes according to the arguments."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Final

from cli.terminal import output
from cli.terminal.style import style
from core.api.objects import JsonObject

if TYPE_CHECKING:
    from cli.inputs import DecisionInputs

_PATIENCE: Final = 4
"""Wall-clock limit as a multiple of processor time: on a busy machine the same work takes longer."""


_PRECISION: Final = 0.02
"""Seconds for which a measurement is reused: reading the processor time takes up to a millisecond, a search step little
more."""


TIME: Final = "time"


class TimeLimit:
    """Returns the elapsed share of a time budget, counted from its first call; 1 or more for all of it.

    Attributes:
        was_over: Whether time was over at any check, so that the plan may depend on the machine.
    """

    def __init__(self, seconds: float) -> None:
        self.was_over = False
        self._seconds = seconds
        self._began: tuple[float, float] | None = None
        self._measured = (0.0, 0.0)

    def __call__(self) -> float:
        """Return the share."""
        now = time.monotonic()
        at, share = self._measured
        if self._began is not None and now - at < _PRECISION:
            return share
        worked = time.process_time()
        if self._began is None:
            self._began = (worked, now)
        passed = max(worked - self._began[0], (now - self._began[1]) / _PATIENCE)
        share = passed / self._seconds if self._seconds > 0 else 1.0
        self._measured = (now, share)
        self.was_over |= share >= 1
        return share

    @property
    def stopped_by(self) -> str:
        """`time` if the clock ended the search early, so that the plan may depend on the machine; else `iterations`."""
        return TIME if self.was_over and self._seconds > 0 else "iterations"


def share_of_time(arguments: argparse.Namespace) -> TimeLimit | None:
    """Return the time limit of `--time-budget`; None if only `--improve-iterations` bounds the search."""
    return None if arguments.improve_iterations is not None else TimeLimit(arguments.time_budget)


def timing(inputs: DecisionInputs, solve_seconds: float, time_limit: TimeLimit | None) -> JsonObject:
    """Return how long reading and deciding took, and what stopped the search.

    The durations are null under an iteration bound, which guarantees the same bytes for the same input.
    """
    if time_limit is None:
        return {"decodeSeconds": None, "solveSeconds": None}
    return {
        "decodeSeconds": round(inputs.decode_seconds, 4),
        "solveSeconds": round(solve_seconds, 4),
        "stoppedBy": time_limit.stopped_by,
    }


def time_limit_line(stopped_by: str | None) -> str:
    """Return advice if the clock ended a search early, else an empty text."""
    if stopped_by != TIME:
        return ""
    text = (
        "the clock stopped the search for cheaper nodes, so another run may answer otherwise: "
        "a larger --time-budget lets it go on, --improve-iterations N gives the same answer everywhere"
    )
    return style.styled(output.wrapped(text), "yellow")
