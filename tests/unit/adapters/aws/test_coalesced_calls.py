"""Calls about many ids that several threads request."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from adapters.aws.coalesced_calls import CoalescedCalls
from adapters.ports import DeniedError, TransientError

OTHERS = ("b", "c", "d")


class Slow:
    """A service whose first call blocks until `arrived` ids wait for the next one."""

    def __init__(self, refused: str = "", error: type[Exception] | None = None) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.go_on = Event()
        self._refused = refused
        self._error = error

    def __call__(self, ids: Sequence[str]) -> dict[str, str]:
        self.calls.append(tuple(ids))
        if len(self.calls) == 1:
            assert self.go_on.wait(10)
        if self._error is not None and self._refused in ids:
            raise self._error("ec2:Call", self._refused)
        return {name: name.upper() for name in ids}


def ask_together(service: Slow) -> list[dict[str, str] | BaseException]:
    """Request `a` first and the others while that call is under way.

    Returns replies or errors, in the order of the names.
    """
    gathered = CoalescedCalls(service)
    with ThreadPoolExecutor(max_workers=4) as pool:
        first = pool.submit(gathered, ["a"])
        while not service.calls:
            continue
        rest = [pool.submit(gathered, [name]) for name in OTHERS]
        while gathered._next.callers < len(OTHERS):
            continue
        service.go_on.set()
        return [found.exception() or found.result() for found in (first, *rest)]


def test_ids_requested_during_a_call_share_the_next_one() -> None:
    """A call for each node of a wave would spend EC2's rate for the whole account."""
    service = Slow()
    answers = ask_together(service)
    assert service.calls == [("a",), OTHERS]
    assert all(isinstance(answer, dict) and name in answer for name, answer in zip("abcd", answers, strict=True))


def test_a_refused_id_fails_only_its_own_caller() -> None:
    service = Slow(refused="c", error=DeniedError)
    answers = ask_together(service)
    assert [isinstance(answer, DeniedError) for answer in answers] == [False, False, True, False]


def test_a_throttled_call_is_not_repeated_for_each_caller() -> None:
    """Ten more calls only make the throttling worse."""
    service = Slow(refused="c", error=TransientError)
    answers = ask_together(service)
    assert [isinstance(answer, TransientError) for answer in answers] == [False, True, True, True]
    assert len(service.calls) == 2


def test_a_single_caller_does_not_wait() -> None:
    service = Slow()
    service.go_on.set()
    gathered = CoalescedCalls(service)
    assert [gathered(["a"]), gathered(["b", "b"])] == [{"a": "A"}, {"b": "B"}]


def test_an_error_is_not_remembered() -> None:
    service = Slow(refused="a", error=TransientError)
    service.go_on.set()
    gathered = CoalescedCalls(service)
    with pytest.raises(TransientError):
        gathered(["a"])
    assert gathered(["b"]) == {"b": "B"}
