"""Beside a private API server: which functions are in the VPC, what they reach from it, and what they may not do with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from installation.cluster_roles import RULES_OF
from installation.network_services import ANNOUNCING, SERVICES
from installation.wiring import BY_NAME
from tests.access.template import Deployment, actions_of, policies_of, statements_of
from tests.infra.conftest import synthesize

VPC = {
    "id": "vpc-0a1b2c3d",
    "subnets": ["subnet-0a1b2c3d", "subnet-0a1b2c3e"],
    "clusterSecurityGroup": "sg-0a1b2c3d",
    "endpoints": ["all"],
    "routeTables": ["rtb-0a1b2c3d"],
}
CONTEXT = {
    "vpc": VPC,
    "pausingAlarms": "checkout-errors",
    "nodeAccessEntries": True,
    "logRetentionDays": 60,
    "nodeRoles": ["Nodes", "/team/GpuNodes"],
}

NEEDS_NO_ENDPOINT = {
    "logs": "Lambda writes logs, from outside",
    "iam": "its endpoint is in one region only: name an instanceProfile, or have a way out (docs/how-to/private-cluster.md)",
}
NAMES = {"cloudwatch": "monitoring"}
"""Prefix of actions → service, where they differ."""


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return synthesize(tmp_path_factory.mktemp("private"), CONTEXT)


@pytest.fixture(scope="module")
def resources(templates: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return dict(templates["fleetwright-fleetwright"]["Resources"])


def of_type(resources: dict[str, dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [found["Properties"] for found in resources.values() if found["Type"] == kind]


def test_only_who_asks_the_api_server_is_in_the_vpc(resources: dict[str, dict[str, Any]]) -> None:
    """Otherwise, all others would need endpoints, too, and the price list has one in few regions only."""
    functions = {f["Handler"]: f.get("VpcConfig") for f in of_type(resources, "AWS::Lambda::Function")}
    inside = {name for name, spec in BY_NAME.items() if functions[spec.handler]}
    assert inside == set(RULES_OF)
    assert all(functions[BY_NAME[name].handler]["SubnetIds"] == VPC["subnets"] for name in inside)


def test_every_service_that_they_ask_has_an_endpoint_and_no_other(templates: dict[str, dict[str, Any]]) -> None:
    """A call without one hangs until its time-out; an unused one costs $7 a month and zone."""
    roles = {f"{name.replace('_', '')}Role" for name in RULES_OF}
    template = templates["fleetwright-fleetwright"]
    resources = dict(template["Resources"])
    policies = [p for p in policies_of(template).values() if any(r["Ref"][:-8] in roles for r in p["Roles"])]
    assert {r["Ref"][:-8] for p in policies for r in p["Roles"]} == roles
    allowed = [s for p in policies for s in p["PolicyDocument"]["Statement"] if s["Effect"] == "Allow"]
    actions = [action for statement in allowed for action in actions_of(statement)]
    services = {action.partition(":")[0] for action in actions} - NEEDS_NO_ENDPOINT.keys()
    assert {NAMES.get(service, service) for service in services} == set(SERVICES)
    made = [str(endpoint["ServiceName"]) for endpoint in of_type(resources, "AWS::EC2::VPCEndpoint")]
    assert len(made) == len(SERVICES)
    assert all(any(f".{service}" in name for name in made) for service in SERVICES)


TOPIC = "arn:aws:sns:us-east-1:123456789012:on-call"


@pytest.mark.parametrize("context", [{"mode": "approve"}, {"commandTopicArn": TOPIC}])
def test_a_topic_of_commands_is_reached_from_the_vpc(tmp_path: Path, context: dict[str, str]) -> None:
    """Without its endpoint, `disrupt` hangs at each announcement until its time-out."""
    template = synthesize(tmp_path, {**CONTEXT, **context})["fleetwright-fleetwright"]
    publishes = [s for s in statements_of(template) if "sns:Publish" in actions_of(s)]
    assert publishes
    made = [str(endpoint["ServiceName"]) for endpoint in of_type(template["Resources"], "AWS::EC2::VPCEndpoint")]
    assert len([name for name in made if name.endswith(f".{ANNOUNCING}")]) == 1
    assert len(made) == len(SERVICES) + 1


def test_the_cluster_lets_their_group_in(resources: dict[str, dict[str, Any]]) -> None:
    (rule,) = of_type(resources, "AWS::EC2::SecurityGroupIngress")
    assert (rule["GroupId"], rule["FromPort"], rule["ToPort"]) == (VPC["clusterSecurityGroup"], 443, 443)
    own = rule["SourceSecurityGroupId"]
    for function in of_type(resources, "AWS::Lambda::Function"):
        assert function.get("VpcConfig", {"SecurityGroupIds": [own]})["SecurityGroupIds"] == [own]


def test_lambda_may_keep_interfaces_and_our_code_may_not(templates: dict[str, dict[str, Any]]) -> None:
    """Otherwise, an attacker who controls a function could listen in any subnet of the account."""
    denies = [s for s in statements_of(templates["fleetwright-fleetwright"]) if s["Effect"] == "Deny"]
    assert len(denies) == len(RULES_OF)
    for statement in denies:
        assert "ec2:CreateNetworkInterface" in statement["Action"]
        assert statement["Condition"] == {"Null": {"lambda:SourceFunctionArn": "false"}}


def test_given_groups_take_the_place_of_our_own(tmp_path: Any) -> None:
    vpc = {"id": VPC["id"], "subnets": VPC["subnets"], "securityGroups": ["sg-0a1b2c3e"]}
    resources = synthesize(tmp_path, {"vpc": vpc})["fleetwright-fleetwright"]["Resources"]
    assert not of_type(resources, "AWS::EC2::SecurityGroup")
    assert not of_type(resources, "AWS::EC2::VPCEndpoint")
    functions = of_type(resources, "AWS::Lambda::Function")
    groups = [f["VpcConfig"]["SecurityGroupIds"] for f in functions if "VpcConfig" in f]
    assert groups == [["sg-0a1b2c3e"]] * len(RULES_OF)


def test_nodes_of_a_new_role_may_join(resources: dict[str, dict[str, Any]]) -> None:
    """Otherwise, they boot, are billed, and are refused by the API server until they are ended."""
    entries = [entry for entry in of_type(resources, "AWS::EKS::AccessEntry") if entry["Type"] == "EC2_LINUX"]
    assert [str(entry["PrincipalArn"]).partition(":role/")[2].rstrip("'\"]}") for entry in entries] == [
        "Nodes",
        "team/GpuNodes",
    ]


def test_roles_of_nodes_are_passed_under_their_path(resources: dict[str, dict[str, Any]]) -> None:
    policies = [*of_type(resources, "AWS::IAM::Policy"), *of_type(resources, "AWS::IAM::ManagedPolicy")]
    statements = [s for policy in policies for s in policy["PolicyDocument"]["Statement"]]
    passed = [
        str(s["Resource"]) for s in statements if s["Action"] == "iam:PassRole" and ":role/Nodes" in str(s["Resource"])
    ]
    assert len(passed) == 3
    assert all(":role/team/GpuNodes" in resource for resource in passed)


def test_every_retention_that_cloudwatch_takes_is_kept(resources: dict[str, dict[str, Any]]) -> None:
    assert {group["RetentionInDays"] for group in of_type(resources, "AWS::Logs::LogGroup")} == {60}


def test_policies_of_functions_outside_a_vpc_are_the_same(templates: dict[str, dict[str, Any]]) -> None:
    policy = Deployment(templates).policy("refresh_catalogue")
    assert not [action for action in policy.actions() if "NetworkInterface" in action]
