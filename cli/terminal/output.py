"""Prints answers on standard output: tables that are readable without colour, JSON, YAML, names, single values."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from cli.terminal.printable import COLOUR, takes_every_character, write_stdout
from cli.terminal.style import style
from core.api.objects import JsonObject

Text = Callable[[JsonObject], str]

WIDTH_MAX: Final = 100
"""The default line width for people if no terminal defines it: it fits beside an editor, and in a ticket."""

_TERMINAL_MIN: Final = 20
_TERMINAL_MAX: Final = 200
"""The maximum line width: longer lines are hard to read."""

JSONPATH: Final = "jsonpath="
FORMS: Final = ("table", "wide", "name", "json", "yaml")

_NAME_MAX: Final = 80
"""A longer word is not a name but, for instance, an encoded message, and may be broken."""

_CELL_WIDTH_MIN: Final = 18
_HANGING: Final = 4


def show(
    document: JsonObject, form: str | None, as_table: Text, as_wide: Text | None = None, names: Text | None = None
) -> None:
    """Print the document in the requested form, a table by default.

    Args:
        document: The answer.
        form: One of `FORMS`, or `jsonpath=TEMPLATE`.
        as_table: Formats the answer for people.
        as_wide: Formats it with all columns; None for the table.
        names: Returns one object per line as `kind/name`; None for the answer's kind.
    """
    if form == "json":
        text = json.dumps(document, indent=2, ensure_ascii=False)
    elif form == "yaml":
        text = as_yaml(document)
    elif form == "name":
        text = names(document) if names else str(document["kind"]).lower()
    elif form is not None and form.startswith(JSONPATH):
        from cli.terminal.jsonpath import filled

        text = filled(form.removeprefix(JSONPATH), msgspec.to_builtins(document))
    else:
        text = (as_wide or as_table)(document) if form == "wide" else as_table(document)
        text = wrapped(text) if sys.stdout.isatty() else text
    if text:
        write_stdout(text.rstrip("\n"))


def line_width() -> int:
    """Return the line width for people."""
    if not sys.stdout.isatty():
        return WIDTH_MAX
    return min(max(shutil.get_terminal_size((WIDTH_MAX, 24)).columns, _TERMINAL_MIN), _TERMINAL_MAX)


def as_yaml(document: JsonObject) -> str:
    """Format the document as YAML, with keys in order."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    plain = msgspec.to_builtins(document)  # codes are members of enumerations, which PyYAML does not write
    return str(yaml.dump(plain, Dumper=dumper, sort_keys=False, allow_unicode=takes_every_character(), width=120))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Format columns under their headings, numbers to the right.

    The widest texts are wrapped at spaces until a line fits the width. If that is not enough, a terminal gets each column of a
    row on a line of its own; elsewhere the lines are longer, so that programs find a row in one line.
    """
    cells = [[_text(cell) for cell in row] for row in rows]
    numeric = [all(_is_number(row[i] or "0") for row in cells) for i in range(len(headings))]
    widths = [max(map(len, (heading, *(row[i] for row in cells)))) for i, heading in enumerate(headings)]
    least = [max(len(heading), _least_width([row[i] for row in cells])) for i, heading in enumerate(headings)]
    if _excess(least) > 0 and sys.stdout.isatty():
        from cli.terminal.records import records  # most terminals are wide enough

        return "\n".join([style.styled(headings[0], "bold"), *records(headings, cells, line_width())]).lstrip("\n")
    widths = _narrowed(widths, least)

    def line(values: Sequence[str]) -> str:
        padded = (v.rjust(w) if right else v.ljust(w) for v, w, right in zip(values, widths, numeric, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join(
        [style.styled(line(headings), "bold"), *(line(part) for row in cells for part in _broken(row, widths))]
    )


def wrapped(text: str) -> str:
    """Wrap every line at spaces to the width; continuation lines are indented further."""
    return "\n".join(part for line in text.splitlines() for part in _wrapped_line(line))


def rfc3339(moment: datetime) -> str:
    """Format a time in UTC, with fractions of a second if it has any."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def several(values: Sequence[str], shown: int = 3) -> str:
    """Return the first few values of a list and the number of the others."""
    rest = len(values) - shown
    return ", ".join(values[:shown]) + (f" +{rest}" if rest > 0 else "")


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 node`, `2 nodes`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _least_width(column: Sequence[str]) -> int:
    """Return the width to which a column may shrink: its longest word, since names must stay whole to be copied."""
    words = [len(word) for cell in column for word in cell.split()]
    return max((word for word in words if word <= _NAME_MAX), default=min(_CELL_WIDTH_MIN, max(words, default=0)))


def _excess(widths: Sequence[int]) -> int:
    """Return by how much a line of columns is too long; negative if it is not."""
    return sum(widths) + 2 * (len(widths) - 1) - line_width()


def _narrowed(widths: list[int], least: Sequence[int]) -> list[int]:
    """Return the widths with the widest ones reduced until a line fits, none below its minimum."""
    excess = _excess(widths)
    while excess > 0:
        spare, widest = max(
            (width - min(width, low), -i) for i, (width, low) in enumerate(zip(widths, least, strict=True))
        )
        if spare == 0:
            break
        widths[-widest] -= 1
        excess -= 1
    return widths


def _broken(row: Sequence[str], widths: Sequence[int]) -> list[list[str]]:
    """Return the lines of one row."""
    columns = [
        textwrap.wrap(cell, width, break_on_hyphens=False) or [""] for cell, width in zip(row, widths, strict=True)
    ]
    height = max(len(column) for column in columns)
    return [[column[number] if number < len(column) else "" for column in columns] for number in range(height)]


def _wrapped_line(line: str) -> list[str]:
    if len(COLOUR.sub("", line)) <= line_width():
        return [line.rstrip()]
    indent = " " * (len(line) - len(line.lstrip()) + _HANGING)
    return textwrap.wrap(
        line,
        line_width(),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    ) or [""]


def _text(cell: object) -> str:
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).removeprefix("-").isdigit()
