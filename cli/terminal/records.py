"""Formats the rows of a table one below the other, a line for each column: for terminals too narrow for columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

_INDENT: Final = "  "
_GAP: Final = 2


def records(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield the lines below the first heading: each row's first cell, then its other cells with their headings unless empty.

    No word is broken: only a word that is longer than the width makes a longer line.
    """
    labels = max((len(heading) for heading in headings[1:]), default=0)
    for first, *others in rows:
        yield from _filled(first, width)
        for heading, cell in zip(headings[1:], others, strict=True):
            if cell.strip():
                yield from _field(heading, cell, labels, width)


def _field(heading: str, cell: str, labels: int, width: int) -> Iterator[str]:
    """Yield heading and cell side by side, or the cell below its heading where a word of it needs more room."""
    beside = width - len(_INDENT) - labels - _GAP
    if max(map(len, cell.split())) > beside:
        yield f"{_INDENT}{heading}"
        yield from (f"{2 * _INDENT}{line}" for line in _filled(cell, width - 2 * len(_INDENT)))
        return
    for number, line in enumerate(_filled(cell, beside)):
        yield f"{_INDENT}{'' if number else heading:{labels + _GAP}}{line}"


def _filled(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(1, width), break_long_words=False, break_on_hyphens=False)
