"""Colour is for people at a terminal who did not switch it off."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from cli.__main__ import main
from cli.answers.difference import as_markdown, markdown_table, markdown_text
from cli.terminal import output
from cli.terminal import style as progress_style
from cli.terminal.style import (
    ALWAYS,
    AUTO,
    NEVER,
    Steps,
    Style,
    choose_style,
    printable,
    progress,
    progress_held,
    style,
    takes_every_character,
    write_stderr,
    write_stdout,
)

# What names of others' objects may do to a terminal.


HOSTILE = "a\x1b]0;title\x07b\x1b[2Jc\rd\x9be\u202ef\x00"


def test_a_terminal_obeys_nothing_but_colours() -> None:
    """A name could otherwise retitle or clear the terminal, or hide what stands before it."""
    assert printable(HOSTILE) == r"a\u001b]0;title\u0007b\u001b[2Jc\u000dd\u009be\u202ef\u0000"
    choose_style(ALWAYS)
    styled = style.styled("wait\n\tfor it ✓ é", "bold", "red")
    choose_style(NEVER)
    assert printable(styled) == "\x1b[1m\x1b[31mwait\n\tfor it ✓ é\x1b[0m"


def test_json_stays_the_same_value(capsys: pytest.CaptureFixture[str]) -> None:
    output.show({"kind": HOSTILE}, "json", str)
    assert json.loads(capsys.readouterr().out) == {"kind": HOSTILE}


@pytest.mark.parametrize("form", [None, "wide", "name", "jsonpath={.kind}"])
def test_answers_in_every_form_are_printable(form: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    output.show({"kind": HOSTILE}, form, lambda document: document["kind"], names=lambda document: document["kind"])
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_names_can_be_written_in_any_encoding(form: str, encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A locale without UTF-8 was an internal error for a pod's message with an umlaut."""
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding=encoding))
    output.show({"kind": "shöp \U0001f600"}, form, lambda document: document["kind"])
    sys.stdout.flush()
    shown = raw.getvalue().decode(encoding)
    read = {"table": lambda: json.loads(f'"{shown.rstrip()}"')}
    read |= {"json": lambda: json.loads(shown)["kind"], "yaml": lambda: yaml.safe_load(shown)["kind"]}
    assert read[form]() == "shöp \U0001f600"


def test_both_streams_are_written_to(capsys: pytest.CaptureFixture[str]) -> None:
    write_stdout("yes\x1bc")
    write_stderr("no\x1bc")
    assert capsys.readouterr() == ("yes\\u001bc\n", "no\\u001bc\n")


def test_an_error_about_a_hostile_file_is_printable(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "-f", "no\x1b[2Jfile"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_a_cell_of_markdown_stays_in_its_cell() -> None:
    """Manifests of a pull request come from anybody, and the table is posted under the name of a bot."""
    assert markdown_table(("a",), [("x | y\n<img src=//e>",)])[-1] == "| x   y &lt;img src=//e> |"
    assert markdown_text("`[a](http://e) @team`") == "'[a] (http://e) &#64;team'"
    assert markdown_text("  default/web-0  [NoNodePool]") == "default/web-0  [NoNodePool]"


def test_a_difference_in_markdown_names_pods_harmlessly() -> None:
    side = {"hourly": 0.0, "monthly": 0.0, "nodes": 0, "unschedulable": []}
    document = {"before": side, "after": side, "podsLost": ["d/@all](x)<b>"], "podsGained": [], "nodesDrifted": []}
    assert "- d/&#64;all] (x)&lt;b>" in as_markdown({**document, "reasons": {}}).splitlines()


def test_output_without_an_encoding_takes_every_character(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert takes_every_character()


# Progress is for work that takes a while, on a terminal; and it is gone when the answer is printed.


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
    monkeypatch.setattr(progress_style, "sys", SimpleNamespace(stderr=made))
    monkeypatch.setattr(progress_style, "time", made)
    monkeypatch.setattr(progress_style, "threading", SimpleNamespace(Event=lambda: made, Thread=made.thread))
    monkeypatch.setattr(progress_style, "_WRITES", made)
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
    before = progress_style.threading.active_count()
    with progress("reading"):
        pass
    assert progress_style.threading.active_count() == before


def test_a_log_gets_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    written: Any = io.StringIO()
    monkeypatch.setattr(progress_style, "sys", SimpleNamespace(stderr=written))
    monkeypatch.setattr(progress_style, "threading", None)
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


@pytest.mark.parametrize(
    ("when", "environment", "is_terminal", "is_on"),
    [
        (AUTO, {}, True, True),
        (AUTO, {}, False, False),
        (AUTO, {"NO_COLOR": "1"}, True, False),
        (AUTO, {"NO_COLOR": ""}, True, True),
        (AUTO, {"TERM": "dumb"}, True, False),
        (AUTO, {"TERM": "xterm"}, True, True),
        (ALWAYS, {"NO_COLOR": "1", "TERM": "dumb"}, False, True),
        (NEVER, {}, True, False),
    ],
)
def test_colour_is_on(when: str, environment: dict[str, str], is_terminal: bool, is_on: bool) -> None:
    style = Style()
    assert not style.is_on
    style.choose(when, environment, is_terminal=is_terminal)
    assert style.is_on == is_on
    assert (style.styled("text", "bold", "red") == "text") != is_on


def test_text_is_painted_and_reset() -> None:
    style = Style(is_on=True)
    assert printable(style.styled("text", "bold", "red")) == "\x1b[1m\x1b[31mtext\x1b[0m"
    assert [printable(style.styled("x", name)) for name in ("dim", "green", "yellow", "cyan")] == [
        f"\x1b[{code}mx\x1b[0m" for code in (2, 32, 33, 36)
    ]
    assert style.styled("", "bold") == ""
