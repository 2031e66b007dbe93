"""What ends a command early, and with which exit code."""

from __future__ import annotations

from typing import Final

from core.errors import FleetwrightError

DONE: Final = 0
NEGATIVE: Final = 1
BAD_INPUT: Final = 2
INTERNAL: Final = 3
INTERRUPTED: Final = 130
"""As shells have it for a command that was stopped with Ctrl-C."""


class InputError(FleetwrightError):
    """Something that was given to the command cannot be read or understood: exit code 2.

    Attributes:
        problem: What is wrong, naming the object and the field where one is known.
        source: The file it is in, or `-`; empty where it is none.
        index: The document's index in its file, from 0; None where that means nothing.
        place: Line and column, where the text itself is broken.
        hint: What to do next; empty where the problem says it.
    """

    def __init__(
        self, problem: str, *, source: str = "", index: int | None = None, place: str = "", hint: str = ""
    ) -> None:
        self.problem = problem
        self.source = source
        self.index = index
        self.place = place
        self.hint = hint
        super().__init__(problem, source, index, place, hint)

    def __str__(self) -> str:
        where = [self.source or "", "" if self.index is None else f"document {self.index}", self.place]
        told = ": ".join(part for part in (*where, self.problem) if part)
        return f"{told}\nhint: {self.hint}" if self.hint else told
