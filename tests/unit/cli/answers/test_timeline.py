"""A simulation over time: a line for each interval in which something happened, with the state at its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from cli.answers.timeline import LINES_MAX, timeline

START = datetime(2026, 11, 20, tzinfo=UTC)


def event(minutes: float, name: str, **fields: Any) -> Any:
    return SimpleNamespace(t=(START + timedelta(minutes=minutes)).isoformat(), event=name, fields=fields)


def lines(*events: Any) -> list[list[str]]:
    return [line.split(maxsplit=5) for line in timeline(events).splitlines()[1:]]


def test_without_events_nothing_happened() -> None:
    assert timeline([]) == "nothing happened"
    assert timeline([event(0, "simulationStarted"), event(60, "simulationEnded")]) == "nothing happened"


def test_a_line_has_the_most_pods_that_waited_and_the_fleet_at_its_end() -> None:
    found = lines(
        event(0, "podCreated", pod="a/p"),
        event(0.1, "podCreated", pod="a/q"),
        event(0.2, "podBound", pod="a/p"),
        event(0.3, "instanceLaunched", instance="i-1", price=0.25),
        event(0.4, "instanceLaunched", instance="i-2", price=0.5),
        event(1, "podFinished", pod="a/q"),
        event(1.5, "instanceTerminated", instance="i-1"),
        event(1.6, "instanceTerminated", instance="unknown"),
        event(3, "podCreated", pod="a/r"),
        event(3, "podDeleted", pod="a/r"),
        event(4, "fault"),
    )
    assert found == [
        ["11-20", "00:00", "2", "2", "0.7500", "2 pods created, 1 bound, 2 launched"],
        ["11-20", "00:01", "1", "1", "0.5000", "2 terminated"],
        ["11-20", "00:03", "1", "1", "0.5000", "1 pod created"],
        ["11-20", "00:04", "0", "1", "0.5000", "1 fault"],
    ]


@pytest.mark.parametrize(
    ("length", "interval"),
    [
        *((interval * LINES_MAX, interval) for interval in (1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440)),
        (LINES_MAX + 1, 2),
        (24 * 60, 30),
        (60 * 24 * LINES_MAX * 2, 24 * 60),
    ],
)
def test_the_interval_is_the_shortest_with_which_the_table_fits_or_a_day(length: int, interval: int) -> None:
    found = lines(event(0, "fault"), event(interval - 0.5, "fault"), event(interval, "fault"), event(length, "end"))
    second = START + timedelta(minutes=interval)
    assert [row[:2] + row[-1:] for row in found] == [
        ["11-20", "00:00", "2 faults"],
        [f"{second:%m-%d}", f"{second:%H:%M}", "1 fault"],
    ]


def test_where_no_pod_waited_none_did() -> None:
    assert lines(event(0, "fault")) == [["11-20", "00:00", "0", "0", "0.0000", "1 fault"]]
