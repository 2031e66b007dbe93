"""Security groups between the functions and the endpoints of their VPC: a call that one of them stops hangs."""

from __future__ import annotations

from typing import Any

import pytest

from cli.doctor.errors import NotAnsweredError
from cli.doctor.security_groups import refused
from tests.unit.cli.doctor.answering_account import AnsweringAccount

VPC = {"SubnetIds": ["subnet-a", "subnet-b"], "SecurityGroupIds": ["sg-own", "sg-too"]}
INGRESS = "aws ec2 authorize-security-group-ingress --region eu-west-1 --group-id "


def rule(protocol: str = "tcp", **more: Any) -> dict[str, Any]:
    return {"IpProtocol": protocol, "FromPort": 443, "ToPort": 443, **more}


def of(*addresses: str) -> dict[str, Any]:
    return {"IpRanges": [{"CidrIp": one} for one in addresses]}


def told(
    *,
    out: dict[str, Any] | None = None,
    into: dict[str, list[dict[str, Any]]] | None = None,
    interfaces: dict[str, tuple[str, ...]] | None = None,
    vpc: dict[str, Any] = VPC,
) -> tuple[str, str] | None:
    own = {"GroupId": "sg-own"}
    too = {"GroupId": "sg-too", "IpPermissionsEgress": [rule() if out is None else out]}
    groups = [own, too, *({"GroupId": one, "IpPermissions": rules} for one, rules in (into or {}).items())]
    subnets = [
        {"SubnetId": "subnet-a", "CidrBlock": "10.0.1.0/24"},
        {"SubnetId": "subnet-b", "CidrBlock": "10.0.2.0/24"},
    ]
    account = AnsweringAccount(DescribeSecurityGroups={"SecurityGroups": groups}, DescribeSubnets={"Subnets": subnets})
    found = refused("way-out", account, vpc, {name: frozenset(ids) for name, ids in (interfaces or {}).items()})
    return None if found is None else (found.says, found.mends)


@pytest.mark.parametrize(
    ("out", "is_open"),
    [
        (rule(), True),
        (rule("6"), True),
        (rule("-1", FromPort=0, ToPort=0), True),
        (rule("udp"), False),
        (rule(FromPort=0, ToPort=442), False),
        (rule(FromPort=444, ToPort=65535), False),
        (rule(FromPort=0, ToPort=65535), True),
        ({"IpProtocol": "tcp"}, True),
        ({}, False),
    ],
)
def test_any_group_of_the_functions_lets_https_out(out: dict[str, Any], is_open: bool) -> None:
    mends = (
        "aws ec2 authorize-security-group-egress --region eu-west-1 --group-id sg-own "
        "--ip-permissions 'IpProtocol=tcp,FromPort=443,ToPort=443,IpRanges=[{CidrIp=0.0.0.0/0}]'"
    )
    shut = ("the functions' security groups sg-own, sg-too let no HTTPS out: calls hang", mends)
    assert told(out=out) == (None if is_open else shut)


def test_functions_without_a_group_of_their_own_are_not_judged() -> None:
    assert told(vpc={"SubnetIds": ["subnet-a", "subnet-b"]}) is None


@pytest.mark.parametrize(
    ("rules", "is_open"),
    [
        ([rule(UserIdGroupPairs=[{"GroupId": "sg-too"}])], True),
        ([rule(UserIdGroupPairs=[{"GroupId": "sg-other"}])], False),
        ([rule(PrefixListIds=[{"PrefixListId": "pl-1"}])], True),
        ([rule("udp", PrefixListIds=[{"PrefixListId": "pl-1"}])], False),
        ([rule(**of("10.0.1.0/24", "10.0.2.7/24"))], True),
        ([rule(**of("10.0.1.0/24"))], False),
        ([rule(**of("10.0.0.0/16"), FromPort=80, ToPort=80)], False),
        ([], False),
    ],
)
def test_an_endpoint_lets_all_subnets_in(rules: list[dict[str, Any]], is_open: bool) -> None:
    shut = (
        "no HTTPS from the functions gets into the endpoint for sqs: calls hang",
        f"{INGRESS}sg-a --protocol tcp --port 443 --source-group sg-own",
    )
    into = {"sg-a": [], "sg-b": rules}
    assert told(into=into, interfaces={"sqs": ("sg-b", "sg-a")}) == (None if is_open else shut)


def test_endpoints_that_share_a_group_are_opened_once() -> None:
    into: dict[str, list[dict[str, Any]]] = {"sg-a": [], "sg-b": [], "sg-c": [rule("-1", **of("0.0.0.0/0"))]}
    interfaces = {"sqs": ("sg-b",), "eks": ("sg-a",), "ec2": ("sg-a",), "ssm": ("sg-c",), "sns": ()}
    https = "--protocol tcp --port 443 --source-group sg-own"
    assert told(into=into, interfaces=interfaces) == (
        "no HTTPS from the functions gets into the endpoints for each of ec2, eks, sqs: calls hang",
        f"{INGRESS}sg-a {https} && {INGRESS}sg-b {https}",
    )
    without = told(into=into, interfaces={"sqs": ("sg-b",)}, vpc={"SubnetIds": ["subnet-a"]})
    assert without is not None
    assert without[1] == f"{INGRESS}sg-b --protocol tcp --port 443 --cidr ADDRESSES_OF_THE_SUBNETS"


def test_any_rule_of_any_group_is_enough() -> None:
    groups = [
        {"GroupId": "sg-own", "IpPermissionsEgress": [rule("udp"), rule()], "IpPermissions": [rule("udp")]},
        {"GroupId": "sg-too", "IpPermissionsEgress": [], "IpPermissions": [rule(**of("0.0.0.0/0"))]},
    ]
    subnets = [{"SubnetId": "subnet-a", "CidrBlock": "10.0.1.0/24"}, {"SubnetId": "subnet-b"}]
    account = AnsweringAccount(DescribeSecurityGroups={"SecurityGroups": groups}, DescribeSubnets={"Subnets": subnets})
    assert refused("way-out", account, VPC, {"sqs": frozenset(("sg-own", "sg-too"))}) is None
    assert account.asked == [
        ("DescribeSecurityGroups", {"GroupIds": ["sg-own", "sg-too"]}),
        ("DescribeSubnets", {"SubnetIds": ["subnet-a", "subnet-b"]}),
    ]


def test_what_ec2_leaves_out_is_named() -> None:
    with pytest.raises(NotAnsweredError, match="EC2 does not describe the security groups sg-x, sg-y"):
        told(interfaces={"sqs": ("sg-y", "sg-x")})
    with pytest.raises(NotAnsweredError, match="EC2 does not describe the subnets subnet-z"):
        told(into={"sg-a": []}, interfaces={"sqs": ("sg-a",)}, vpc={"SubnetIds": ["subnet-z"]})
