"""Checks that functions in a VPC reach AWS: by a route out of their subnets, or by endpoints of the VPC."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from cli.doctor import security_groups
from cli.doctor.account import Account
from cli.doctor.errors import NotAnsweredError
from cli.doctor.finding import OK, PROBLEM, UNKNOWN, AccountFinding
from cli.doctor.network import DEPLOYS, EVERYWHERE
from cli.doctor.vpc_endpoints import called_interfaces, endpoints_of, has_interface, missing_services
from core.api.objects import mapping
from installation.network_services import GATEWAYS

INTERNET_GATEWAY: Final = "igw-"

EVERYWHERE_IN_IPV6: Final = "::/0"

_PRIVATE: Final = "aws ec2 describe-subnets --region {region} --filters Name=vpc-id,Values={vpc}"

_TARGETS: Final = (
    "NatGatewayId",
    "TransitGatewayId",
    "NetworkInterfaceId",
    "InstanceId",
    "CoreNetworkArn",
    "LocalGatewayId",
    "GatewayId",
)
"""Fields of a route that may name a way out. A peering connection is none: it leads to addresses of the other VPC alone."""

_ELSEWHERE: Final = ("VpcPeeringConnectionId", "TransitGatewayId", "CoreNetworkArn")
"""Fields of a route that lead to other networks, whose endpoints the functions may use."""


class RouteTable(NamedTuple):
    """Routes of a subnet.

    Attributes:
        target: Where the default route leads; empty without one.
        elsewhere: Where its other routes lead: peering connections, transit gateways, core networks.
        leads_out_in_ipv6: Whether there is a default route for IPv6. Functions have IPv4 addresses and cannot use it.
    """

    id: str = ""
    target: str = ""
    elsewhere: tuple[str, ...] = ()
    leads_out_in_ipv6: bool = False


def way_out(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether each subnet of the deployed functions has a route out, or the endpoints."""
    if not account.is_deployed():
        return AccountFinding(name, OK, "not deployed yet")
    vpc = mapping(account.provision().get("VpcConfig"))
    if not vpc.get("SubnetIds"):
        return AccountFinding(name, OK, "the functions are in no VPC")
    tables = _tables(account, vpc)
    public = [subnet for subnet, table in tables.items() if table.target.startswith(INTERNET_GATEWAY)]
    if public:
        says = f"{', '.join(public)} lead to an internet gateway, and functions have no public address: name private subnets"
        return AccountFinding(name, PROBLEM, says, _PRIVATE.format(region=account.region, vpc=vpc.get("VpcId", "")))
    closed = {subnet: table for subnet, table in tables.items() if not table.target}
    endpoints, settings = endpoints_of(account, str(vpc.get("VpcId", ""))), account.settings()
    missing = missing_services(endpoints, settings, {table.id for table in closed.values()}) if closed else []
    if missing:
        return _unreachable(name, closed, missing)
    refused = security_groups.refused(name, account, vpc, dict(called_interfaces(endpoints, settings)))
    if refused is not None:
        return refused
    leads = "a route out of the VPC" if not closed else "an endpoint for each service that they call"
    return AccountFinding(name, OK, f"the functions' subnets have {leads}")


class ToIam(NamedTuple):
    """Whether functions reach IAM.

    Attributes:
        answer: None if it depends on other networks.
        elsewhere: What leads to these.
    """

    answer: bool | None
    elsewhere: tuple[str, ...] = ()


def way_to_iam(account: Account) -> ToIam:
    """Whether the deployed functions reach IAM, which is in no list of endpoints: it has one in a single region."""
    vpc = mapping(account.provision().get("VpcConfig"))
    closed = [table for table in _tables(account, vpc).values() if not table.target] if vpc.get("SubnetIds") else []
    if not closed or has_interface(endpoints_of(account, str(vpc.get("VpcId", ""))), "iam"):
        return ToIam(True)
    elsewhere = _elsewhere(closed)
    return ToIam(None if elsewhere else False, elsewhere)


def _unreachable(name: str, closed: Mapping[str, RouteTable], missing: list[str]) -> AccountFinding:
    if elsewhere := _elsewhere(closed.values()):
        says = f"{', '.join(closed)} have no route out, and their VPC no endpoint for {', '.join(missing)}"
        unless = f"unless the networks behind {', '.join(elsewhere)} have them, under the services' names"
        return AccountFinding(name, UNKNOWN, f"{says}: calls hang {unless}; else name them in vpc.endpoints")
    says = f"{', '.join(closed)} have no route out, and no endpoint for {', '.join(missing)}: calls hang"
    if any(table.leads_out_in_ipv6 for table in closed.values()):
        says = f"{says}. A route for IPv6 does not help: functions have IPv4 addresses"
    keys = f"vpc.endpoints: {', '.join(missing)}"
    if not set(missing).isdisjoint(GATEWAYS):
        keys = f"{keys}; vpc.routeTables: {', '.join(sorted({table.id for table in closed.values()}))}"
    return AccountFinding(name, PROBLEM, says, f"{DEPLOYS}  # with these in {keys}")


def _elsewhere(closed: Collection[RouteTable]) -> tuple[str, ...]:
    """Return what leads from tables without a route out to other networks; empty if one of them has no such route."""
    if not all(table.elsewhere for table in closed):
        return ()
    return tuple(sorted({target for table in closed for target in table.elsewhere}))


def _tables(account: Account, vpc: Mapping[str, Any]) -> dict[str, RouteTable]:
    """Return subnet → its route table. A subnet without one has the VPC's main table. Raises NotAnsweredError."""
    described = account.every(
        "ec2",
        "DescribeRouteTables",
        "RouteTables",
        ("NextToken", "NextToken"),
        Filters=[{"Name": "vpc-id", "Values": [str(vpc.get("VpcId", ""))]}],
    )
    main, own = RouteTable(), {}
    for table in described:
        read = _table(table)
        for association in table.get("Associations", ()):
            if association.get("Main"):
                main = read
            if association.get("SubnetId"):
                own[str(association["SubnetId"])] = read
    tables = {str(subnet): own.get(str(subnet), main) for subnet in vpc["SubnetIds"]}
    if unknown := [subnet for subnet, table in tables.items() if not table.id]:
        raise NotAnsweredError(f"EC2 describes no route table of {', '.join(unknown)}")
    return tables


def _table(described: Mapping[str, Any]) -> RouteTable:
    routes = [route for route in described.get("Routes", ()) if route.get("State", "active") == "active"]
    targets = [
        target
        for route in routes
        if route.get("DestinationCidrBlock") == EVERYWHERE
        for target in _named(route, _TARGETS)
    ]
    in_ipv4 = [route for route in routes if not route.get("DestinationIpv6CidrBlock")]
    elsewhere = tuple(target for route in in_ipv4 for target in _named(route, _ELSEWHERE))
    in_ipv6 = any(route.get("DestinationIpv6CidrBlock") == EVERYWHERE_IN_IPV6 for route in routes)
    return RouteTable(str(described.get("RouteTableId", "")), targets[0] if targets else "", elsewhere, in_ipv6)


def _named(route: Mapping[str, Any], fields: Iterable[str]) -> list[str]:
    """Return the targets that a route names in one of these fields."""
    return [str(route[field]) for field in fields if route.get(field)]
