"""A screen writes what changed and nothing else; keys of a terminal become names."""

from __future__ import annotations

import re

import pytest

from cli.__main__ import main
from cli.errors import InputError
from cli.terminal.screen import FAILURES_MAX, Screen, keys, repeat, terminal


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("jq", ["j", "q"]),
        ("\x1b[A\x1b[B", ["up", "down"]),
        ("\x1bOA", ["up"]),
        ("\x1b[5~\x1b[6~", ["pageup", "pagedown"]),
        ("\x1b", ["escape"]),
        ("\x1bq", ["escape", "q"]),
        ("\r\t\x7f\x03", ["enter", "tab", "backspace", "q"]),
        ("\x1b[1;5Cx", ["x"]),
        ("\x1b[200", []),
        ("é", ["é"]),
    ],
)
def test_keys_have_names(text: str, named: list[str]) -> None:
    assert list(keys(text)) == named


def rows_written(text: str) -> list[int]:
    return [int(row) for row in re.findall(r"\x1b\[(\d+);1H", text)]


def test_only_lines_that_change_are_written() -> None:
    written: list[str] = []
    screen = Screen(written.append)
    lines = [(f"line {number}", "") for number in range(40)]
    screen.show(lines, (80, 40))
    assert rows_written(written.pop()) == list(range(1, 41))
    screen.show(lines, (80, 40))
    assert written == []
    screen.show([*lines[:7], ("another", ""), *lines[8:20], (lines[20][0], "reverse"), *lines[21:]], (80, 40))
    text = written.pop()
    assert rows_written(text) == [8, 21]
    assert text.startswith("\x1b[?2026h")
    assert text.endswith("\x1b[?2026l")
    assert "\x1b[2J" not in text  # clearing the screen is what flickers


def test_another_size_is_written_as_a_whole() -> None:
    written: list[str] = []
    screen = Screen(written.append)
    screen.show([("a", ""), ("b", "")], (80, 2))
    written.clear()
    screen.show([("a", ""), ("b", "")], (81, 2))
    assert rows_written(written.pop()) == [1, 2]


def test_text_of_the_cluster_cannot_move_the_cursor() -> None:
    written: list[str] = []
    Screen(written.append).show([("a\x1b[2Jb\n", "")], (80, 1))
    assert "a?[2Jb?" in written[0]


def test_without_a_terminal_another_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    with pytest.raises(InputError, match="fleetwright status"), terminal():
        pytest.fail("there is no terminal")


class Readings:
    """Exit codes or errors, one a reading; Ctrl-C comes after the last."""

    def __init__(self, *steps: int | InputError) -> None:
        self.steps = list(steps)

    def __call__(self) -> int:
        step = self.steps.pop(0)
        if isinstance(step, InputError):
            raise step
        print(f"answer {len(self.steps)}\n" * 40)  # noqa: T201 - as a command writes
        return step

    def pause(self, seconds: float) -> None:
        assert seconds == 5
        if not self.steps:
            raise KeyboardInterrupt


def test_a_watched_command_answers_below_its_last_answer_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    readings = Readings(0, 1)
    assert repeat(readings, 5, readings.pause) == 1
    written = capsys.readouterr().out
    assert "answer 1" in written
    assert "answer 0" in written
    assert "\x1b" not in written


def test_a_watched_command_writes_over_its_last_answer_on_a_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reading that fails is said, and the next one may succeed: a cluster's API server restarts."""
    monkeypatch.setattr("cli.terminal.screen.sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "10")
    readings = Readings(0, InputError("no answer"), 1)
    assert repeat(readings, 5, readings.pause) == 1
    first, failed, last = capsys.readouterr().out.split("\x1b[?2026h")[1:]
    assert first.count("answer 2") == 8
    assert "33 more lines: enlarge the window" in first
    assert "reading again in 5 s" in failed
    assert "every 5 s" in last


@pytest.mark.parametrize("steps", [[InputError("no")], [0, *[InputError("no")] * FAILURES_MAX]])
def test_a_watched_command_ends_where_no_reading_can_succeed(steps: list[int | InputError]) -> None:
    readings = Readings(*steps, 0)
    with pytest.raises(InputError):
        repeat(readings, 5, readings.pause)


@pytest.mark.parametrize("command", ["plan", "status", "savings", "consolidate"])
def test_standard_input_cannot_be_watched(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "-f", "-", "--watch"]) == 2
    assert "--watch: standard input can be read once only" in capsys.readouterr().err
