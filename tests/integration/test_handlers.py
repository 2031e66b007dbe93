"""The handlers as Lambda calls them, over moto for table, queues and schedules; only machines and cluster are fakes."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from typing import Any

import boto3
import msgspec
import pytest
from aws_lambda_powertools import Logger

from adapters import observability
from adapters.aws.session import SchedulerWindows
from adapters.composition.functions import Adapters
from adapters.ports import DeniedError, TransientError
from core import labels
from core.manifests.wire import resources
from core.model.catalogue import Catalogue
from installation import wiring
from lambdas import bootstrap
from lambdas.application.controllers import Application
from lambdas.handlers import disrupt, execute, interrupt, provision, reconcile, refresh_catalogue, watch_audit_log
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod, aws
from tests.fakes.world import FakeCatalogues

START_CHECK = {"source": "fleetwright.start-check"}


class Context:
    """Lambda's context object."""

    function_name = "function"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:function"
    aws_request_id = "request-1"

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


class Deployed:
    """Table, queues and schedule group as the template makes them, and the application over them."""

    def __init__(self, session: boto3.Session) -> None:
        self.lab = Lab()
        self.sqs = session.client("sqs")
        self.scheduler = session.client("scheduler")
        urls = {spec.name: self.sqs.create_queue(QueueName=spec.name)["QueueUrl"] for spec in wiring.QUEUES}
        self.scheduler.create_schedule_group(Name="windows")
        session.client("s3").create_bucket(Bucket=self.lab.settings.bucket_name)
        self.work_url, self.wake_url = urls[wiring.WORK.name], urls[wiring.WAKE_UPS.name]
        settings = msgspec.structs.replace(
            self.lab.settings,
            wake_up_queue_url=self.wake_url,
            work_queue_url=self.work_url,
            look_queue_url=urls[wiring.RUN_REQUESTS.name],
            disrupt_function_arn="arn:aws:lambda:us-east-1:123456789012:function:disrupt",
        )
        market = FakeCatalogues(Catalogue(default=self.lab.types))
        adapters = Adapters(settings, session, self.lab.clock, kubernetes=self.lab.kubernetes, catalogues=market)
        adapters.cloud = self.lab.cloud
        bootstrap.use(lambda: Application(adapters))

    def messages(self, url: str) -> list[dict[str, Any]]:
        """Receive the due messages of a queue."""
        found = self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ())
        for message in found:
            self.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return [json.loads(message["Body"]) for message in found]

    def execute(self, *messages: dict[str, Any]) -> dict[str, Any]:
        records = [{"messageId": str(i), "body": json.dumps(message)} for i, message in enumerate(messages)]
        return execute.handler({"Records": records}, Context())


@pytest.fixture
def deployed() -> Iterator[Deployed]:
    with aws() as session:
        yield Deployed(session)
    bootstrap.use(bootstrap._from_environment)


def decided(response: dict[str, Any]) -> list[tuple[str, str]]:
    json.dumps(response)
    return [(decision["kind"], decision["reason"]) for decision in response["decisions"]]


def test_from_an_audit_event_to_a_node_and_back(deployed: Deployed) -> None:
    """All steps, each through its own handler."""
    lab, context = deployed.lab, Context()
    lab.kubernetes.put(a_pending_pod("p"))
    status = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    entry = {
        "verb": "patch",
        "objectRef": {"resource": "pods", "subresource": "status"},
        "requestObject": {"status": status},
    }
    payload = {"messageType": "DATA_MESSAGE", "logEvents": [{"id": "1", "message": json.dumps(entry)}]}
    data = base64.b64encode(gzip.compress(json.dumps(payload).encode())).decode()
    assert watch_audit_log.handler({"awslogs": {"data": data}}, context)["wakeUps"] == 1
    assert deployed.messages(deployed.wake_url) == [{"wakeUp": "PodUnschedulable"}]

    assert decided(provision.handler({}, context)) == [("launch", "Launched")]
    lab.boot()
    (node,) = lab.kubernetes.names(resources.NODES)
    claim = lab.cloud.instances()[0].tags["fleetwright.dev/claim"]
    assert decided(deployed.execute({"claim": claim})) == [("register", "NodeJoined")]
    lab.clock.advance(seconds=3)
    assert deployed.execute({"claim": claim})["boundPods"] == 1
    assert lab.kubernetes.raw(resources.PODS, "p", "default")["spec"]["nodeName"] == node
    lab.clock.advance(seconds=3)
    assert decided(deployed.execute({"claim": claim})) == [("initialize", "NodeReady")]
    assert decided(reconcile.handler({}, context)) == []
    assert lab.kubernetes.raw(resources.NODE_POOLS, "default")["status"]["nodes"] == 1

    lab.clock.advance(minutes=1)
    assert decided(disrupt.handler({"source": "fleetwright.windows"}, context)) == []
    event = {
        "source": "aws.ec2",
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "detail": {"instance-id": lab.cloud.instances()[0].instance_id},
    }
    assert decided(interrupt.handler(event, context)) == [
        ("interrupt", "SpotInterrupted"),
        ("terminate", "SpotInterrupted"),
    ]
    assert deployed.messages(deployed.work_url)[-1]["claim"] == claim
    assert decided(deployed.execute({"claim": claim})) == [("drain", "SpotInterrupted")]
    lab.clock.advance(seconds=10)
    ended = decided(deployed.execute({"claim": claim}))
    assert ended == [("terminate", "SpotInterrupted"), ("forget", "SpotInterrupted")]
    assert lab.kubernetes.names(resources.NODES) == []
    assert node not in lab.kubernetes.names(resources.NODES)


HANDLERS = (disrupt, execute, interrupt, provision, reconcile, refresh_catalogue, watch_audit_log)
LOOKING = (disrupt, execute, provision, reconcile)


@pytest.mark.parametrize("function", HANDLERS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_version_that_is_asked_whether_it_starts_does_nothing(deployed: Deployed, function: Any) -> None:
    """It is asked before it has any traffic: what it did then, no roll-back would take back."""
    lab = deployed.lab
    lab.kubernetes.put(a_pending_pod("p"))
    assert function.handler(START_CHECK, Context()) == {"decisions": [], "batchItemFailures": []}
    assert lab.cloud.instances() == ()
    assert deployed.messages(deployed.work_url) == deployed.messages(deployed.wake_url) == []


@pytest.mark.parametrize("function", LOOKING, ids=lambda module: module.__name__.rpartition(".")[2])
def test_a_version_that_cannot_look_at_its_cluster_says_so(
    deployed: Deployed, function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one whose new ClusterRole was not applied."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise DeniedError("kube:list nodes", "Forbidden")

    monkeypatch.setattr(deployed.lab.kubernetes, "list", refuse)
    with pytest.raises(DeniedError):
        function.handler(START_CHECK, Context())


@pytest.mark.parametrize("spec", [spec for spec in wiring.FUNCTIONS if spec.queue], ids=lambda spec: spec.name)
def test_a_message_is_delivered_again_only_if_no_schedule_does_its_work(
    deployed: Deployed, spec: wiring.FunctionSpec
) -> None:
    """A wake-up that half an hour without API server makes a dead letter rings until somebody deletes it.

    Messages of the work queue name a step. They are delivered again although a schedule looks for late steps, because it finds
    a step only once it is a minute late.
    """

    def unreachable() -> Application:
        raise TransientError("kube:list pods", "timeout")

    bootstrap.use(unreachable)
    handler = import_module(f"lambdas.handlers.{spec.name}").handler
    event = {"Records": [{"messageId": "1", "body": json.dumps({"wakeUp": "PodUnschedulable"})}]}
    if spec.is_repeated and spec.queue != wiring.WORK.name:
        assert handler(event, Context()) == {"batchItemFailures": []}
    else:
        with pytest.raises(TransientError):
            handler(event, Context())
    if spec.is_repeated:
        with pytest.raises(TransientError):
            handler({}, Context())


def test_schedules_follow_the_windows(deployed: Deployed) -> None:
    """They are created, changed and deleted with budgets."""

    def present() -> list[str]:
        found = deployed.scheduler.list_schedules(GroupName="windows")["Schedules"]
        return sorted(
            deployed.scheduler.get_schedule(GroupName="windows", Name=entry["Name"])["ScheduleExpression"]
            for entry in found
        )

    budget = {"nodes": "0", "schedule": "0 8 * * sun", "duration": "2h"}
    deployed.lab.kubernetes.put(a_node_pool(disruption={"budgets": [budget]}))
    reconcile.handler({}, Context())
    assert present() == ["cron(0 10 ? * SUN *)", "cron(0 8 ? * SUN *)"]
    deployed.lab.kubernetes.put(a_node_pool(disruption={"budgets": [{**budget, "duration": "3h"}]}))
    reconcile.handler({}, Context())
    assert present() == ["cron(0 11 ? * SUN *)", "cron(0 8 ? * SUN *)"]
    deployed.lab.kubernetes.put(a_node_pool())
    reconcile.handler({}, Context())
    assert present() == []


def test_schedules_of_an_earlier_release_wake_what_this_one_has(deployed: Deployed) -> None:
    """Their role may no longer invoke the old target after an update: windows would be missed without a word."""

    def windows(target: str) -> SchedulerWindows:
        return SchedulerWindows(
            deployed.scheduler, group="windows", role_arn="arn:aws:iam::123456789012:role/r", target_arn=target
        )

    function = "arn:aws:lambda:us-east-1:123456789012:function:disrupt"
    wanted = {"w": "cron(0 8 ? * SUN *)"}
    windows(function).replace(wanted)
    windows(f"{function}:live").replace(wanted)
    found = deployed.scheduler.get_schedule(GroupName="windows", Name="w")
    assert found["Target"]["Arn"] == f"{function}:live"


def test_more_than_ten_messages_are_sent_in_several_calls(deployed: Deployed) -> None:
    """SQS accepts ten at once."""
    queue = bootstrap.application().adapters.queues.work
    queue.send({"claim": f"c{n}"} for n in range(23))
    seen = [message for _ in range(4) for message in deployed.messages(deployed.work_url)]
    assert sorted(message["claim"] for message in seen) == sorted(f"c{n}" for n in range(23))


def test_the_environment_is_enough_to_make_an_application(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, a deployed function fails at its first event."""
    bootstrap.use(bootstrap._from_environment)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for name, value in Lab().settings.to_environment().items():
        monkeypatch.setenv(name, value)
    with aws():
        application = bootstrap.application()
        assert application.adapters.settings == Lab().settings
        assert application is bootstrap.application()
        assert application.provisioning is application.provisioning


def test_a_run_that_fails_says_why_and_is_counted(
    deployed: Deployed,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise, operators find an error count without a cause, and a dashboard without a line."""

    def refuse(_: str) -> None:
        raise DeniedError("kube:list pods", "403 pods is forbidden")

    monkeypatch.setattr(deployed.lab.kubernetes, "before_call", refuse)
    with pytest.raises(DeniedError):
        provision.handler({}, Context())
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert any(line.get("FailedRuns") == [1.0] for line in told)
    assert [record.reason for record in caplog.records if record.getMessage() == "run failed"] == ["DeniedError"]  # type: ignore[attr-defined]
    (counted,) = [record.counts for record in caplog.records if record.getMessage() == "counted"]  # type: ignore[attr-defined]
    assert counted["failedRunsDeniedError"] == 1


# The id of one decision, from the ledger through log, metric, event and tag to the node's later steps.


__all__ = ["deployed"]


class Written:
    """What the functions write to their log: a place that is emptied when it is read."""

    def __init__(self) -> None:
        self.stream = StringIO()

    def lines(self) -> list[dict[str, Any]]:
        text = self.stream.getvalue()
        self.stream.seek(0)
        self.stream.truncate()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Written:
    made = Written()
    monkeypatch.setattr(observability, "logger", Logger(service=request.node.name, stream=made.stream))
    return made


def decisions_in(lines: list[dict[str, Any]], kind: str) -> set[str]:
    return {line.get("decision", "") for line in lines if line.get("message") == "decision" and line["kind"] == kind}


def test_one_decision_is_followed_by_its_id(deployed: Deployed, written: Written) -> None:
    lab = deployed.lab
    lab.kubernetes.put(a_pending_pod("p"))
    with redirect_stdout(written.stream):
        provision.handler({}, Context())
    (claim,) = (instance.tags[labels.CLAIM] for instance in lab.cloud.instances())
    (decision,) = (instance.tags[labels.DECISION] for instance in lab.cloud.instances())
    lines = written.lines()
    assert decision
    assert decisions_in(lines, "launch") == {decision}
    assert [line["decisions"] for line in lines if "DecisionsLaunch" in line] == [[decision]]
    told = [lab.kubernetes.raw(resources.EVENTS, name, "default") for name in lab.kubernetes.names(resources.EVENTS)]
    assert {f"(decision {decision})" in event["message"] for event in told} == {True}
    lab.boot()
    with redirect_stdout(written.stream):
        deployed.execute({"claim": claim})
    assert decisions_in(written.lines(), "register") == {decision}
    (node,) = lab.kubernetes.names(resources.NODES)
    assert lab.kubernetes.raw(resources.NODES, node)["metadata"]["annotations"][labels.DECISION] == decision
