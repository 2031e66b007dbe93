"""In which order the sweeps of a round come, so that a round that runs out of time starves none of them for long."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from lambdas.controllers.sweeps.sweep import Sweep

ROUND: Final = timedelta(minutes=2)
"""How often `reconcile` is woken (`lambdas.wiring`)."""

OTHERS_FIRST: Final = 4
"""Those that are not urgent come first in one of so many rounds."""


def in_order(sweeps: Sequence[Sweep], now: datetime) -> tuple[Sweep, ...]:
    """The urgent ones first but for every fourth round; whichever group comes first begins with another sweep each time.

    It follows from the time alone: a round that is killed half-way could not have written down how far it came.
    """
    number = int(now.timestamp() // ROUND.total_seconds())
    of_others = number // OTHERS_FIRST
    others = _rotated([sweep for sweep in sweeps if not sweep.is_urgent], of_others)
    urgent = _rotated([sweep for sweep in sweeps if sweep.is_urgent], number - of_others)
    return (*others, *urgent) if number % OTHERS_FIRST == 0 else (*urgent, *others)


def _rotated(sweeps: Sequence[Sweep], by: int) -> tuple[Sweep, ...]:
    start = by % len(sweeps) if sweeps else 0
    return (*sweeps[start:], *sweeps[:start])
