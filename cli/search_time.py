"""Bounds the search for cheaper nodes according to the arguments."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from cli.terminal import output
from cli.terminal.style import style
from core.api.objects import JsonObject
from core.reasons.code import PAGE

if TYPE_CHECKING:
    from cli.inputs import DecisionInputs


# Finds the page of a reason code: on the documentation site if one is configured, else in the repository.


VARIABLE: Final = "FLEETWRIGHT_DOCS_URL"
"""Environment variable with the address of `make site`'s pages, such as https://docs.example.com/fleetwright."""

_CODES_MAX: Final = 3


def reason_page(code: str) -> str:
    """Return the place of a code's explanation."""
    return on_site(f"{PAGE}#{code.lower()}")


def on_site(text: str) -> str:
    """Return a text of the core with its links to the repository's page replaced by the site's, if one is configured."""
    base = os.environ.get(VARIABLE, "").rstrip("/")
    # A page has a folder of its own on the site.
    return text.replace(PAGE, f"{base}/{PAGE.removeprefix('docs/').removesuffix('.md')}/") if base else text


def pages_lines(codes: Iterable[str]) -> str:
    """Return lines with the pages of the first few of these codes; without a site, the command that explains them."""
    is_served = bool(os.environ.get(VARIABLE))
    distinct = list(dict.fromkeys(codes))[:_CODES_MAX]
    lines = [f"{code}: {reason_page(code) if is_served else f'fleetwright explain {code}'}" for code in distinct]
    return "\n".join(style.styled(output.wrapped(f"about {line}"), "dim") for line in lines)


_PATIENCE: Final = 4
"""Wall-clock limit as a multiple of processor time: on a busy machine the same work takes longer."""


_PRECISION: Final = 0.02
"""Seconds for which a measurement is reused: reading the processor time takes up to a millisecond, a search step little
more."""


TIME: Final = "time"


class TimeLimit:
    """Returns the elapsed share of a time budget, counted from its first call; 1 or more for all of it.

    Attributes:
        was_over: Whether time was over at any check, or too little of it was left for a stage, so that the plan may depend on
            the machine.
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

    def record_cut(self) -> None:
        """Record that too little time was left for a stage."""
        self.was_over = True

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


_STOPPED: Final = (
    "the clock stopped the search for cheaper nodes, so another run may answer otherwise: "
    "a larger --time-budget lets it go on, --improve-iterations N gives the same answer everywhere"
)


def time_limit_warning(stopped_by: str | None) -> str:
    """Return advice on one line if the clock ended a search early, else an empty text."""
    return _STOPPED if stopped_by == TIME else ""


def time_limit_line(stopped_by: str | None) -> str:
    """Return the same advice for the terminal that shows an answer, in lines of its width."""
    text = time_limit_warning(stopped_by)
    return style.styled(output.wrapped(text), "yellow") if text else ""
