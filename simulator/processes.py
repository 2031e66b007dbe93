"""Processes of virtual time: threads of which only one runs at a time, so that work can wait in the middle of a call."""

from __future__ import annotations

import threading
from collections.abc import Callable


class AbandonedError(BaseException):
    """The simulation ended while this process was parked; it must unwind and touch nothing more."""


class Worker:
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

    def __init__(self, work: Callable[[], None], idle: list[Worker]) -> None:
        self._work = work
        self._idle = idle
        self._worker: Worker
        self._failure: BaseException | None = None
        self._abandoned = False
        self._finished = False

    def start(self) -> None:
        """Run until it first waits or ends. Raises what the work raised."""
        self._worker = self._idle.pop() if self._idle else Worker()
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


def running_process() -> Process | None:
    """Return the process that runs in this thread, None outside of processes."""
    return _own.process
