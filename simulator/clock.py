"""Virtual time: a queue of events in the order of their moments; ties keep the order in which they were added.

Functions take time. A running function is a `Process`: if another event is due before the function continues, the process is
parked and the rest of the world proceeds, so functions overlap as in Lambda. Only one thread runs at a time, and the queue
alone decides which, so every run is identical.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial


class AbandonedError(BaseException):
    """The simulation ended while this process was parked; it must unwind and touch nothing more."""


class _Worker:
    """A thread that runs one process after the other: starting one for each took a fortieth of a run."""

    def __init__(self) -> None:
        # Plain locks, acquired at the start: Python's semaphore is ten times as slow, and a run takes thousands of turns.
        self.turn, self.yielded = threading.Lock(), threading.Lock()
        self.turn.acquire()
        self.yielded.acquire()
        self.work: Callable[[], None] | None = None
        """The work of the next turn; None ends the thread."""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self.turn.acquire()
            work, self.work = self.work, None
            if work is None:
                return
            work()
            del work
            self.yielded.release()


class Process:
    """A piece of work during which virtual time may pass. It runs in a thread, but never concurrently with another one.

    Args:
        idle: Idle threads. The process takes one, or starts a thread, and returns it at its end.
    """

    def __init__(self, work: Callable[[], None], idle: list[_Worker]) -> None:
        self._work = work
        self._idle = idle
        self._worker: _Worker
        self._failure: BaseException | None = None
        self._abandoned = False
        self._finished = False

    def start(self) -> None:
        """Run until it first waits or ends. Raises what the work raised."""
        self._worker = self._idle.pop() if self._idle else _Worker()
        self._worker.work = self._run
        self._worker.turn.release()
        self._await_yield()

    def resume(self) -> None:
        """Continue after a wait, until the next wait or the end."""
        if not self._finished:
            self._worker.turn.release()
            self._await_yield()

    def abandon(self) -> None:
        """End the process: its current wait raises AbandonedError."""
        self._abandoned = True
        self.resume()

    def wait(self) -> None:
        """Return control to the clock; called by the process itself.

        Raises:
            AbandonedError: If the simulation is over.
        """
        if not self._abandoned:
            self._worker.yielded.release()
            self._worker.turn.acquire()
        if self._abandoned:
            raise AbandonedError

    def must_live(self) -> None:
        """Raise AbandonedError if the simulation is over."""
        if self._abandoned:
            raise AbandonedError

    def _await_yield(self) -> None:
        self._worker.yielded.acquire()
        if self._finished:
            self._idle.append(self._worker)
            if self._failure is not None:
                raise self._failure

    def _run(self) -> None:
        _own.process = self
        try:
            self._work()
        except AbandonedError:
            pass
        except BaseException as failure:  # noqa: BLE001 - raised in the thread that waits for this process
            self._failure = failure
        finally:
            self._finished = True


class _Own(threading.local):
    process: Process | None = None


_own = _Own()


class VirtualClock:
    """The world's only clock. Time moves from event to event in `run_until`, and by `spend` and `passes` within an event."""

    def __init__(self, start: datetime) -> None:
        self._now = start
        self._end: datetime | None = None
        self._sequence = 0
        self._queue: list[tuple[datetime, int, Callable[[], None]]] = []
        self._parked: dict[int, Process] = {}
        self._parked_so_far = 0
        self._idle: list[_Worker] = []

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
        process = _own.process
        if process is not None:
            process.must_live()
        if process is not None and self._must_yield(until):
            self._park(process, until)
        else:
            self._move(until)

    def passes(self, duration: timedelta) -> bool:
        """Let time pass inside a process if no other event is due within it; return whether it passed."""
        process, until = _own.process, self._now + duration
        if process is None or self._must_yield(until):
            return False
        process.must_live()
        self._now = until
        return True

    def side_by_side(self, works: Sequence[Callable[[], None]]) -> None:
        """Run these pieces of work of one process concurrently, and wait for all. None of them may raise."""
        process, left = _own.process, len(works)
        if process is None or left < 2:
            for work in works:
                work()
            return
        process.must_live()
        key = self._hold(process)

        def run(work: Callable[[], None]) -> None:
            nonlocal left
            work()
            left -= 1
            if not left:
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
    """The world's clock with the constant error of one machine's clock (`lambdas.ports.Clock`)."""

    def __init__(self, clock: VirtualClock, off: timedelta) -> None:
        self._clock = clock
        self._off = off

    def now(self) -> datetime:
        """Return the current time by this machine's clock."""
        return self._clock.now() + self._off

    def worked(self) -> timedelta:
        """Return zero, as the world's clock does."""
        return self._clock.worked()
