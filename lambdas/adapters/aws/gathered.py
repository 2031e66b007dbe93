"""Calls that take many ids: what threads ask for while a call is under way goes together in the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Generic, TypeVar

from lambdas.ports import DeniedError

R = TypeVar("R")


class _Batch(Generic[R]):
    """Ids that one call shall be about, and what became of it."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.callers = 0
        self.answer: R | None = None
        self.error: BaseException | None = None
        self.is_done = False


class Gathered(Generic[R]):
    """Makes one call at a time. Nobody waits for others to come: a lone caller's call goes out at once.

    EC2 lets an account describe and terminate by its own pace of calls, not of instances, so a wave of a hundred nodes is
    through ten times as fast.
    """

    def __init__(self, call: Callable[[Sequence[str]], R]) -> None:
        self._call = call
        self._turn = Lock()
        self._lock = Lock()
        self._next: _Batch[R] = _Batch()

    def __call__(self, ids: Iterable[str]) -> R:
        """What the call answers, about these ids and maybe others. Raises what it raised."""
        own = sorted(set(ids))
        with self._lock:
            batch = self._next
            batch.ids.update(own)
            batch.callers += 1
        with self._turn:
            if not batch.is_done:
                self._make(batch)
        if isinstance(batch.error, DeniedError) and batch.callers > 1:
            return self._call(own)  # perhaps only another's id was refused
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
