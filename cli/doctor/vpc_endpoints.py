"""The services that a subnet reaches over endpoints of its VPC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cli.doctor.account import Account
from installation.network_services import called

AVAILABLE: Final = "available"
"""State of an endpoint that works; a pending, rejected or failed one is listed, too."""


def missing_services(account: Account, vpc: str, environment: Mapping[str, str], tables: set[str]) -> list[str]:
    """Return the services that functions with this environment call, and that a subnet with one of these route tables lacks."""
    endpoints = list(
        account.every(
            "ec2",
            "DescribeVpcEndpoints",
            "VpcEndpoints",
            ("NextToken", "NextToken"),
            Filters=[{"Name": "vpc-id", "Values": [vpc]}],
        )
    )
    reached = [{_service(endpoint) for endpoint in endpoints if _serves(endpoint, table)} for table in sorted(tables)]
    return sorted(set(called(environment)) - reached[0].intersection(*reached))


def _service(endpoint: Mapping[str, Any]) -> str:
    return str(endpoint["ServiceName"]).rpartition(".")[2]


def _serves(endpoint: Mapping[str, Any], table: str) -> bool:
    """Whether calls from subnets with this route table go to the endpoint.

    A gateway serves the route tables that it is in. An interface serves the whole VPC if the service's public name leads to it.
    """
    if str(endpoint.get("State", "")).lower() != AVAILABLE:
        return False
    if endpoint.get("VpcEndpointType") == "Gateway":
        return table in endpoint.get("RouteTableIds", ())
    dns = endpoint.get("DnsOptions") or {}
    return bool(endpoint.get("PrivateDnsEnabled")) and not dns.get("PrivateDnsOnlyForInboundResolverEndpoint")
