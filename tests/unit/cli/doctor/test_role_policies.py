"""What the policies of a role allow, asked of IAM: its own, an attached one of the account, one of AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from cli.doctor.account import Account
from cli.doctor.role_policies import NEEDED, is_denied, refused, statements
from tests.unit.cli.doctor.answering_account import AnsweringAccount
from tests.unit.cli.doctor.test_node_roles import TRUST

ACTIONS = [action for need in NEEDED.values() for action in need.actions]


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[boto3.Session]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws(config={"iam": {"load_aws_managed_policies": True}}):
        made = boto3.Session(region_name="eu-west-1")
        made.client("iam").create_role(RoleName="Nodes", AssumeRolePolicyDocument=TRUST)
        yield made


def missing(session: boto3.Session) -> list[str]:
    return refused(list(statements(Account(session, "prod", "fleetwright-prod"), "Nodes")), ACTIONS)


def test_policies_of_aws_have_what_nodes_need(session: boto3.Session) -> None:
    iam = session.client("iam")
    assert missing(session) == ACTIONS
    for policy in NEEDED:
        iam.attach_role_policy(RoleName="Nodes", PolicyArn=f"arn:aws:iam::aws:policy/{policy}")
    assert missing(session) == []


def test_the_policy_for_nodes_of_auto_mode_is_not_enough(session: boto3.Session) -> None:
    arn = "arn:aws:iam::aws:policy/AmazonEKSWorkerNodeMinimalPolicy"
    session.client("iam").attach_role_policy(RoleName="Nodes", PolicyArn=arn)
    assert "ec2:DescribeInstances" in missing(session)


def test_a_policy_of_the_account_and_one_of_the_role_count(session: boto3.Session) -> None:
    iam = session.client("iam")
    documents = [
        json.dumps({"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": actions, "Resource": "*"}})
        for actions in (["ecr:*"], "ec2:Describe*")
    ]
    own = iam.create_policy(PolicyName="pulls", PolicyDocument=documents[0])["Policy"]["Arn"]
    iam.attach_role_policy(RoleName="Nodes", PolicyArn=own)
    assert missing(session) == ["ec2:DescribeInstances"]
    iam.put_role_policy(RoleName="Nodes", PolicyName="Own", PolicyDocument=documents[1])
    assert missing(session) == []


PULLING = [action for action in ACTIONS if action.startswith("ecr:")]


@pytest.mark.parametrize(
    ("denies", "gone"),
    [
        ({"Action": "ecr:*", "Resource": "*"}, PULLING),
        ({"Action": ["ecr:BatchGetImage", "s3:*"], "Resource": ["*"]}, ["ecr:BatchGetImage"]),
        ({"NotAction": "ecr:*", "Resource": "*"}, ["ec2:DescribeInstances"]),
        ({"Action": "*", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}, []),
        ({"Action": "ecr:*", "Resource": "arn:aws:ecr:eu-west-1:123456789012:repository/secret"}, []),
        ({"Action": "ecr:*", "NotResource": "arn:aws:ecr:eu-west-1:123456789012:repository/own"}, []),
    ],
)
def test_what_is_denied_counts_beside_an_allow(denies: dict[str, Any], gone: list[str]) -> None:
    """A role with everything allowed and ECR denied was called usable; a Deny of some resources, or some requests, is none."""
    allows = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    assert refused([allows], ACTIONS) == []
    assert refused([allows, {"Effect": "Deny", **denies}], ACTIONS) == gone
    assert refused([{"Effect": "Deny", **denies}, allows], ACTIONS) == gone


def test_statements_of_own_and_attached_policies_are_read_page_by_page() -> None:
    """A policy that went meanwhile, and one without a default version, have none."""
    one, two, three = ({"Effect": "Allow", "Action": name} for name in "abc")
    account = AnsweringAccount(
        ListRolePolicies={"PolicyNames": ["Own", "Gone", "Empty"]},
        GetRolePolicy=[{"PolicyDocument": {"Statement": one}}, "NoSuchEntity", {"PolicyDocument": {"Statement": None}}],
        ListAttachedRolePolicies=[
            {"AttachedPolicies": [{"PolicyArn": "arn:p1"}], "Marker": "m"},
            {"AttachedPolicies": [{"PolicyArn": "arn:p2"}, {"PolicyArn": "arn:p3"}]},
        ],
        GetPolicy=[{"Policy": {"DefaultVersionId": "v2"}}, "NoSuchEntity", {"Policy": {"DefaultVersionId": "v1"}}],
        GetPolicyVersion=[{"PolicyVersion": {"Document": {"Statement": [two, three]}}}, "NoSuchEntity"],
    )
    assert list(statements(account, "Nodes")) == [one, two, three]
    assert account.asked == [
        ("ListRolePolicies", {"RoleName": "Nodes"}),
        *(("GetRolePolicy", {"RoleName": "Nodes", "PolicyName": name}) for name in ("Own", "Gone", "Empty")),
        ("ListAttachedRolePolicies", {"RoleName": "Nodes"}),
        ("GetPolicy", {"PolicyArn": "arn:p1"}),
        ("GetPolicyVersion", {"PolicyArn": "arn:p1", "VersionId": "v2"}),
        ("ListAttachedRolePolicies", {"RoleName": "Nodes", "Marker": "m"}),
        ("GetPolicy", {"PolicyArn": "arn:p2"}),
        ("GetPolicy", {"PolicyArn": "arn:p3"}),
        ("GetPolicyVersion", {"PolicyArn": "arn:p3", "VersionId": "v1"}),
    ]


@pytest.mark.parametrize(
    ("statement", "is_so"),
    [
        ({"Resource": "*"}, True),
        ({"Resource": ["arn:x", "*"]}, True),
        ({"Resource": "arn:aws:*"}, False),
        ({"Resource": None}, False),
        ({}, False),
        ({"Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}, False),
        ({"Resource": "*", "Condition": {}}, True),
        ({"Resource": "*", "Effect": "Allow"}, False),
        ({"Resource": "*", "Action": "s3:*"}, False),
    ],
)
def test_a_denial_counts_only_if_it_always_applies(statement: dict[str, Any], is_so: bool) -> None:
    stated = [{"Effect": "Deny", "Action": "ec2:Describe*", **statement}]
    assert is_denied(stated, "ec2:DescribeInstances") == is_so
    allowed = {"Effect": "Allow", "Action": "*"}
    assert refused([allowed, *stated], ["ec2:DescribeInstances"]) == (["ec2:DescribeInstances"] if is_so else [])
