"""The figures of a comparison for its page of the documentation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from xml.sax.saxutils import escape

import msgspec

from tests.e2e.peer.figures import Burst, Result

# Draws where the seconds of a burst go: one row a moment, from its first pod or claim to its last.


_LABELS: Final = 250
_SCALE: Final = 620
_ROW: Final = 22
_TICKS: Final = 8
"""Widths and heights in pixels, and the most marks on the axis of seconds."""

_COLOURS: Final = {"fleetwright": "#2f6fab", "karpenter": "#c1662b"}
_STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#57606a}.head{font-weight:600}"
    "@media(prefers-color-scheme:dark){text{fill:#b1bac4}}"
)
Spread = tuple[float, float, float]


def median_run(results: Sequence[Result], pods: int, side: str) -> Result | None:
    """The run whose last pod is the median of its side and size, the lower of two; None where none ended in time."""
    ended = [
        (result.burst.last_running_seconds, result.taken_at, result)
        for result in results
        if (result.pods, result.side) == (pods, side) and result.burst and result.burst.last_running_seconds is not None
    ]
    return sorted(ended, key=lambda run: run[:2])[(len(ended) - 1) // 2][2] if ended else None


def picture(results: Sequence[Result]) -> str:
    """SVG: for each size and side the moments of its median run, first to last as a bar and the median as a mark.

    A claim's moments count from its first pod, which begins at the first Deployment in a burst.
    """
    rows = list(_rows(results))
    width = _LABELS + _SCALE + 40
    height = (len(rows) + 2) * _ROW
    step = _step(max((spread[2] for _, spread, _ in rows if spread), default=1.0))
    body = [*_marks(step, height), *(line for place, row in enumerate(rows) for line in _drawn(row, place, step))]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
    title = "<title>Seconds from the first Deployment to the moments of pods and claims</title>"
    return "\n".join([head, title, f"<style>{_STYLE}</style>", *body, "</svg>", ""])


def _rows(results: Sequence[Result]) -> Iterator[tuple[str, Spread | None, str]]:
    """Label, seconds (None for a heading) and colour of each row."""
    for pods in sorted({result.pods for result in results}):
        for side, colour in _COLOURS.items():
            run = median_run(results, pods, side)
            moments = list(_moment_spreads(run.burst)) if run is not None and run.burst is not None else []
            if moments:
                yield f"{side}, {pods:,} pods", None, colour
            for label, spread in moments:
                yield label, spread, colour


def _moment_spreads(burst: Burst) -> Iterator[tuple[str, Spread]]:
    """In the order in which they happen; ties in the order of the record."""
    every = [
        *((f"claim {moment}", spread) for moment, spread in burst.claim_seconds.items()),
        *((f"pod {moment}", spread) for moment, spread in burst.pod_seconds.items()),
    ]
    yield from sorted(every, key=lambda moment: moment[1][1])


def _step(seconds: float) -> int:
    """Seconds between marks: 1, 2 or 5 times a power of ten."""
    least = max(1.0, seconds / _TICKS)
    power = 10 ** int(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least)


def _marks(step: int, height: int) -> Iterator[str]:
    for number in range(_TICKS + 1):
        x = _LABELS + number * _SCALE // _TICKS
        yield f'<line x1="{x}" y1="{_ROW}" x2="{x}" y2="{height - _ROW // 2}" stroke="#8884" />'
        yield f'<text x="{x}" y="14" text-anchor="middle">{number * step} s</text>'


def _drawn(row: tuple[str, Spread | None, str], place: int, step: int) -> Iterator[str]:
    label, spread, colour = row
    y = (place + 2) * _ROW
    if spread is None:
        yield f'<text class="head" x="8" y="{y}">{escape(label)}</text>'
        return
    first, middle, last = (_LABELS + seconds * _SCALE / (_TICKS * step) for seconds in spread)
    bar = f'x="{first:.1f}" y="{y - 11}" width="{max(2.0, last - first):.1f}" height="12"'
    yield f'<text x="20" y="{y}">{escape(label)}</text>'
    yield f'<rect {bar} rx="3" fill="{colour}" opacity="0.45" />'
    yield f'<rect x="{middle - 1.5:.1f}" y="{y - 13}" width="3" height="16" fill="{colour}" />'


# The results side by side, for people.


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


PICTURE: Final = "e2e-peer-moments.svg"
"""Stands beside the page."""

_COLUMNS: Final = ("pods", "side", "moment", "first s", "median s", "last s")


def figures(found: Mapping[str, Any]) -> str:
    """The figures of a run (`build/e2e-peer.json`) in Markdown: both sides, their ratios, and where the seconds go."""
    return "\n\n".join(_parts(msgspec.convert(found["results"], list[Result]), found["conditions"]))


def drawn(found: Mapping[str, Any]) -> str:
    """The moments of a run as a picture (SVG): the median run of each side and size."""
    return picture(msgspec.convert(found["results"], list[Result]))


def _parts(results: Sequence[Result], conditions: Mapping[str, Any]) -> Iterator[str]:
    taken = sorted({result.taken_at[:10] for result in results})
    where = f"on {conditions['cores']} processors; a node boots for {conditions['bootSeconds']:g} s"
    yield f"Taken on {' and '.join(taken)} {where}, and settled is {conditions['quietSeconds']:g} s without a change."
    yield table(results)
    sizes = sorted({result.pods for result in results})
    ratios = [line for pods in sizes for line in _ratios(pods, results)]
    if ratios:
        yield "Ours over Karpenter's, each the median of its runs:"
        yield _markdown(("pods", "runs", "last pod", "$/h", "$/h after", "settled", "evictions"), ratios)
    medians = [median_run(results, pods, side) for pods in sizes for side in ("fleetwright", "karpenter")]
    moments = [row for result in medians if result is not None for row in _moments(result)]
    if moments:
        yield "Seconds from the first Deployment to a pod's moments, and from a claim's first pod to the claim's:"
        yield f"![The moments of pods and claims on one line of seconds]({PICTURE})"
        yield _markdown(_COLUMNS, moments)


def _ratios(pods: int, results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    ours, theirs = (
        [result for result in results if (result.pods, result.side) == (pods, side)]
        for side in ("fleetwright", "karpenter")
    )
    if not ours or not theirs:
        return
    pairs = [(_median(name, ours), _median(name, theirs)) for name in _figures(ours[0])]
    runs = f"{len(ours)} and {len(theirs)}"
    yield (f"{pods:,}", runs, *(f"{our / their:.2f}" if our is not None and their else "" for our, their in pairs))


def _median(name: str, results: Sequence[Result]) -> float | None:
    """Return a figure's median over runs, or None if a run lacks it: a median of the others would hide that."""
    found = [_figures(result)[name] for result in results]
    known = [figure for figure in found if figure is not None]
    return statistics.median(known) if len(known) == len(found) else None


def _figures(result: Result) -> dict[str, float | None]:
    burst, halved = result.burst, result.halved
    return {
        "lastPod": burst and burst.last_running_seconds,
        "dollars": burst and burst.dollars_per_hour,
        "dollarsAfter": halved and halved.dollars_per_hour,
        "settled": halved and halved.seconds,
        "evictions": halved and halved.evictions,
    }


def _moments(result: Result) -> Iterator[tuple[str, ...]]:
    if result.burst is None:
        return
    for whose, spreads in (("pod", result.burst.pod_seconds), ("claim", result.burst.claim_seconds)):
        for moment, spread in spreads.items():
            yield (f"{result.pods:,}", result.side, f"{whose} {moment}", *(f"{seconds:g}" for seconds in spread))


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(
        (f"| {' | '.join(headings)} |", "| --- " * len(headings) + "|", *(f"| {' | '.join(row)} |" for row in rows))
    )
