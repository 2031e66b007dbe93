"""The instance hours of a period, and their cost at launch prices."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from core.ledger.outcome import DecisionOutcome, InstanceLife
from core.model.values.duration import MICROSECOND, MICROSECONDS_PER_HOUR


def lives(outcomes: Iterable[DecisionOutcome]) -> tuple[InstanceLife, ...]:
    """Return each instance once, in the order of their launches.

    A launch record has the exact time; an end record estimates it. The earliest end record counts.
    """
    recorded = [outcome.instance for outcome in outcomes if outcome.instance is not None]
    found: dict[str, InstanceLife] = {}
    for life in sorted(recorded, key=lambda life: (life.ended_at is not None, life.launched_at)):
        known = found.setdefault(life.instance, life)
        if life.ended_at is not None and (known.ended_at is None or life.ended_at < known.ended_at):
            found[life.instance] = msgspec.structs.replace(known, ended_at=life.ended_at)
    return tuple(sorted(found.values(), key=lambda life: (life.launched_at, life.instance)))


def overlap(life: InstanceLife, since: datetime, until: datetime) -> timedelta:
    """Return how long the instance ran in the period."""
    end = until if life.ended_at is None else min(life.ended_at, until)
    return max(end - max(life.launched_at, since), timedelta(0))


def cost(price: int, span: timedelta) -> int:
    """Return nano-dollars for a price per hour and a span of time."""
    return price * (span // MICROSECOND) // MICROSECONDS_PER_HOUR
