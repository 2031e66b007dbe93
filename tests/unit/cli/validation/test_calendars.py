"""What `validate` finds in Calendars as a whole: overlaps, hours that never come, lead times longer than the gap."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from cli.manifests.inventory import Document
from cli.validation.calendars import calendar_findings
from core import labels
from tests.unit.api.objects import NODE_POOL
from tests.unit.api.schemas.test_calendar import a_calendar, a_rule

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def found(*objects: dict[str, Any]) -> list[tuple[str, str, str]]:
    documents = [Document("a.yaml", index, obj) for index, obj in enumerate(objects)]
    return [(finding.code, finding.field, finding.message) for finding in calendar_findings(documents, NOW)]


OFFICE = {"windows": [{"from": "08:00", "to": "19:00"}], "when": "Outside"}


@pytest.mark.parametrize(
    ("rules", "code", "field", "message"),
    [
        (
            [a_rule(name="a", settings={"weight": 1}), a_rule(name="b", settings={"weight": 2})],
            "Overlap",
            "spec.rules[1]",
            "weight of rule office/a by rule office/b",
        ),
        ([a_rule(settings={"closed": True})], "NeverOpens", "spec.rules[0]", "closed for all of the next 400 days"),
        ([a_rule(validUntil="2026-11-01", settings={"weight": 1})], "NeverHolds", "spec.rules[0]", "is past"),
        (
            [a_rule(windows=[{"start": "2026-11-28T18:00", "end": "2026-11-29T02:00"}], settings={"weight": 1})],
            "NeverHolds",
            "spec.rules[0]",
            "all its windows are past",
        ),
        (
            [a_rule(windows=[{"schedule": "5 2 * * *", "duration": "30m"}], settings={"weight": 1})],
            "NeverHolds",
            "spec.rules[0]",
            "on 2027-03-28 clocks skip its window 02:05",
        ),
        (
            [a_rule(windows=[{"from": "12:00", "to": "13:00"}], settings={"closed": True, "leadTime": "90m"})],
            "LeadTime",
            "spec.rules[0]",
            "launches again before it has emptied",
        ),
        (
            [
                a_rule(
                    windows=[{"from": "08:00", "to": "09:00"}],
                    settings={"leadTime": "23h", "warm": {"pods": 1, "requests": {"cpu": "1"}}},
                )
            ],
            "LeadTime",
            "spec.rules[0]",
            "the warm room never ends",
        ),
    ],
)
def test_what_rules_hardly_mean_is_a_warning(rules: list[dict[str, Any]], code: str, field: str, message: str) -> None:
    (finding,) = found(NODE_POOL, a_calendar(*rules))
    assert finding[:2] == (code, field)
    assert message in finding[2]


def test_windows_of_an_expired_rule_are_followed_no_further() -> None:
    """Each change of a NodePool's other rules was followed through two thousand of its windows: minutes for one file."""
    rules = (a_rule(**OFFICE, validUntil="2026-11-01", settings={"closed": True}), a_rule(**OFFICE, name="b"))
    ((code, field, message),) = found(NODE_POOL, a_calendar(*rules, nodePools={"names": ["default"]}))
    assert (code, field) == ("NeverHolds", "spec.rules[0]")
    assert message.endswith("validUntil 2026-11-01 is past")


def test_an_hour_that_clocks_skip_after_the_validity_is_no_finding() -> None:
    windows = [{"schedule": "5 2 * * *", "duration": "30m"}]
    assert found(NODE_POOL, a_calendar(a_rule(windows=windows, validUntil="2027-03-27", settings={"weight": 1}))) == []


def test_usual_hours_have_no_finding() -> None:
    rules = (a_rule(**OFFICE, settings={"closed": True, "leadTime": "15m"}), a_rule(name="b", settings={"weight": 2}))
    assert found(NODE_POOL, a_calendar(*rules, nodePools={"names": ["default"]})) == []


def test_a_window_that_opens_once_is_meant_to_replace_others() -> None:
    once = [{"start": "2026-12-10T18:00", "end": "2026-12-11T02:00"}]
    rules = (a_rule(**OFFICE), a_rule(name="release", windows=once, settings={"closed": False}))
    assert found(NODE_POOL, a_calendar(*rules)) == []


def test_a_selection_that_finds_nothing_is_told() -> None:
    selection = {"names": ["defaul"], "matchLabels": {"team": "a"}}
    codes = [finding[:2] for finding in found(NODE_POOL, a_calendar(a_rule(**OFFICE), nodePools=selection))]
    assert codes == [("NotFound", "spec.nodePools.names[0]"), ("MatchesNothing", "spec.nodePools.matchLabels")]


def test_the_annotation_of_a_node_pool_is_followed_too() -> None:
    text = json.dumps({"rules": [a_rule(settings={"closed": True})]})
    pool = {**NODE_POOL, "metadata": {"name": "default", "annotations": {labels.CALENDAR: text}}}
    ((code, field, _),) = found(pool)
    assert code == "NeverOpens"
    assert labels.CALENDAR in field


def test_an_invalid_calendar_has_no_further_findings() -> None:
    assert found(NODE_POOL, a_calendar(a_rule(settings={}))) == []
