"""Decides about colour: it is on for terminals, unless `--color`, NO_COLOR or TERM=dumb override that."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeVar

# Writes text for people without terminal control characters: names come from foreign files and clusters.


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


# Shows progress on standard error for work that takes a while.


QUIET_SECONDS: Final = 2.0
_TICK_SECONDS: Final = 0.5
_CLEAR_LINE: Final = "\r\x1b[K"
_WRITES: Final = threading.Lock()


T = TypeVar("T")


class Steps:
    """Counts finished parts of work.

    Attributes:
        done: How many parts are done.
        total: The number of parts, 0 if unknown.
    """

    def __init__(self, total: int) -> None:
        self.done = 0
        self.total = total

    def over(self, parts: Iterable[T]) -> Iterator[T]:
        """Yield the parts; each counts as done when the next is requested."""
        for part in parts:
            yield part
            self.done += 1


@contextmanager
def progress(what: str, total: int = 0) -> Iterator[Steps]:
    """Show the activity, its progress and its duration once it takes over two seconds.

    Nothing is shown if standard error is not a terminal. The yielded object counts the parts.
    """
    steps = Steps(total)
    if not sys.stderr.isatty():
        yield steps
        return
    done = threading.Event()
    thread = threading.Thread(target=_show, args=(what, steps, done), daemon=True)
    thread.start()
    try:
        yield steps
    finally:
        done.set()
        thread.join()


@contextmanager
def progress_held() -> Iterator[None]:
    """Write no progress meanwhile: another program may ask on the terminal, and progress would clear its question."""
    with _WRITES:
        yield


def _show(what: str, steps: Steps, done: threading.Event) -> None:
    started = time.monotonic()
    if done.wait(QUIET_SECONDS):
        return
    while not done.wait(_TICK_SECONDS):
        count = f"{steps.done:,} of {steps.total:,}, " if steps.total else ""
        with _WRITES:
            sys.stderr.write(f"{_CLEAR_LINE}{what}: {count}{time.monotonic() - started:.0f} s")
            sys.stderr.flush()
    sys.stderr.write(_CLEAR_LINE)
    sys.stderr.flush()


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
