"""Random numbers: each purpose has its own stream, so that a new draw for one purpose does not change the others."""

from __future__ import annotations

import math
from datetime import timedelta
from random import Random
from typing import Final

import msgspec

_Z99: Final = 2.3263478740408408
"""The standard normal distribution's 99th percentile."""

_LONGEST: Final = 2
"""No draw is longer than this many times the 99th percentile."""


def stream(seed: int, purpose: str) -> Random:
    """Return the random stream of one purpose under this seed."""
    return Random(f"{seed}/{purpose}")  # noqa: S311 - a simulation must be repeatable


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A time that AWS does not promise: a constant, or drawn log-normally by its median and its 99th percentile."""

    p50: timedelta
    p99: timedelta

    def draw(self, rng: Random) -> timedelta:
        """Return one time, in whole milliseconds. A constant draws nothing."""
        if self.p50 == self.p99 or not self.p50:
            return self.p50
        sigma = math.log(self.p99 / self.p50) / _Z99
        drawn = self.p50.total_seconds() * math.exp(sigma * rng.gauss(0.0, 1.0))
        return timedelta(milliseconds=round(1000 * min(drawn, _LONGEST * self.p99.total_seconds())))


def constant(takes: timedelta) -> Span:
    """Return a time that is always the same."""
    return Span(p50=takes, p99=takes)
