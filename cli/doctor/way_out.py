"""Checks that functions in a VPC reach AWS: by a route out of their subnets, or by endpoints of the VPC."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from cli.doctor.account import Account
from cli.doctor.finding import OK, PROBLEM, AccountFinding
from cli.doctor.network import DEPLOYS, EVERYWHERE

ENDPOINTS: Final = ("arc-zonal-shift", "dynamodb", "ec2", "eks", "monitoring", "s3", "scheduler", "sqs", "ssm")
"""Services that functions in a VPC call. `arc-zonal-shift` and `monitoring` are called by some settings alone."""

BY_SETTING: Final = {"arc-zonal-shift": "ZONAL_SHIFT_CLUSTER_ARN", "monitoring": "PAUSING_ALARMS"}
"""Service → the environment variable without which it is not called."""

INTERNET_GATEWAY: Final = "igw-"

_PRIVATE: Final = "aws ec2 describe-subnets --region {region} --filters Name=vpc-id,Values={vpc}"


def way_out(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether each subnet of the deployed functions has a route out, or the VPC the endpoints."""
    if not account.is_deployed():
        return AccountFinding(name, OK, "not deployed yet")
    function = account.provision()
    vpc = function.get("VpcConfig") or {}
    if not vpc.get("SubnetIds"):
        return AccountFinding(name, OK, "the functions are in no VPC")
    routes = _default_routes(account, vpc)
    closed = [subnet for subnet, target in routes.items() if not target]
    public = [subnet for subnet, target in routes.items() if target.startswith(INTERNET_GATEWAY)]
    if public:
        says = f"{', '.join(public)} lead to an internet gateway, and functions have no public address: name private subnets"
        return AccountFinding(name, PROBLEM, says, _PRIVATE.format(region=account.region, vpc=vpc.get("VpcId", "")))
    if not closed:
        return AccountFinding(name, OK, "the functions' subnets have a route out of the VPC")
    missing = sorted(set(_called(function)) - _services(account, str(vpc.get("VpcId", ""))))
    if not missing:
        return AccountFinding(name, OK, "the VPC has an endpoint for each service that the functions call")
    says = f"{', '.join(closed)} have no route out, and the VPC no endpoint for {', '.join(missing)}: calls hang"
    return AccountFinding(name, PROBLEM, says, f"{DEPLOYS}  # with these in vpc.endpoints: {', '.join(missing)}")


def _called(function: Mapping[str, Any]) -> Iterator[str]:
    settings = (function.get("Environment") or {}).get("Variables") or {}
    for service in ENDPOINTS:
        if service not in BY_SETTING or settings.get(BY_SETTING[service]):
            yield service
    if settings.get("APPROVAL_TOPIC_ARN"):
        yield "sns"


def _services(account: Account, vpc: str) -> set[str]:
    """Return the services for which the VPC has an endpoint, by the last part of their names."""
    found = account.every(
        "ec2",
        "DescribeVpcEndpoints",
        "VpcEndpoints",
        ("NextToken", "NextToken"),
        Filters=[{"Name": "vpc-id", "Values": [vpc]}],
    )
    return {str(endpoint["ServiceName"]).rpartition(".")[2] for endpoint in found}


def _default_routes(account: Account, vpc: Mapping[str, Any]) -> dict[str, str]:
    """Return subnet → target of its default route, empty for none. A subnet without a table has the VPC's main one."""
    tables = list(
        account.every(
            "ec2",
            "DescribeRouteTables",
            "RouteTables",
            ("NextToken", "NextToken"),
            Filters=[{"Name": "vpc-id", "Values": [str(vpc.get("VpcId", ""))]}],
        )
    )
    main, own = "", {}
    for table in tables:
        target = _default_route(table)
        for association in table.get("Associations", ()):
            if association.get("Main"):
                main = target
            if association.get("SubnetId"):
                own[str(association["SubnetId"])] = target
    return {str(subnet): own.get(str(subnet), main) for subnet in vpc["SubnetIds"]}


def _default_route(table: Mapping[str, Any]) -> str:
    for route in table.get("Routes", ()):
        if route.get("DestinationCidrBlock") == EVERYWHERE and route.get("State", "active") == "active":
            return next((str(route[key]) for key in _TARGETS if route.get(key)), "")
    return ""


_TARGETS: Final = (
    "NatGatewayId",
    "TransitGatewayId",
    "NetworkInterfaceId",
    "InstanceId",
    "VpcPeeringConnectionId",
    "CoreNetworkArn",
    "GatewayId",
)
"""Fields of a route that may name its target."""
