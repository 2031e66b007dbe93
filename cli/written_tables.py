"""Tables of a document as Markdown, and as one HTML page that loads nothing."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any, Final

_STYLE: Final = (
    "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "table{border-collapse:collapse;margin:1.5rem 0;width:100%}"
    "td,th{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #8884}"
    "</style>"
)


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    lines = [f"| {' | '.join(headings)} |", f"|{'|'.join(' --- ' for _ in headings)}|"]
    return [*lines, *(f"| {' | '.join(markdown_text(cell) for cell in row)} |" for row in rows)]


def markdown_text(cell: Any) -> str:
    """The cell on one line, with nothing in it that begins a column, a tag, code, a link or a mention."""
    line = " ".join(str(cell).splitlines()).strip()
    text = line.replace("|", " ").replace("](", "] (").replace("`", "'")
    return text.replace("<", "&lt;").replace("@", "&#64;")


def html_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in HTML."""
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def html_page(title: str, head: str, sections: Iterable[str], notes: Iterable[str]) -> str:
    """Return a whole page: a title, a sentence, HTML sections, and a list of notes."""
    said = html.escape(head)
    listed = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    body = f"<h1>{html.escape(title)}</h1><p>{said}</p>{''.join(sections)}<ul>{listed}</ul>"
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{said}</title>{_STYLE}<body>{body}</body></html>\n'
