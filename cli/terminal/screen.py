"""A terminal's whole screen: keys have names, and only lines that change are written, so nothing flickers."""

from __future__ import annotations

import io
import os
import select
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, Final

from cli.errors import InputError

STYLES: Final = {"": "", "bold": "\x1b[1m", "reverse": "\x1b[7m", "dim": "\x1b[2m"}
_PLAIN: Final = "\x1b[0m"

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
"""The alternate screen without a cursor, and back to what was there before."""

_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""Terminals that know these show the lines between them at once; others ignore them."""

_SEQUENCES: Final = {
    "[A": "up", "[B": "down", "[C": "right", "[D": "left", "OA": "up", "OB": "down",
    "[H": "home", "[F": "end", "[1~": "home", "[4~": "end", "[5~": "pageup", "[6~": "pagedown",
}  # fmt: skip
_NAMES: Final = {"\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\x08": "backspace", "\x03": "q"}


def keys(text: str) -> Iterator[str]:
    """Yield the keys of what a terminal sent: characters as they are, others by name; unknown sequences are left out."""
    position = 0
    while position < len(text):
        if text[position] != "\x1b":
            yield _NAMES.get(text[position], text[position])
            position += 1
            continue
        sequence = next((name for name in _SEQUENCES if text.startswith(name, position + 1)), None)
        if sequence is not None:
            yield _SEQUENCES[sequence]
            position += 1 + len(sequence)
        elif text[position + 1 : position + 2] in ("[", "O"):
            position += 2
            while position < len(text) and not "@" <= text[position] <= "~":
                position += 1
            position += 1
        else:
            yield "escape"
            position += 1


class Screen:
    """Writes lines; remembers what is there, and writes only what is different.

    Args:
        write: Where to; gets one text for each change of the screen.
    """

    def __init__(self, write: Callable[[str], Any]) -> None:
        self._write = write
        self._shown: list[tuple[str, str]] = []
        self._size = (0, 0)

    def show(self, lines: Sequence[tuple[str, str]], size: tuple[int, int]) -> None:
        """Show the lines, each a text and a style; a screen of another size is written as a whole."""
        if size != self._size:
            self._shown, self._size = [], size
        old = self._shown + [("\x00", "")] * (len(lines) - len(self._shown))
        changed = [
            f"\x1b[{number};1H{STYLES[style]}{_printable(text)}{_PLAIN}\x1b[K"
            for number, ((text, style), before) in enumerate(zip(lines, old, strict=False), 1)
            if (text, style) != before
        ]
        self._shown = [(text, style) for text, style in lines]
        if changed:
            self._write(f"{_BEGIN}{''.join(changed)}{_END}")


def _printable(text: str) -> str:
    """Replace characters that would move the cursor: names come from the cluster."""
    return "".join(character if character.isprintable() else "?" for character in text)


class Terminal:
    """The user's terminal, while it belongs to a command."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.screen = Screen(self._written)

    def size(self) -> tuple[int, int]:
        """Return columns and lines."""
        columns, lines = shutil.get_terminal_size()
        return columns, lines

    def pressed(self, seconds: float) -> list[str]:
        """Return the keys that were pressed, after at most so many seconds."""
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        return list(keys(os.read(self._descriptor, 1024).decode(errors="replace"))) if ready else []

    def _written(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


_HOME, _TO_LINE_END, _TO_SCREEN_END = "\x1b[H", "\x1b[K", "\x1b[J"
FAILURES_MAX: Final = 20
"""Readings that may fail one after the other, once one succeeded, before `repeat` gives up."""


def repeat(answer: Callable[[], int], every: float, pause: Callable[[float], Any] = time.sleep) -> int:
    """Answer again and again until Ctrl-C, on one screen or, elsewhere, one below the other.

    Args:
        answer: Reads and writes an answer; returns an exit code.
        every: Seconds between two answers.
        pause: What waits so long.

    Returns:
        The last answer's exit code.

    Raises:
        InputError: If the first reading fails, or `FAILURES_MAX` in a row.
    """
    code, failures = None, 0
    try:
        while True:
            written = io.StringIO()
            try:
                with _written_to(written if sys.stdout.isatty() else None):
                    code = answer()
                failures = 0
            except InputError as error:
                failures += 1
                if code is None or failures == FAILURES_MAX:
                    raise
                written.write(f"{error.lines[0]}\nreading again in {every:g} s\n")
            _rewrite(written.getvalue(), every)
            pause(every)
    except KeyboardInterrupt:
        return code or 0


@contextmanager
def _written_to(text: io.StringIO | None) -> Iterator[None]:
    """Collect output and warnings in the text. Without a text, both go where they usually go."""
    if text is None:
        yield
        return
    with redirect_stdout(text), redirect_stderr(text):
        yield


def _rewrite(text: str, every: float) -> None:
    """Write over what the screen shows: the lines that stay the same do not flicker."""
    if not sys.stdout.isatty():
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    rows = text.splitlines()
    room = shutil.get_terminal_size().lines - 1
    if len(rows) > room:
        rows = [*rows[: room - 1], f"{len(rows) - room + 1} more lines: enlarge the window"]
    rows.append(f"every {every:g} s, last at {time.strftime('%H:%M:%S')}; Ctrl-C ends")
    body = f"{_TO_LINE_END}\r\n".join(rows)
    sys.stdout.write(f"{_BEGIN}{_HOME}{body}{_TO_LINE_END}{_TO_SCREEN_END}{_END}")
    sys.stdout.flush()


@contextmanager
def terminal() -> Iterator[Terminal]:
    """Take the terminal, and give it back as it was, whatever happens.

    Raises:
        InputError: If standard input or output is none.
    """
    try:
        import termios
        import tty
    except ModuleNotFoundError as error:
        raise InputError("this system has no terminal of POSIX's kind", hint="use `fleetwright status`") from error
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("standard input and output are no terminal", hint="use `fleetwright status`")
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor)
        sys.stdout.write(_ENTER)
        yield Terminal(descriptor)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
