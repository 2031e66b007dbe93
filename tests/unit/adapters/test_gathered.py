"""Calls about many ids, asked for by several threads."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from lambdas.adapters.aws.gathered import Gathered
from lambdas.ports import DeniedError, TransientError

OTHERS = ("b", "c", "d")


class Slow:
    """A service whose first call takes until `arrived` ids wait for the next one."""

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
    """`a` first; the others while that call is under way. Answers or errors, in the order of the names."""
    gathered = Gathered(service)
    with ThreadPoolExecutor(max_workers=4) as pool:
        first = pool.submit(gathered, ["a"])
        while not service.calls:
            continue
        rest = [pool.submit(gathered, [name]) for name in OTHERS]
        while gathered._next.callers < len(OTHERS):
            continue
        service.go_on.set()
        return [found.exception() or found.result() for found in (first, *rest)]


def test_what_is_asked_for_meanwhile_goes_in_one_call() -> None:
    """A call for each node of a wave would spend EC2's rate for the whole account."""
    service = Slow()
    answers = ask_together(service)
    assert service.calls == [("a",), OTHERS]
    assert all(isinstance(answer, dict) and name in answer for name, answer in zip("abcd", answers, strict=True))


def test_an_id_that_is_refused_fails_nobody_else() -> None:
    service = Slow(refused="c", error=DeniedError)
    answers = ask_together(service)
    assert [isinstance(answer, DeniedError) for answer in answers] == [False, False, True, False]


def test_a_throttled_call_is_not_made_again_for_each_who_asked() -> None:
    """Ten more calls are what a service that is throttling needs least."""
    service = Slow(refused="c", error=TransientError)
    answers = ask_together(service)
    assert [isinstance(answer, TransientError) for answer in answers] == [False, True, True, True]
    assert len(service.calls) == 2


def test_who_comes_alone_does_not_wait() -> None:
    service = Slow()
    service.go_on.set()
    gathered = Gathered(service)
    assert [gathered(["a"]), gathered(["b", "b"])] == [{"a": "A"}, {"b": "B"}]


def test_an_error_is_not_remembered() -> None:
    service = Slow(refused="a", error=TransientError)
    service.go_on.set()
    gathered = Gathered(service)
    with pytest.raises(TransientError):
        gathered(["a"])
    assert gathered(["b"]) == {"b": "B"}
