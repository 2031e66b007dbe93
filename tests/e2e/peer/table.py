"""The results side by side, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tests.e2e.peer.figures import Result

Cell = Callable[[Result], object]

COLUMNS: Final[tuple[tuple[str, Cell], ...]] = (
    ("pods", lambda r: r.pods),
    ("side", lambda r: r.side),
    ("last claim s", lambda r: r.burst and r.burst.last_claim_seconds),
    ("last pod s", lambda r: r.burst and r.burst.last_running_seconds),
    ("nodes", lambda r: r.burst and r.burst.nodes),
    ("$/h", lambda r: r.burst and f"{r.burst.dollars_per_hour:.2f}"),
    ("nodes after", lambda r: r.halved and r.halved.nodes),
    ("$/h after", lambda r: r.halved and f"{r.halved.dollars_per_hour:.2f}"),
    ("evictions", lambda r: r.halved and r.halved.evictions),
    ("settled s", lambda r: r.halved and f"{r.halved.seconds:.0f}{'' if r.halved.is_settled else ' (not)'}"),
    ("peak MB", lambda r: r.halved and f"{max(r.halved.footprint.memory_mb.values(), default=0):.0f}"),
    ("CPU s", lambda r: r.halved and (r.halved.footprint.cpu_seconds or "")),
    ("billed s", lambda r: r.halved and (round(sum(r.halved.footprint.billed_ms.values()) / 1000) or "")),
    ("GB-s burst", lambda r: r.burst and (r.burst.footprint.gb_seconds or "")),
    ("GB-s", lambda r: r.halved and (r.halved.footprint.gb_seconds or "")),
    ("load", lambda r: " ".join(map(str, r.load))),
)


def table(results: Iterable[Result]) -> str:
    """Markdown, a row for each side and size; an empty cell was not measured or does not apply."""
    rows = [["" if (cell := read(result)) is None else str(cell) for _, read in COLUMNS] for result in results]
    names = [name for name, _ in COLUMNS]
    widths = [max(len(row[place]) for row in [names, *rows]) for place in range(len(names))]
    ruled = [names, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in ruled
    )
