"""Invokes the functions as the deployed wiring does: by schedules, queues, rules, the audit log and budget windows.

`installation.wiring` alone determines the routes, so the simulated and the deployed system cannot differ in them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from installation import wiring
from installation.wiring import FunctionSpec
from simulator.aws.queues import Queues
from simulator.clock import VirtualClock
from simulator.events.event_rules import matches
from simulator.events.event_shapes import bus_event, log_delivery, scheduled_event
from simulator.events.log_filter import compile_filter
from simulator.events.poller import Poller
from simulator.invocation.faults import MessageFaults
from simulator.invocation.sandbox import OK, Sandboxes

AUDIT_LOG_DELAY: Final = timedelta(seconds=8)
"""From the API server to the function. AWS states no figure; some seconds are usual."""
AUDIT_LOG_GROUP: Final = "/aws/eks/simulated/cluster"
AUDIT_BATCH: Final = timedelta(seconds=1)
RULE_DELAY: Final = timedelta(milliseconds=500)
RETRY_DELAYS: Final = (timedelta(minutes=1), timedelta(minutes=2))
"""Lambda's own two retries of an asynchronous invocation that failed."""

OPENING: Final = ("refresh_catalogue", "reconcile")
"""The first runs of a new installation: planning needs a market and an observation of the NodePools."""

Decided = Callable[[str, dict[str, Any]], None]


class Pump:
    """Routes events to functions. `decided(function, decision)` is called for every decision in a handler's answer."""

    def __init__(
        self,
        clock: VirtualClock,
        sandboxes: Sandboxes,
        queues: Queues,
        message_faults: MessageFaults,
        decided: Decided,
        functions: Sequence[FunctionSpec] = wiring.FUNCTIONS,
    ) -> None:
        self._functions = functions
        self._clock = clock
        self._sandboxes = sandboxes
        self._message_faults = message_faults
        self._decided = decided
        self._waiting: dict[str, list[tuple[dict[str, Any], str, int, Callable[[], None]]]] = {}
        self._audit: list[dict[str, Any]] = []
        self._audit_filter = compile_filter(wiring.AUDIT_LOG_FILTER)
        self._events = 0
        specs = {queue.name: queue for queue in wiring.QUEUES}
        self._pollers = {
            f.queue: Poller(clock, sandboxes, f, specs[f.queue], queues.get(f.queue), self._ended)
            for f in functions
            if f.queue
        }
        queues.on_message(self._message_came)

    def start(self) -> None:
        """Start the installation: read the market, observe the objects once, then run the schedules."""
        opening = [wiring.BY_NAME[name] for name in OPENING if wiring.BY_NAME[name] in self._functions]
        self._in_turn(opening)
        for function in self._functions:
            for schedule in function.schedules:
                self._await_schedule(function, schedule.name, schedule.every)

    def invoke(self, function: FunctionSpec, event: dict[str, Any], trigger: str) -> None:
        """Invoke a function asynchronously: it waits while its concurrency is used up, and is retried if it fails."""
        self._invoke(function, event, trigger, 0)

    def put_event(self, source: str, detail_type: str, detail: dict[str, Any]) -> None:
        """An event on the account's default bus, to every function that has a rule for it."""
        event = bus_event(source, detail_type, detail, self._event_id(), self._clock.now())
        for function in self._functions:
            for rule in function.rules:
                if matches(rule.pattern, event):
                    self._carry(function, event, f"rule:{rule.name}")

    def audit(self, event: dict[str, Any]) -> None:
        """An event of the cluster's audit log, to the function that is subscribed to it."""
        if not self._audit_filter(event):
            return
        if not self._audit:
            self._clock.after(AUDIT_LOG_DELAY + AUDIT_BATCH, self._deliver_audit)
        self._audit.append(event)

    def window(self, name: str, _target: str, payload: dict[str, Any]) -> None:
        """Deliver the message of a schedule that follows a budget window."""
        for function in self._functions:
            if function.windows:
                self.invoke(function, payload, f"window:{name}")

    def _in_turn(self, functions: Sequence[FunctionSpec]) -> None:
        if functions:
            first, *others = functions
            event = scheduled_event("start", self._event_id(), self._clock.now())
            self._invoke(first, event, "start", 0, lambda: self._in_turn(others))

    def _message_came(self, queue: str) -> None:
        if queue in self._pollers:
            self._pollers[queue].schedule_delivery()

    def _await_schedule(self, function: FunctionSpec, name: str, every: timedelta) -> None:
        def fire() -> None:
            self._await_schedule(function, name, every)
            event = scheduled_event(name, self._event_id(), self._clock.now())
            self.invoke(function, event, f"schedule:{name}")

        self._clock.after(every, fire)

    def _carry(self, function: FunctionSpec, event: dict[str, Any], trigger: str) -> None:
        def deliver() -> None:
            self._clock.after(RULE_DELAY, lambda: self.invoke(function, event, trigger))

        self._message_faults.carry(trigger, deliver)

    def _deliver_audit(self) -> None:
        entries, self._audit = self._audit, []
        now = self._clock.now()
        event = log_delivery(AUDIT_LOG_GROUP, [(now, json.dumps(entry)) for entry in entries])
        for function in self._functions:
            if function.reads_audit_log:
                self._carry(function, event, "auditLog")

    def _invoke(
        self,
        function: FunctionSpec,
        event: dict[str, Any],
        trigger: str,
        attempt: int,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        if not self._sandboxes.has_room(function):
            self._waiting.setdefault(function.name, []).append((event, trigger, attempt, then))
            return

        def done(outcome: str, response: dict[str, Any] | None) -> None:
            self._ended(function, response)
            if outcome != OK and attempt < len(RETRY_DELAYS):
                delay = RETRY_DELAYS[attempt]
                self._clock.after(delay, lambda: self._invoke(function, event, trigger, attempt + 1))
            then()

        self._sandboxes.invoke(function, event, trigger, done)

    def _room_came(self, function: FunctionSpec) -> None:
        waiting = self._waiting.get(function.name)
        if waiting and self._sandboxes.has_room(function):
            self._invoke(function, *waiting.pop(0))
        if function.queue:
            self._pollers[function.queue].schedule_delivery()

    def _ended(self, function: FunctionSpec, response: dict[str, Any] | None) -> None:
        for decision in (response or {}).get("decisions") or ():
            self._decided(function.name, decision)
        self._clock.after(timedelta(0), lambda: self._room_came(function))

    def _event_id(self) -> str:
        self._events += 1
        return f"00000000-0000-4000-9000-{self._events:012d}"
