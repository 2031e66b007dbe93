"""What is said of the roles of EC2NodeClasses: several problems in one line, the repairs in an order that can be pasted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cli.doctor import checks
from cli.doctor.finding import OK, PROBLEM, UNKNOWN
from tests.builders import NOW
from tests.unit.cli.doctor.answering_account import DEPLOYS, AnsweringAccount

ARN = "arn:aws:iam::123456789012:role/"
ALLOWED = {"PolicyDocument": {"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}}
ENTRY = {"accessEntry": {"type": "EC2_LINUX"}}
EKS = {"amiSelectorTerms": [{"alias": "al2023@latest"}]}


def node_class(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {**EKS, **spec}}


def account(*classes: dict[str, Any], config_map: Any = None, **answers: Any) -> AnsweringAccount:
    """An account before the deployment in which the role Nodes is right."""
    found = AnsweringAccount(
        cluster={"accessConfig": {"authenticationMode": "API_AND_CONFIG_MAP"}},
        **{
            "GetRole": {"Role": {"Arn": f"{ARN}Nodes"}},
            "ListRolePolicies": {"PolicyNames": ["Own"]},
            "GetRolePolicy": ALLOWED,
            "DescribeAccessEntry": ENTRY,
            **answers,
        },
    )
    api: Any = SimpleNamespace(list=lambda _: list(classes), find=lambda *_: config_map)
    found.__dict__["api"] = api
    return found


def told(given: AnsweringAccount) -> tuple[str, str, str]:
    found = checks.finding_of("class-roles", given, NOW)
    return found.state, found.says, found.mends


USABLE = (OK, "the roles of all EC2NodeClasses are usable: Nodes", "")
JOINS = "aws eks create-access-entry --region eu-west-1 --cluster-name prod --principal-arn "


def test_a_role_is_asked_for_once_by_its_name_alone() -> None:
    given = account(node_class("a", role="Nodes"), node_class("b", role="team/Nodes"))
    assert told(given) == USABLE
    assert [asked for call, asked in given.asked if call == "GetRole"] == [{"RoleName": "Nodes"}]
    assert ("DescribeAccessEntry", {"clusterName": "prod", "principalArn": f"{ARN}Nodes"}) in given.asked


def test_a_class_without_a_role_or_with_an_empty_spec_has_none() -> None:
    empty = {"metadata": {"name": "empty"}, "spec": None}
    assert told(account(empty, node_class("a", role=None, instanceProfile=None))) == (
        OK,
        "the roles of all EC2NodeClasses are usable: ",
        "",
    )


def test_the_role_of_an_instance_profile_is_that_of_the_class() -> None:
    profile = {"InstanceProfile": {"Roles": [{"RoleName": "Nodes"}, {"RoleName": "Other"}]}}
    given = account(node_class("a", instanceProfile="own"), GetInstanceProfile=profile)
    assert told(given) == USABLE
    assert ("GetInstanceProfile", {"InstanceProfileName": "own"}) in given.asked
    both = account(node_class("a", instanceProfile="own", role="Nodes"), GetInstanceProfile="AccessDenied")
    assert told(both) == USABLE


@pytest.mark.parametrize("answer", ["NoSuchEntity", {"InstanceProfile": None}, {"InstanceProfile": {"Roles": None}}])
def test_a_profile_without_a_role_is_named(answer: Any) -> None:
    assert told(account(node_class("a", instanceProfile="own"), GetInstanceProfile=answer)) == (
        PROBLEM,
        "EC2NodeClass a has the instance profile own, which does not exist or has no role",
        "aws iam get-instance-profile --instance-profile-name own",
    )


def test_a_role_that_is_missing_is_named_with_its_classes() -> None:
    one = account(node_class("a", role="Nodse"), GetRole="NoSuchEntity")
    assert told(one) == (
        PROBLEM,
        "EC2NodeClass a has the role Nodse, which the account does not have: launches fail",
        "kubectl edit ec2nodeclasses a",
    )


@pytest.mark.parametrize(
    ("data", "joins"),
    [
        (None, False),
        ({"data": None}, False),
        ({"data": {"mapRoles": None}}, False),
        ({"data": {"mapRoles": f"- rolearn: {ARN}Nodes\n  groups: [system:nodes]"}}, True),
        ({"data": {"mapRoles": f"- rolearn: {ARN}Nodes2\n"}}, False),
        ({"data": {"mapRoles": f"- rolearn: {ARN}Nodes-b\n"}}, False),
        ({"data": {"mapRoles": f"- rolearn: {ARN}team/Nodes\n"}}, False),
    ],
)
def test_nodes_join_by_an_access_entry_or_by_the_config_map(data: Any, joins: bool) -> None:
    cannot = (
        PROBLEM,
        "nodes with the role Nodes of EC2NodeClass a cannot join: it has no access entry of type EC2_LINUX",
        f"{JOINS}{ARN}Nodes --type EC2_LINUX",
    )
    for entry in ("ResourceNotFoundException", {"accessEntry": {"type": "STANDARD"}}, {"accessEntry": None}):
        given = account(node_class("a", role="Nodes"), config_map=data, DescribeAccessEntry=entry)
        assert told(given) == (USABLE if joins else cannot)


def test_where_only_entries_count_the_config_map_does_not() -> None:
    mapped = {"data": {"mapRoles": f"- rolearn: {ARN}Nodes\n"}}
    answers: dict[str, Any] = {"config_map": mapped, "DescribeAccessEntry": "ResourceNotFoundException"}
    only = {"DescribeCluster": {"cluster": {"accessConfig": {"authenticationMode": "API"}}}}
    given = account(node_class("a", role="Nodes"), **answers)
    given._answers.update(only)
    assert told(given)[0] == PROBLEM
    given._answers["DescribeCluster"] = {"cluster": {"accessConfig": None}}
    assert told(given) == USABLE


def deployed(*classes: dict[str, Any], passes: str = f"{ARN}Other", **answers: Any) -> AnsweringAccount:
    provision = {"ResourceType": "AWS::Lambda::Function", "LogicalResourceId": "provision1", "PhysicalResourceId": "p"}
    policies = {"Statement": {"Effect": "Allow", "Action": "iam:PassRole", "Resource": [passes]}}
    given = account(
        *classes,
        status="UPDATE_COMPLETE",
        ListStackResources={"StackResourceSummaries": [provision]},
        GetFunctionConfiguration={"Environment": {"Variables": {"MODE": "act"}}},
        **answers,
    )
    of_nodes = given.ask

    def ask(service: str, operation: str, **arguments: Any) -> dict[str, Any] | None:
        if operation == "GetRolePolicy" and arguments["RoleName"].startswith("fleetwright-"):
            return {"PolicyDocument": policies}
        return of_nodes(service, operation, **arguments)

    given.ask = ask  # type: ignore[method-assign]
    return given


def test_a_deployment_is_the_last_of_several_repairs() -> None:
    """Its command ends with a comment, which would swallow what follows."""
    given = deployed(node_class("a", role="Nodes"), DescribeAccessEntry="ResourceNotFoundException")
    assert told(given) == (
        PROBLEM,
        (
            "EC2NodeClass a has the role Nodes, which the functions may not pass: launches fail; "
            "nodes with the role Nodes of EC2NodeClass a cannot join: it has no access entry of type EC2_LINUX"
        ),
        f"{JOINS}{ARN}Nodes --type EC2_LINUX && {DEPLOYS}  # with Nodes in nodeRoles",
    )
    assert told(deployed(node_class("a", role="Nodes"), passes=f"{ARN}Nodes")) == USABLE


def test_what_has_no_answer_hides_no_problem() -> None:
    given = account(
        node_class("a", role="Nodes"), GetRolePolicy="AccessDenied", DescribeAccessEntry="ResourceNotFoundException"
    )
    state, says, mends = told(given)
    assert (state, mends) == (PROBLEM, f"{JOINS}{ARN}Nodes --type EC2_LINUX")
    assert says.endswith("type EC2_LINUX; these credentials may not call iam:GetRolePolicy")
    assert told(account(node_class("a", role="Nodes"), GetRolePolicy="AccessDenied")) == (
        UNKNOWN,
        "these credentials may not call iam:GetRolePolicy",
        "",
    )


def test_images_of_ones_own_may_need_less() -> None:
    none = {"PolicyDocument": {"Statement": []}}
    own = {"amiSelectorTerms": [{"id": "ami-1"}, {"ssmParameter": "/own/image"}], "role": "Nodes"}
    state, says, mends = told(account({"metadata": {"name": "a"}, "spec": own}, GetRolePolicy=none))
    assert (state, mends) == (OK, "")
    assert says.startswith(
        "the roles of all EC2NodeClasses are usable: Nodes; the role Nodes of EC2NodeClass a may not "
    )
    for terms in ([{"ssmParameter": "/aws/service/eks/x"}], [{"id": "x"}, {"alias": "al2023@latest"}]):
        mixed = account(
            {"metadata": {"name": "a"}, "spec": own},
            {"metadata": {"name": "b"}, "spec": {"amiSelectorTerms": terms, "role": "Nodes", "amiFamily": "AL2023"}},
            GetRolePolicy=none,
        )
        state, says, _ = told(mixed)
        assert state == PROBLEM
        assert says.startswith("the role Nodes of EC2NodeClass b may not ec2:DescribeInstances")
    custom = {"amiSelectorTerms": [{"ssmParameter": "/aws/service/eks/x"}], "amiFamily": "Custom", "role": "Nodes"}
    assert told(account({"metadata": {"name": "a"}, "spec": custom}, GetRolePolicy=none))[0] == OK
