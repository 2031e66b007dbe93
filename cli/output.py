"""Answers on standard output: tables that need no colour, JSON, YAML."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

JsonObject = dict[str, Any]


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
    return str(yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True, width=120))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns side by side under their headings; numbers to the right."""
    cells = [[_text(cell) for cell in row] for row in rows]
    numeric = [all(_is_number(row[i]) for row in cells) and bool(cells) for i in range(len(headings))]
    widths = [max(len(heading), *(len(row[i]) for row in cells), 0) for i, heading in enumerate(headings)]

    def line(values: Sequence[str]) -> str:
        padded = (v.rjust(w) if right else v.ljust(w) for v, w, right in zip(values, widths, numeric, strict=True))
        return "  ".join(padded).rstrip()

    return "\n".join([line(headings), *(line(row) for row in cells)])


def several(values: Sequence[str], shown: int = 3) -> str:
    """The first few of a list and how many more there are."""
    rest = len(values) - shown
    return ", ".join(values[:shown]) + (f" +{rest}" if rest > 0 else "")


def _text(cell: object) -> str:
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).removeprefix("-").isdigit()
