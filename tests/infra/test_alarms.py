"""Each alarm reaches a person, says what to do, and reads a metric that the functions write."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cfnlint import decode

from core.brakes import BrakeKind
from infra.constructs.alarms import LATE_SECONDS, PARTS_FAILED, RUNBOOK
from infra.constructs.dashboard import MONEY, OPERATIONS
from installation import metric_names
from installation.metric_names import CHAINS_CUT, NAMESPACE
from installation.wiring import FUNCTIONS, QUEUES
from tests.infra.conftest import ROOT, synthesize
from tests.release.template_checks import lint

Alarm = dict[str, Any]


def alarms_of(template: dict[str, Any]) -> dict[str, Alarm]:
    """Alarm → properties, by what follows the cluster in its name."""
    found = [r["Properties"] for r in template["Resources"].values() if r["Type"] == "AWS::CloudWatch::Alarm"]
    return {alarm["AlarmName"].removeprefix("fleetwright-fleetwright-"): alarm for alarm in found}


@pytest.fixture(scope="module")
def alarms(templates: dict[str, dict[str, Any]]) -> dict[str, Alarm]:
    return alarms_of(templates["fleetwright-fleetwright"])


@pytest.mark.ci
def test_each_alarm_is_sent_somewhere(alarms: dict[str, Alarm]) -> None:
    assert alarms
    assert all(alarm["AlarmActions"] for alarm in alarms.values())


def test_alarms_may_publish_to_the_topic(templates: dict[str, dict[str, Any]]) -> None:
    """A topic with its own policy loses the default one: otherwise, every alarm would be silent, unnoticed."""
    resources = templates["fleetwright-fleetwright"]["Resources"].values()
    (policy,) = (r["Properties"]["PolicyDocument"] for r in resources if r["Type"] == "AWS::SNS::TopicPolicy")
    (allowed,) = (statement for statement in policy["Statement"] if statement["Effect"] == "Allow")
    assert allowed["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert allowed["Action"] == "sns:Publish"
    assert allowed["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}


def test_each_alarm_has_a_section_that_its_description_names(alarms: dict[str, Alarm]) -> None:
    """If this failed, the person on call would have a name and nothing to do."""
    sections = set(re.findall(r"^## (.+)$", (ROOT / RUNBOOK).read_text(), re.MULTILINE))
    assert sections == {*alarms, PARTS_FAILED}
    for name, alarm in alarms.items():
        assert alarm["AlarmDescription"].endswith(f"{RUNBOOK}#{name}")


def test_each_cause_of_an_alarm_is_counted_somewhere() -> None:
    """If this failed, an alarm would never go off: CloudWatch accepts a metric without data."""
    code = "".join(path.read_text() for folder in ("adapters", "lambdas") for path in (ROOT / folder).rglob("*.py"))
    counted = {
        value
        for name, value in vars(metric_names).items()
        if name.isupper() and isinstance(value, str) and re.search(rf"\b{name}\b", code)
    }
    counted |= {metric_names.stopped_by(kind) for kind in BrakeKind}
    causes = [cause for causes in metric_names.ALARMS.values() for cause in causes]
    assert set(causes) <= counted
    assert len(set(causes)) == len(causes), "a cause that is in two alarms wakes twice"
    # A NodePool is only observed because somebody wants it to be.
    assert not {metric_names.DENIED_CALLS, metric_names.UNPERMITTED_CALLS} & set(causes), "they have their own alarms"
    unwanted = {metric_names.stopped_by(kind) for kind in BrakeKind if kind is not BrakeKind.OBSERVED}
    assert unwanted <= set(causes), "a brake without an alarm"


def test_a_command_that_is_not_stored_wakes() -> None:
    """Its nodes stay, each pass decides the same again, and only a decision in the log told it."""
    assert metric_names.REFUSED_COMMANDS in metric_names.ALARMS["nodes-stay"]


def test_a_refused_launch_wakes_once() -> None:
    """It was a cause of another alarm, too, so that two notifications came."""
    causes = [cause for causes in metric_names.ALARMS.values() for cause in causes]
    assert not {metric_names.DENIED_CALLS, metric_names.LAUNCH_DENIALS, metric_names.QUOTA_DENIALS}.intersection(causes)


def test_each_alarm_on_our_own_metrics_stands_on_the_sum_of_its_causes(alarms: dict[str, Alarm]) -> None:
    own = {name: alarm["MetricName"] for name, alarm in alarms.items() if alarm.get("Namespace") == NAMESPACE}
    summed = {alarm: metric_names.in_cloudwatch(metric_names.alarm_count(alarm)) for alarm in metric_names.ALARMS}
    assert own == summed
    assert {alarms[name]["Statistic"] for name in own} == {"Sum"}


def test_the_page_has_every_cause_in_its_alarms_section() -> None:
    """If this failed, the log would name a cause about which the page says nothing."""
    page = (ROOT / RUNBOOK).read_text()
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    for alarm, causes in metric_names.ALARMS.items():
        named = set(re.findall(r"`(\w+)(…?)`", sections[alarm]))
        whole, begun = {name for name, dots in named if not dots}, tuple(name for name, dots in named if dots)
        assert [cause for cause in causes if cause not in whole and not cause.startswith(begun or "-")] == []


def test_each_alarm_on_our_own_metrics_has_the_dimension_that_functions_write(
    alarms: dict[str, Alarm], templates: dict[str, dict[str, Any]]
) -> None:
    """One dimension more or less, or another value, is another metric."""
    resources = templates["fleetwright-fleetwright"]["Resources"].values()
    functions = [r["Properties"] for r in resources if r["Type"] == "AWS::Lambda::Function"]
    ours = [found["Environment"]["Variables"] for found in functions if found["Handler"].startswith("lambdas.")]
    services = {variables["POWERTOOLS_SERVICE_NAME"] for variables in ours}
    assert len(ours) == len(FUNCTIONS)
    for name, alarm in alarms.items():
        if alarm.get("Namespace") == NAMESPACE:
            assert {(d["Name"], d["Value"]) for d in alarm["Dimensions"]} == {("service", one) for one in services}, (
                name
            )


@pytest.mark.parametrize(
    ("name", "metric"), [("refused-calls", "DeniedCalls"), ("missing-permissions", "UnpermittedCalls")]
)
def test_a_refused_call_is_named_in_the_notification(alarms: dict[str, Alarm], name: str, metric: str) -> None:
    """Each time series of the query is a contributor, whose attributes CloudWatch sends: those that the functions write."""
    (query,) = alarms[name]["Metrics"]
    (schema,) = re.findall(r'FROM SCHEMA\("(\w+)", ([\w, ]+)\)', query["Expression"])
    assert (schema[0], set(schema[1].split(", "))) == (NAMESPACE, {"service", "action", "resource"})
    assert f"SELECT SUM({metric}) " in query["Expression"]
    assert alarms[name]["AlarmDescription"].partition(". ")[0].endswith("the notification names action and resource")
    assert "WHERE service = 'fleetwright-fleetwright' " in query["Expression"]
    assert query["Expression"].endswith("GROUP BY action, resource ORDER BY SUM() DESC"), "CloudWatch demands both"
    assert (query["Period"], query["ReturnData"]) == (300, True)


def test_where_an_alarm_cannot_name_calls_their_sum_is_watched(tmp_path: Path) -> None:
    """A deployment would fail on a query that CloudWatch does not accept there."""
    found = alarms_of(synthesize(tmp_path, {"region": "us-iso-east-1"})["fleetwright-fleetwright"])
    metrics = {
        m["Id"]: m["MetricStat"]["Metric"]["MetricName"] for m in found["refused-calls"]["Metrics"] if "MetricStat" in m
    }
    assert metrics == {"calls": "DeniedCalls", "launches": "LaunchDenials"}
    assert (found["missing-permissions"]["MetricName"], found["missing-permissions"]["Statistic"]) == (
        "UnpermittedCalls",
        "Sum",
    )
    for name in ("refused-calls", "missing-permissions"):
        assert "names" not in found[name]["AlarmDescription"]


def test_the_page_says_how_many_alarms_there_are_and_what_they_cost(alarms: dict[str, Alarm]) -> None:
    """CloudWatch bills each metric that an alarm reads."""
    looked_at = [1 if "MetricName" in a else sum("MetricStat" in m for m in a["Metrics"]) for a in alarms.values()]
    reported = re.search(r"(\d+) alarms read (\d+) metrics, \$(\d+\.\d+) a month", (ROOT / RUNBOOK).read_text())
    assert reported is not None
    assert reported.groups() == (str(len(alarms)), str(sum(looked_at)), f"{sum(looked_at) * 0.1:.2f}")


def test_what_nobody_could_handle_ends_in_one_queue_that_is_watched(
    alarms: dict[str, Alarm], templates: dict[str, dict[str, Any]]
) -> None:
    """Messages, events and invocations alike: seven alarms on errors and seven on throttles cost more than all functions."""
    resources = templates["fleetwright-fleetwright"]["Resources"]
    watched = alarms["failures"]["Dimensions"][0]["Value"]["Fn::GetAtt"][0]
    arn = {"Fn::GetAtt": [watched, "Arn"]}
    of_type = lambda kind: [r["Properties"] for r in resources.values() if r["Type"] == kind]  # noqa: E731
    redriven = [q["RedrivePolicy"]["deadLetterTargetArn"] for q in of_type("AWS::SQS::Queue") if "RedrivePolicy" in q]
    assert redriven == [arn] * len(QUEUES)
    configs = [c for c in of_type("AWS::Lambda::EventInvokeConfig") if "DestinationConfig" in c]
    failed = [config["DestinationConfig"]["OnFailure"]["Destination"] for config in configs]
    assert failed == [arn] * len([function for function in FUNCTIONS if not function.is_repeated])
    targets = [target for rule in of_type("AWS::Events::Rule") for target in rule["Targets"]]
    targets += [schedule["Target"] for schedule in of_type("AWS::Scheduler::Schedule")]
    assert all(target["DeadLetterConfig"] == {"Arn": arn} for target in targets)


def test_only_the_silence_of_reconcile_is_an_alarm(alarms: dict[str, Alarm]) -> None:
    """Metrics that are written only when they are not zero are missing in normal operation."""
    assert {alarm["TreatMissingData"] for name, alarm in alarms.items() if name != "no-clean-run"} == {"notBreaching"}
    silent = alarms["no-clean-run"]
    assert (silent["Period"], silent["EvaluationPeriods"]) == (300, 1)
    # A new alarm begins with insufficient data. CloudWatch sends changes alone, so it wakes nobody before the first run.
    assert silent["TreatMissingData"] == "missing"
    assert silent["InsufficientDataActions"] == silent["AlarmActions"], "silence later on must be told"
    # One good invocation writes a zero, so the least of all is 1 only if none was good.
    assert (silent["Namespace"], silent["MetricName"], silent["Statistic"]) == ("AWS/Lambda", "Errors", "Minimum")
    assert {name for name, alarm in alarms.items() if alarm["Threshold"] != 1} == {"late-messages"}
    assert alarms["late-messages"]["Threshold"] == LATE_SECONDS


def test_an_alarm_on_failed_runs_can_go_off(alarms: dict[str, Alarm]) -> None:
    """A tick that fails is not tried again, so what is woken seldom fails seldom, and must still fill enough periods."""
    failed = alarms["failed-runs"]
    assert max(schedule.every for f in FUNCTIONS for schedule in f.schedules) <= timedelta(seconds=failed["Period"])
    assert failed["DatapointsToAlarm"] < failed["EvaluationPeriods"], "two ticks may share a period"


def test_messages_that_lambda_drops_wake_somebody(alarms: dict[str, Alarm]) -> None:
    """Else, a missing setting shows only as pods that wait for two minutes more."""
    read = [m["MetricStat"] for m in alarms["loops-stopped"]["Metrics"] if "MetricStat" in m]
    dropped = [m for m in read if m["Metric"]["MetricName"] == "RecursiveInvocationsDropped"]
    assert len(dropped) == len([function for function in FUNCTIONS if function.may_loop])
    assert {m["Metric"]["Namespace"] for m in dropped} == {"AWS/Lambda"}
    own = {m["Metric"]["MetricName"] for m in read} - {"RecursiveInvocationsDropped"}
    assert own == {metric_names.in_cloudwatch(CHAINS_CUT)}
    assert {m["Stat"] for m in read} == {"Sum"}


def test_cloudwatch_is_told_what_an_alarm_or_a_graph_shows_and_nothing_else(alarms: dict[str, Alarm]) -> None:
    """A metric costs while it is published: counts without an alarm or a graph are in the log alone."""
    shown = {name for graph in (*OPERATIONS, *MONEY) for name in graph.metrics}
    shown |= {alarm["MetricName"] for alarm in alarms.values() if alarm.get("Namespace") == NAMESPACE}
    of_their_own = (metric_names.DENIED_CALLS, metric_names.UNPERMITTED_CALLS, CHAINS_CUT, metric_names.FAILED_PARTS)
    shown |= set(map(metric_names.in_cloudwatch, of_their_own))
    assert shown == set(map(metric_names.in_cloudwatch, metric_names.METRICS))


def test_a_topic_of_the_users_takes_the_place_of_our_own(tmp_path: Path) -> None:
    topic = "arn:aws:sns:us-east-1:123456789012:on-call"
    template = synthesize(tmp_path, {"alarmTopicArn": topic, "alarmEmail": "on-call@example.com"})[
        "fleetwright-fleetwright"
    ]
    kinds = [resource["Type"] for resource in template["Resources"].values()]
    assert "AWS::SNS::Topic" not in kinds
    assert kinds.count("AWS::SNS::Subscription") == 1
    assert all(alarm["AlarmActions"] == [topic] for alarm in alarms_of(template).values())


# The template that sends alarms to people: it is valid, it knows every alarm, and what it sends can be read.


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
    """The first state of an alarm is INSUFFICIENT_DATA: its change to OK is no news. A change to it is silence."""
    begins, silence, ends = rule["EventPattern"]["detail"]["$or"]
    assert begins == {"state": {"value": ["ALARM"]}}
    assert silence == {"state": {"value": ["INSUFFICIENT_DATA"]}, "previousState": {"value": ["OK", "ALARM"]}}
    assert ends == {"state": {"value": ["OK"]}, "previousState": {"value": ["ALARM"]}}


def test_messages_are_json_with_the_alarm_and_what_it_means(rule: dict[str, Any]) -> None:
    _, _, transformer = rule["Targets"][0]["InputTransformer"]["Fn::If"]
    _, slack, teams = transformer["InputTemplate"]["Fn::If"]
    event = {"alarm": "fleetwright-prod-denied", "state": "ALARM", "what": "rows cannot be read", "region": "eu-west-1"}
    assert set(transformer["InputPathsMap"]) == set(event)
    for template in (slack["Fn::Sub"].replace("${Channel}", "C1"), teams):
        text = re.sub(r"<(\w+)>", lambda found: event[found[1]], template)
        assert "ALARM: fleetwright-prod-denied in eu-west-1. rows cannot be read" in json.dumps(json.loads(text))


def test_announcements_of_commands_are_sent_as_what_each_endpoint_reads() -> None:
    """The text has line ends and quotes: only a whole value, outside of quotes, is escaped."""
    template, _ = decode.decode(str(TEMPLATE))
    pipe = template["Resources"]["AnnouncementsPipe"]["Properties"]
    _, webhook, others = pipe["TargetParameters"]["InputTemplate"]["Fn::If"]
    _, slack, teams = others["Fn::If"]
    event = {"Subject": "prod: 3 nodes", "Message": 'remove "a"\nsaves $1'}
    for text in (webhook, slack["Fn::Sub"].replace("${Channel}", "C1"), teams):
        sent = re.sub(r"<\$\.body\.(\w+)>", lambda found: json.dumps(event[found[1]]), text)
        assert 'remove \\"a\\"\\nsaves $1' in json.dumps(json.loads(sent))


@pytest.mark.parametrize(
    ("approvals", "commands", "subscribed"),
    [("", "", ""), ("a", "", "a"), ("", "b", "b"), ("a", "b", "ab"), ("a", "a", "a")],
)
def test_each_topic_is_subscribed_once_and_may_fill_the_queue(approvals: str, commands: str, subscribed: str) -> None:
    template, _ = decode.decode(str(TEMPLATE))
    given = {"ApprovalTopic": approvals, "CommandTopic": commands}
    made = {
        name: resource["Properties"]
        for name, resource in template["Resources"].items()
        if "Condition" not in resource or holds(template["Conditions"][resource["Condition"]], template, given)
    }
    topics = [
        made[name]["TopicArn"]["Ref"] for name in ("ApprovalsSubscription", "CommandsSubscription") if name in made
    ]
    assert "".join(given[topic] for topic in topics) == subscribed
    assert ("AnnouncementsPipe" in made) == ("AnnouncementsPolicy" in made) == ("Announcements" in made) == bool(topics)
    if topics:
        (statement,) = made["AnnouncementsPolicy"]["PolicyDocument"]["Statement"]
        branches = [choice["Fn::If"] for choice in statement["Condition"]["ArnEquals"]["aws:SourceArn"]]
        chosen = [
            yes["Ref"] if holds(template["Conditions"][condition], template, given) else no["Ref"]
            for condition, yes, no in branches
        ]
        assert "".join(given.get(name, "") for name in chosen) == subscribed


def holds(condition: dict[str, Any], template: dict[str, Any], given: dict[str, str]) -> bool:
    """Evaluate a condition as CloudFormation does: moto lacks the resources that depend on these."""
    ((kind, parts),) = condition.items()
    if kind == "Condition":
        return holds(template["Conditions"][parts], template, given)
    if kind == "Fn::Equals":
        first, second = (given.get(part["Ref"], "slack") if isinstance(part, dict) else part for part in parts)
        return bool(first == second)
    held = [holds(part, template, given) for part in parts]
    return {"Fn::Not": not held[0], "Fn::And": all(held), "Fn::Or": any(held)}[kind]


def test_secrets_stay_in_secrets_manager() -> None:
    """Neither an address with a token nor a header is a parameter."""
    text = TEMPLATE.read_text(encoding="utf-8")
    assert sorted(re.findall(r"resolve:secretsmanager:\$\{Secret\}:SecretString:(\w+)", text)) == ["endpoint", "header"]
