"""Turns the record's events into lines over time: pods pending, nodes by capacity type, dollars per hour."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from core.model.values.quantity import dollars, nanodollars

POINTS_MAX = 1200
Events = Sequence[tuple[datetime, str, Mapping[str, Any]]]
"""The record: moment, event, fields."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Step lines on one time axis: the value at index i holds from `times[i]` on.

    Attributes:
        nodes: Capacity type → how many instances run.
        hourly: Dollars per hour of all running instances.
        kept: The same without consolidation: with the nodes that it removed, and without those that it launched.
        spent: Dollars spent so far.
    """

    times: tuple[datetime, ...]
    pending: tuple[int, ...]
    nodes: dict[str, tuple[int, ...]]
    hourly: tuple[float, ...]
    kept: tuple[float, ...]
    spent: tuple[float, ...]


class _Running:
    """Running totals of the events so far; money in nano-dollars."""

    def __init__(self, consolidated: Collection[str], replacements: Collection[str]) -> None:
        self.pending: set[str] = set()
        self.running: dict[str, tuple[str, int]] = {}
        self.kept: dict[str, int] = {}
        self._consolidated = consolidated
        self._replacements = replacements

    def take(self, event: str, fields: Mapping[str, Any]) -> None:
        if event == "podCreated" and not str(fields.get("owner") or "").startswith("DaemonSet/"):
            self.pending.add(fields["pod"])
        elif event in ("podBound", "podDeleted", "podFinished"):
            self.pending.discard(fields["pod"])
        elif event == "instanceLaunched":
            price = nanodollars(fields["price"])
            self.running[fields["instance"]] = (str(fields.get("capacityType") or "on-demand"), price)
            if fields["instance"] not in self._replacements:
                self.kept[fields["instance"]] = price
        elif event == "instanceTerminated":
            self.running.pop(fields["instance"], None)
            if fields["instance"] not in self._consolidated:
                self.kept.pop(fields["instance"], None)

    def by_capacity_type(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for capacity_type, _ in self.running.values():
            counts[capacity_type] = counts.get(capacity_type, 0) + 1
        return counts

    def price(self) -> int:
        return sum(price for _, price in self.running.values())


def from_events(
    events: Iterable[tuple[datetime, str, Mapping[str, Any]]],
    consolidated: Collection[str] = (),
    replacements: Collection[str] = (),
) -> Series:
    """Sum up the events. Of changes closer together than a pixel, the last one is kept; for pending pods, the peak.

    Args:
        events: The record.
        consolidated: Instances that ended because nodes were empty or underutilized.
        replacements: Instances that were launched in place of such nodes.
    """
    ordered = list(events)
    state, rows = _Running(consolidated, replacements), list[tuple[datetime, int, dict[str, int], int, int, int]]()
    spacing = (ordered[-1][0] - ordered[0][0]) / POINTS_MAX if ordered else timedelta(0)
    spent, last = 0, ordered[0][0] if ordered else None
    for at, event, fields in ordered:
        spent += state.price() * round((at - (last or at)).total_seconds()) // 3600
        last = at
        state.take(event, fields)
        row = (at, len(state.pending), state.by_capacity_type(), state.price(), sum(state.kept.values()), spent)
        if rows and at - rows[-1][0] < spacing:
            rows[-1] = (rows[-1][0], max(rows[-1][1], row[1]), *row[2:])
        else:
            rows.append(row)
    capacity_types = sorted({name for row in rows for name in row[2]})
    return Series(
        times=tuple(row[0] for row in rows),
        pending=tuple(row[1] for row in rows),
        nodes={name: tuple(row[2].get(name, 0) for row in rows) for name in capacity_types},
        hourly=tuple(dollars(row[3]) for row in rows),
        kept=tuple(dollars(row[4]) for row in rows),
        spent=tuple(dollars(row[5]) for row in rows),
    )
