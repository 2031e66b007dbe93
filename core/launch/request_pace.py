"""The pace of requests to EC2: a token bucket whose rate falls when EC2 throttles and rises again afterwards.

EC2 throttles by account and region, and says neither its rate nor how much of it others use. The rate is therefore learned as
TCP learns a path's: multiplicative decrease for each throttled answer, additive increase once it has been quiet (AIMD). While
the rate is reduced, the bucket holds one token, so that requests are spread evenly.

Moments are milliseconds since 1970, rates are millihertz.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

FASTEST: Final = 5_000
"""EC2's documented rate of CreateFleet once its bucket is empty: 5 a second."""

SLOWEST: Final = 33
"""One request in 30 s, with three attempts of the SDK each: it notices the end of throttling within half a minute."""

AT_ONCE: Final = 45
"""EC2's bucket holds 50 CreateFleet requests. Clocks of two sandboxes may be a second apart (docs/adr/0028): five tokens."""

QUIET: Final = 45_000
"""The rate rises from this long after the last throttled answer on: by then, a request at the slowest rate was answered."""

RISE: Final = 250
"""How much the rate rises in a second: from the slowest to the fastest in twenty."""

LONGEST_WAIT: Final = 15_000
"""A request that would wait longer goes back to the queue instead of waiting in a function."""

CLOCKS_APART: Final = 60_000
"""A moment further in the future than any that we write, by more than this, is of a wrong clock, or a person wrote it."""

ANSWERS_MAX: Final = 16
"""The most throttled answers that count for one request: more lead from the fastest rate to the slowest, too."""


class Pace(msgspec.Struct, frozen=True):
    """The state of the bucket.

    Attributes:
        full_at: When the bucket is full again.
        rate: The rate since the last throttled answer.
        slowed_at: When that answer came; 0 while the rate is the fastest.
    """

    full_at: int = 0
    rate: int = FASTEST
    slowed_at: int = 0


class Turn(NamedTuple):
    """How long a request waits, and the bucket after it; the bucket is None where the wait exceeds `LONGEST_WAIT`."""

    wait: int
    pace: Pace | None


def rate_of(pace: Pace, now: int) -> int:
    """Return the present rate. A bucket that a wrong clock wrote has the fastest: otherwise, it would not recover."""
    if pace.slowed_at > now + CLOCKS_APART:
        return FASTEST
    risen = max(0, now - pace.slowed_at - QUIET) * RISE // 1_000
    return min(FASTEST, max(SLOWEST, pace.rate) + risen)


def take_turn(pace: Pace, now: int) -> Turn:
    """Return the turn of one more request."""
    rate = rate_of(pace, now)
    full_at = max(now, _full_at(pace, now)) + token_time(rate)
    wait = max(0, full_at - _room(rate) - now)
    if wait > LONGEST_WAIT:
        return Turn(wait, None)
    if rate == FASTEST:
        return Turn(wait, Pace(full_at=full_at))
    return Turn(wait, Pace(full_at=full_at, rate=pace.rate, slowed_at=pace.slowed_at))


def slowed(pace: Pace, sent: int, now: int, answers: int) -> Pace:
    """Return the bucket after this many throttled answers to one request, the SDK's own attempts included.

    Requests that were sent before the rate fell change nothing: the throttling of requests side by side is one sign.
    """
    rate = rate_of(pace, now)
    if rate < FASTEST and sent < pace.slowed_at:
        return pace
    last_turn = _full_at(pace, now) - _room(rate)
    slower = max(SLOWEST, rate >> min(answers, ANSWERS_MAX))
    return Pace(full_at=max(now, last_turn) + token_time(slower), rate=slower, slowed_at=now)


def token_time(rate: int) -> int:
    """Return how long one token takes to return."""
    return 1_000_000 // rate


def latest_full(now: int) -> int:
    """Return the latest moment at which a bucket at the fastest rate may be full for a turn within `LONGEST_WAIT`."""
    return now + _room(FASTEST) + LONGEST_WAIT - token_time(FASTEST)


def _room(rate: int) -> int:
    """Return how long the bucket takes to fill: 45 tokens at the fastest rate, one below."""
    return token_time(rate) * (AT_ONCE if rate == FASTEST else 1)


def _full_at(pace: Pace, now: int) -> int:
    """Return when the bucket is full; now where a wrong clock wrote it."""
    return pace.full_at if pace.full_at <= latest_full(now) + CLOCKS_APART else now
