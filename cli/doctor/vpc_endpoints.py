"""The services that a subnet reaches over endpoints of its VPC."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from cli.doctor.account import Account
from core.api.objects import mapping, sequence
from installation.network_services import called

AVAILABLE: Final = "available"
"""State of an endpoint that works; a pending, rejected or failed one is listed, too."""


def endpoints_of(account: Account, vpc: str) -> list[dict[str, Any]]:
    """Return the endpoints of a VPC."""
    filters = [{"Name": "vpc-id", "Values": [vpc]}]
    tokens = ("NextToken", "NextToken")
    return list(account.every("ec2", "DescribeVpcEndpoints", "VpcEndpoints", tokens, Filters=filters))


def missing_services(
    endpoints: Sequence[Mapping[str, Any]], environment: Mapping[str, str], tables: set[str]
) -> list[str]:
    """Return the services that functions with this environment call, and that a subnet with one of these route tables lacks."""
    reached = [{_service(endpoint) for endpoint in endpoints if _serves(endpoint, table)} for table in sorted(tables)]
    return sorted(set(called(environment)) - reached[0].intersection(*reached))


def called_interfaces(
    endpoints: Iterable[Mapping[str, Any]], environment: Mapping[str, str]
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield service and security groups of each interface to which calls go, also from subnets with a route out."""
    services = called(environment)
    for endpoint in endpoints:
        if _service(endpoint) in services and _has_public_name(endpoint):
            groups = frozenset(str(group["GroupId"]) for group in sequence(endpoint.get("Groups")))
            yield _service(endpoint), groups


def has_interface(endpoints: Iterable[Mapping[str, Any]], service: str) -> bool:
    """Whether the public name of a service leads to one of these."""
    return any(_service(endpoint) == service and _has_public_name(endpoint) for endpoint in endpoints)


def _service(endpoint: Mapping[str, Any]) -> str:
    return str(endpoint["ServiceName"]).rpartition(".")[2]


def _serves(endpoint: Mapping[str, Any], table: str) -> bool:
    """Whether calls from subnets with this route table go to the endpoint: a gateway serves the route tables that it is in."""
    if endpoint.get("VpcEndpointType") == "Gateway":
        return _is_available(endpoint) and table in endpoint.get("RouteTableIds", ())
    return _has_public_name(endpoint)


def _has_public_name(endpoint: Mapping[str, Any]) -> bool:
    """Whether the service's public name leads to this interface in the whole VPC."""
    if endpoint.get("VpcEndpointType") == "Gateway" or not _is_available(endpoint):
        return False
    dns = mapping(endpoint.get("DnsOptions"))
    return bool(endpoint.get("PrivateDnsEnabled")) and not dns.get("PrivateDnsOnlyForInboundResolverEndpoint")


def _is_available(endpoint: Mapping[str, Any]) -> bool:
    return str(endpoint.get("State", "")).lower() == AVAILABLE
