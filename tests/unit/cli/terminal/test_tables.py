"""Tables and lines at the width of the reader: what is wrapped, what is never broken, what stays in one line."""

from __future__ import annotations

import os
import shutil
import sys
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

from cli.terminal import output


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Standard output is a terminal; a test sets its width with `wide`."""
    monkeypatch.setattr(output, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    return monkeypatch


def wide(terminal: pytest.MonkeyPatch, columns: int) -> None:
    terminal.setattr(shutil, "get_terminal_size", lambda _: os.terminal_size((columns, 24)))


@pytest.mark.parametrize(("columns", "width"), [(10, 20), (20, 20), (120, 120), (200, 200), (300, 200)])
def test_lines_are_as_wide_as_the_terminal_within_bounds(
    terminal: pytest.MonkeyPatch, columns: int, width: int
) -> None:
    wide(terminal, columns)
    assert output.line_width() == width


def test_elsewhere_lines_have_a_hundred_columns() -> None:
    assert output.line_width() == output.WIDTH_MAX == 100


def test_a_table_that_just_fits_keeps_its_columns(terminal: pytest.MonkeyPatch) -> None:
    """Eleven columns, two between them, and eleven."""
    rows = [("a" * 11, "b" * 11)]
    wide(terminal, 24)
    assert output.table(("ONE", "TWO"), rows).splitlines() == ["ONE          TWO", f"{'a' * 11}  {'b' * 11}"]
    wide(terminal, 23)
    assert output.table(("ONE", "TWO"), rows).splitlines() == ["ONE", "a" * 11, f"  TWO  {'b' * 11}"]


def test_for_programs_a_row_stays_one_line_however_long() -> None:
    assert len(output.table(("A", "B"), [("a" * 79, "b" * 79)]).splitlines()) == 2


def test_a_very_long_word_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no name but an encoded message; a name of eighty characters stays whole."""
    for length, lines in ((81, 3), (80, 2)):
        text = output.table(("N", "MESSAGE"), [("x" * 30, "y" * length)])
        assert len(text.splitlines()) == lines, length


def test_the_widest_texts_shrink_first_and_equally(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "line_width", lambda: 22)
    rows = [("aa aa aa aa aa", "bb bb bb bb bb", "c")]
    assert output.table(("A", "B", "C"), rows).splitlines() == [
        "A         B          C",
        "aa aa aa  bb bb bb   c",
        "aa aa     bb bb",
    ]


def test_numbers_are_to_the_right_and_texts_to_the_left() -> None:
    rows = [("1", 0.5, "", "x"), ("-20", 12.25, "", "1")]
    assert output.table(("N", "PRICE", "NONE", "MIXED"), rows).splitlines() == [
        "  N    PRICE  NONE  MIXED",
        "  1   0.5000        x",
        "-20  12.2500        1",
    ]
    assert output.table(("N", "M"), [("", "a"), ("3", "")]).splitlines() == ["N  M", "   a", "3"]
    assert output.table(("VERSION",), [("1.2.3",)]).splitlines() == ["VERSION", "1.2.3"]
    assert output.table(("A", "B"), []) == "A  B"


def test_lines_are_wrapped_at_spaces_and_go_on_further_in() -> None:
    words = " ".join(["word"] * 21)
    first, second = output.wrapped(f"  {words}").splitlines()
    assert (len(first), second) == (2 + 19 * 5 - 1, "      word word")
    assert output.wrapped("a" * 99 + " ") == "a" * 99
    assert output.wrapped("one\n\ntwo") == "one\n\ntwo"
    assert output.wrapped("x" * 130) == "x" * 130
    assert output.wrapped("") == ""


def test_colours_take_no_room() -> None:
    painted = f"\x1b[1m{'a' * 50}\x1b[0m {'b' * 49}"
    assert output.wrapped(painted) == painted


def test_a_time_is_in_utc_with_its_fraction() -> None:
    there = datetime(2026, 11, 20, 1, 30, tzinfo=timezone(timedelta(hours=1)))
    assert output.rfc3339(there) == "2026-11-20T00:30:00Z"
    assert output.rfc3339(datetime(2026, 11, 20, 0, 0, 1, 500_000, tzinfo=UTC)) == "2026-11-20T00:00:01.500000Z"


def test_nouns_and_lists() -> None:
    assert [output.counted(n, "node") for n in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]
    assert output.several(["a", "b", "c"]) == "a, b, c"
    assert output.several(["a", "b", "c", "d", "e"]) == "a, b, c +2"
    assert output.several([]) == ""


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (None, "table\n"),
        ("table", "table\n"),
        ("wide", "wide\n"),
        ("name", "plan/x\n"),
        ("json", '{\n  "kind": "Plan",\n  "ä": 1\n}\n'),
        ("yaml", "kind: Plan\nä: 1\n"),
        ("jsonpath={.kind}", "Plan\n"),
    ],
)
def test_an_answer_has_the_form_that_was_asked_for(
    form: str | None, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output.show({"kind": "Plan", "ä": 1}, form, lambda _: "table\n\n", lambda _: "wide", lambda _: "plan/x")
    assert capsys.readouterr().out == text


def test_without_columns_or_names_of_its_own_an_answer_is_its_table_and_its_kind(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for form in ("wide", "name"):
        output.show({"kind": "Plan"}, form, lambda _: "table")
    assert capsys.readouterr().out == "table\nplan\n"
    output.show({"kind": "Plan"}, "name", str, str, lambda _: "")
    assert capsys.readouterr().out == ""


def test_on_a_terminal_long_lines_of_an_answer_are_wrapped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "line_width", lambda: 20)
    output.show({}, None, lambda _: "one two three four five")
    assert capsys.readouterr().out == "one two three four five\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output.show({}, None, lambda _: "one two three four five")
    assert capsys.readouterr().out == "one two three four\n    five\n"
