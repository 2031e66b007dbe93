"""Writes tables of a document as Markdown, and as one self-contained HTML page."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

_STYLE: Final = (
    "<style>:root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1.5rem 0;width:100%}"
    "td,th{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #8884}"
    "td:last-child{overflow-wrap:anywhere}"
    ".number{text-align:right;font-variant-numeric:tabular-nums}td.number{white-space:nowrap}"
    "h2{font-size:1.1rem}@media(max-width:640px){body{margin:1rem auto}td,th{padding:.3rem .35rem;font-size:14px}}"
    "</style>"
)

_NUMBER: Final = re.compile(r"[-+]?\$?[\d,]*\.?\d+%?|-?")


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    lines = [f"| {' | '.join(headings)} |", f"|{'|'.join(' --- ' for _ in headings)}|"]
    return [*lines, *(f"| {' | '.join(markdown_text(cell) for cell in row)} |" for row in rows)]


def markdown_text(cell: Any) -> str:
    """Return the cell on one line, without anything that begins a column, a tag, code, a link or a mention."""
    line = " ".join(str(cell).splitlines()).strip()
    text = line.replace("|", " ").replace("](", "] (").replace("`", "'")
    return text.replace("<", "&lt;").replace("@", "&#64;")


def html_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in HTML. A column of nothing but numbers is aligned to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    kinds = [
        ' class="number"' if cells and all(_NUMBER.fullmatch(row[column]) for row in cells) else ""
        for column in range(len(headings))
    ]
    # A screen reader would announce an empty heading.
    head = "".join(
        f'<th scope="col"{kind}>{html.escape(heading)}</th>' if heading else "<td></td>"
        for heading, kind in zip(headings, kinds, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{html.escape(cell)}</td>' for cell, kind in zip(row, kinds, strict=True))}</tr>"
        for row in cells
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def html_page(title: str, head: str, sections: Iterable[str], notes: tuple[str, Iterable[str]]) -> str:
    """Return a whole page: a title, a sentence, HTML sections, and a heading with its list of notes."""
    heading, lines = notes
    listed = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    body = (
        f"<h1>{html.escape(title)}</h1><p>{html.escape(head)}</p>{''.join(sections)}"
        f"<h2>{html.escape(heading)}</h2><ul>{listed}</ul>"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title>{_STYLE}</head><body><main>{body}</main></body></html>\n"
    )
