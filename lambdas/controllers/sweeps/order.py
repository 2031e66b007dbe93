"""Orders the sweeps of a round, so that rounds that run out of time do not delay any sweep for long."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from lambdas.controllers.sweeps.sweep import Sweep

ROUND: Final = timedelta(minutes=2)
"""How often `reconcile` runs (`installation.wiring`)."""

OTHERS_FIRST: Final = 4
"""Non-urgent sweeps come first in one of this many rounds."""


def in_order(sweeps: Sequence[Sweep], now: datetime) -> tuple[Sweep, ...]:
    """Return urgent ones first except in every fourth round; the leading group begins with another sweep each time.

    The order depends only on the time: a killed round could not have stored its progress.
    """
    number = int(now.timestamp() // ROUND.total_seconds())
    of_others = number // OTHERS_FIRST
    others = _rotated([sweep for sweep in sweeps if not sweep.is_urgent], of_others)
    urgent = _rotated([sweep for sweep in sweeps if sweep.is_urgent], number - of_others)
    return (*others, *urgent) if number % OTHERS_FIRST == 0 else (*urgent, *others)


def _rotated(sweeps: Sequence[Sweep], by: int) -> tuple[Sweep, ...]:
    start = by % len(sweeps) if sweeps else 0
    return (*sweeps[start:], *sweeps[:start])
