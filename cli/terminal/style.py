"""Decides about colour: it is on for terminals, unless `--color`, NO_COLOR or TERM=dumb override that."""

from __future__ import annotations

import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

# Writes text for people without terminal control characters: names come from foreign files and clusters.


_PRIVATE: Final = range(0xF0000, 0xFFFFE)
"""Characters without a meaning (Unicode, private use plane 15)."""

_MARK: Final = "".join(chr(_PRIVATE.start + secrets.randbelow(len(_PRIVATE))) for _ in range(3))
"""Begins our own colours until they are written. It differs in each process, so no text of others can hold it."""

_SEQUENCES: Final[Mapping[str, str]] = {
    "r": "\x1b[0m",
    "b": "\x1b[1m",
    "d": "\x1b[2m",
    "1": "\x1b[31m",
    "2": "\x1b[32m",
    "3": "\x1b[33m",
    "6": "\x1b[36m",
}
"""Letter after the mark → what the terminal gets: it changes neither the text nor the state of the terminal."""

COLOUR: Final = re.compile(f"{_MARK}([{''.join(_SEQUENCES)}])")
"""Our own colours in a text that is not written yet."""

_OBEYED: Final = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
"""Control characters (C0 except tabs and line ends, C1), other line ends, and characters that change the text direction."""

_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")

_OBEYED_CHARACTER: Final = re.compile(_OBEYED)
_LINE_END: Final = re.compile(r"\r\n|[\r\n]")


def printable(text: str) -> str:
    r"""Return the text with each such character escaped as in `\u001b`, which JSON reads as the same character.

    Only then are our own colours put in: a sequence in a name of others is not obeyed.
    """
    escaped = _OBEYED_CHARACTER.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return COLOUR.sub(lambda match: _SEQUENCES[match[1]], escaped)


def is_obeyed(text: str) -> bool:
    """Whether a terminal obeys a character of the text."""
    return _OBEYED_CHARACTER.search(text) is not None


def on_one_line(text: str) -> str:
    r"""Return the text with its line ends as `\n`: a second line could be a command of the CI system that shows it."""
    return _LINE_END.sub(r"\\n", text)


def on_one_line_each(value: Any) -> Any:
    """Return plain data with every text on one line."""
    if isinstance(value, str):
        return on_one_line(value) if _LINE_END.search(value) else value
    if isinstance(value, dict):
        return {on_one_line_each(key): on_one_line_each(inner) for key, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(on_one_line_each, value))
    return value


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


def _escaped(match: re.Match[str]) -> str:
    """Escape a character as JSON does, in two halves where it has more than sixteen bits."""
    halves = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{halves[start : start + 4]}" for start in range(0, len(halves), 4))


def write_stderr(text: str, *more: str) -> None:
    """Write a line to standard error, and more lines below it. Line ends within a line are escaped."""
    for line in (text, *more):
        sys.stderr.write(printable(on_one_line(line)) + "\n")


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

_RESET: Final = f"{_MARK}r"
_CODES: Final[Mapping[str, str]] = {
    "bold": f"{_MARK}b",
    "dim": f"{_MARK}d",
    "red": f"{_MARK}1",
    "green": f"{_MARK}2",
    "yellow": f"{_MARK}3",
    "cyan": f"{_MARK}6",
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
        """Return the text in these colours, which `printable` puts in; colour alone must not carry meaning."""
        return "".join(_CODES[code] for code in codes) + text + _RESET if self.is_on and text else text


style: Final = Style()
"""The style of this process' standard output."""


def choose_style(when: str) -> None:
    """Decide for the current standard output."""
    style.choose(when, os.environ, is_terminal=sys.stdout.isatty())
