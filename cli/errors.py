"""Errors that end a command, with their exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.errors import FleetwrightError

DONE: Final = 0
NEGATIVE: Final = 1
BAD_INPUT: Final = 2
INTERNAL: Final = 3
INTERRUPTED: Final = 130
"""The shell's exit code for a command that was stopped with Ctrl-C."""


class InputError(FleetwrightError):
    """Input to the command cannot be read or parsed: exit code 2.

    Attributes:
        problem: What is wrong, with the object and the field if known.
        source: The file, or `-` for standard input; empty if there is none.
        index: The document's index in its file, from 0, which messages count from 1; None if not applicable.
        place: Line and column, if the text itself is malformed.
        hint: What to do next; empty if the problem says it.
        more: Further lines, such as other files that cannot be read.
    """

    def __init__(
        self,
        problem: str,
        *,
        source: str = "",
        index: int | None = None,
        place: str = "",
        hint: str = "",
        more: Sequence[str] = (),
    ) -> None:
        self.problem = problem
        self.source = source
        self.index = index
        self.place = place
        self.hint = hint
        self.more = tuple(more)
        super().__init__(problem, source, index, place, hint, self.more)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    @property
    def lines(self) -> tuple[str, ...]:
        """What is wrong, and below it the hint, if there is one, and the further lines."""
        where = [self.source or "", "" if self.index is None else f"document {self.index + 1}", self.place]
        text = ": ".join(part for part in (*where, self.problem) if part)
        return (text, *([f"hint: {self.hint}"] if self.hint else []), *self.more)


def error_lines(error: object) -> tuple[str, ...]:
    """Return the lines that say an error: what is wrong, and below it the hint, if there is one, and further lines."""
    if isinstance(error, InputError):
        first, *below = error.lines
        return f"fleetwright: {first}", *below
    problem, mark, hint = str(error).rpartition("\nhint: ")
    return (f"fleetwright: {problem}", f"hint: {hint}") if mark else (f"fleetwright: {error}",)
