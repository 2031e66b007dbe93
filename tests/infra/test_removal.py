"""`cdk destroy`: what is deployed goes with its stack, and whatever functions make besides has somebody who removes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import boto3
import pytest
from moto import mock_aws

from adapters import messages
from infra import start_check
from installation.wiring import FUNCTIONS
from lambdas.handlers import provision, reconcile
from tests.access.template import actions_of, statements_of
from tests.aws_commands import aws_call, aws_commands
from tests.fakes.lab import a_node_pool, a_pending_pod
from tests.infra.conftest import ROOT, synthesize
from tests.infra.test_in_moto import Account
from tests.integration.test_handlers import Context

PAGE: Final = ROOT / "docs" / "how-to" / "remove.md"

KEPT: Final[dict[str, set[str]]] = {
    "fleetwright": {"AWS::S3::Bucket"},
    "fleetwright-fleetwright": set(),
    "fleetwright-fleetwright-state": {"AWS::S3::Bucket", "AWS::DynamoDB::Table"},
}
"""Stack → kinds that stay when it is deleted: what nothing else knows, and what CloudFormation cannot empty."""

REMOVED_BY: Final = {
    "ec2:CreateFleet": "--all --yes",
    "ec2:RunInstances": "--all --yes",
    "ec2:CreateLaunchTemplate": "launch templates",
    "ec2:CreateTags": "",
    "ec2:CreateNetworkInterface": "private-cluster.md",
    "iam:CreateInstanceProfile": "instance profiles",
    "iam:TagInstanceProfile": "",
    "iam:AddRoleToInstanceProfile": "remove-role-from-instance-profile",
    "scheduler:CreateSchedule": "the group with all schedules",
    "logs:CreateLogStream": "",
    "logs:PutLogEvents": "log groups",
    "dynamodb:PutItem": "The table",
    "s3:PutObject": "the bucket",
}
"""Action by which functions make something → words of the page that say how it goes; none where it goes with another."""


@pytest.mark.parametrize("stack", KEPT)
def test_all_goes_with_its_stack_but_what_is_kept_on_purpose(templates: dict[str, dict[str, Any]], stack: str) -> None:
    policies = ("DeletionPolicy", "UpdateReplacePolicy")
    for policy in policies:
        kept = {r["Type"] for r in templates[stack]["Resources"].values() if r.get(policy, "Delete") != "Delete"}
        assert kept == KEPT[stack], policy


def test_whatever_functions_make_is_removed_by_somebody(templates: dict[str, dict[str, Any]]) -> None:
    """The stack does not know of it: without a word here it stays in the account for ever."""
    page = PAGE.read_text(encoding="utf-8")
    makes = {
        action
        for statement in statements_of(templates["fleetwright-fleetwright"])
        for action in actions_of(statement)
        if action.partition(":")[2].startswith(("Create", "Put", "Run", "Tag", "Add")) and "codedeploy" not in action
    }
    assert makes <= set(REMOVED_BY)
    assert [words for words in REMOVED_BY.values() if words not in page] == []


def test_the_stacks_are_deleted_from_the_cluster_to_what_is_shared() -> None:
    """CloudFormation refuses to delete what another stack imports."""
    page = PAGE.read_text(encoding="utf-8")
    order = [page.index(f"destroy {name}`") for name in ("fleetwright-CLUSTER", "fleetwright")]
    assert order == sorted(order)


@pytest.fixture
def account(templates: dict[str, dict[str, Any]]) -> Iterator[Account]:
    with mock_aws():
        yield Account(templates)


@pytest.mark.slow  # `make lint-templates` runs it
def test_a_removal_as_on_the_page_leaves_nothing(account: Account) -> None:
    """Functions launch a node and keep schedules; the stacks are deleted in the page's order, with the page's commands."""
    lab = account.lab
    window = {"nodes": "0", "schedule": "0 8 * * sun", "duration": "2h"}
    lab.kubernetes.put(a_pending_pod("p"), a_node_pool(disruption={"budgets": [window]}))
    for function, handler in (("provision", provision.handler), ("reconcile", reconcile.handler)):
        account.use(function)
        handler({}, Context())
    before = remains(account.session)
    assert sorted(kind for kind, found in before.items() if not found) == []
    account.destroy("fleetwright-fleetwright")
    left = {kind: found for kind, found in remains(account.session).items() if found}
    assert left == {"buckets": before["buckets"], "tables": before["tables"]}
    stacks = PAGE.read_text(encoding="utf-8").partition("## The stacks")[2].partition("Check that nothing remains")[0]
    steps = re.split(r"^\d\. ", stacks, flags=re.MULTILINE)
    the_state, the_shared = steps[3], steps[4]
    play(account, the_state, "fleetwright-fleetwright-state")
    bucket = next(iter(remains(account.session)["buckets"]))
    account.destroy("fleetwright")
    play(account, the_shared, "fleetwright", bucket=bucket)
    assert {kind: found for kind, found in remains(account.session).items() if found} == {}


@mock_aws
def test_the_check_for_what_remains_sees_no_other_cluster() -> None:
    """`list-schedule-groups --name-prefix fleetwright-prod` lists the group of prod-eu, too."""
    session = boto3.Session("AKIA", "secret", region_name="us-east-1")
    client = session.client("scheduler")
    for cluster in ("prod", "prod-eu"):
        client.create_schedule_group(Name=f"fleetwright-{cluster}")
    check = PAGE.read_text(encoding="utf-8").partition("Check that nothing remains")[2]
    (command,) = (one for one in aws_commands(check) if one.startswith("scheduler "))
    call = aws_call(command.replace("CLUSTER", "prod"))
    ask = getattr(client, re.sub(r"(?<!^)(?=[A-Z])", "_", call.operation).lower())
    assert ask(**call.arguments)["Name"] == "fleetwright-prod"
    client.delete_schedule_group(Name="fleetwright-prod")
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        ask(**call.arguments)


def test_the_shared_bucket_is_not_taken_for_the_ledger_of_a_cluster(templates: dict[str, dict[str, Any]]) -> None:
    """CloudFormation names it by stack and logical id; the ledger of a cluster called `market` began as the page said."""
    (bucket,) = (i for i, r in templates["fleetwright"]["Resources"].items() if r["Type"] == "AWS::S3::Bucket")
    assert f"its name begins with `fleetwright-{bucket.lower()}-`" in PAGE.read_text(encoding="utf-8")


def play(account: Account, step: str, stack: str, **known: str) -> None:
    """Run the commands of a step, with names in place of its capital letters."""
    session, names, unprotected = account.session, {"bucket": "", "table": "", **known}, set[str]()
    for written in aws_commands(step):
        command = written.replace("fleetwright-CLUSTER-state", stack)
        command = command.replace("TABLE", names["table"]).replace("BUCKET", names["bucket"])
        call = aws_call(command)
        if (call.service, call.operation) == ("s3", "rb"):
            bucket = session.resource("s3").Bucket(names["bucket"])
            bucket.objects.delete()
            bucket.delete()
        elif call.operation == "UpdateTerminationProtection":  # moto has none
            unprotected.add(call.arguments["StackName"])
            assert call.arguments["EnableTerminationProtection"] is False
        elif call.operation == "DeleteStack":
            assert call.arguments["StackName"] in unprotected
            account.destroy(call.arguments["StackName"])
        else:
            method = re.sub(r"(?<!^)(?=[A-Z])", "_", call.operation).lower()
            answer = getattr(session.client(call.service), method)(**call.arguments)
            for resource in answer.get("StackResources", ()):
                names |= {resource["ResourceType"].rpartition("::")[2].lower(): resource["PhysicalResourceId"]}


def remains(session: boto3.Session) -> dict[str, list[str]]:
    """What an account has of all that the templates make and moto knows."""
    versions = session.client("lambda").list_functions(FunctionVersion="ALL")["Functions"]
    groups = session.client("scheduler").list_schedule_groups()["ScheduleGroups"]
    return {
        "functions": [function["FunctionArn"] for function in versions],
        "roles": [role["RoleName"] for role in session.client("iam").list_roles()["Roles"]],
        "queues": session.client("sqs").list_queues().get("QueueUrls", []),
        "topics": [topic["TopicArn"] for topic in session.client("sns").list_topics()["Topics"]],
        "log groups": [group["logGroupName"] for group in session.client("logs").describe_log_groups()["logGroups"]],
        "parameters": [found["Name"] for found in session.client("ssm").describe_parameters()["Parameters"]],
        "schedules": [found["Name"] for found in session.client("scheduler").list_schedules()["Schedules"]],
        "schedule groups": [group["Name"] for group in groups if group["Name"] != "default"],
        "buckets": [bucket["Name"] for bucket in session.client("s3").list_buckets()["Buckets"]],
        "tables": session.client("dynamodb").list_tables()["TableNames"],
    }


# An update: every trigger follows the alias, which CodeDeploy moves to the new version step by step, and back on an alarm.


Resources = dict[str, dict[str, Any]]

INVOKING: Final = {
    "AWS::Events::Rule": lambda p: [target["Arn"] for target in p["Targets"]],
    "AWS::Scheduler::Schedule": lambda p: [p["Target"]["Arn"]],
    "AWS::Lambda::EventSourceMapping": lambda p: [p["FunctionName"]],
    "AWS::Logs::SubscriptionFilter": lambda p: [p["DestinationArn"]],
    "AWS::Lambda::EventInvokeConfig": lambda p: [p["Qualifier"]],
    "AWS::Lambda::Permission": lambda p: [p["FunctionName"]],
}
"""Kind → what it says of the function that it invokes, or that may be invoked."""


def resources_of(templates: dict[str, dict[str, Any]], stack: str = "fleetwright-fleetwright") -> Resources:
    return dict(templates[stack]["Resources"])


def of_type(resources: Resources, kind: str) -> Resources:
    return {name: resource for name, resource in resources.items() if resource["Type"] == kind}


@pytest.fixture(scope="module")
def resources(templates: dict[str, dict[str, Any]]) -> Resources:
    return resources_of(templates)


def test_every_trigger_invokes_an_alias(resources: Resources) -> None:
    """One that named the function itself would run the newest code from the first second, and no roll-back would reach it."""
    aliases = of_type(resources, "AWS::Lambda::Alias")
    assert len(aliases) == len(FUNCTIONS)
    for kind, invoked in INVOKING.items():
        found = of_type(resources, kind)
        assert found
        for name, resource in found.items():
            for target in invoked(resource["Properties"]):
                assert [alias for alias in aliases if alias in json.dumps(target)], f"{name} invokes {target}"


def test_windows_wake_the_alias(resources: Resources) -> None:
    """`reconcile` writes this ARN into EventBridge's schedules; their role invokes what has a schedule, and nothing else."""
    (arn,) = {
        json.dumps(variables["DISRUPT_FUNCTION_ARN"])
        for resource in of_type(resources, "AWS::Lambda::Function").values()
        if "DISRUPT_FUNCTION_ARN" in (variables := resource["Properties"].get("Environment", {}).get("Variables", {}))
    }
    (disrupt,) = (i for i in of_type(resources, "AWS::Lambda::Function") if i.startswith("disruptFunction"))
    assert json.loads(arn) == {"Fn::Join": ["", [{"Fn::GetAtt": [disrupt, "Arn"]}, ":live"]]}
    (alias,) = (i for i in of_type(resources, "AWS::Lambda::Alias") if i.startswith("disrupt"))
    invocations = [
        statement["Resource"]["Ref"]
        for name, policy in of_type(resources, "AWS::IAM::Policy").items()
        if name.startswith("BudgetWindows")
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Action"] == "lambda:InvokeFunction"
    ]
    scheduled = {spec.name.replace("_", "") for spec in FUNCTIONS if spec.schedules}
    assert alias in invocations
    assert {re.sub(r"Live[0-9A-F]{8}$", "", name) for name in invocations} == scheduled


def test_an_update_is_checked_and_then_watched(resources: Resources) -> None:
    alarms = of_type(resources, "AWS::CloudWatch::Alarm")
    watched = {"failed-runs", "refused-calls", "denied", "stopped-itself", "no-clean-run"}
    groups = of_type(resources, "AWS::CodeDeploy::DeploymentGroup")
    assert {group["Properties"]["DeploymentGroupName"] for group in groups.values()} == {s.name for s in FUNCTIONS}
    for group in groups.values():
        config = group["Properties"]["AlarmConfiguration"]
        names = {alarms[alarm["Name"]["Ref"]]["Properties"]["AlarmName"] for alarm in config["Alarms"]}
        assert config["Enabled"]
        assert {name.removeprefix("fleetwright-fleetwright-") for name in names} == watched
        events = group["Properties"]["AutoRollbackConfiguration"]["Events"]
        assert {"DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_ALARM"} <= set(events)
    for alias in of_type(resources, "AWS::Lambda::Alias").values():
        update = alias["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]
        assert update["DeploymentGroupName"]["Ref"] in groups
        assert update["BeforeAllowTrafficHook"]["Ref"] in of_type(resources, "AWS::Lambda::Function")
    (canary,) = of_type(resources, "AWS::CodeDeploy::DeploymentConfig").values()
    assert canary["Properties"]["TrafficRoutingConfig"]["TimeBasedCanary"] == {
        "CanaryInterval": 20,
        "CanaryPercentage": 50,
    }


def test_nothing_waits_for_itself(resources: Resources) -> None:
    """CloudFormation refuses resources that wait for each other in a circle: an alarm knows a function, a group an alarm."""
    waits = {name: references(resource, set(resources)) for name, resource in resources.items()}
    done: set[str] = set()
    while ready := {name for name, needs in waits.items() if name not in done and needs <= done}:
        done |= ready
    assert sorted(set(resources) - done) == []


def references(written: Any, names: set[str]) -> set[str]:
    """The resources that some part of a template names."""
    if isinstance(written, list):
        return set().union(*(references(item, names) for item in written))
    if not isinstance(written, dict):
        return set()
    found = references(list(written.values()), names)
    found |= {name for name in (written.get("Ref"), *written.get("Fn::GetAtt", [])[:1]) if name in names}
    needed = written.get("DependsOn", [])
    return found | ({needed} if isinstance(needed, str) else set(needed)) & names


def test_the_check_knows_every_version(resources: Resources) -> None:
    (versions,) = (
        json.dumps(found)
        for resource in of_type(resources, "AWS::Lambda::Function").values()
        if (found := resource["Properties"].get("Environment", {}).get("Variables", {}).get("VERSIONS"))
    )
    for alias in of_type(resources, "AWS::Lambda::Alias").values():
        assert alias["Properties"]["FunctionVersion"]["Fn::GetAtt"][0] in versions
    assert all(f'\\"{spec.name}\\":' in versions for spec in FUNCTIONS)


@pytest.mark.slow  # a synthesis of its own: `make lint-templates` runs it
def test_an_update_at_once_is_still_checked_and_stopped_by_no_alarm(tmp_path: Any) -> None:
    """CodeDeploy stops a deployment while an alarm of its group is on, so the update that repairs it could not be deployed."""
    resources = resources_of(synthesize(tmp_path, {"canaryMinutes": "0"}))
    assert of_type(resources, "AWS::CodeDeploy::DeploymentConfig") == {}
    groups = of_type(resources, "AWS::CodeDeploy::DeploymentGroup").values()
    assert {group["Properties"]["DeploymentConfigName"] for group in groups} == {"CodeDeployDefault.LambdaAllAtOnce"}
    for alias in of_type(resources, "AWS::Lambda::Alias").values():
        assert alias["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]["BeforeAllowTrafficHook"]
    for group in groups:
        assert not group["Properties"].get("AlarmConfiguration", {}).get("Alarms")
        events = group["Properties"]["AutoRollbackConfiguration"]["Events"]
        assert "DEPLOYMENT_STOP_ON_ALARM" not in events
        assert "DEPLOYMENT_FAILURE" in events
    assert of_type(resources, "AWS::CloudWatch::Alarm"), "they still notify"


def test_the_check_asks_what_the_handlers_understand() -> None:
    assert messages.is_start_check(start_check.EVENT)


def test_no_deployment_sets_the_kill_switch(resources: Resources) -> None:
    """CloudFormation writes every property when one changes: another text would turn an operator's `stop` into `run`.

    This is the resource of the first release. Do not change it; to word it otherwise, find another place for the words.
    """
    (switch,) = of_type(resources, "AWS::SSM::Parameter").values()
    assert switch == {
        "Type": "AWS::SSM::Parameter",
        "Properties": {
            "AllowedPattern": "run|pause-disruption|stop",
            "Description": "Fleetwright on fleetwright: run | pause-disruption | stop (docs/how-to/stop-it.md)",
            "Name": "/fleetwright/fleetwright/mode",
            "Type": "String",
            "Value": "run",
        },
    }
