"""Draws a week: nodes, dollars an hour beside their bound, and evictions, hour by hour."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

_LEFT: Final = 70
_WIDTH: Final = 760
_HEIGHT: Final = 120
_GAP: Final = 44
"""Pixels: the margin for labels, and each of the three panels."""

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_BLUE: Final = "#2f6fab"
_ORANGE: Final = "#c1662b"
_STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#57606a}.head{font-weight:600}"
    "@media(prefers-color-scheme:dark){text{fill:#b1bac4}}"
)


class WeekHour(msgspec.Struct, frozen=True):
    """One hour: nodes, dollars an hour of the fleet and its proven minimum, evictions since the hour before."""

    hour: int
    nodes: int
    dollars: float
    bound: float
    evictions: int


def picture(hours: Sequence[WeekHour], open_hours: Callable[[int], bool]) -> str:
    """SVG of three panels over one line of days; the hours in which nodes may go are shaded."""
    last = max((sample.hour for sample in hours), default=1)
    height = 3 * (_HEIGHT + _GAP) + 30
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 20} {height}" role="img">'
    title = "<title>A week with a window on Sunday: nodes, dollars an hour with their bound, evictions an hour</title>"
    body = [*_shades(hours, open_hours, last, height), *_day_marks(last, height)]
    nodes, money = [float(sample.nodes) for sample in hours], [sample.dollars for sample in hours]
    body += _panel(0, "nodes", max(nodes, default=1), "{:.0f}")
    body += [_line(0, nodes, max(nodes, default=1), last, _BLUE)]
    top = max(money, default=1)
    body += _panel(1, "$/h, and the bound below", top, "{:.2f}")
    body += [_line(1, money, top, last, _BLUE), _line(1, [sample.bound for sample in hours], top, last, _ORANGE)]
    evicted = max((sample.evictions for sample in hours), default=1) or 1
    body += _panel(2, "evictions an hour", evicted, "{:.0f}")
    body += list(_bars(2, hours, evicted, last))
    return "\n".join([head, title, f"<style>{_STYLE}</style>", *body, "</svg>", ""])


def _floor(panel: int) -> int:
    """The y of a panel's zero."""
    return (panel + 1) * _HEIGHT + panel * _GAP + 24


def _x(hour: float, last: int) -> float:
    return _LEFT + hour * _WIDTH / last


def _shades(hours: Sequence[WeekHour], open_hours: Callable[[int], bool], last: int, height: int) -> Iterator[str]:
    for sample in hours:
        if open_hours(sample.hour):
            left_edge, right_edge = _x(sample.hour - 1, last), _x(sample.hour, last)
            box = f'x="{left_edge:.1f}" y="16" width="{right_edge - left_edge:.1f}" height="{height - 40}"'
            yield f'<rect {box} fill="#3fb95033" />'


def _day_marks(last: int, height: int) -> Iterator[str]:
    for day in range(last // 24):
        x = _x(day * 24, last)
        yield f'<line x1="{x:.1f}" y1="16" x2="{x:.1f}" y2="{height - 24}" stroke="#8884" />'
        yield f'<text x="{_x(day * 24 + 12, last):.1f}" y="{height - 8}" text-anchor="middle">{_DAYS[day % 7]}</text>'


def _panel(panel: int, label: str, top: float, form: str) -> list[str]:
    y = _floor(panel)
    return [
        f'<text class="head" x="{_LEFT}" y="{y - _HEIGHT - 8}">{label}</text>',
        f'<line x1="{_LEFT}" y1="{y}" x2="{_LEFT + _WIDTH}" y2="{y}" stroke="#8888" />',
        f'<text x="{_LEFT - 8}" y="{y}" text-anchor="end">0</text>',
        f'<text x="{_LEFT - 8}" y="{y - _HEIGHT + 10}" text-anchor="end">{form.format(top)}</text>',
    ]


def _line(panel: int, values: Sequence[float], top: float, last: int, colour: str) -> str:
    points = " ".join(
        f"{_x(hour + 1, last):.1f},{_floor(panel) - value * _HEIGHT / top:.1f}" for hour, value in enumerate(values)
    )
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" />'


def _bars(panel: int, hours: Sequence[WeekHour], top: float, last: int) -> Iterator[str]:
    for sample in hours:
        if sample.evictions:
            tall = sample.evictions * _HEIGHT / top
            box = f'y="{_floor(panel) - tall:.1f}" width="{_WIDTH / last:.1f}" height="{tall:.1f}"'
            yield f'<rect x="{_x(sample.hour - 1, last):.1f}" {box} fill="{_ORANGE}" />'
