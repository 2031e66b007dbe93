"""The template that sends alarms to people: it is valid, it knows every alarm, and what it sends can be read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cfnlint import decode

from tests.release.template_checks import lint

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "examples" / "notifications.yaml"
ALARMS = re.findall(
    r"^## ([a-z-]+)$", (ROOT / "docs" / "how-to" / "alarms.md").read_text(encoding="utf-8"), re.MULTILINE
)


@pytest.fixture(scope="module")
def rule() -> dict[str, Any]:
    template, _ = decode.decode(str(TEMPLATE))
    found: dict[str, Any] = template["Resources"]["Alarms"]["Properties"]
    return found


def test_the_template_is_valid() -> None:
    assert lint(TEMPLATE.read_text(encoding="utf-8")) == []


def test_every_alarm_is_sent_and_no_alarm_of_a_cluster_with_a_longer_name(rule: dict[str, Any]) -> None:
    """A prefix `fleetwright-prod-` would also match the alarms of the cluster prod-eu."""
    named = [name["Fn::Sub"] for name in rule["EventPattern"]["detail"]["alarmName"]]
    assert named == [f"fleetwright-${{ClusterName}}-{name}" for name in ALARMS]
    assert len(ALARMS) > 8


def test_an_alarm_is_sent_when_it_begins_and_when_it_ends(rule: dict[str, Any]) -> None:
    """The first state of an alarm is INSUFFICIENT_DATA: its change to OK is no news."""
    begins, ends = rule["EventPattern"]["detail"]["$or"]
    assert begins == {"state": {"value": ["ALARM"]}}
    assert ends == {"state": {"value": ["OK"]}, "previousState": {"value": ["ALARM"]}}


def test_messages_are_json_with_the_alarm_and_what_it_means(rule: dict[str, Any]) -> None:
    _, _, transformer = rule["Targets"][0]["InputTransformer"]["Fn::If"]
    _, slack, teams = transformer["InputTemplate"]["Fn::If"]
    event = {"alarm": "fleetwright-prod-denied", "state": "ALARM", "what": "rows cannot be read", "region": "eu-west-1"}
    assert set(transformer["InputPathsMap"]) == set(event)
    for template in (slack["Fn::Sub"].replace("${Channel}", "C1"), teams):
        text = re.sub(r"<(\w+)>", lambda found: event[found[1]], template)
        assert "ALARM: fleetwright-prod-denied in eu-west-1. rows cannot be read" in json.dumps(json.loads(text))


def test_secrets_stay_in_secrets_manager() -> None:
    """Neither an address with a token nor a header is a parameter."""
    text = TEMPLATE.read_text(encoding="utf-8")
    assert sorted(re.findall(r"resolve:secretsmanager:\$\{Secret\}:SecretString:(\w+)", text)) == ["endpoint", "header"]
