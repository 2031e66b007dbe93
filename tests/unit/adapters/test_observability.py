"""What a run logs: decisions at once, counts at the end, whether it succeeds or fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from aws_lambda_powertools import Logger, Metrics
from botocore.exceptions import ClientError

from adapters import observability
from adapters.aws.session import translate
from adapters.kube import of_answer
from adapters.observability import MISSING_PERMISSIONS
from adapters.ports import DeniedError, PortError, TooLargeError, TransientError, reason_of
from adapters.run_report import RunReport
from core.reasons.code import ClaimReason, DecisionKind
from core.reasons.runs import RunReason
from simulator.clock import VirtualClock
from simulator.invocation.sandbox import Context
from tests.builders import NOW

TABLE = "arn:aws:dynamodb:eu-west-1:1:table/t"


class HandTimer:
    """A `threading.Timer` that a test fires."""

    def __init__(self, seconds: float, function: Callable[[], None]) -> None:
        self.seconds, self.function, self.runs = seconds, function, False

    def start(self) -> None:
        self.runs = True

    def cancel(self) -> None:
        self.runs = False


class Cut(BaseException):
    """Marks the end of a sandbox."""


@pytest.fixture(autouse=True)
def written(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """What logger and metrics of a new sandbox write."""
    stream = StringIO()
    monkeypatch.setattr(observability, "logger", Logger(service=request.node.name, stream=stream))
    monkeypatch.setattr(observability, "metrics", Metrics(namespace="Fleetwright", service="fleetwright-test"))
    return stream


def run(work: Any, written: StringIO, raises: type[BaseException]) -> list[dict[str, Any]]:
    """Every JSON line that the run wrote."""
    with redirect_stdout(written), pytest.raises(raises):
        observability.reported(work)({}, a_context())
    return [json.loads(line) for line in written.getvalue().splitlines() if line.startswith("{")]


def a_context() -> Any:
    clock = VirtualClock(NOW)
    return Context(
        function_name="provision",
        memory_limit_in_mb=512,
        aws_request_id="r",
        clock=clock,
        deadline=clock.now() + timedelta(minutes=1),
    )


def metrics_of(lines: list[dict[str, Any]]) -> dict[str, float]:
    """Metric → value, as CloudWatch reads them, without those by action."""
    values: dict[str, float] = {}
    for line in lines:
        for directive in line.get("_aws", {}).get("CloudWatchMetrics", []):
            if directive["Dimensions"] == [["service"]]:
                for metric in directive["Metrics"]:
                    value = line[metric["Name"]]
                    values[metric["Name"]] = sum(value) if isinstance(value, list) else value
    return values


def test_a_failed_run_has_logged_its_decisions_and_counts(written: StringIO) -> None:
    """Otherwise, a launch is in no log because a later call failed."""

    def work(event: Any, context: Any, report: RunReport) -> None:
        report.decide(DecisionKind.LAUNCH, "general-1-0", ClaimReason.LAUNCHED, "i-0123")
        report.count("pendingPods", 40)
        raise TransientError("kube:list nodes", "timeout")

    lines = run(work, written, TransientError)
    assert [line["subject"] for line in lines if line.get("message") == "decision"] == ["general-1-0"]
    metrics = metrics_of(lines)
    assert (metrics["PendingPods"], metrics["DecisionsLaunch"], metrics["FailedRuns"]) == (40, 1, 1)


def test_an_interrupted_run_has_logged_its_decisions(written: StringIO) -> None:
    """Nothing runs after a time-out, so a decision is logged when it is made."""

    def work(event: Any, context: Any, report: RunReport) -> None:
        report.part().decide(DecisionKind.LAUNCH, "general-1-0", ClaimReason.LAUNCHED, "i-0123")
        assert "general-1-0" in written.getvalue()
        raise Cut

    run(work, written, Cut)


def test_a_run_close_to_its_time_out_has_logged_its_counts(written: StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, alarms stay silent while a function always times out: nothing runs after a time-out."""
    timers: list[HandTimer] = []

    def timer(seconds: float, function: Callable[[], None]) -> HandTimer:
        timers.append(HandTimer(seconds, function))
        return timers[-1]

    monkeypatch.setattr(observability, "Timer", timer)

    def work(event: Any, context: Any, report: RunReport) -> None:
        report.count("pendingPods", 40)
        (ringing,) = timers
        assert (ringing.seconds, ringing.runs) == (60 - observability.LAST_SECONDS, True)
        ringing.function()
        report.count("pendingPods", 2)
        report.decide(DecisionKind.SKIP, "test", RunReason.PLANNER_BUSY)
        raise Cut

    lines = run(work, written, Cut)
    seen = [line["PendingPods"] for line in lines if "PendingPods" in line]
    assert seen == [[40.0], [2.0]]
    counted = [line["counts"] for line in lines if line.get("message") == "counted"]
    assert counted == [{"failedRunsTimedOut": 1}, {"decisionsSkip": 1}]
    assert metrics_of(lines)["FailedRuns"] == 1, "what the run itself cannot say any more"
    assert "DecisionsSkip" not in metrics_of(lines), "a metric costs, and nobody looks at this one"
    assert not timers[0].runs


def test_a_denied_call_is_reported_with_its_action_and_resource(written: StringIO) -> None:
    """Otherwise, a missing permission is one line among thousands."""
    cluster = "arn:aws:eks:eu-west-1:123456789012:cluster/prod"

    def work(event: Any, context: Any, report: RunReport) -> None:
        report.decide(
            DecisionKind.FORGET, "general-1-0", ClaimReason.LAUNCH_DENIED, "ec2:CreateFleet: VcpuLimitExceeded: no"
        )
        message = f"User: arn:aws:sts::1:x is not authorized to perform: eks:DescribeCluster on resource: {cluster}"
        raise DeniedError("eks:DescribeCluster", f"AccessDeniedException: {message}")

    lines = run(work, written, DeniedError)
    assert metrics_of(lines)["DeniedCalls"] == 2
    assert sorted((line["action"], line["resource"]) for line in lines if "action" in line) == [
        ("ec2:CreateFleet", "VcpuLimitExceeded"),
        ("eks:DescribeCluster", cluster),
    ]
    (failed,) = (line for line in lines if line.get("message") == "run failed")
    assert "eks:DescribeCluster" in failed["detail"]
    assert cluster in failed["detail"]
    assert {line["service"] for line in lines if "action" in line} == {"fleetwright-test"}


def events_forbidden() -> PortError:
    message = 'events is forbidden: User "r" cannot create resource "events" in API group "" in the namespace "default"'
    return of_answer("kube:create events", 403, json.dumps({"message": message}).encode())


def mark_forbidden() -> PortError:
    message = f"User: arn:aws:sts::1:x is not authorized to perform: dynamodb:PutItem on resource: {TABLE}"
    return translate(
        "dynamodb:PutItem", ClientError({"Error": {"Code": "AccessDeniedException", "Message": message}}, "PutItem")
    )


@pytest.mark.parametrize(
    ("refused", "names"),
    [(events_forbidden, ("kube:create", "events")), (mark_forbidden, ("dynamodb:PutItem", TABLE))],
)
@pytest.mark.parametrize("is_decided", [False, True])
def test_a_missing_permission_is_reported_though_the_run_goes_on_without(
    refused: Callable[[], PortError], names: tuple[str, str], *, is_decided: bool, written: StringIO
) -> None:
    """Events, nominations, bindings and marks are written on a best-effort basis: their refusal rang no alarm."""

    def work(event: Any, context: Any, report: RunReport) -> None:
        for error in (refused(), refused()):
            if is_decided:
                report.decide(DecisionKind.SKIP, "x", reason_of(error), str(error))
        raise Cut

    lines = run(work, written, Cut)
    metric, other = ("DeniedCalls", "UnpermittedCalls") if is_decided else ("UnpermittedCalls", "DeniedCalls")
    assert metrics_of(lines)[metric] == 2
    assert [(line["action"], line["resource"], line[metric]) for line in lines if "action" in line] == [(*names, [2.0])]
    assert other not in metrics_of(lines), "two alarms would ring for one call, and only a decision's ends an update"


def test_a_missing_permission_is_not_reported_by_the_next_run(written: StringIO) -> None:
    events_forbidden()

    def work(event: Any, context: Any, report: RunReport) -> None:
        raise Cut

    assert "UnpermittedCalls" not in metrics_of(run(work, written, Cut))


def test_a_call_with_an_alarm_of_its_own_is_not_reported_as_refused(written: StringIO) -> None:
    def work(event: Any, context: Any, report: RunReport) -> None:
        events_forbidden()
        MISSING_PERMISSIONS.leave_out(mark_forbidden())
        MISSING_PERMISSIONS.leave_out(TransientError("kube:list nodes", "timeout"))
        raise Cut

    lines = run(work, written, Cut)
    assert metrics_of(lines)["UnpermittedCalls"] == 1
    assert [(line["action"], line["resource"]) for line in lines if "action" in line] == [("kube:create", "events")]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, 'events "x" is forbidden: unable to create new content in namespace a because it is being terminated'),
        (403, 'admission webhook "guard.example" denied the request: not today'),
        (422, 'User "r" cannot create resource "events"'),
    ],
)
def test_a_refusal_that_no_permission_mends_is_not_reported(written: StringIO, status: int, message: str) -> None:
    """A namespace that is being deleted would wake somebody."""

    def work(event: Any, context: Any, report: RunReport) -> None:
        of_answer("kube:create events", status, json.dumps({"message": message}).encode())
        raise Cut

    assert "UnpermittedCalls" not in metrics_of(run(work, written, Cut))


def test_an_error_that_is_a_kind_of_denial_counts_as_one(written: StringIO) -> None:
    """The error's name was compared, and the alarm on refused calls did not ring for a claim whose row was too large."""

    def work(event: Any, context: Any, report: RunReport) -> None:
        raise TooLargeError("dynamodb:PutItem", "Item size has exceeded the maximum allowed size")

    assert metrics_of(run(work, written, TooLargeError))["DeniedCalls"] == 1


def test_a_launch_that_stays_refused_is_reported_while_nothing_asks_for_it(written: StringIO) -> None:
    """Launches pause for up to a quarter of an hour: the alarm on refused calls would end though nothing was mended."""

    def work(event: Any, context: Any, report: RunReport) -> None:
        part = report.part()
        part.refused.append("ec2:CreateFleet: VcpuLimitExceeded: more than 64")
        report.add(part)
        raise TransientError("kube:list nodes", "timeout")

    lines = run(work, written, TransientError)
    assert [(line["action"], line["resource"]) for line in lines if "action" in line] == [
        ("ec2:CreateFleet", "VcpuLimitExceeded")
    ]
    assert "DeniedCalls" not in metrics_of([line for line in lines if "action" not in line]), "no call was refused"


def test_a_line_of_metrics_names_the_decisions_that_it_counts(written: StringIO) -> None:
    """Otherwise, a peak in a graph leads to no decision."""

    def work(event: Any, context: Any, report: RunReport) -> None:
        for decision in ("d-1", "d-2", "d-1", ""):
            report.decision_id = decision
            report.decide(DecisionKind.LAUNCH, "general-1-0", ClaimReason.LAUNCHED)
        raise TransientError("kube:list nodes", "timeout")

    lines = run(work, written, TransientError)
    assert [line["decisions"] for line in lines if "DecisionsLaunch" in line] == [["d-1", "d-2"]]


def test_every_line_says_which_version_wrote_it(written: StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two versions share the work during an update, and only one of them fails."""
    monkeypatch.setattr(observability, "RUNNING", "1.2.3+7")
    logger = Logger(service="versions", stream=written, version=observability.RUNNING)
    monkeypatch.setattr(observability, "logger", logger)

    def work(event: Any, context: Any, report: RunReport) -> None:
        report.decide(DecisionKind.SKIP, "test", RunReason.PLANNER_BUSY)
        report.count("pendingPods", 1)
        raise TransientError("kube:list nodes", "timeout")

    assert {line.get("version") for line in run(work, written, TransientError)} == {"1.2.3+7"}


def test_zero_values_are_not_written(written: StringIO) -> None:
    """A custom metric costs for each hour in which it is written."""

    def work(event: Any, context: Any, report: RunReport) -> None:
        report.count("pendingPods", 0)
        raise TransientError("kube:list nodes", "timeout")

    assert "PendingPods" not in metrics_of(run(work, written, TransientError))


def test_a_run_in_virtual_time_is_not_cut_off_by_real_seconds(
    written: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, a run that waits in virtual time reports a time-out where the machine is slow."""
    timers: list[HandTimer] = []
    monkeypatch.setattr(observability, "Timer", lambda seconds, tell: timers.append(HandTimer(seconds, tell)))

    def work(event: Any, context: Any, report: RunReport) -> None:
        raise Cut

    with observability.unwatched():
        run(work, written, Cut)
    assert not timers


def test_causes_of_an_alarm_are_one_metric_and_a_line_that_names_them(written: StringIO) -> None:
    """If this failed, the person on call would learn that something cannot be read, and not what."""

    def work(event: Any, context: Any, report: RunReport) -> None:
        report.count("unreadableRows", 2)
        report.count("estimatedPrices", 1)
        report.count("drainsBlockedForADay", 0)
        raise TransientError("kube:list nodes", "timeout")

    lines = run(work, written, TransientError)
    alarming = {line["alarm"]: line["causes"] for line in lines if line.get("message") == "alarming"}
    assert alarming == {"failed-runs": {"failedRuns": 1}, "denied": {"unreadableRows": 2, "estimatedPrices": 1}}
    metrics = metrics_of(lines)
    assert (metrics["AlarmDenied"], metrics["AlarmFailedRuns"]) == (3, 1)
    assert "AlarmNodesStay" not in metrics
