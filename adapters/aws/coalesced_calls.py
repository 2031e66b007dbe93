"""Joins calls that take many ids: ids requested by threads during a call go together into the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Generic, TypeVar

from adapters.ports import DeniedError

R = TypeVar("R")


class _Batch(Generic[R]):
    """Ids for one call, and its result."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.callers = 0
        self.answer: R | None = None
        self.error: BaseException | None = None
        self.is_done = False


class CoalescedCalls(Generic[R]):
    """Makes one call at a time. It does not wait for further requests: a single caller's call is sent at once.

    EC2 throttles describe and terminate calls of an account by calls, not by instances, so a wave of a hundred nodes takes a
    tenth of the time.
    """

    def __init__(self, call: Callable[[Sequence[str]], R]) -> None:
        self._call = call
        self._turn = Lock()
        self._lock = Lock()
        self._next: _Batch[R] = _Batch()

    def __call__(self, ids: Iterable[str]) -> R:
        """Return the call's answer for these ids, and possibly others. Raises the call's error."""
        own = sorted(set(ids))
        with self._lock:
            batch = self._next
            batch.ids.update(own)
            batch.callers += 1
        with self._turn:
            if not batch.is_done:
                self._make(batch)
        if isinstance(batch.error, DeniedError) and batch.callers > 1:
            return self._call(own)  # the refused id may be another caller's
        if batch.error is not None:
            raise batch.error
        answer: R = batch.answer  # type: ignore[assignment]  # it is done, and without an error
        return answer

    def _make(self, batch: _Batch[R]) -> None:
        with self._lock:
            self._next = _Batch()
        try:
            batch.answer = self._call(sorted(batch.ids))
        except BaseException as error:  # noqa: BLE001 - raised by each who asked
            batch.error = error
        batch.is_done = True
