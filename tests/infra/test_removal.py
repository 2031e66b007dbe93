"""`cdk destroy`: what is deployed goes with its stack, and whatever functions make besides has somebody who removes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from lambdas.handlers import provision
from tests.fakes.lab import a_pending_pod
from tests.infra.conftest import ROOT
from tests.infra.policies import actions_of, statements_of
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
    kept = {r["Type"] for r in templates[stack]["Resources"].values() if r.get("DeletionPolicy") == "Retain"}
    assert kept == KEPT[stack]


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
def test_a_destroyed_installation_leaves_nothing_but_its_data(account: Account) -> None:
    lab = account.lab
    lab.kubernetes.put(a_pending_pod("p"))
    account.use("provision")
    provision.handler({}, Context())
    before = remains(account.session)
    assert all(before.values())
    cloudformation = account.session.client("cloudformation")
    cloudformation.delete_stack(StackName="fleetwright-fleetwright")
    left = remains(account.session)
    assert {kind: found for kind, found in left.items() if found} == {
        "buckets": before["buckets"],
        "tables": before["tables"],
    }


def remains(session: boto3.Session) -> dict[str, list[str]]:
    """What an account has of all that the templates make and moto knows."""
    versions = session.client("lambda").list_functions(FunctionVersion="ALL")["Functions"]
    try:
        mode = [session.client("ssm").get_parameter(Name="/fleetwright/fleetwright/mode")["Parameter"]["Value"]]
    except ClientError:
        mode = []
    return {
        "functions": [function["FunctionArn"] for function in versions],
        "roles": [role["RoleName"] for role in session.client("iam").list_roles()["Roles"]],
        "queues": session.client("sqs").list_queues().get("QueueUrls", []),
        "mode": mode,
        "buckets": [bucket["Name"] for bucket in session.client("s3").list_buckets()["Buckets"]],
        "tables": session.client("dynamodb").list_tables()["TableNames"],
    }
