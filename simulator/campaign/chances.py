"""Draws the faults of one world by its seed: at attempts of calls, at messages, for a period, and at call sites."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Final

import msgspec

from simulator.campaign.call_sites import Meetings
from simulator.campaign.crash_schedule import WorldCrashes
from simulator.clock import VirtualClock
from simulator.invocation import calls, faults
from simulator.invocation.calls import Fault


class Intensity(msgspec.Struct, frozen=True, kw_only=True):
    """How often faults strike.

    Attributes:
        calls: Share of attempts with a fault.
        messages: Share of messages with a fault.
        outages: Maximum number of periods in which all calls of one service fail.
        skew: Maximum offset of a sandbox's clock.
    """

    name: str
    calls: float = 0.0
    messages: float = 0.0
    outages: int = 0
    skew: timedelta = timedelta(0)


NONE: Final = Intensity(name="none")
LIGHT: Final = Intensity(name="light", calls=0.01, messages=0.03)
MID: Final = Intensity(name="mid", calls=0.03, messages=0.1, outages=1, skew=timedelta(milliseconds=100))
HEAVY: Final = Intensity(name="heavy", calls=0.08, messages=0.2, outages=3, skew=timedelta(milliseconds=500))

_ALWAYS: Final = (calls.THROTTLE, calls.ERROR, calls.LOST_REPLY, calls.CRASH_BEFORE, calls.CRASH_AFTER, calls.DELAY)
_ALSO: Final[Mapping[str, tuple[str, ...]]] = {
    "dynamodb:TransactWriteItems": (calls.CONFLICT, calls.CONFLICT),
    "dynamodb:PutItem": (calls.CONFLICT,),
    "dynamodb:UpdateItem": (calls.CONFLICT,),
    "dynamodb:DeleteItem": (calls.CONFLICT,),
    "ec2:DescribeInstances": (calls.STALE, calls.STALE),
    "ec2:TerminateInstances": (calls.PARTIAL,),
    "ec2:CreateFleet": (calls.DENIED,),
    "sqs:SendMessageBatch": (calls.PARTIAL, calls.PARTIAL),
    "kube:list": (calls.STALE, calls.DENIED),
    "kube:patch": (calls.CONFLICT, calls.DENIED),
    "kube:create": (calls.CONFLICT, calls.DENIED),
    "kube:delete": (calls.CONFLICT, calls.DENIED),
    "kube:get": (calls.DENIED,),
}
LATE: Final = timedelta(minutes=12)
"""How long after all other faults functions still crash at call sites. Budgets open four minutes after those faults, and only
the decisions after that reach some calls."""

_DELAYS: Final = (1, 5, 20, 70, 130, 900)
"""Seconds of delay. The longest exceeds every function's time-out, so the function is killed during the call."""
_AGES: Final = (1, 3, 8, 20)
_KUBE_CODES: Final = ("401", "403", "409", "410", "429")
_SERVICES: Final = ("kube:*", "kube:list *", "dynamodb:*", "ec2:*", "sqs:*", "*")
_OUTAGES: Final = (30, 60, 120)
_MESSAGE_DELAYS: Final = (0.2, 2, 30, 90, 300)
_MEMORY_BOUND: Final = ("provision", "disrupt", "execute", "reconcile")
"""Functions that read the whole cluster and so may exceed their memory."""


class FaultPeriod(msgspec.Struct, frozen=True):
    """A period in which a fault affects all calls that match a pattern, of one function if named."""

    after: timedelta
    lasting: timedelta
    call: str
    fault: Fault
    function: str = ""


class Chances:
    """Draws the faults of a world.

    Attributes:
        meetings: The call sites that occurred, and where functions crashed.
        injected: How many faults were injected.

    Args:
        crashes: The crashes at call sites; None for none.
    """

    def __init__(
        self,
        clock: VirtualClock,
        rng: Random,
        intensity: Intensity,
        until: datetime,
        crashes: WorldCrashes | None,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._intensity = intensity
        self._until = until
        self._crashes = crashes
        self.meetings = Meetings()
        self.injected = 0

    def fault_of(self, function: str, call: str) -> Fault | None:
        """Return the fault on this attempt (`simulator.invocation.faults.Draw`)."""
        now = self._clock.now()
        if now >= self._until + LATE:
            return None
        nth = self.meetings.meet(function, call)
        kind = self._crashes.at((function, call), nth) if self._crashes is not None else ""
        if not kind and now < self._until and self._rng.random() < self._intensity.calls:
            kind = self._rng.choice(_ALWAYS + _ALSO.get(call, _ALSO.get(call.partition(" ")[0], ())))
        if not kind:
            return None
        self.injected += 1
        if kind in (calls.CRASH_BEFORE, calls.CRASH_AFTER):
            self.meetings.crashed.add(((function, call), kind))
        return self._fault(kind, call)

    def fault_of_message(self, what: str) -> tuple[str, timedelta] | None:  # noqa: ARG002 - all fare alike
        """Return the fault on this message (`simulator.invocation.faults.DrawMessage`)."""
        if self._clock.now() >= self._until or self._rng.random() >= self._intensity.messages:
            return None
        self.injected += 1
        kind = self._rng.choice(faults.EVENT_KINDS)
        return kind, timedelta(seconds=self._rng.choice(_MESSAGE_DELAYS))

    def skew(self) -> timedelta:
        """Return the clock offset of a new sandbox."""
        return self._intensity.skew * (2 * self._rng.random() - 1)

    def _fault(self, kind: str, call: str) -> Fault:
        rng = self._rng
        if kind == calls.DELAY:
            return Fault(kind=kind, delay=timedelta(seconds=rng.choice(_DELAYS)))
        if kind == calls.STALE:
            return Fault(kind=kind, delay=timedelta(seconds=rng.choice(_AGES)))
        if kind == calls.DENIED and call.startswith("kube:"):
            return Fault(kind=kind, code=rng.choice(_KUBE_CODES))
        if kind == calls.DENIED:
            return Fault(kind=kind, form=rng.choice(calls.FORMS))
        return Fault(kind=kind)


def draw_fault_periods(rng: Random, intensity: Intensity, fault_time: timedelta) -> list[FaultPeriod]:
    """Outages of a service, and functions that run out of memory, within the time of trouble."""
    periods: list[FaultPeriod] = []
    for _ in range(rng.randint(0, intensity.outages)):
        after = fault_time * rng.random()
        lasting = min(timedelta(seconds=rng.choice(_OUTAGES)), fault_time - after)
        if rng.random() < 0.25:
            killed = Fault(kind=calls.CRASH_AFTER)
            periods.append(FaultPeriod(after, lasting, "kube:list pods", killed, rng.choice(_MEMORY_BOUND)))
        else:
            kind = rng.choice((calls.ERROR, calls.THROTTLE))
            periods.append(FaultPeriod(after, lasting, rng.choice(_SERVICES), Fault(kind=kind)))
    return periods
