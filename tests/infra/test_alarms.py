"""Each alarm reaches somebody, says what to do, and stands on something that the functions tell."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from infra.constructs.alarms import RUNBOOK
from lambdas import metric_names
from lambdas.wiring import FUNCTIONS, QUEUES
from tests.infra.conftest import ROOT, synthesize

Alarm = dict[str, Any]


def alarms_of(template: dict[str, Any]) -> dict[str, Alarm]:
    """Alarm → properties, by what follows the cluster in its name."""
    found = [r["Properties"] for r in template["Resources"].values() if r["Type"] == "AWS::CloudWatch::Alarm"]
    return {alarm["AlarmName"].removeprefix("fleetwright-fleetwright-"): alarm for alarm in found}


@pytest.fixture(scope="module")
def alarms(templates: dict[str, dict[str, Any]]) -> dict[str, Alarm]:
    return alarms_of(templates["fleetwright-fleetwright"])


def test_each_alarm_is_sent_somewhere(alarms: dict[str, Alarm]) -> None:
    assert alarms
    assert all(alarm["AlarmActions"] for alarm in alarms.values())


def test_each_alarm_has_a_section_that_its_description_names(alarms: dict[str, Alarm]) -> None:
    """If this failed, whoever is woken would have a name and nothing to do."""
    sections = set(re.findall(r"^## (.+)$", (ROOT / RUNBOOK).read_text(), re.MULTILINE))
    assert sections == set(alarms)
    for name, alarm in alarms.items():
        assert alarm["AlarmDescription"].endswith(f"{RUNBOOK}#{name}")


def test_each_alarm_on_our_own_metrics_stands_on_a_name_that_is_counted(alarms: dict[str, Alarm]) -> None:
    told = {value for name, value in vars(metric_names).items() if name.isupper() and isinstance(value, str)}
    told |= {metric_names.stopped_by(kind) for kind in ("BrakeUnreadable", "NodePoolBreakerOpen")}
    own = [alarm["MetricName"] for alarm in alarms.values() if alarm.get("Namespace") == "Fleetwright"]
    assert own
    assert set(own) <= {metric_names.in_cloudwatch(name) for name in told}


def test_every_function_and_every_queue_is_watched(alarms: dict[str, Alarm]) -> None:
    assert {f"{spec.name.replace('_', '-')}-errors" for spec in FUNCTIONS} <= set(alarms)
    assert {f"{queue.name}-dead-letters" for queue in QUEUES} | {"failures"} <= set(alarms)


def test_only_the_sweeps_silence_is_an_alarm(alarms: dict[str, Alarm]) -> None:
    """Metrics that are written only when they are not zero are missing while all is well."""
    assert [name for name, alarm in alarms.items() if alarm["TreatMissingData"] == "breaching"] == ["no-clean-sweep"]


def test_an_alarm_of_what_runs_once_an_hour_can_go_off(alarms: dict[str, Alarm]) -> None:
    """It has three attempts within minutes: two periods of five minutes with three errors each never come."""
    alarm = alarms["refresh-catalogue-errors"]
    assert (alarm["Period"], alarm["Threshold"], alarm["EvaluationPeriods"]) == (3600, 3, 1)


def test_a_topic_of_the_users_takes_the_place_of_our_own(tmp_path: Path) -> None:
    topic = "arn:aws:sns:us-east-1:123456789012:on-call"
    template = synthesize(tmp_path, f"alarmTopicArn={topic}", "alarmEmail=on-call@example.com")[
        "fleetwright-fleetwright"
    ]
    kinds = [resource["Type"] for resource in template["Resources"].values()]
    assert "AWS::SNS::Topic" not in kinds
    assert kinds.count("AWS::SNS::Subscription") == 1
    assert all(alarm["AlarmActions"] == [topic] for alarm in alarms_of(template).values())
