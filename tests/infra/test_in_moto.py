"""The templates, created in an account of moto's, make every resource that the functions' environment names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from adapters.composition.functions import Adapters
from core.manifests.wire import resources
from core.model.catalogue import Catalogue
from installation.settings import Settings
from installation.wiring import BY_NAME
from lambdas import bootstrap
from lambdas.application.controllers import Application
from lambdas.handlers import execute, interrupt, provision, reconcile
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod
from tests.fakes.world import FakeCatalogues
from tests.integration.test_handlers import Context, decided

MADE = {
    "AWS::DynamoDB::Table",
    "AWS::S3::Bucket",
    "AWS::SQS::Queue",
    "AWS::IAM::Role",
    "AWS::Lambda::Function",
    "AWS::Lambda::Version",
    "AWS::Logs::LogGroup",
    "AWS::SNS::Topic",
    "AWS::SSM::Parameter",
}
"""Kinds of their own that moto makes; it makes schedule groups only when asked directly."""

pytestmark = pytest.mark.slow


class Account:
    """Both stacks in an empty account, and the handlers in the environment that their functions have there."""

    def __init__(self, templates: dict[str, dict[str, Any]]) -> None:
        self.session = boto3.Session(aws_access_key_id="k", aws_secret_access_key="s", region_name="us-east-1")
        self._groups: dict[str, list[str]] = {}
        self._create("fleetwright", templates)
        self._create("fleetwright-fleetwright-state", templates)
        self._create("fleetwright-fleetwright", templates)
        self.lab = Lab()

    def environment(self, function: str) -> dict[str, str]:
        """What Lambda would start the function with."""
        functions = self.session.client("lambda").list_functions()["Functions"]
        (found,) = (f for f in functions if f["Handler"] == BY_NAME[function].handler)
        return dict(found["Environment"]["Variables"])

    def use(self, function: str) -> None:
        """Let handlers run as this function from now on; machines, cluster and prices are fakes."""
        adapters = Adapters(
            Settings.from_environment(self.environment(function)),
            self.session,
            self.lab.clock,
            kubernetes=self.lab.kubernetes,
            catalogues=FakeCatalogues(Catalogue(default=self.lab.types)),
        )
        adapters.cloud = self.lab.cloud
        bootstrap.use(lambda: Application(adapters))

    def messages(self, url: str) -> list[dict[str, Any]]:
        found = self.session.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        return [json.loads(message["Body"]) for message in found.get("Messages", ())]

    def destroy(self, name: str) -> None:
        """Delete a stack as CloudFormation does: a group with its schedules, too, and nothing that is kept on purpose."""
        for group in self._groups.pop(name, ()):
            scheduler = self.session.client("scheduler")
            for schedule in scheduler.list_schedules(GroupName=group)["Schedules"]:
                scheduler.delete_schedule(GroupName=group, Name=schedule["Name"])
            scheduler.delete_schedule_group(Name=group)
        self.session.client("cloudformation").delete_stack(StackName=name)

    def _create(self, name: str, templates: dict[str, dict[str, Any]]) -> None:
        template = templates[name]
        resources = {i: _without_code(r) for i, r in template["Resources"].items() if r["Type"] in MADE}
        outputs = {key: told for key, told in template.get("Outputs", {}).items() if "Export" in told}
        self.session.client("cloudformation").create_stack(
            StackName=name,
            TemplateBody=json.dumps({"Resources": resources, "Outputs": outputs}),
            Capabilities=["CAPABILITY_NAMED_IAM"],
        )
        for resource in template["Resources"].values():
            if resource["Type"] == "AWS::Scheduler::ScheduleGroup":
                group = resource["Properties"]["Name"]
                self.session.client("scheduler").create_schedule_group(Name=group)
                self._groups.setdefault(name, []).append(group)


def _without_code(resource: dict[str, Any]) -> dict[str, Any]:
    """A function with a line of code in place of the bundle, which is in no bucket here; nothing waits for what is not made."""
    properties = dict(resource.get("Properties", {}))
    if resource["Type"] == "AWS::Lambda::Function":
        properties["Code"] = {"ZipFile": "pass"}
        properties.pop("LoggingConfig", None)
    kept = {"DeletionPolicy": resource["DeletionPolicy"]} if "DeletionPolicy" in resource else {}
    return {"Type": resource["Type"], "Properties": properties, **kept}


@pytest.fixture
def account(templates: dict[str, dict[str, Any]]) -> Iterator[Account]:
    with mock_aws():
        yield Account(templates)
    bootstrap.use(bootstrap._from_environment)


def test_a_node_comes_and_goes_in_what_the_templates_make(account: Account) -> None:
    """Otherwise, the deployment would find a setting that names a missing resource, or one of another kind."""
    lab, context = account.lab, Context()
    lab.kubernetes.put(a_pending_pod("p"))
    account.use("provision")
    assert decided(provision.handler({}, context)) == [("launch", "Launched")]
    lab.boot()
    claim = lab.cloud.instances()[0].tags["fleetwright.dev/claim"]
    records = {"Records": [{"messageId": "1", "body": json.dumps({"claim": claim})}]}
    account.use("execute")
    assert decided(execute.handler(records, context)) == [("register", "NodeJoined")]
    lab.clock.advance(seconds=3)
    assert execute.handler(records, context)["boundPods"] == 1
    lab.clock.advance(seconds=3)
    assert decided(execute.handler(records, context)) == [("initialize", "NodeReady")]
    account.use("interrupt")
    event = {
        "source": "aws.ec2",
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "detail": {"instance-id": lab.cloud.instances()[0].instance_id},
    }
    assert ("interrupt", "SpotInterrupted") in decided(interrupt.handler(event, context))
    work = account.environment("execute")["WORK_QUEUE_URL"]
    assert claim in [message.get("claim") for message in account.messages(work)]


def test_windows_become_schedules_of_the_group_that_the_template_makes(account: Account) -> None:
    budget = {"nodes": "0", "schedule": "0 8 * * sun", "duration": "2h"}
    account.lab.kubernetes.put(a_node_pool(disruption={"budgets": [budget]}))
    account.use("reconcile")
    reconcile.handler({}, Context())
    group = account.environment("reconcile")["SCHEDULE_GROUP"]
    schedules = account.session.client("scheduler").list_schedules(GroupName=group)["Schedules"]
    assert schedules
    targets = {schedule["Target"]["Arn"] for schedule in schedules}
    functions = account.session.client("lambda").list_functions()["Functions"]
    (disrupt,) = (f["FunctionArn"] for f in functions if f["Handler"] == BY_NAME["disrupt"].handler)
    assert targets == {f"{disrupt}:live"}
    assert account.lab.kubernetes.raw(resources.NODE_POOLS, "default")
