"""All functions of the wiring: reused sandboxes, concurrency limits, and the results of invocations."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from types import MappingProxyType
from typing import Any, Final

from installation.wiring import FUNCTIONS, FunctionSpec
from simulator.aws.queues import Lineage
from tests.e2e.functions.package import Package
from tests.e2e.functions.sandbox import Invocation, Sandbox
from tests.e2e.parts.processes import Processes

IDLE_LOOK_SECONDS: Final = 0.05
UNRESERVED: Final = 4
"""Concurrency of a function without reserved concurrency; small because the machine has few cores."""

Environment = Callable[[FunctionSpec], Mapping[str, str]]


Listener = Callable[[Invocation], None]


class Functions:
    """Runs invocations, each in its own sandbox; time-outs are `slack` times as long as deployed.

    Attributes:
        invocations: Every ended invocation, in the order of their ends.
    """

    def __init__(self, package: Package, environment: Environment, processes: Processes, *, slack: int = 1) -> None:
        self.invocations: list[Invocation] = []
        self._package = package
        self._environment = environment
        self._processes = processes
        self._slack = slack
        self._lock = threading.Lock()
        self._starting = threading.Lock()
        self._room = {spec.name: threading.Semaphore(spec.concurrency or UNRESERVED) for spec in FUNCTIONS}
        self._idle: dict[str, list[Sandbox]] = defaultdict(list)
        self._busy: dict[str, list[Sandbox]] = defaultdict(list)
        self._listeners: list[Listener] = []
        self._asked = 0
        self._is_open = True

    def listen(self, listener: Listener) -> None:
        """Call `listener` with each invocation that ends."""
        self._listeners.append(listener)

    def invoke(
        self, spec: FunctionSpec, event: Mapping[str, Any], trigger: str, lineage: Lineage = MappingProxyType({})
    ) -> Invocation:
        """Run the function and wait for its end; at its concurrency limit, first wait until another ends.

        `lineage` is the chain of messages that led to the event.
        """
        with self._lock:
            self._asked += 1
        try:
            with self._room[spec.name]:
                return self._run(spec, event, trigger, lineage)
        finally:
            with self._lock:
                self._asked -= 1

    def try_invoke(self, spec: FunctionSpec, event: Mapping[str, Any], trigger: str) -> Invocation | None:
        """Run the function as `invoke` does, but return None at its concurrency limit, where Lambda would throttle."""
        room = self._room[spec.name]
        if not room.acquire(blocking=False):
            return None
        try:
            return self._run(spec, event, trigger, {})
        finally:
            room.release()

    def kill(self, spec: FunctionSpec) -> int:
        """Kill every busy sandbox of the function and return their number."""
        with self._lock:
            busy = list(self._busy[spec.name])
        for sandbox in busy:
            sandbox.kill()
        return len(busy)

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait at most this many seconds; return whether no invocation runs or waits."""
        end = time.monotonic() + seconds
        while self._asked:
            if time.monotonic() > end:
                return False
            time.sleep(IDLE_LOOK_SECONDS)
        return True

    def forget(self, names: Iterable[str] = ()) -> None:
        """End the idle sandboxes, of these functions or of all: the next invocation is a cold start."""
        with self._lock:
            doomed = [sandbox for name in (tuple(names) or tuple(self._idle)) for sandbox in self._idle.pop(name, [])]
        for sandbox in doomed:
            sandbox.kill()

    def close(self) -> None:
        """End everything."""
        self._is_open = False
        self.forget()
        for spec in FUNCTIONS:
            self.kill(spec)

    def _run(self, spec: FunctionSpec, event: Mapping[str, Any], trigger: str, lineage: Lineage) -> Invocation:
        sandbox = self._sandbox(spec)
        try:
            invocation = sandbox.run(event, trigger, lineage)
        finally:
            with self._lock:
                self._busy[spec.name].remove(sandbox)
                if sandbox.is_alive and self._is_open:
                    self._idle[spec.name].append(sandbox)
        with self._lock:
            self.invocations.append(invocation)
        for listener in self._listeners:
            listener(invocation)
        return invocation

    def _sandbox(self, spec: FunctionSpec) -> Sandbox:
        with self._lock:
            idle = self._idle[spec.name]
            while idle:
                sandbox = idle.pop()
                if sandbox.is_alive:
                    self._busy[spec.name].append(sandbox)
                    return sandbox
        with self._starting:
            sandbox = Sandbox(spec, self._package, self._environment(spec), self._processes, slack=self._slack)
        with self._lock:
            self._busy[spec.name].append(sandbox)
        return sandbox


def cold_starts(invocations: Iterable[Invocation]) -> dict[str, int]:
    """Return function → median milliseconds from a process's start to its first request for an invocation."""
    found: dict[str, list[float]] = defaultdict(list)
    for invocation in invocations:
        if invocation.init_ms:
            found[invocation.function].append(invocation.init_ms)
    return {name: round(median(values)) for name, values in sorted(found.items())}


def figures(invocations: Iterable[Invocation]) -> dict[str, dict[str, int]]:
    """Return each function's number of invocations, billed time, peak memory, and median first answer of a cold start."""
    found: dict[str, list[Invocation]] = defaultdict(list)
    for invocation in invocations:
        found[invocation.function].append(invocation)
    return {name: _figures(mine) for name, mine in sorted(found.items())}


def _figures(invocations: list[Invocation]) -> dict[str, int]:
    first = [found.init_ms + found.duration_ms for found in invocations if found.init_ms]
    return {
        "invocations": len(invocations),
        "billedMillis": sum(found.billed_ms for found in invocations),
        "memoryKilobytes": max(found.memory_kb for found in invocations),
        "firstAnswerMillis": round(median(first)) if first else 0,
    }
