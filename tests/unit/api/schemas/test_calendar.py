"""Calendars as users write them: what is refused, and what each form means."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core import api, labels
from core.api.schemas.calendar import annotated_calendar, annotation_faults
from core.errors import InvalidInputError
from core.model.node_pool import (
    DAY,
    FORCE,
    HOLD_BACK,
    MONTH,
    NO_ON_DEMAND_FALLBACK,
    TELL,
    Budget,
    CalendarSettings,
    CalendarWindow,
    Cap,
    CapAction,
    WarmRoom,
)
from core.model.values.quantity import HOURLY
from core.model.values.requirements import Requirement
from tests.unit.api.objects import NODE_POOL


def a_calendar(*rules: dict[str, Any], **spec: Any) -> dict[str, Any]:
    metadata = {"name": "office"}
    spec = {"timeZone": "Europe/Berlin", "rules": list(rules), **spec}
    return {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "Calendar", "metadata": metadata, "spec": spec}


def a_rule(**changes: Any) -> dict[str, Any]:
    return {"name": "nights", "settings": {"closed": True}, **changes}


@pytest.mark.parametrize(
    ("rule", "field", "message"),
    [
        ({"timeZone": "Europe/Berln"}, "timeZone", "IANA"),
        ({"windows": [{}]}, "windows[0]", "needs either"),
        (
            {"windows": [{"schedule": "0 8 * * *", "duration": "1h", "from": "08:00", "to": "09:00"}]},
            "windows[0]",
            "either",
        ),
        ({"windows": [{"schedule": "0 8 * * *"}]}, "windows[0].duration", "is required"),
        ({"windows": [{"schedule": "0 25 * * *", "duration": "1h"}]}, "windows[0].schedule", "within 0 to 23"),
        ({"windows": [{"schedule": "0 8 * * *", "duration": "745h"}]}, "windows[0].duration", "at most 744h"),
        ({"windows": [{"from": "8:00", "to": "09:00"}]}, "windows[0].from", "time of day"),
        ({"windows": [{"days": ["Mon"], "to": "09:00"}]}, "windows[0].from", "is required"),
        ({"windows": [{"start": "2026-12-24T10:00", "end": "2026-12-24T10:00"}]}, "windows[0].end", "after start"),
        ({"windows": [{"start": "2026-02-30T10:00", "end": "2026-12-24T10:00"}]}, "windows[0].start", "not a date"),
        ({"exceptDates": ["2026-02-30"]}, "exceptDates[0]", "not a date"),
        ({"exceptDates": ["24.12.2026"]}, "exceptDates[0]", "a date such as"),
        ({"validFrom": "2026-12-02", "validUntil": "2026-12-01"}, "validUntil", "before validFrom"),
        ({"when": "Outside"}, "when", "needs windows"),
        ({"settings": {}}, "settings", "sets nothing"),
        ({"settings": {"closed": True, "podsThatStay": "Force"}}, "settings.forceAfter", "goes with"),
        ({"settings": {"weight": 101}}, "settings.weight", "at most 100"),
        ({"settings": {"capacityTypes": []}}, "settings.capacityTypes", "at least 1"),
        ({"settings": {"warm": {"pods": -1}}}, "settings.warm.pods", "at least 0"),
        ({"settings": {"warm": {"pods": 1, "refill": False}}}, "settings.warm.refill", "needs windows"),
    ],
)
def test_mistakes_name_their_field(rule: dict[str, Any], field: str, message: str) -> None:
    found = [(problem.field, problem.message) for problem in api.problems(a_calendar(a_rule(**rule)))]
    assert [place for place, _ in found] == [f"spec.rules[0].{field}"], found
    assert message in found[0][1]
    with pytest.raises(InvalidInputError):
        api.calendar(a_calendar(a_rule(**rule)))


def test_two_rules_of_one_name_are_refused() -> None:
    assert [p.field for p in api.problems(a_calendar(a_rule(), a_rule()))] == ["spec.rules[1].name"]


@pytest.mark.parametrize(
    ("window", "meaning"),
    [
        (
            {"schedule": "0 8 * * mon", "duration": "1h30m"},
            CalendarWindow(schedule="0 8 * * mon", duration=timedelta(minutes=90)),
        ),
        (
            {"from": "08:30", "to": "19:00"},
            CalendarWindow(schedule="30 8 * * *", duration=timedelta(hours=10, minutes=30)),
        ),
        (
            {"days": ["Fri", "Mon"], "from": "22:00", "to": "06:00"},
            CalendarWindow(schedule="0 22 * * mon,fri", duration=timedelta(hours=8)),
        ),
        ({"from": "00:00", "to": "00:00"}, CalendarWindow(schedule="0 0 * * *", duration=timedelta(days=1))),
        (
            {"start": "2026-12-24T18:00", "end": "2026-12-27T06:00"},
            CalendarWindow(start=datetime(2026, 12, 24, 18, tzinfo=UTC), duration=timedelta(hours=60)),
        ),
    ],
)
def test_windows_are_cron_days_or_one_time(window: dict[str, Any], meaning: CalendarWindow) -> None:
    (rule,) = api.calendar(a_calendar(a_rule(windows=[window]))).rules
    assert (rule.name, rule.time_zone, rule.windows) == ("office/nights", "Europe/Berlin", (meaning,))


def test_every_setting_is_read() -> None:
    settings = {
        "closed": False,
        "leadTime": "10m",
        "podsThatStay": "Force",
        "forceAfter": "2h",
        "limits": {"cpu": "10"},
        "weight": 5,
        "capacityTypes": ["spot"],
        "requirements": [{"key": "team", "operator": "In", "values": ["a"]}],
        "budgets": [{"nodes": "0", "reasons": ["Drifted"]}],
        "warm": {"pods": 2, "requests": {"memory": "1Gi"}, "refill": False},
    }
    always = [{"from": "00:00", "to": "00:00"}]
    rule = a_rule(
        settings=settings, windows=always, timeZone="Asia/Tokyo", exceptDates=["2026-12-25"], validUntil="2027-01-01"
    )
    found = api.calendar(a_calendar(rule, nodePools={"names": ["dev"], "matchLabels": {"a": "b"}}))
    assert (found.node_pools, found.match_labels) == (("dev",), {"a": "b"})
    assert (found.rules[0].time_zone, found.rules[0].valid_until) == ("Asia/Tokyo", "2027-01-01")
    assert found.rules[0].settings == CalendarSettings(
        closed=False,
        lead_time=timedelta(minutes=10),
        pods_that_stay=FORCE,
        force_after=timedelta(hours=2),
        limits={"cpu": 10_000},
        weight=5,
        requirements=(Requirement.one_of("team", "a"), Requirement.one_of(labels.CAPACITY_TYPE, "spot")),
        budgets=(Budget("0", ("Drifted",)),),
        warm=WarmRoom(pods=2, requests={"memory": 2**30}, refill=False),
    )


# The annotation.


def annotated(text: str) -> dict[str, Any]:
    return {**NODE_POOL, "metadata": {"name": "default", "annotations": {labels.CALENDAR: text}}}


def test_a_node_pools_annotation_holds_rules_for_it_alone() -> None:
    pool = api.node_pool(annotated(json.dumps({"timeZone": "Europe/Berlin", "rules": [a_rule()]})))
    assert pool.calendar is not None
    assert [rule.name for rule in pool.calendar.rules] == ["default/nights"]
    assert api.node_pool(NODE_POOL).calendar is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "must be an object"),
        ('{"nodePools": {}}', "for this NodePool alone"),
        ('{"rules": [{"name": "a"}]}', "rules[0].settings is required"),
    ],
)
def test_a_wrong_annotation_is_told_and_the_node_pool_launches_nothing(text: str, message: str) -> None:
    (found,) = annotation_faults(annotated(text))
    assert found[0] == f'metadata.annotations["{labels.CALENDAR}"]' or labels.CALENDAR in found[0]
    assert message in found[1]
    assert message in "".join(problem.message for problem in api.problems(annotated(text)))
    with pytest.raises(InvalidInputError, match="calendar"):
        annotated_calendar(annotated(text), "default")


# Caps.


def a_capping(*caps: dict[str, Any]) -> dict[str, Any]:
    return a_calendar(caps=list(caps))


A_DAY = {"name": "day", "limits": {"dollars-per-day": "24", "nodes": "3"}}


@pytest.mark.parametrize(
    ("caps", "field", "message"),
    [
        ([{"name": "a"}], "caps[0].limits", "required"),
        ([{"name": "a", "limits": {}}], "caps[0].limits", "at least 1"),
        ([{"name": "a", "limits": {"cpu": "x"}}], "caps[0].limits.cpu", "quantity"),
        ([{"name": "A_", "limits": {"cpu": "1"}}], "caps[0].name", ""),
        ([{"name": "a", "limits": {"cpu": "1"}}] * 2, "caps[1].name", "another cap"),
        ([{"name": "a", "limits": {"cpu": "1"}, "countAhead": "4h"}], "caps[0].countAhead", "dollars-per-day"),
        ([{**A_DAY, "countAhead": "soon"}], "caps[0].countAhead", "duration"),
        ([{**A_DAY, "actions": [{"percent": 101, "do": ["Tell"]}]}], "caps[0].actions[0].percent", "at most 100"),
        ([{**A_DAY, "actions": [{"percent": 80, "do": ["Evict"]}]}], "caps[0].actions[0].do[0]", "Tell"),
    ],
)
def test_mistakes_in_caps_name_their_field(caps: list[dict[str, Any]], field: str, message: str) -> None:
    found = [(problem.field, problem.message) for problem in api.problems(a_capping(*caps))]
    assert [place for place, _ in found] == [f"spec.{field}"], found
    assert message in found[0][1]


def test_caps_are_read_with_short_names_of_resources() -> None:
    limits = {"dollars-per-hour": "12.50", "nodes": 20, "cpu": "400"}
    calendar = api.calendar(
        a_capping({"name": "pay", "pods": {"namespaces": ["b", "a"], "matchLabels": {"team": "pay"}}, "limits": limits})
    )
    assert calendar.caps == (
        Cap(
            name="office/pay",
            namespaces=("a", "b"),
            pod_labels={"team": "pay"},
            limits={HOURLY: 12_500_000_000, "nodes": 20, "cpu": 400_000},
        ),
    )


def test_days_and_months_are_read_with_the_zone_of_the_calendar() -> None:
    actions = [{"percent": 90, "do": ["NoOnDemandFallback"]}, {"percent": 70, "do": ["Tell", "HoldBack"]}]
    month = {"name": "month", "limits": {"dollars-per-month": "1k"}, "countAhead": "4h30m", "actions": actions}
    day, written = api.calendar(a_capping(A_DAY, month)).caps
    assert (day.limits, day.periods, day.time_zone) == ({"nodes": 3}, {DAY: 24 * 10**9}, "Europe/Berlin")
    assert day.actions == (CapAction(percent=80, do=(TELL,)), CapAction(percent=100, do=(TELL,)))
    assert (written.limits, written.periods, written.ahead) == ({}, {MONTH: 10**12}, timedelta(hours=4, minutes=30))
    assert written.actions == (
        CapAction(percent=70, do=(HOLD_BACK, TELL)),
        CapAction(percent=90, do=(NO_ON_DEMAND_FALLBACK,)),
    )


def test_a_node_pools_annotation_has_no_caps() -> None:
    """A cap counts over all NodePools of a Calendar; in an annotation it would say something else than it does."""
    written = json.dumps({"caps": [{"name": "a", "limits": {"cpu": "1"}}]})
    pool = {**NODE_POOL, "metadata": {"name": "default", "annotations": {labels.CALENDAR: written}}}
    assert [problem.partition(":")[0] for _, problem in annotation_faults(pool)] == ["caps"]
