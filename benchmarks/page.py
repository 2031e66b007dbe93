"""The figures of a run as they stand on the benchmarks' page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from benchmarks.table import HEADINGS, READING, plan_rows, reading_rows, remarks

BEGIN: Final = "<!-- Figures: `make docs` writes them from docs/benchmarks.json. -->"
END: Final = "<!-- End of the figures. -->"


def with_figures(page: str, found: Mapping[str, Any]) -> str:
    """The page with the figures of this run (`build/bench.json`) in place of those that it has.

    Raises:
        ValueError: If the page has no place for them.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page must have the lines {BEGIN!r} and {END!r}, which the figures stand between")
    return f"{before}{BEGIN}\n\n" + "\n\n".join(_parts(found)) + f"\n\n{END}{after}"


def _parts(found: Mapping[str, Any]) -> Iterable[str]:
    cases = found["cases"]
    command = "make bench-quick" if found["quick"] else "make bench"
    loads = [case["load"] for case in cases]
    yield (
        f"`{command}` at commit {found['commit'][:12]} on {found['cpus']} processors; the machine's load at the start of a "
        f"case was {min(loads):.1f} to {max(loads):.1f}. Karpenter: {found['peer']}."
    )
    yield _markdown(HEADINGS, plan_rows(cases))
    yield _markdown(READING, reading_rows(cases))
    notes = [f"- `{case['name']}`: {note}" for case in cases for note in remarks(case)]
    if notes:
        yield "\n".join(notes)


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(
        (f"| {' | '.join(headings)} |", "| --- " * len(headings) + "|", *(f"| {' | '.join(row)} |" for row in rows))
    )
