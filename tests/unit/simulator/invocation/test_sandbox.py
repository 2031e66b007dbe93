"""What the world knows of the invocation that runs, while others run in its pauses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from installation.wiring import BY_NAME, FunctionSpec
from simulator.clock import VirtualClock
from simulator.invocation.sandbox import Handler, Sandboxes, isolated_in
from simulator.record import Recorder
from tests.builders import NOW

SLOW, QUICK = BY_NAME["provision"], BY_NAME["disrupt"]
SECOND = timedelta(seconds=1)


def play(works: dict[str, Callable[[Sandboxes], None]]) -> None:
    """Run these functions, each a second after the one before."""
    clock = VirtualClock(NOW)

    def handler_of(function: FunctionSpec) -> Handler:
        def handle(_event: dict[str, Any], _context: Any) -> None:
            works[function.name](sandboxes)

        return handle

    sandboxes = Sandboxes(clock, Recorder(clock), build=str, use=lambda _: None, handler_of=handler_of)
    for number, name in enumerate(works):
        clock.at(NOW + number * SECOND, lambda name=name: sandboxes.invoke(BY_NAME[name], {}, "test", lambda *_: None))  # type: ignore[misc]
    clock.run_until(NOW + timedelta(minutes=1))
    assert sandboxes.failures == []
    assert (sandboxes.running(), sandboxes.called_at()) == ("", None)


def test_a_call_stays_that_of_its_function_while_others_call() -> None:
    """If this failed, the judge of budgets would excuse a window that opened between another function's calls."""
    seen: list[tuple[str, datetime | None]] = []

    def slow(sandboxes: Sandboxes) -> None:
        sandboxes.note_call()
        seen.append((sandboxes.running(), sandboxes.called_at()))
        sandboxes.spend(10 * SECOND)
        seen.append((sandboxes.running(), sandboxes.called_at()))

    def quick(sandboxes: Sandboxes) -> None:
        sandboxes.spend(SECOND)
        sandboxes.note_call()
        seen.append((sandboxes.running(), sandboxes.called_at()))

    play({SLOW.name: slow, QUICK.name: quick})
    first, other, again = seen
    assert (first[0], other[0]) == (SLOW.name, QUICK.name)
    assert again == first
    assert first[1] != other[1]


def test_calls_that_are_made_side_by_side_have_their_own_moments() -> None:
    """If this failed, the last of several launches would date all of them."""
    seen: list[datetime | None] = []

    def fan_out(sandboxes: Sandboxes) -> None:
        def call(after: timedelta) -> None:
            sandboxes.spend(after)
            sandboxes.note_call()
            sandboxes.spend(5 * SECOND)
            seen.append(sandboxes.called_at())

        sandboxes.side_by_side([lambda: call(SECOND), lambda: call(2 * SECOND)], timedelta(minutes=1))

    play({SLOW.name: fan_out})
    first, second = seen
    assert first is not None
    assert second is not None
    assert second - first == SECOND


def test_a_failure_says_where_it_came_from_and_ends_with_what_it_is() -> None:
    """Judges read its last line, and people look for the cause."""
    clock = VirtualClock(NOW)

    def handle(_event: dict[str, Any], _context: Any) -> None:
        raise ValueError("second") from KeyError("first")

    sandboxes = Sandboxes(clock, Recorder(clock), build=str, use=lambda _: None, handler_of=lambda _: handle)
    sandboxes.invoke(SLOW, {}, "test", lambda *_: None)
    clock.run_until(NOW + SECOND)
    (failure,) = sandboxes.failures
    name, *lines = failure.splitlines()
    assert name == SLOW.name
    assert [line for line in lines if not line.startswith("  ")] == ["KeyError: 'first'", "ValueError: second"]
    assert sum(f"{__file__}:" in line for line in lines) == 1


def test_an_invocation_says_how_many_objects_it_set_aside() -> None:
    assert [isolated_in(answer) for answer in (None, {}, {"decisions": [], "setAsideObjects": 2})] == [0, 0, 2]
