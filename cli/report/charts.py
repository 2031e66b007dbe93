"""Step charts as SVG: no library, no network, readable without colour thanks to titles and a legend in order of stacking."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from html import escape

from cli.report.series import Marker

WIDTH, HEIGHT = 1080, 210
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 14, 28
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
TICK_STEPS = tuple(timedelta(hours=hours) for hours in (0.25, 0.5, 1, 2, 3, 6, 12, 24, 48, 168))
TICKS_MAX = 12


class Axis:
    """The common time axis of all charts of a page."""

    def __init__(self, start: datetime, end: datetime) -> None:
        self.start = start
        self.span = max((end - start).total_seconds(), 1.0)

    def x(self, at: datetime) -> float:
        """Horizontal position of a moment."""
        return LEFT + PLOT_WIDTH * (at - self.start).total_seconds() / self.span

    def ticks(self) -> list[tuple[float, str]]:
        """Round hours of the clock, no more than fit side by side; midnight says which day begins."""
        step = next((s for s in TICK_STEPS if self.span / s.total_seconds() <= TICKS_MAX), TICK_STEPS[-1])
        midnight = self.start.replace(hour=0, minute=0, second=0, microsecond=0)
        first = math.ceil((self.start - midnight) / step)
        last = math.floor((self.start + timedelta(seconds=self.span) - midnight) / step)
        moments = [midnight + step * number for number in range(first, last + 1)]
        return [
            (self.x(moment), f"{moment:%a}" if moment.hour + moment.minute == 0 else f"{moment:%H:%M}")
            for moment in moments
        ]


def stacked(
    title: str, axis: Axis, times: Sequence[datetime], lines: Mapping[str, Sequence[float]], *, unit: str = ""
) -> str:
    """An area for each line, one upon the other."""
    totals = [sum(values[i] for values in lines.values()) for i in range(len(times))]
    top = _nice_top(max(totals, default=0))
    base, areas = [0.0] * len(times), []
    for index, (name, values) in enumerate(lines.items()):
        upper = [b + v for b, v in zip(base, values, strict=True)]
        areas.append(
            f'<path class="area c{index}" d="{_band(axis, times, base, upper, top)}"><title>{escape(name)}</title></path>'
        )
        base = upper
    legend = (
        "".join(f'<li><i class="c{i}"></i>{escape(name)}</li>' for i, name in enumerate(lines))
        if len(lines) > 1
        else ""
    )
    return _figure(title, axis, top, "".join(areas), legend, unit)


def with_markers(axis: Axis, markers: Sequence[Marker]) -> str:
    """A strip of marks for what befell the cluster."""
    marks = "".join(
        f'<g class="mark {marker.kind}"><line x1="{axis.x(marker.at):.1f}" x2="{axis.x(marker.at):.1f}" y1="4" y2="22"/>'
        f"<title>{marker.at:%a %H:%M} {escape(marker.text)}</title></g>"
        for marker in markers
    )
    label = "Interruptions, faults and capacity"
    return f'<svg class="strip" viewBox="0 0 {WIDTH} 26" role="img" aria-label="{label}">{marks}</svg>'


def _figure(title: str, axis: Axis, top: float, body: str, legend: str, unit: str) -> str:
    grid = "".join(
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_y(v, top):.1f}" y2="{_y(v, top):.1f}"/>'
        f'<text x="{LEFT - 8}" y="{_y(v, top) + 4:.1f}" text-anchor="end">{unit}{v:g}</text>'
        for v in (0, top / 2, top)
    )
    ticks = "".join(
        f'<text x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{label}</text>' for x, label in axis.ticks()
    )
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">{grid}{body}{ticks}'
        f'<line class="cursor" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/></svg>'
        f"{f'<ul class=legend>{legend}</ul>' if legend else ''}</figure>"
    )


def _band(axis: Axis, times: Sequence[datetime], lower: Sequence[float], upper: Sequence[float], top: float) -> str:
    xs = [*(axis.x(t) for t in times), LEFT + PLOT_WIDTH]
    forward = _steps(xs, [_y(v, top) for v in upper])
    backward = _steps(xs, [_y(v, top) for v in lower])
    return f"M{'L'.join(forward)}L{'L'.join(reversed(backward))}Z" if forward else ""


def _steps(xs: Sequence[float], ys: Sequence[float]) -> list[str]:
    points = []
    for i, y in enumerate(ys):
        points += [f"{xs[i]:.1f} {y:.1f}", f"{xs[i + 1]:.1f} {y:.1f}"]
    return points


def _y(value: float, top: float) -> float:
    return TOP + PLOT_HEIGHT * (1 - value / top)


def _nice_top(peak: float) -> float:
    if peak <= 0:
        return 1.0
    magnitude = 10.0 ** math.floor(math.log10(peak))
    return next(m * magnitude for m in (1, 2, 4, 5, 10) if m * magnitude >= peak)
