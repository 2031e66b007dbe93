"""The figures of a run for the benchmarks' page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.table import HEADINGS, READING, plan_rows, reading_rows, remarks


def figures(run: Mapping[str, Any]) -> str:
    """The figures of a run (`build/bench.json`) in Markdown."""
    return "\n\n".join(_parts(run))


def _parts(run: Mapping[str, Any]) -> Iterable[str]:
    cases = run["cases"]
    command = "make bench-quick" if run["quick"] else "make bench"
    loads = [case["load"] for case in cases]
    yield (
        f"`{command}` at commit {run['commit'][:12]} on {run['cpus']} processors; the machine's load at the start of a "
        f"case was {min(loads):.1f} to {max(loads):.1f}. Karpenter: {run['peer']}."
    )
    yield markdown_table(HEADINGS, plan_rows(cases))
    yield markdown_table(READING, reading_rows(cases))
    notes = [f"- `{case['name']}`: {note}" for case in cases for note in remarks(case)]
    if notes:
        yield "\n".join(notes)


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join(
        (f"| {' | '.join(headings)} |", "| --- " * len(headings) + "|", *(f"| {' | '.join(row)} |" for row in rows))
    )
