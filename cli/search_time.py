"""How the arguments bound the search for cheaper nodes."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable


def share_of_time(arguments: argparse.Namespace) -> Callable[[], float] | None:
    """Which share of `--time-budget` is over, counted from the first question; None where steps bound the search."""
    if arguments.improve_iterations is not None:
        return None
    asked: list[float] = []

    def answer() -> float:
        asked.append(time.perf_counter())
        return (asked[-1] - asked[0]) / arguments.time_budget if arguments.time_budget > 0 else 1.0

    return answer
