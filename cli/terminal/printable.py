"""Writes text for people, without what a terminal would obey: names come from files and clusters of others."""

from __future__ import annotations

import re
import sys
from typing import Final

_COLOUR: Final = r"\x1b\[[0-9;]*m"
"""Let through: it is our own, and changes how a text looks but neither the text nor the terminal."""

_OBEYED: Final = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
"""Control characters (C0 but for tabs and line ends, C1), other line ends, and what turns the direction of text."""

_COLOUR_OR_OBEYED: Final = re.compile(f"{_COLOUR}|({_OBEYED})")


def printable(text: str) -> str:
    r"""The text with each such character as `\u001b`, which JSON reads as the same character."""
    return _COLOUR_OR_OBEYED.sub(lambda found: f"\\u{ord(found[1]):04x}" if found[1] else found[0], text)


def write_stdout(text: str, end: str = "\n") -> None:
    """Write to standard output."""
    sys.stdout.write(printable(text) + end)


def write_stderr(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(printable(text) + "\n")
