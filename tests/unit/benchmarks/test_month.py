"""The simulated month: its days are those of Berlin, its worlds have the same pods, and calendars close what they say."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from benchmarks.month import (
    BATCH,
    CALENDAR,
    CRONJOBS,
    HOLIDAY,
    KINDS,
    OFFICE,
    Course,
    as_karpenter,
    line,
    played,
    scenario,
    wall,
)
from installation.settings import Settings
from simulator.scenario import read_scenario

SHORT = Course(first=date(2026, 10, 20), days=1, scale=0.02)


def test_hours_are_on_the_wall_clock_before_and_after_the_end_of_summer_time() -> None:
    assert wall(date(2026, 10, 23), 8) == datetime(2026, 10, 23, 6, tzinfo=UTC)
    assert wall(date(2026, 10, 26), 8) == datetime(2026, 10, 26, 7, tzinfo=UTC)
    month = Course()
    assert len(list(month.hours(OFFICE))) == 20
    assert HOLIDAY in month.dates(), "CronJobs open the pool on the holiday, too"
    assert {(closes - opens).total_seconds() / 3600 for opens, closes in month.hours(BATCH)} == {9}


def test_every_world_has_the_same_pods_at_the_same_times(tmp_path: Path) -> None:
    plays = []
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        described = read_scenario(scenario(tmp_path / kind, kind, SHORT))
        objects = json.loads((tmp_path / kind / "objects.yaml").read_text())["items"]
        plays.append((described.steps, [obj for obj in objects if obj["kind"] != "Calendar"]))
        assert ("Calendar" in {obj["kind"] for obj in objects}) == (kind == CALENDAR)
    assert plays[0] == plays[1] == plays[2]


def test_as_karpenter_there_is_no_search_and_no_target() -> None:
    required = dict.fromkeys(Settings.__struct_fields__[:8], "-")
    options = as_karpenter(Settings(**required)).options()
    assert (options.karpenter_moves_only, options.improve_iterations) == (True, 0)
    assert not Settings(**required).options().karpenter_moves_only


@pytest.mark.slow
@pytest.mark.parametrize("kind", [CALENDAR, CRONJOBS])
def test_a_short_day_has_its_hours(kind: str) -> None:
    outcome = played(kind, SHORT)
    assert outcome.violations == {}
    assert outcome.opening_wait["pods"] >= 25
    assert outcome.opening_wait["max"] < 60
    assert outcome.dollars == pytest.approx(sum(outcome.dollars_by_pool.values()), abs=0.05)
    assert line(outcome).startswith(f"{kind}: $")
