"""Which services a subnet reaches without a route out, and to which groups calls go."""

from __future__ import annotations

from typing import Any

import pytest

from cli.doctor.vpc_endpoints import called_interfaces, endpoints_of, has_interface, missing_services
from installation.network_services import GATEWAYS, called
from tests.unit.cli.doctor.answering_account import AnsweringAccount

ALL = called({})


def endpoint(service: str, **more: Any) -> dict[str, Any]:
    kind: dict[str, Any] = {"VpcEndpointType": "Interface", "PrivateDnsEnabled": True}
    if service in GATEWAYS:
        kind = {"VpcEndpointType": "Gateway", "RouteTableIds": ["rtb-1", "rtb-2"]}
    return {"ServiceName": f"com.amazonaws.eu-west-1.{service}", "State": "available", **kind, **more}


def test_endpoints_are_those_of_the_vpc() -> None:
    account = AnsweringAccount(DescribeVpcEndpoints={"VpcEndpoints": [endpoint("sqs")]})
    assert endpoints_of(account, "vpc-1") == [endpoint("sqs")]
    assert account.asked == [("DescribeVpcEndpoints", {"Filters": [{"Name": "vpc-id", "Values": ["vpc-1"]}]})]


def test_a_service_is_reached_from_each_of_the_route_tables_or_missing() -> None:
    present = [endpoint(name) for name in ALL]
    assert missing_services(present, {}, {"rtb-1", "rtb-2"}) == []
    assert missing_services(present, {}, {"rtb-1", "rtb-3"}) == sorted(GATEWAYS)
    assert missing_services([], {}, {"rtb-1"}) == sorted(ALL)


@pytest.mark.parametrize(
    ("changes", "works"),
    [
        ({}, True),
        ({"State": "Available"}, True),
        ({"State": "pending"}, False),
        ({"State": None}, False),
        ({"PrivateDnsEnabled": False}, False),
        ({"DnsOptions": None}, True),
        ({"DnsOptions": {"PrivateDnsOnlyForInboundResolverEndpoint": False}}, True),
        ({"DnsOptions": {"PrivateDnsOnlyForInboundResolverEndpoint": True}}, False),
    ],
)
def test_an_interface_works_by_its_public_name(changes: dict[str, Any], works: bool) -> None:
    present = [endpoint("sqs", **changes), endpoint("s3", State="available")]
    assert has_interface(present, "sqs") == works
    assert ("sqs" not in missing_services(present, {}, {"rtb-1"})) == works
    assert dict(called_interfaces(present, {})) == ({"sqs": frozenset()} if works else {})


def test_a_gateway_that_is_not_available_serves_no_table() -> None:
    assert "s3" in missing_services([endpoint("s3", State="deleting")], {}, {"rtb-1"})
    assert "s3" not in missing_services([endpoint("s3")], {}, {"rtb-1"})


def test_only_interfaces_of_services_that_are_called_count_with_their_groups() -> None:
    groups = [{"GroupId": "sg-1"}, {"GroupId": "sg-2"}]
    present = [endpoint("sqs", Groups=groups), endpoint("ecr.api", Groups=groups), endpoint("eks", Groups=None)]
    assert dict(called_interfaces(present, {})) == {"sqs": frozenset(("sg-1", "sg-2")), "eks": frozenset()}
    assert not has_interface(present, "s3")
    assert not has_interface([endpoint("s3")], "s3")
