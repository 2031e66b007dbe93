"""Virtual time and seeded draws: a queue of events in the order of their moments; ties keep the order in which they were added.

Functions take time. A running function is a `Process`: if another event is due before the function continues, the process is
parked and the rest of the world proceeds, so functions overlap as in Lambda. The queue alone decides which process runs, so
every run is identical.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Final

import msgspec

from simulator.processes import Process, Worker, running_process


class VirtualClock:
    """The world's only clock. Time moves from event to event in `run_until`, and by `spend` and `passes` within an event."""

    def __init__(self, start: datetime) -> None:
        self._now = start
        self._end: datetime | None = None
        self._sequence = 0
        self._queue: list[tuple[datetime, int, Callable[[], None]]] = []
        self._parked: dict[int, Process] = {}
        self._parked_so_far = 0
        self._idle: list[Worker] = []

    def now(self) -> datetime:
        """Return the current virtual time."""
        return self._now

    def worked(self) -> timedelta:
        """Return zero: work here takes no time."""
        return timedelta(0)

    def at(self, when: datetime, action: Callable[[], None]) -> None:
        """Do `action` at `when`, or as soon as possible if that is past."""
        self._sequence += 1
        heapq.heappush(self._queue, (max(when, self._now), self._sequence, action))

    def after(self, delay: timedelta, action: Callable[[], None]) -> None:
        """Do `action` once `delay` has passed."""
        self.at(self._now + delay, action)

    def begin(self, work: Callable[[], None]) -> None:
        """Start `work` as a process at the present moment, after the current event."""
        self.at(self._now, Process(work, self._idle).start)

    def spend(self, duration: timedelta) -> None:
        """Advance time inside an action, as a running function does.

        Inside a process, events due within this time happen within it; elsewhere they happen after the action.
        """
        until = self._now + duration
        process = running_process()
        if process is not None:
            process.must_live()
        if process is not None and self._must_yield(until):
            self._park(process, until)
        else:
            self._move(until)

    def passes(self, duration: timedelta) -> bool:
        """Let time pass inside a process if no other event is due within it; return whether it passed."""
        process, until = running_process(), self._now + duration
        if process is None or self._must_yield(until):
            return False
        process.must_live()
        self._now = until
        return True

    def side_by_side(self, works: Sequence[Callable[[], None]]) -> None:
        """Run these pieces of work of one process concurrently, and wait for all. None of them may raise."""
        process, unfinished = running_process(), len(works)
        if process is None or unfinished < 2:
            for work in works:
                work()
            return
        process.must_live()
        key = self._hold(process)

        def run(work: Callable[[], None]) -> None:
            nonlocal unfinished
            work()
            unfinished -= 1
            if not unfinished:
                self.at(self._now, lambda: self._resume(key))

        for work in works:
            self.begin(partial(run, work))
        process.wait()

    def run_until(self, end: datetime) -> None:
        """Process every event that is due up to and including `end`."""
        self._end = end
        while self._queue and self._queue[0][0] <= end:
            when, _, action = heapq.heappop(self._queue)
            self._move(when)
            action()
        self._move(end)

    def abandon(self) -> None:
        """End every parked process; the rest of its work never runs."""
        for key in sorted(self._parked):
            self._parked.pop(key).abandon()
        while self._idle:
            self._idle.pop().turn.release()

    def _must_yield(self, until: datetime) -> bool:
        if self._end is not None and until > self._end:
            return True
        return bool(self._queue) and self._queue[0][0] <= until

    def _park(self, process: Process, until: datetime) -> None:
        key = self._hold(process)
        self.at(until, lambda: self._resume(key))
        process.wait()

    def _hold(self, process: Process) -> int:
        """Park a process and return the key that resumes it."""
        self._parked_so_far += 1
        self._parked[self._parked_so_far] = process
        return self._parked_so_far

    def _resume(self, key: int) -> None:
        process = self._parked.pop(key, None)
        if process is not None:
            process.resume()

    def _move(self, when: datetime) -> None:
        self._now = max(self._now, when)


class SkewedClock:
    """The world's clock with the constant error of one machine's clock (`adapters.ports.Clock`)."""

    def __init__(
        self,
        clock: VirtualClock,
        off: timedelta,
        *,
        worked: Callable[[], timedelta] = timedelta,
        uncharged: Callable[[], timedelta] = timedelta,
    ) -> None:
        self._clock = clock
        self._off = off
        self._worked = worked
        self._uncharged = uncharged

    def now(self) -> datetime:
        """Return the current time by this machine's clock, with work that has not passed in the world yet."""
        return self._clock.now() + self._off + self._uncharged()

    def worked(self) -> timedelta:
        """Return the processor time of the function that runs: zero where work takes no time."""
        return self._worked()


# Random numbers: each purpose has its own stream, so that a new draw for one purpose does not change the others.


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
