"""Prints answers on standard output: tables that are readable without colour, JSON, YAML, names, single values."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec

from cli.errors import InputError
from cli.terminal.style import (
    COLOUR,
    is_obeyed,
    on_one_line,
    on_one_line_each,
    style,
    takes_every_character,
    write_stdout,
)
from core.api.objects import JsonObject
from core.reasons.code import PAGE

# `-o jsonpath=TEMPLATE`: text with expressions in braces, as in kubectl, with `range` and `end`.


_PARTS: Final = re.compile(r"\{([^{}]*)\}")
_ESCAPES: Final = {r"\n": "\n", r"\t": "\t", r"\"": '"', r"\\": "\\"}
_RANGE: Final = "range "
_END: Final = "end"
_SOURCE: Final = "-o jsonpath"


def filled(template: str, document: Any) -> str:
    """Return the template with each expression replaced by its values, several of them joined.

    Raises:
        InputError: If an expression cannot be read, or `range` and `end` do not match.
    """
    parts = _split(template)
    if len(parts) == 1 and not parts[0][1]:
        return _values(template.strip(), document)
    text, rest = _rendered(parts, document)
    if rest:
        raise InputError("{end} without {range …}", source=_SOURCE)
    return text


def _split(template: str) -> list[tuple[str, bool]]:
    """Split the template into pieces, with whether each is an expression."""
    pieces, end = list[tuple[str, bool]](), 0
    for match in _PARTS.finditer(template):
        pieces += [(template[end : match.start()], False), (match.group(1).strip(), True)]
        end = match.end()
    return [*pieces, (template[end:], False)]


def _rendered(parts: list[tuple[str, bool]], document: Any) -> tuple[str, list[tuple[str, bool]]]:
    """Return the text up to the matching `end`, and the parts after it."""
    text = list[str]()
    while parts:
        (piece, is_expression), *rest = parts
        if is_expression and piece == _END:
            return "".join(text), parts
        if is_expression and piece.startswith(_RANGE):
            items = list(_found(piece.removeprefix(_RANGE).strip(), document))
            _, after = _rendered(rest, document)
            if not after:
                raise InputError(f"{{{piece}}} without {{end}}", source=_SOURCE)
            text += [_rendered(rest, item)[0] for item in items]
            rest = after[1:]
        else:
            text.append(_values(piece, document) if is_expression else piece)
        parts = rest
    return "".join(text), []


def _values(expression: str, document: Any) -> str:
    if expression.startswith('"') and expression.endswith('"'):
        return re.sub(r"\\.", lambda match: _ESCAPES.get(match.group(), match.group()), expression[1:-1])
    return " ".join(value if isinstance(value, str) else json.dumps(value) for value in _found(expression, document))


def _found(expression: str, document: Any) -> Iterator[Any]:
    """Return the values at a path; `@` is the item of a range."""
    from jsonpath_ng.exceptions import JSONPathError
    from jsonpath_ng.ext.parser import parse

    path = expression.removeprefix("@")
    path = path if path.startswith("$") else f"${path if path[:1] in '.[' else f'.{path}'}"
    try:
        matches = parse("$" if path == "$." else path).find(document)
    except (JSONPathError, AttributeError) as error:
        problem = " ".join(str(error).split())
        raise InputError(
            f"{expression!r} is not a path such as .nodeClaims[*].name: {problem}", source=_SOURCE
        ) from error
    return (entry.value for entry in matches)


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
        document = on_one_line_each(document)
        text = names(document) if names else str(document["kind"]).lower()
    elif form is not None and form.startswith(JSONPATH):
        text = filled(form.removeprefix(JSONPATH), on_one_line_each(msgspec.to_builtins(document)))
    else:
        document = on_one_line_each(document)
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
    return escaped_yaml(partial(yaml.dump, plain, Dumper=dumper, sort_keys=False, width=120))


def escaped_yaml(dump: Callable[..., object]) -> str:
    """Return YAML in which no character is obeyed by a terminal or turns the text around: such are escaped as YAML does.

    `dump` writes the documents, and takes PyYAML's `allow_unicode`.
    """
    text = str(dump(allow_unicode=takes_every_character()))
    return str(dump(allow_unicode=False)) if is_obeyed(text) else text


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
    return f"{cell:.4f}" if isinstance(cell, float) else on_one_line(str(cell))


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).removeprefix("-").isdigit()


# Formats the rows of a table one below the other, a line for each column: for terminals too narrow for columns.


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


# Finds the page of a reason code: on the documentation site if one is configured, else in the repository.


SITE_VARIABLE: Final = "FLEETWRIGHT_DOCS_URL"
"""Environment variable with the address of `make site`'s pages, such as https://docs.example.com/fleetwright."""

_CODES_MAX: Final = 3


def reason_page(code: str) -> str:
    """Return the place of a code's explanation."""
    return on_site(f"{PAGE}#{code.lower()}")


def on_site(text: str) -> str:
    """Return a text of the core with its links to the repository's page replaced by the site's, if one is configured."""
    base = os.environ.get(SITE_VARIABLE, "").rstrip("/")
    # A page has a folder of its own on the site.
    return text.replace(PAGE, f"{base}/{PAGE.removeprefix('docs/').removesuffix('.md')}/") if base else text


def pages_lines(codes: Iterable[str]) -> str:
    """Return lines with the pages of the first few of these codes; without a site, the command that explains them."""
    is_served = bool(os.environ.get(SITE_VARIABLE))
    distinct = list(dict.fromkeys(codes))[:_CODES_MAX]
    lines = [f"{code}: {reason_page(code) if is_served else f'fleetwright explain {code}'}" for code in distinct]
    return "\n".join(style.styled(wrapped(f"about {line}"), "dim") for line in lines)
