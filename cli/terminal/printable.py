"""Writes text for people without terminal control characters: names come from foreign files and clusters."""

from __future__ import annotations

import re
import sys
from typing import Final

COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
"""Our own colour sequences, which are allowed: they change neither the text nor the state of the terminal."""

_OBEYED: Final = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
"""Control characters (C0 except tabs and line ends, C1), other line ends, and characters that change the text direction."""

_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")

_COLOUR_OR_OBEYED: Final = re.compile(f"{COLOUR.pattern}|({_OBEYED})")


def printable(text: str) -> str:
    r"""Return the text with each such character escaped as in `\u001b`, which JSON reads as the same character."""
    return _COLOUR_OR_OBEYED.sub(lambda found: f"\\u{ord(found[1]):04x}" if found[1] else found[0], text)


def takes_every_character() -> bool:
    """Whether standard output's encoding has all characters; elsewhere YAML and JSON must be written with escapes."""
    return (sys.stdout.encoding or "utf-8").lower().startswith("utf")


def write_stdout(text: str, end: str = "\n") -> None:
    """Write to standard output; characters that its encoding lacks are escaped like those of `printable`."""
    shown = printable(text) + end
    try:
        sys.stdout.write(shown)
    except UnicodeEncodeError:
        sys.stdout.write(_NOT_ASCII.sub(_escaped, shown))


def _escaped(found: re.Match[str]) -> str:
    """Escape a character as JSON does, in two halves where it has more than sixteen bits."""
    halves = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{halves[start : start + 4]}" for start in range(0, len(halves), 4))


def write_stderr(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(printable(text) + "\n")
