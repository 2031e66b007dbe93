"""Decides about colour: it is on for terminals, unless `--color`, NO_COLOR or TERM=dumb override that."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

AUTO: Final = "auto"
ALWAYS: Final = "always"
NEVER: Final = "never"
CHOICES: Final = (AUTO, ALWAYS, NEVER)

_RESET: Final = "\x1b[0m"
_CODES: Final[Mapping[str, str]] = {
    "bold": "\x1b[1m",
    "dim": "\x1b[2m",
    "red": "\x1b[31m",
    "green": "\x1b[32m",
    "yellow": "\x1b[33m",
    "cyan": "\x1b[36m",
}


class Style:
    """Paints text, or returns it unchanged."""

    def __init__(self, *, is_on: bool = False) -> None:
        self.is_on = is_on

    def choose(self, when: str, environment: Mapping[str, str], *, is_terminal: bool) -> None:
        """Switch colour on or off. `always` and `never` win over the environment (no-color.org)."""
        allowed = not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
        self.is_on = when == ALWAYS or (when == AUTO and is_terminal and allowed)

    def styled(self, text: str, *codes: str) -> str:
        """Return the text in these colours; colour alone must not carry meaning."""
        return "".join(_CODES[code] for code in codes) + text + _RESET if self.is_on and text else text


style: Final = Style()
"""The style of this process' standard output."""


def choose_style(when: str) -> None:
    """Decide for the current standard output."""
    style.choose(when, os.environ, is_terminal=sys.stdout.isatty())
