"""The benchmarks of disruption and of hours report correct figures."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks import month
from benchmarks.disruption.fragmented import fragmented
from benchmarks.disruption.measuring import measured
from benchmarks.disruption.page import figures
from benchmarks.disruption.week import is_open, played, scenario, summary
from benchmarks.disruption.week_picture import WeekHour, picture
from benchmarks.files import written
from benchmarks.measure import decoded
from benchmarks.month import BATCH, CALENDAR, CRONJOBS, HOLIDAY, KINDS, OFFICE, Course, as_karpenter, line, wall
from benchmarks.workloads.ec2 import ec2_catalogue
from installation.settings import Settings
from simulator.scenario import read_scenario


def test_a_small_cluster_ends_between_its_bound_and_its_old_cost(tmp_path: Path) -> None:
    snapshot = decoded(written(fragmented(12, 1, ec2_catalogue(tmp_path)), tmp_path / "cluster"))
    assert len(snapshot.nodes) == 12
    measured_figures = measured(snapshot, ("balanced",))
    way = measured_figures["ways"]["balanced"]
    assert measured_figures["bound"] <= way["after"] < measured_figures["before"]
    assert way["mostMovesOfAPod"] == 1
    assert way["moves"] > 0
    assert way["untouchable"] <= way["program"]
    page = figures(document({"cluster": "small", "load": 0.5, **measured_figures}))
    assert page.count("balanced") == 1


def document(*clusters: dict[str, Any]) -> dict[str, Any]:
    return {"command": "bench", "commit": "abc", "cpus": 2, "peer": "v1.14.1", "clusters": list(clusters)}


def test_each_way_is_compared_with_karpenter_under_the_same_gate() -> None:
    way = {
        "after": 10.0,
        "ofBound": 1.25,
        "moves": 80,
        "mostMovesOfAPod": 1,
        "waves": 3,
        "untouchable": 2.0,
        "program": 9.0,
    }
    peer = {"moves": 100, "mostMovesOfAPod": 4, "rounds": 7, "cpuSeconds": 61.0, "ended": True}
    cluster = {"cluster": "c", "load": 1.0, "before": 40.0, "bound": 8.0, "ways": {"balanced": way, "strict": way}}
    peers = {"open": {**peer, "after": 12.5}, "strict": {**peer, "after": 20.0, "ended": False}}
    rows = figures(document({**cluster, "karpenter": peers})).splitlines()
    assert "| `c` | 40.00 | 8.00 | 2.00 (25%) |" in rows
    assert "| `c` | balanced | 10.00 | 1.250 | 1.125 | 0.800 | 80 | 0.800 | 1 | 3 |  |  |" in rows
    assert "| `c` | strict | 10.00 | 1.250 | 1.125 | 0.500 | 80 | 0.800 | 1 | 3 |  |  |" in rows
    assert "| `c` | Karpenter, open (61 s) | 12.50 | 1.562 |  | 1 | 100 | 1 | 4 | 7 |  |  |" in rows
    assert "| `c` | Karpenter, strict (61 s, stopped) | 20.00 | 2.500 |  | 1 | 100 | 1 | 4 | 7 |  |  |" in rows


# The simulated week: which hours are open, what is said of it, and its picture.


WEEK = [WeekHour(hour, 9 if hour < 150 else 4, 2.0, 1.0, 5 if is_open(hour) else 0) for hour in range(1, 169)]


def test_the_window_is_sunday_from_two_to_eight() -> None:
    assert [hour for hour in range(1, 169) if is_open(hour)] == [6 * 24 + hour for hour in range(3, 9)]


def test_the_summary_compares_before_the_window_with_its_end() -> None:
    sentence = summary(WEEK)
    assert sentence.startswith("9 nodes for $2.00/h before the window, 4 for $2.00/h at its end")
    assert sentence.endswith("30 evictions in it, 0 in the rest of the week")


def test_the_picture_has_three_panels_and_the_window() -> None:
    drawn = ET.fromstring(picture(WEEK, is_open))  # noqa: S314 - our own text
    lines = [element for element in drawn if element.tag.endswith("polyline")]
    assert [len(line.get("points", "").split()) for line in lines] == [168] * 3
    boxes = [element for element in drawn if element.tag.endswith("rect")]
    assert len(boxes) == 6 + 6, "six open hours, and the evictions of each"


def test_the_scenario_is_as_long_as_asked(tmp_path: Path) -> None:
    assert read_scenario(scenario(tmp_path, 2, 1)).duration == timedelta(days=2)


@pytest.mark.slow
def test_no_pod_is_evicted_outside_the_window(tmp_path: Path) -> None:
    day = list(played(scenario(tmp_path, 1, 1)))
    assert [hour.hour for hour in day] == list(range(1, 25))
    assert sum(hour.evictions for hour in day) == 0
    assert all(0 < hour.bound <= hour.dollars for hour in day[1:])


# The simulated month: its days are those of Berlin, its worlds have the same pods, and calendars close what they say.


SHORT = Course(first=date(2026, 10, 20), days=1, scale=0.02)


def test_hours_are_on_the_wall_clock_before_and_after_the_end_of_summer_time() -> None:
    assert wall(date(2026, 10, 23), 8) == datetime(2026, 10, 23, 6, tzinfo=UTC)
    assert wall(date(2026, 10, 26), 8) == datetime(2026, 10, 26, 7, tzinfo=UTC)
    course = Course()
    assert len(list(course.hours(OFFICE))) == 20
    assert HOLIDAY in course.dates(), "CronJobs open the pool on the holiday, too"
    assert {(closes - opens).total_seconds() / 3600 for opens, closes in course.hours(BATCH)} == {9}


def test_every_world_has_the_same_pods_at_the_same_times(tmp_path: Path) -> None:
    plays = []
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        described = read_scenario(month.scenario(tmp_path / kind, kind, SHORT))
        objects = json.loads((tmp_path / kind / "objects.yaml").read_text())["items"]
        plays.append((described.steps, [obj for obj in objects if obj["kind"] != "Calendar"]))
        assert ("Calendar" in {obj["kind"] for obj in objects}) == (kind == CALENDAR)
    assert plays[0] == plays[1] == plays[2]


def test_the_parts_of_a_month_have_the_pods_of_the_whole() -> None:
    course = Course(days=16, scale=0.02)
    month_of_all = month.draws(course)
    parts = course.parts()
    assert [part.days for part in parts] == [7, 7, 2]
    assert [day for part in parts for day in part.dates()] == list(course.dates())
    for part in parts:
        drawn = month.draws(part)
        shift = int((part.start - course.start).total_seconds())
        assert drawn.workloads == month_of_all.workloads
        for day in part.dates():
            moments = [(int(step["at"].removesuffix("s")) + shift, step) for step in drawn.steps[day]]
            assert [f"{moment}s" for moment, _ in moments] == [step["at"] for step in month_of_all.steps[day]]
            contents = [{**step, "at": ""} for _, step in moments]
            assert contents == [{**step, "at": ""} for step in month_of_all.steps[day]]


def test_joined_parts_have_the_waits_of_all_pods() -> None:
    figures = month.Outcome(
        kind=CALENDAR,
        days=7,
        dollars=1.5,
        instance_hours=3.0,
        dollars_by_pool={"base": 1.5},
        evictions={"job": 2},
        ramp_wait={},
        opening_wait={},
        job_wait={},
        nodes_launched=3,
        nodes_max=2,
        pods_pending=1,
        violations={},
        seconds=2.0,
        cpu_seconds=1.0,
    )
    waits = ({"service": [1.0, 5.0], "environment": [], "job": [2.0]}, {"service": [3.0], "environment": [], "job": []})
    joined = month.joined([month.Part(figures=figures, waits=part) for part in waits])
    assert (joined.days, joined.dollars, joined.evictions, joined.nodes_max) == (14, 3.0, {"job": 4}, 2)
    assert joined.ramp_wait == {"pods": 3.0, "p50": 3.0, "p99": 5.0, "max": 5.0}
    assert joined.cpu_seconds == 2.0


def test_the_forecast_has_learned_the_ramps_of_the_days_before() -> None:
    course = Course(first=date(2026, 11, 2), days=1, scale=0.2, drawn_from=date(2026, 10, 5))
    history = month.learned(course)
    grown = [day for day, pools in history.days.items() if any(slot.slot in range(108, 114) for slot in pools["base"])]
    assert len(grown) == 19, "weekdays of four weeks but the holiday"
    assert HOLIDAY.isoformat() not in grown


def test_as_karpenter_there_is_no_search_and_no_target() -> None:
    required = dict.fromkeys(Settings.__struct_fields__[:8], "-")
    options = as_karpenter(Settings(**required)).options()
    assert (options.karpenter_moves_only, options.improve_iterations) == (True, 0)
    assert not Settings(**required).options().karpenter_moves_only


@pytest.mark.slow
@pytest.mark.parametrize("kind", [CALENDAR, CRONJOBS])
def test_a_short_day_has_its_hours(kind: str) -> None:
    part = month.played(kind, SHORT)
    outcome = month.joined([part])
    assert outcome == part.figures
    assert outcome.violations == {}
    assert outcome.opening_wait["pods"] >= 25
    assert outcome.opening_wait["max"] < 60
    assert outcome.dollars == pytest.approx(sum(outcome.dollars_by_pool.values()), abs=0.05)
    assert line(outcome).startswith(f"{kind}: $")
