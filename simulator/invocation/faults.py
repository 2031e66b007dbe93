"""Faults on calls and messages: `fault` and `events` steps of a scenario, armed and used up, and random ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, Literal

import msgspec

from adapters.ports import ConflictError, DeniedError, LostReplyError, PortError, ThrottledError, TransientError
from simulator.clock import VirtualClock
from simulator.record import Recorder

# A call of a function to the outside, and the faults that may strike it.


THROTTLE: Final = "throttle"
ERROR: Final = "error"
LOST_REPLY: Final = "lostReply"
CRASH_BEFORE: Final = "crashBefore"
CRASH_AFTER: Final = "crashAfter"
DELAY: Final = "delay"
DENIED: Final = "denied"
CONFLICT: Final = "conflict"
STALE: Final = "stale"
PARTIAL: Final = "partial"
KINDS: Final = (
    THROTTLE,
    ERROR,
    LOST_REPLY,
    CRASH_BEFORE,
    CRASH_AFTER,
    DELAY,
    DENIED,
    CONFLICT,
    STALE,
    PARTIAL,
)

EXCEPTION: Final = "exception"
FLEET_ERROR: Final = "fleetError"
FORMS: Final = (EXCEPTION, FLEET_ERROR)
"""How a denial is reported: as the call's error, or among the `Errors` of an answered CreateFleet."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault on one attempt of a call.

    Attributes:
        delay: How long `delay` holds the attempt up; how old the list of `stale` is; how long AWS's caller waits for a
            `lostReply`.
        code: The error code of `denied`: one of the service's own, or an HTTP status of the API server.
        form: The form of a `denied` error, one of `FORMS`.
        instance_type, zone, capacity_type: The offerings that a fleet error concerns; None: all.
    """

    kind: str
    delay: timedelta = timedelta(0)
    code: str = ""
    form: str = EXCEPTION
    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None

    def concerns(self, instance_type: str, zone: str, capacity_type: str) -> bool:
        """Whether a fleet error concerns this offering."""
        return (
            self.instance_type in (None, instance_type)
            and self.zone in (None, zone)
            and self.capacity_type in (None, capacity_type)
        )


class Call(msgspec.Struct, kw_only=True):
    """One call to AWS as boto3 makes it; its attempts share it.

    Attributes:
        name: As a fault step names it: `ec2:CreateFleet`.
    """

    service: str
    operation: str
    parameters: dict[str, Any]
    name: str = ""

    def __post_init__(self) -> None:
        """Compute the name once: a dozen readers use it."""
        self.name = f"{self.service}:{self.operation}"


class CrashError(BaseException):
    """The function crashes here; a BaseException, so that its own `except Exception` does not catch it."""


class TimeoutExpiredError(CrashError):
    """The function ran into its time-out."""


DUPLICATE: Final = "duplicate"
DROP: Final = "drop"
COPY_AFTER: Final = timedelta(milliseconds=500)
"""Time between a message and its copy, so that the copy comes in another batch while the first one is being handled."""

EVENT_KINDS: Final = (DUPLICATE, DELAY, DROP)

Draw = Callable[[str, str], Fault | None]
"""Fault on an attempt that no armed fault strikes, by function and call."""

DrawMessage = Callable[[str], tuple[str, timedelta] | None]
"""Fault on a message on its way (kind, delay)."""


def _once() -> bool:
    return False


class _Armed(msgspec.Struct, kw_only=True):
    pattern: re.Pattern[str]
    call: str
    fault: Fault
    function: str
    nth: int | None
    left: int | None
    until: datetime | None
    chance: Callable[[], bool] | None = None
    seen: int = 0
    used: int = 0

    def is_live(self, now: datetime) -> bool:
        return (self.left is None or self.left > 0) and (self.until is None or now <= self.until)

    def matches(self, function: str, call: str) -> bool:
        """Whether this attempt has it; the attempt is counted."""
        if self.function not in ("", function) or not self.pattern.fullmatch(call):
            return False
        self.seen += 1
        if self.nth is not None and self.seen != self.nth:
            return False
        return self.chance is None or self.chance()


class Faults:
    """The armed faults, in the order of arming. Each attempt that reaches the world uses up one.

    Args:
        running: Name of the function that makes the call.
    """

    def __init__(self, clock: VirtualClock, recorder: Recorder, running: Callable[[], str] = str) -> None:
        self._clock = clock
        self._recorder = recorder
        self._running = running
        self._all: list[_Armed] = []
        self._live: list[_Armed] = []
        self._draw: Draw | None = None

    def arm(
        self,
        call: str,
        fault: Fault,
        *,
        count: int | None = None,
        lasting: timedelta | None = None,
        function: str = "",
        nth: int | None = None,
        chance: Callable[[], bool] | None = None,
    ) -> None:
        """Arm a fault.

        Args:
            call: The calls that it affects; `*` matches any characters.
            fault: The fault.
            count: How many attempts it affects; None: all.
            lasting: How long from now it is armed; None: until it is used up.
            function: The function whose calls it affects; empty: all functions.
            nth: It affects only the attempt of this number from now on; None: each.
            chance: Draws whether it affects an attempt; None: it does.
        """
        until = None if lasting is None else self._clock.now() + lasting
        pattern = re.compile(".*".join(re.escape(part) for part in call.split("*")))
        armed = _Armed(
            pattern=pattern,
            call=call,
            fault=fault,
            function=function,
            nth=nth,
            left=count,
            until=until,
            chance=chance,
        )
        self._all.append(armed)
        self._live.append(armed)

    def draw_from(self, draw: Draw) -> None:
        """Ask `draw` about each attempt that has no armed fault."""
        self._draw = draw

    def take(self, call: str) -> Fault | None:
        """Return and use up the fault of this attempt; None for none."""
        if not self._live and self._draw is None:
            return None
        function = self._running()
        fault = self._armed(function, call)
        if fault is None and self._draw is not None:
            fault = self._draw(function, call)
        if fault is not None:
            self._recorder.emit("fault", call=call, kind=fault.kind, **({"function": function} if function else {}))
        return fault

    def unused(self) -> tuple[str, ...]:
        """Return the calls, as written, of faults that never struck."""
        return tuple(armed.call for armed in self._all if armed.used == 0)

    def _armed(self, function: str, call: str) -> Fault | None:
        if not self._live:
            return None
        now = self._clock.now()
        self._live = [armed for armed in self._live if armed.is_live(now)]
        armed = next((armed for armed in self._live if armed.matches(function, call)), None)
        if armed is None:
            return None
        armed.used += 1
        if armed.left is not None:
            armed.left -= 1
        return armed.fault


class MessageFaults:
    """The faults of the next messages on their way to functions.

    Attributes:
        repeats: Whether a message without a fault comes twice all the same: EventBridge and SQS promise one delivery at least.
    """

    def __init__(self, clock: VirtualClock, recorder: Recorder) -> None:
        self.repeats: Callable[[], bool] = _once
        self._clock = clock
        self._recorder = recorder
        self._armed: list[tuple[str, timedelta]] = []
        self._draw: DrawMessage | None = None

    def arm(self, kind: str, count: int, delay: timedelta) -> None:
        """Arm `kind` for the next `count` messages."""
        self._armed += [(kind, delay)] * count

    def draw_from(self, draw: DrawMessage) -> None:
        """Ask `draw` about each message that has no armed fault."""
        self._draw = draw

    def carry(self, what: str, deliver: Callable[[], None]) -> None:
        """Deliver a message, unless a fault doubles, delays or drops it on the way."""
        fault = self._armed.pop(0) if self._armed else None
        if fault is None and self._draw is not None:
            fault = self._draw(what)
        if fault is None:
            deliver()
            if self.repeats():
                self._clock.after(COPY_AFTER, deliver)
            return
        kind, delay = fault
        self._recorder.emit("fault", call=what, kind=kind)
        if kind == DELAY:
            self._clock.after(delay, deliver)
        elif kind == DUPLICATE:
            deliver()
            self._clock.after(COPY_AFTER, deliver)


# The duration of calls in virtual time: one figure per call, as observed by functions in the same region.


_USUAL: Final = timedelta(milliseconds=10)
_BY_SERVICE: Final = {
    "dynamodb": timedelta(milliseconds=5),
    "kube": timedelta(milliseconds=8),
    "s3": timedelta(milliseconds=30),
    "ec2": timedelta(milliseconds=80),
    "iam": timedelta(milliseconds=60),
    "pricing": timedelta(milliseconds=60),
}
_BY_CALL: Final = {
    "ec2:CreateFleet": timedelta(milliseconds=1500),
    "ec2:TerminateInstances": timedelta(milliseconds=400),
    "ec2:CreateLaunchTemplate": timedelta(milliseconds=250),
    "ec2:RunInstances": timedelta(milliseconds=250),
}


@cache
def latency(call: str) -> timedelta:
    """How long a call takes, by its name (`ec2:CreateFleet`, `kube:list pods`)."""
    return _BY_CALL.get(call) or _BY_SERVICE.get(call.partition(":")[0], _USUAL)


# Applies time and faults to a function's calls to the cluster's API.


class ClusterCalls:
    """The hook around each call. Nothing else runs between a call's `before` and its `after`."""

    def __init__(self, faults: Faults, spend: Callable[[timedelta], None]) -> None:
        self._faults = faults
        self._spend = spend
        self._fault: Fault | None = None

    def __call__(self, call: str, when: Literal["before", "after"]) -> None:
        """Let time pass before a call, and let the armed fault strike before or after it."""
        if when == "before":
            self._before(call)
        else:
            self._after(call)

    def _before(self, call: str) -> None:
        self._spend(latency(call))
        fault = self._fault = self._faults.take(call)
        if fault is None:
            return
        error = _refusal(call, fault)
        if error is not None:
            raise error
        if fault.kind == CRASH_BEFORE:
            raise CrashError(call)
        if fault.kind == DELAY:
            self._spend(fault.delay)
            self._fault = None

    def _after(self, call: str) -> None:
        fault, self._fault = self._fault, None
        if fault is None:
            return
        if fault.kind == LOST_REPLY:
            raise LostReplyError(call, "no answer came")
        if fault.kind == CRASH_AFTER:
            raise CrashError(call)
        if fault.kind == STALE:
            # The answer is as old as its network latency.
            self._spend(fault.delay)


def _refusal(call: str, fault: Fault) -> PortError | None:
    """Return what the adapter would raise for the API server's answer; None if the fault is of another kind."""
    status = _STATUS.get(fault.kind, "")
    if fault.kind == DENIED:
        status = fault.code or status
    if fault.kind == CONFLICT and not call.startswith(_WRITES):
        return None
    return _ERRORS[status](call, f"{status} embedded in a scenario") if status in _ERRORS else None


_WRITES: Final = ("kube:create", "kube:patch", "kube:delete")
_STATUS: Final = {THROTTLE: "429", ERROR: "500", DENIED: "403", CONFLICT: "409"}
_ERRORS: Final[dict[str, type[PortError]]] = {
    "401": DeniedError,
    "403": DeniedError,
    "409": ConflictError,
    "410": TransientError,
    "429": ThrottledError,
    "500": TransientError,
    "503": TransientError,
}
"""As the real adapter takes them, after its own renewed token (401) and fresh lists (410)."""
