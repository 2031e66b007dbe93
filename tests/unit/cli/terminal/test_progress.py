"""Progress is for work that takes a while, on a terminal; and it is gone when the answer is printed."""

from __future__ import annotations

import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from cli.terminal import progress as progress_module
from cli.terminal.progress import Steps, progress, progress_held

CLEAR = "\r\x1b[K"


class Stage:
    """A terminal and a lock that note what happens, and a clock. The thread runs when it is joined: no time passes by itself.

    Attributes:
        happened: What was written, and when the lock was taken and released, in order.
        waits: How often the thread waits until the work is done.
        is_started: Whether there is a thread.
    """

    def __init__(self) -> None:
        self.happened: list[str] = []
        self.waits = 0
        self.is_started = False
        self._seconds = 100.0
        self._run: Callable[[], None] | None = None

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> None:
        self.happened.append(text)

    def flush(self) -> None:
        pass

    def __enter__(self) -> None:
        self.happened.append("taken")

    def __exit__(self, *error: object) -> None:
        self.happened.append("released")

    def monotonic(self) -> float:
        return self._seconds

    def thread(self, *, target: Callable[..., None], args: tuple[Any, ...], daemon: bool) -> Stage:
        assert daemon, "a program that is interrupted ends"
        self._run = lambda: target(*args)
        return self

    def start(self) -> None:
        self.is_started = True

    def join(self) -> None:
        assert self._run is not None
        self._run()

    def set(self) -> None:
        """The work is done."""

    def wait(self, seconds: float) -> bool:
        self.waits -= 1
        if self.waits < 0:
            return True
        self._seconds += seconds
        return False


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage()
    monkeypatch.setattr(progress_module, "sys", SimpleNamespace(stderr=made))
    monkeypatch.setattr(progress_module, "time", made)
    monkeypatch.setattr(progress_module, "threading", SimpleNamespace(Event=lambda: made, Thread=made.thread))
    monkeypatch.setattr(progress_module, "_WRITES", made)
    return made


def test_parts_count_as_done_when_the_next_is_asked_for() -> None:
    steps = Steps(2)
    seen = [(part, steps.done) for part in steps.over("ab")]
    assert (seen, steps.done, steps.total) == ([("a", 0), ("b", 1)], 2, 2)


@pytest.mark.parametrize(("total", "count"), [(0, ""), (1200, "1,100 of 1,200, ")])
def test_what_takes_a_while_is_shown_and_cleared(stage: Stage, total: int, count: str) -> None:
    """After two seconds, twice a second."""
    stage.waits = 4
    with progress("reading", total) as steps:
        steps.done = 1100
    lines = [f"{CLEAR}reading: {count}{seconds} s" for seconds in (2, 3, 4)]  # 2.5, 3.0 and 3.5 are rounded
    assert [one for one in stage.happened if one not in {"taken", "released"}] == [*lines, CLEAR]


def test_quick_work_shows_nothing(stage: Stage) -> None:
    with progress("reading"):
        assert stage.is_started
    assert stage.happened == []


def test_the_thread_ends_with_the_work() -> None:
    """Otherwise, a line is written behind the answer."""
    before = progress_module.threading.active_count()
    with progress("reading"):
        pass
    assert progress_module.threading.active_count() == before


def test_a_log_gets_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    written: Any = io.StringIO()
    monkeypatch.setattr(progress_module, "sys", SimpleNamespace(stderr=written))
    monkeypatch.setattr(progress_module, "threading", None)
    with progress("reading", 7) as steps:
        assert steps.total == 7
    assert written.getvalue() == ""


def test_a_question_of_another_program_is_not_cleared(stage: Stage) -> None:
    """What holds progress has the lock that each line is written under."""
    stage.waits = 3
    with progress("reading"), progress_held():
        assert stage.happened == ["taken"]
    line = [f"{CLEAR}reading: {seconds} s" for seconds in (2, 3)]
    assert stage.happened == ["taken", "released", "taken", line[0], "released", "taken", line[1], "released", CLEAR]
