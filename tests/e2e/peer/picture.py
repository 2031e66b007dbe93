"""Draws where the seconds of a burst go: one row a moment, from its first pod or claim to its last."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final
from xml.sax.saxutils import escape

from tests.e2e.peer.figures import Burst, Result

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
            moments = list(_moments(run.burst)) if run is not None and run.burst is not None else []
            if moments:
                yield f"{side}, {pods:,} pods", None, colour
            for label, spread in moments:
                yield label, spread, colour


def _moments(burst: Burst) -> Iterator[tuple[str, Spread]]:
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
