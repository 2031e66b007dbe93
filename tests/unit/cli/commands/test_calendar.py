"""`calendar`, `explain --at` and `plan` agree about the hours of a NodePool."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from cli.__main__ import command_parser, main
from cli.commands.calendar import week_document
from cli.inputs import read_inputs
from cli.schemas.periods import CalendarAnswer, CalendarWeekAnswer
from core.forecast import Forecast, ForecastRules, GrowthHistory, Ramp
from core.pods import SlotGrowth
from tests.simulation.worlds import catalogue, deployment, node_pool

CALENDAR = {
    "apiVersion": "fleetwright.dev/v1alpha1",
    "kind": "Calendar",
    "metadata": {"name": "office"},
    "spec": {
        "nodePools": {"names": ["default", "absent"]},
        "timeZone": "Europe/Berlin",
        "rules": [
            {
                "name": "nights",
                "windows": [{"days": ["Mon", "Tue", "Wed", "Thu", "Fri"], "from": "08:00", "to": "19:00"}],
                "when": "Outside",
                "settings": {"closed": True, "leadTime": "10m"},
            },
            {
                "name": "spot",
                "windows": [{"from": "12:00", "to": "13:00"}],
                "settings": {
                    "capacityTypes": ["spot"],
                    "weight": 9,
                    "limits": {"cpu": "8"},
                    "budgets": [{"nodes": "0", "reasons": ["Drifted"]}],
                    "warm": {"pods": 1, "requests": {"cpu": "1"}},
                },
            },
        ],
    },
}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "catalog.json").write_text(json.dumps(catalogue()))
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([node_pool(), deployment(2), CALENDAR]))
    return ["-f", str(tmp_path / "all.yaml"), "--catalog", str(tmp_path / "catalog.json"), "-o", "json"]


def answer(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert main(list(arguments)) == code
    return json.loads(capsys.readouterr().out)


def test_the_calendar_shows_each_period_of_each_node_pool(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "calendar", *files, "--days", "1", "--now", "2026-11-30T00:00:00Z")
    assert (found["kind"], found["from"], found["until"]) == (
        "CalendarView",
        "2026-11-30T00:00:00Z",
        "2026-12-01T00:00:00Z",
    )
    absent, default = found["nodePools"]
    assert (absent["name"], absent["inInput"], default["inInput"]) == ("absent", False, True)
    assert [(period["from"][11:16], period["state"]) for period in default["periods"]] == [
        ("00:00", "closed"),
        ("06:50", "waking"),
        ("07:00", "open"),
        ("11:00", "open"),
        ("12:00", "open"),
        ("18:00", "closed"),
    ]
    assert default["periods"][0]["opensAt"] == "2026-11-30T07:00:00Z"
    assert default["periods"][3]["rules"] == ["office/spot"]
    assert default["periods"][3]["settings"] == {
        "limits": {"cpu": "8"},
        "weight": 9,
        "requirements": ["karpenter.sh/capacity-type In [spot]"],
        "budgets": ["0 for Drifted"],
        "warm": {"pods": 1, "requests": {"cpu": "1"}},
    }
    assert CalendarAnswer.__struct_fields__


def test_the_table_says_the_same(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calendar", *files[:-1], "table", "--days", "1", "--now", "2026-11-30T00:00:00Z"]) == 0
    text = capsys.readouterr().out
    assert "office/nights" in text
    assert "waking" in text


@pytest.mark.parametrize("days", ["0", "401", "x"])
def test_the_number_of_days_is_bounded(files: list[str], days: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calendar", *files, "--days", days]) == 2
    assert "from 1 to 400" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("moment", "code", "reason"),
    [
        ("2026-11-30T06:49:00Z", 1, "OutsideHours"),
        ("2026-11-30T06:51:00Z", 0, None),
        ("2026-12-05T12:00:00Z", 1, "OutsideHours"),
    ],
)
def test_explain_at_a_time_and_plan_at_that_time_agree(
    files: list[str], moment: str, code: int, reason: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, "explain", "default/web-0", *files, "--at", moment, code=code)
    assert found["reason"] == reason
    plan = answer(capsys, "plan", *files, "--now", moment, code=code)
    assert {pod["reason"] for pod in plan["unschedulable"]} == ({reason} if reason else set())
    if reason:
        assert "is outside its hours until" in plan["unschedulable"][0]["message"]


def test_the_week_shows_each_hour_with_its_warm_room_and_its_dollars(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, "calendar", *files, "--week", "--now", "2026-11-29T22:30:00Z")
    week = msgspec.convert(found, CalendarWeekAnswer)
    assert week.time_zone == "Europe/Berlin"
    (default,) = week.node_pools
    assert len(default.hours) == 7 * 24
    monday = {hour.hour: hour for hour in default.hours if hour.day == "Mon 2026-11-30"}
    assert [hour for hour in range(24) if monday[hour].open_percent == 100] == list(range(8, 19))
    assert monday[7].open_percent == 16, "it wakes ten minutes before eight"
    assert [hour for hour in range(24) if monday[hour].warm_pods] == [12]
    assert monday[12].warm_dollars > 0
    assert {hour.forecast_pods for hour in default.hours} == {None}
    sunday = [hour for hour in default.hours if hour.day.startswith("Sun") and hour.warm_pods]
    assert sunday == [], "a closed NodePool keeps no room"


def test_the_week_is_drawn_by_days(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calendar", *files[:-2], "--week", "--now", "2026-11-29T22:30:00Z"]) == 0
    drawn = capsys.readouterr().out
    assert "Mon 2026-11-30  .......-====#======....." in drawn
    assert "clocks of Europe/Berlin" in drawn


def test_an_hour_that_clocks_skip_is_in_no_week(files: list[str]) -> None:
    for now, hours in (("2027-03-27T22:30:00Z", 23), ("2027-10-30T22:30:00Z", 24)):
        arguments = command_parser("calendar").parse_args([*files, "--now", now])
        (default,) = week_document(read_inputs(arguments).snapshot, None, None)["nodePools"]
        sunday = [hour for hour in default["hours"] if hour["day"].startswith("Sun")]
        assert len(sunday) == hours
        assert (2 in {hour["hour"] for hour in sunday}) == (hours == 24)


def test_the_week_has_what_is_forecast_and_what_came(files: list[str]) -> None:
    arguments = command_parser("calendar").parse_args([*files, "--now", "2026-11-29T22:30:00Z"])
    snapshot = read_inputs(arguments).snapshot
    ramp = Ramp(
        pool="default",
        weekdays=(0,),
        starts=timedelta(hours=9, minutes=5),
        lasts=timedelta(minutes=5),
        pods=4,
        amounts={"cpu": 2000, "memory": 0},
        places=4,
        requests={"cpu": 500},
        days=4,
        used_percent=90,
        covered_percent=90,
        waited=timedelta(seconds=60),
    )
    forecast = Forecast(at=snapshot.now, rules=ForecastRules(time_zone="Europe/Berlin"), ramps=(ramp,))
    days = {
        "2026-11-23": {
            "default": (
                SlotGrowth(109, 3, 1500, 0, 60, 3, 1500, 0, 500, 0),
                SlotGrowth(112, 1, 500, 0, 60, 1, 500, 0, 500, 0),
            )
        }
    }
    growth = GrowthHistory(time_zone="Europe/Berlin", read_until=snapshot.now, days=days)
    (default,) = week_document(snapshot, forecast, growth)["nodePools"]
    monday = {hour["hour"]: hour for hour in default["hours"] if hour["day"] == "Mon 2026-11-30"}
    assert (monday[9]["forecastPods"], monday[9]["came"]) == (4, 4)
    assert (monday[10]["forecastPods"], monday[10]["came"]) == (0, 0)
