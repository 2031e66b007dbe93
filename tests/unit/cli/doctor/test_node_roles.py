"""A role of nodes with a path has an ARN that its name alone does not tell."""

from __future__ import annotations

import json
from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from cli.doctor.account import Account
from cli.doctor.finding import OK, PROBLEM, AccountFinding
from cli.doctor.node_roles import node_roles
from tests.builders import NOW

TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})


class Deployed(Account):
    """An account with a stack, and the mode of its functions."""

    mode = "act"

    def is_deployed(self) -> bool:
        return True

    def settings(self) -> dict[str, str]:
        return {"MODE": self.mode}


class Shadow(Deployed):
    """An account whose functions launch nothing."""

    mode = "shadow"


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[boto3.Session]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield boto3.Session(region_name="eu-west-1")


def roles_may_be_passed(session: boto3.Session, *passed: str) -> None:
    """The role of a function that may pass these roles of the account."""
    arns = [f"arn:aws:iam::123456789012:role/{name}" for name in passed]
    passes = {"Effect": "Allow", "Action": "iam:PassRole", "Resource": arns[0] if len(arns) == 1 else arns}
    granted = [passes] if arns else []
    launches = {"Effect": "Allow", "Action": ["ec2:CreateFleet", "ec2:RunInstances"], "Resource": "*"}
    iam, role = session.client("iam"), "fleetwright-prod-eu-west-1-provision"
    iam.create_role(RoleName=role, AssumeRolePolicyDocument=TRUST)
    policy = json.dumps({"Version": "2012-10-17", "Statement": [launches, *granted]})
    iam.put_role_policy(RoleName=role, PolicyName="DefaultPolicy", PolicyDocument=policy)


def found(session: boto3.Session, *passed: str) -> AccountFinding:
    """The result where the functions may pass these roles."""
    roles_may_be_passed(session, *passed)
    return node_roles("node-roles", Deployed(session, "prod", "fleetwright-prod"), NOW)


def a_role(session: boto3.Session, name: str, path: str = "/") -> None:
    session.client("iam").create_role(RoleName=name, Path=path, AssumeRolePolicyDocument=TRUST)


def test_roles_that_exist_under_their_path_are_right(session: boto3.Session) -> None:
    a_role(session, "Nodes", "/team/")
    a_role(session, "Others")
    told = found(session, "team/Nodes", "Others")
    assert (told.state, told.says) == (OK, "the functions may pass Others, team/Nodes")


def test_a_role_whose_path_was_left_out_is_named_with_it(session: boto3.Session) -> None:
    a_role(session, "Nodes", "/team/")
    told = found(session, "Nodes")
    arn = "arn:aws:iam::123456789012:role/"
    assert told.state == PROBLEM
    assert told.says == f"the functions may pass {arn}Nodes, and the role is {arn}team/Nodes: launches fail"


def test_what_is_too_long_for_one_policy_is_in_another(session: boto3.Session) -> None:
    """The CDK moves statements of a long policy into managed ones, in a VPC those about roles of nodes."""
    a_role(session, "Nodes")
    roles_may_be_passed(session, "Nodes")
    iam, role = session.client("iam"), "fleetwright-prod-eu-west-1-provision"
    document = iam.get_role_policy(RoleName=role, PolicyName="DefaultPolicy")["PolicyDocument"]
    iam.delete_role_policy(RoleName=role, PolicyName="DefaultPolicy")
    overflow = iam.create_policy(PolicyName="Overflow", PolicyDocument=json.dumps(document))["Policy"]["Arn"]
    iam.attach_role_policy(RoleName=role, PolicyArn=overflow)
    told = node_roles("node-roles", Deployed(session, "prod", "fleetwright-prod"), NOW)
    assert told.says == "the functions may pass Nodes"


def test_a_role_that_does_not_exist_is_named(session: boto3.Session) -> None:
    assert found(session, "Nodes").says == "the account has no role Nodes: launches fail"


def test_functions_that_may_pass_no_role_launch_nothing(session: boto3.Session) -> None:
    """The policy was edited by hand, or the role deleted: every launch fails, so that this is a problem."""
    without = found(session)
    role = "fleetwright-prod-eu-west-1-provision"
    assert (without.state, without.says) == (
        PROBLEM,
        f"the role {role} may pass no role of nodes, or does not exist: launches fail",
    )
    assert without.mends.endswith("# with the names of roles in nodeRoles")
    iam = session.client("iam")
    iam.delete_role_policy(RoleName=role, PolicyName="DefaultPolicy")
    iam.delete_role(RoleName=role)
    assert node_roles("node-roles", Deployed(session, "prod", "fleetwright-prod"), NOW) == without


def test_a_shadow_passes_no_role(session: boto3.Session) -> None:
    roles_may_be_passed(session)
    told = node_roles("node-roles", Shadow(session, "prod", "fleetwright-prod"), NOW)
    assert (told.state, told.says) == (OK, "the functions may pass none")


def test_a_policy_may_have_one_statement_without_a_list(session: boto3.Session) -> None:
    a_role(session, "Nodes")
    roles_may_be_passed(session, "Nodes")
    iam, role = session.client("iam"), "fleetwright-prod-eu-west-1-provision"
    document = iam.get_role_policy(RoleName=role, PolicyName="DefaultPolicy")["PolicyDocument"]
    alone = json.dumps({**document, "Statement": document["Statement"][1]})
    iam.put_role_policy(RoleName=role, PolicyName="DefaultPolicy", PolicyDocument=alone)
    told = node_roles("node-roles", Deployed(session, "prod", "fleetwright-prod"), NOW)
    assert (told.state, told.says) == (OK, "the functions may pass Nodes")
