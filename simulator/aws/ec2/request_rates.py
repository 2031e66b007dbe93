"""EC2's request rates: a bucket of tokens for each operation of an account and region, refilled evenly.

Source: "Request throttling for the Amazon EC2 API" in EC2's developer guide, the defaults of an account.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from simulator.aws.errors import AwsError
from simulator.clock import VirtualClock


class Rate(msgspec.Struct, frozen=True):
    """Bucket size, and refilled requests per second."""

    burst: int
    per_second: int


READING: Final = Rate(100, 20)
WRITING: Final = Rate(50, 5)
_OWN: Final = {"ec2:CreateTags": Rate(100, 10), "ec2:TerminateInstances": Rate(100, 5)}


def rate_of(call: str) -> Rate | None:
    """The rate of a call, by its name (`ec2:CreateFleet`); None where EC2's rates do not apply."""
    if not call.startswith("ec2:"):
        return None
    return _OWN.get(call) or (READING if call.startswith("ec2:Describe") else WRITING)


class RequestRates:
    """The buckets of one account."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, datetime]] = {}

    def take(self, call: str) -> None:
        """Take a token for the call.

        Raises:
            AwsError: If the bucket is empty.
        """
        rate = rate_of(call)
        if rate is None:
            return
        now = self._clock.now()
        tokens, since = self._left.get(call, (float(rate.burst), now))
        tokens = min(float(rate.burst), tokens + (now - since).total_seconds() * rate.per_second)
        self._left[call] = (tokens if tokens < 1 else tokens - 1, now)
        if tokens < 1:
            raise AwsError("RequestLimitExceeded", "Request limit exceeded.", 503)
