"""From the record's events to lines over time: pods pending, instances by type, dollars per hour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from core.model.values.quantity import dollars, nanodollars

TYPES_SHOWN = 7
OTHER_TYPES = "other types"
POINTS_MAX = 600


class Marker(msgspec.Struct, frozen=True):
    """Something that befell the cluster and explains what the lines do next."""

    at: datetime
    kind: str
    text: str


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Step lines on one time axis: the value at index i holds from `times[i]` on.

    Attributes:
        instances: Type → how many, largest peak first; small ones gathered under `other types`.
        hourly: Dollars per hour of all running instances.
        spent: Dollars spent so far.
    """

    times: tuple[datetime, ...]
    pending: tuple[int, ...]
    instances: dict[str, tuple[int, ...]]
    hourly: tuple[float, ...]
    spent: tuple[float, ...]
    markers: tuple[Marker, ...]


class _World:
    """What the events so far add up to."""

    def __init__(self) -> None:
        self.pending: set[str] = set()
        self.running: dict[str, tuple[str, int]] = {}

    def take(self, event: str, fields: Mapping[str, Any]) -> None:
        if event == "podCreated" and not str(fields.get("owner") or "").startswith("DaemonSet/"):
            self.pending.add(fields["pod"])
        elif event in ("podBound", "podDeleted", "podFinished"):
            self.pending.discard(fields["pod"])
        elif event == "instanceLaunched":
            self.running[fields["instance"]] = (fields["instanceType"], nanodollars(fields["price"]))
        elif event == "instanceTerminated":
            self.running.pop(fields["instance"], None)

    def by_type(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for instance_type, _ in self.running.values():
            counts[instance_type] = counts.get(instance_type, 0) + 1
        return counts

    def price(self) -> int:
        return sum(price for _, price in self.running.values())


def from_events(events: Iterable[tuple[datetime, str, Mapping[str, Any]]]) -> Series:
    """Add the events up. Of changes closer together than a pixel the last one is kept, pending keeps its peak."""
    ordered = list(events)
    world, rows, markers = _World(), list[tuple[datetime, int, dict[str, int], int, int]](), list[Marker]()
    spacing = (ordered[-1][0] - ordered[0][0]) / POINTS_MAX if ordered else timedelta(0)
    spent, last = 0, ordered[0][0] if ordered else None
    for at, event, fields in ordered:
        spent += world.price() * round((at - (last or at)).total_seconds()) // 3600
        last = at
        world.take(event, fields)
        marker = _marker(at, event, fields)
        if marker is not None:
            markers.append(marker)
        row = (at, len(world.pending), world.by_type(), world.price(), spent)
        if rows and at - rows[-1][0] < spacing:
            rows[-1] = (rows[-1][0], max(rows[-1][1], row[1]), *row[2:])
        else:
            rows.append(row)
    return Series(
        times=tuple(row[0] for row in rows),
        pending=tuple(row[1] for row in rows),
        instances=_ranked([row[2] for row in rows]),
        hourly=tuple(dollars(row[3]) for row in rows),
        spent=tuple(dollars(row[4]) for row in rows),
        markers=tuple(_thinned(markers, spacing)),
    )


def _ranked(counts: list[dict[str, int]]) -> dict[str, tuple[int, ...]]:
    peaks: dict[str, int] = {}
    for row in counts:
        for name, count in row.items():
            peaks[name] = max(peaks.get(name, 0), count)
    shown = sorted(peaks, key=lambda name: (-peaks[name], name))[:TYPES_SHOWN]
    lines = {name: tuple(row.get(name, 0) for row in counts) for name in shown}
    if len(peaks) > len(shown):
        lines[OTHER_TYPES] = tuple(sum(n for name, n in row.items() if name not in shown) for row in counts)
    return lines


def _marker(at: datetime, event: str, fields: Mapping[str, Any]) -> Marker | None:
    if event == "interruptionNotice":
        return Marker(at, "interruption", f"{fields['kind']} notice for {fields['instance']}")
    if event == "fault":
        return Marker(at, "fault", f"{fields['kind']} at {fields['call']}")
    if event == "capacityChanged":
        what = "/".join(str(fields.get(key) or "*") for key in ("instanceType", "zone", "capacityType"))
        left = fields.get("available")
        return Marker(at, "capacity", f"{what}: {'as before' if left is None else f'{left} left'}")
    return None


def _thinned(markers: list[Marker], spacing: timedelta) -> list[Marker]:
    kept: list[Marker] = []
    for marker in markers:
        if not kept or marker.kind != kept[-1].kind or marker.at - kept[-1].at >= spacing:
            kept.append(marker)
    return kept
