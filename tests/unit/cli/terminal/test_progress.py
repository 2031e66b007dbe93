"""Progress is for work that takes a while, on a terminal; and it is gone when the answer is printed."""

from __future__ import annotations

import io
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from cli.terminal import progress as progress_module
from cli.terminal.progress import Steps, progress, progress_held

CLEAR = "\r\x1b[K"


class Terminal(io.StringIO):
    """Standard error; tells when something was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = threading.Event()

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        if self.getvalue():
            self.shown.set()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()
    monkeypatch.setattr(progress_module, "sys", SimpleNamespace(stderr=made))
    monkeypatch.setattr(progress_module, "_TICK_SECONDS", 0.001)
    monkeypatch.setattr(progress_module, "QUIET_SECONDS", 0.001)
    return made


def test_parts_count_as_done_when_the_next_is_asked_for() -> None:
    steps = Steps(2)
    seen = [(part, steps.done) for part in steps.over("ab")]
    assert (seen, steps.done, steps.total) == ([("a", 0), ("b", 1)], 2, 2)


@pytest.mark.parametrize(("total", "count"), [(0, ""), (1200, "1,100 of 1,200, ")])
def test_what_takes_a_while_is_shown_and_cleared(terminal: Terminal, total: int, count: str) -> None:
    with progress("reading", total) as steps:
        steps.done = 1100
        terminal.shown.clear()
        assert terminal.shown.wait(5)
    parts = terminal.getvalue().split(CLEAR)
    assert (parts[0], parts[-1]) == ("", "")
    assert f"reading: {count}0 s" in parts


def test_quick_work_shows_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "QUIET_SECONDS", 60)
    with progress("reading"):
        pass
    assert terminal.getvalue() == ""
    assert not any(one.name.endswith("(_show)") for one in threading.enumerate())


def test_a_log_gets_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    written: Any = io.StringIO()
    monkeypatch.setattr(progress_module, "sys", SimpleNamespace(stderr=written))
    monkeypatch.setattr(threading, "Thread", None)
    with progress("reading", 7) as steps:
        assert steps.total == 7
    assert written.getvalue() == ""


def test_a_question_of_another_program_is_not_cleared(terminal: Terminal) -> None:
    with progress("reading"):
        assert terminal.shown.wait(5)
        with progress_held():
            before = terminal.getvalue()
            threading.Event().wait(0.02)
            assert terminal.getvalue() == before
