"""Connects the functions' SDK clients with the embedded account: every attempt of every call passes here.

No HTTP is written or parsed. Faults in transit strike here, and the client retries as the SDK does (`simulator.aws.retries`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, Protocol

from botocore.exceptions import ReadTimeoutError

from simulator.aws.errors import AwsError, UnansweredError
from simulator.aws.fault_answers import in_part, refusal
from simulator.invocation import calls
from simulator.invocation.calls import Call, CrashError, Fault

Responder = Callable[[dict[str, Any]], dict[str, Any]]

Listener = Callable[[Call, dict[str, Any] | AwsError], None]
"""Called with each attempt that arrived and its answer, even if the caller crashed before it could read the answer."""

_ANSWERS: Final = "simulator.aws.account"


class FaultPlan(Protocol):
    """Decides which fault strikes a call."""

    def take(self, call: str) -> Fault | None:
        """Return the fault that strikes the present attempt, and use it up."""
        ...


class Wire:
    """Carries calls to the embedded account's answers.

    Attributes:
        fault: The fault on the attempt that is being answered, for answers that depend on it.

    Args:
        faults: The faults of calls.
        spend: Advances virtual time; called with each attempt's duration and with the client's own waits.
        latency: How long an attempt takes.
        take_turn: Raises AwsError for a call that comes too fast.
    """

    def __init__(
        self,
        faults: FaultPlan,
        spend: Callable[[timedelta], None],
        latency: Callable[[str], timedelta],
        take_turn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._take_turn = take_turn
        self._faults = faults
        self._latency = latency
        self._responders: dict[str, Responder] = {}
        self._listeners: list[Listener] = []
        self._on_call: Callable[[], None] = lambda: None
        self.fault: Fault | None = None
        self.spend = spend

    def answer_with(self, responders: Mapping[str, Responder]) -> None:
        """Answer calls of these names (`ec2:CreateFleet`) with `responder(parameters)`."""
        self._responders.update(responders)

    def listen(self, listener: Listener) -> None:
        """Call `listener` with each attempt that arrives from now on."""
        self._listeners.append(listener)

    def on_call(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a function makes a call, before its first attempt."""
        self._on_call = listener

    def begin(self) -> None:
        """Begin a call; its attempts follow."""
        self._on_call()

    def attempt(self, call: Call) -> dict[str, Any]:
        """One attempt of a call.

        Raises:
            AwsError: If the service answers with an error.
            ReadTimeoutError: If no answer comes.
            CrashError: If the function crashes here.
        """
        self.spend(self._latency(call.name))
        fault = self._faults.take(call.name)
        return self._perform(call) if fault is None else self._perform_with_fault(call, fault)

    def _perform_with_fault(self, call: Call, fault: Fault) -> dict[str, Any]:
        refused = refusal(call, fault)
        if refused is not None:
            error = AwsError(refused.code, refused.message, refused.status, fields=refused.more)
            self._notify(call, error)
            raise error
        if fault.kind == calls.CRASH_BEFORE:
            raise CrashError(call.name)
        if fault.kind == calls.DELAY:
            self.spend(fault.delay)
        if fault.kind not in (calls.CRASH_AFTER, calls.LOST_REPLY):
            return self._perform(call, fault)
        with suppress(AwsError):
            self._perform(call, fault)
        if fault.kind == calls.CRASH_AFTER:
            raise CrashError(call.name)
        raise ReadTimeoutError(endpoint_url=call.name)

    def _perform(self, call: Call, fault: Fault | None = None) -> dict[str, Any]:
        self.fault = fault
        responder = self._responders.get(call.name)
        self._throttle(call)
        if responder is None:
            raise UnansweredError(f"{call.name} is not answered by the embedded account: add it to {_ANSWERS}")
        try:
            answer = responder(call.parameters) if fault is None else in_part(call, fault, responder)
        except AwsError as error:
            self._notify(call, error)
            raise
        finally:
            self.fault = None
        self._notify(call, answer)
        return answer

    def _throttle(self, call: Call) -> None:
        """Refuse a call that exceeds the service's request rate."""
        try:
            self._take_turn(call.name)
        except AwsError as error:
            self._notify(call, error)
            raise

    def _notify(self, call: Call, outcome: dict[str, Any] | AwsError) -> None:
        for listener in self._listeners:
            listener(call, outcome)
