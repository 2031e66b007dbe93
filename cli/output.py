"""Answers on standard output: tables that need no colour, JSON, YAML."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

JsonObject = dict[str, Any]

WIDTH_MAX: Final = 100
"""Columns of a line for people: fits beside an editor, and in a ticket."""

_CELL_WIDTH_MIN: Final = 18
_HANGING: Final = 4


def show(document: JsonObject, form: str | None, as_table: Callable[[JsonObject], str]) -> None:
    """Print the document in the form asked for; without one a table on a terminal, JSON elsewhere."""
    chosen = form or ("table" if sys.stdout.isatty() else "json")
    if chosen == "json":
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    elif chosen == "yaml":
        text = as_yaml(document)
    else:
        text = as_table(document).rstrip("\n") + "\n"
    sys.stdout.write(text)


def as_yaml(document: JsonObject) -> str:
    """The document as YAML, keys in their order."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    plain = msgspec.to_builtins(document)  # codes are members of enumerations, which PyYAML does not write
    return str(yaml.dump(plain, Dumper=dumper, sort_keys=False, allow_unicode=True, width=120))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns side by side under their headings; numbers to the right, the widest texts wrapped to `WIDTH_MAX`."""
    cells = [[_text(cell) for cell in row] for row in rows]
    numeric = [all(_is_number(row[i]) for row in cells) and bool(cells) for i in range(len(headings))]
    widths = [max(len(heading), *(len(row[i]) for row in cells), 0) for i, heading in enumerate(headings)]
    widths = _narrowed(widths, [max(_CELL_WIDTH_MIN, len(heading)) for heading in headings])

    def line(values: Sequence[str]) -> str:
        padded = (v.rjust(w) if right else v.ljust(w) for v, w, right in zip(values, widths, numeric, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join([line(headings), *(line(part) for row in cells for part in _broken(row, widths))])


def wrapped(text: str) -> str:
    """Every line cut at spaces to `WIDTH_MAX`; what continues a line is indented further than the line."""
    return "\n".join(part for line in text.splitlines() for part in _wrapped_line(line))


def several(values: Sequence[str], shown: int = 3) -> str:
    """The first few of a list and how many more there are."""
    rest = len(values) - shown
    return ", ".join(values[:shown]) + (f" +{rest}" if rest > 0 else "")


def counted(count: int, noun: str) -> str:
    """A number with its noun: `1 node`, `2 nodes`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _narrowed(widths: list[int], least: Sequence[int]) -> list[int]:
    """The same widths with the widest made narrower until a line fits, none below its least."""
    excess = sum(widths) + 2 * (len(widths) - 1) - WIDTH_MAX
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
    """The lines of one row."""
    columns = [
        textwrap.wrap(cell, width, break_on_hyphens=False) or [""] for cell, width in zip(row, widths, strict=True)
    ]
    height = max(len(column) for column in columns)
    return [[column[number] if number < len(column) else "" for column in columns] for number in range(height)]


def _wrapped_line(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + _HANGING)
    return textwrap.wrap(
        line, WIDTH_MAX, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    ) or [""]


def _text(cell: object) -> str:
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).removeprefix("-").isdigit()
