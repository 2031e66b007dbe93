"""The simulated week: which hours are open, what is said of it, and its picture."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.disruption.week import is_open, played, scenario, summary
from benchmarks.disruption.week_picture import WeekHour, picture
from simulator.scenario import read_scenario

WEEK = [WeekHour(hour, 9 if hour < 150 else 4, 2.0, 1.0, 5 if is_open(hour) else 0) for hour in range(1, 169)]


def test_the_window_is_sunday_from_two_to_eight() -> None:
    assert [hour for hour in range(1, 169) if is_open(hour)] == [6 * 24 + hour for hour in range(3, 9)]


def test_the_summary_compares_before_the_window_with_its_end() -> None:
    said = summary(WEEK)
    assert said.startswith("9 nodes for $2.00/h before the window, 4 for $2.00/h at its end")
    assert said.endswith("30 evictions in it, 0 in the rest of the week")


def test_the_picture_has_three_panels_and_the_window() -> None:
    drawn = ET.fromstring(picture(WEEK, is_open))  # noqa: S314 - our own text
    lines = [one for one in drawn if one.tag.endswith("polyline")]
    assert [len(line.get("points", "").split()) for line in lines] == [168] * 3
    boxes = [one for one in drawn if one.tag.endswith("rect")]
    assert len(boxes) == 6 + 6, "six open hours, and the evictions of each"


def test_the_scenario_is_as_long_as_asked(tmp_path: Path) -> None:
    assert read_scenario(scenario(tmp_path, 2, 1)).duration == timedelta(days=2)


@pytest.mark.slow
def test_no_pod_is_evicted_outside_the_window(tmp_path: Path) -> None:
    day = list(played(scenario(tmp_path, 1, 1)))
    assert [one.hour for one in day] == list(range(1, 25))
    assert sum(one.evictions for one in day) == 0
    assert all(0 < one.bound <= one.dollars for one in day[1:])
