"""Colour is for people at a terminal who did not switch it off."""

from __future__ import annotations

import pytest

from cli.terminal.style import ALWAYS, AUTO, NEVER, Style


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
    assert style.styled("text", "bold", "red") == "\x1b[1m\x1b[31mtext\x1b[0m"
    assert [style.styled("x", name) for name in ("dim", "green", "yellow", "cyan")] == [
        f"\x1b[{code}mx\x1b[0m" for code in (2, 32, 33, 36)
    ]
    assert style.styled("", "bold") == ""
