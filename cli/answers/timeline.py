"""Formats a simulation as a table over time: what happened in each interval, and the state at its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from cli.terminal import output

LINES_MAX: Final = 48
_INTERVALS: Final = tuple(timedelta(minutes=minutes) for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440))
_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "podCreated": ("pod created", "pods created"),
    "podBound": ("bound", "bound"),
    "podEvicted": ("evicted", "evicted"),
    "evictionRefused": ("eviction refused", "evictions refused"),
    "instanceLaunched": ("launched", "launched"),
    "launchRefused": ("launch refused", "launches refused"),
    "nodeReady": ("node ready", "nodes ready"),
    "interruptionNotice": ("interruption notice", "interruption notices"),
    "instanceTerminated": ("terminated", "terminated"),
    "fault": ("fault", "faults"),
}


class TimelineEvent(Protocol):
    """One event of the record."""

    @property
    def t(self) -> str:
        """Virtual time, RFC 3339."""
        ...

    @property
    def event(self) -> str:
        """The kind of event."""
        ...

    @property
    def fields(self) -> Mapping[str, Any]:
        """The object of the event, and details."""
        ...


def timeline(events: Sequence[TimelineEvent]) -> str:
    """Format at most `LINES_MAX` lines, or one a day; intervals without events are left out."""
    if not events:
        return "nothing happened"
    start, end = _moment(events[0]), _moment(events[-1])
    interval = next((s for s in _INTERVALS if (end - start) / s <= LINES_MAX), _INTERVALS[-1])
    fleet = _Fleet()
    rows: list[tuple[object, ...]] = []
    counts: dict[str, int] = {}
    line = 0
    for event in events:
        number = int((_moment(event) - start) / interval)
        if number != line:
            rows += _row(start + interval * line, counts, fleet)
            counts, line = {}, number
        fleet.see(event)
        if event.event in _WORDS:
            counts[event.event] = counts.get(event.event, 0) + 1
    rows += _row(start + interval * line, counts, fleet)
    return (
        output.table(("FROM", "MOST PENDING", "INSTANCES", "$/H", "WHAT HAPPENED"), rows)
        if rows
        else "nothing happened"
    )


class _Fleet:
    """Pending pods, their maximum in this interval, instances and their prices."""

    def __init__(self) -> None:
        self.pending: set[str] = set()
        self.most_pending = 0
        self.prices: dict[str, float] = {}

    def see(self, event: TimelineEvent) -> None:
        fields = event.fields
        if event.event == "podCreated":
            self.pending.add(fields["pod"])
            self.most_pending = max(self.most_pending, len(self.pending))
        elif event.event in ("podBound", "podDeleted", "podFinished"):
            self.pending.discard(fields["pod"])
        elif event.event == "instanceLaunched":
            self.prices[fields["instance"]] = fields["price"]
        elif event.event == "instanceTerminated":
            self.prices.pop(fields["instance"], None)


def _row(at: datetime, counts: Mapping[str, int], fleet: _Fleet) -> Iterable[tuple[object, ...]]:
    if not counts:
        return
    happened = ", ".join(
        f"{counts[event]} {words[counts[event] != 1]}" for event, words in _WORDS.items() if event in counts
    )
    hourly = sum(fleet.prices.values(), 0.0)
    most, fleet.most_pending = fleet.most_pending, len(fleet.pending)
    yield (f"{at:%m-%d %H:%M}", most, len(fleet.prices), hourly, happened)


def _moment(event: TimelineEvent) -> datetime:
    return datetime.fromisoformat(event.t)
