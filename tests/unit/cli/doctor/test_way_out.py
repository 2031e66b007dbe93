"""Functions in a VPC that cannot reach AWS hang at each call until they time out: the doctor says why."""

from __future__ import annotations

from typing import Any

import pytest

from cli.doctor import way_out
from cli.doctor.account import Account
from cli.doctor.finding import OK, PROBLEM, AccountFinding
from infra.vpc import ENDPOINTS
from tests.builders import NOW

VPC = "vpc-0a1b2c3d"
NAT = {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-1", "State": "active"}
LOCAL = {"DestinationCidrBlock": "10.0.0.0/16", "GatewayId": "local", "State": "active"}
PUBLIC = {"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": "igw-1", "State": "active"}


class Routed(Account):
    """A deployed function, and the network that EC2 describes."""

    def __init__(self, *, routes: dict[str, Any], endpoints: tuple[str, ...] = (), **settings: str) -> None:
        self.cluster, self.region, self.stack = "prod", "eu-west-1", "fleetwright-prod"
        self._routes, self._endpoints, self._settings = routes, endpoints, settings

    def is_deployed(self) -> bool:
        return True

    def provision(self) -> dict[str, Any]:
        subnets = ["subnet-a", "subnet-b"] if self._routes else []
        return {"VpcConfig": {"SubnetIds": subnets, "VpcId": VPC}, "Environment": {"Variables": self._settings}}

    def ask(self, service: str, operation: str, **arguments: Any) -> dict[str, Any] | None:
        assert arguments["Filters"] == [{"Name": "vpc-id", "Values": [VPC]}]
        if operation == "DescribeVpcEndpoints":
            return {"VpcEndpoints": [{"ServiceName": f"com.amazonaws.eu-west-1.{name}"} for name in self._endpoints]}
        whose = {"main": {"Main": True}}
        return {
            "RouteTables": [
                {"Associations": [whose.get(of, {"SubnetId": of, "Main": False})], "Routes": [LOCAL, *found]}
                for of, found in self._routes.items()
            ]
        }


def found(account: Account) -> AccountFinding:
    return way_out.way_out("way-out", account, NOW)


def test_a_route_out_of_each_subnet_is_enough() -> None:
    assert found(Routed(routes={"main": [NAT]})).state == OK
    assert found(Routed(routes={"main": [], "subnet-a": [NAT], "subnet-b": [NAT]})).state == OK


def test_functions_outside_of_a_vpc_need_none() -> None:
    assert found(Routed(routes={})).says == "the functions are in no VPC"


def test_a_subnet_without_a_way_is_named_with_the_missing_endpoints() -> None:
    told = found(Routed(routes={"main": [], "subnet-a": [NAT]}, endpoints=("ec2", "eks", "s3", "sqs", "ssm")))
    assert told.state == PROBLEM
    assert told.says == "subnet-b have no route out, and the VPC no endpoint for dynamodb, scheduler: calls hang"


def test_services_of_settings_that_are_off_are_not_missed() -> None:
    always = tuple(name for name in ENDPOINTS if name not in way_out.BY_SETTING)
    assert found(Routed(routes={"main": []}, endpoints=always)).state == OK
    settings = {"PAUSING_ALARMS": "a", "APPROVAL_TOPIC_ARN": "arn:aws:sns:eu-west-1:1:t"}
    assert "endpoint for monitoring, sns:" in found(Routed(routes={"main": []}, endpoints=always, **settings)).says


@pytest.mark.parametrize("route", [PUBLIC, {**NAT, "State": "blackhole"}])
def test_a_route_that_leads_nowhere_is_none(route: dict[str, Any]) -> None:
    """Functions have no public address; a NAT gateway that was deleted leaves its route behind."""
    assert found(Routed(routes={"main": [route]})).state == PROBLEM


def test_the_endpoints_are_those_that_the_stack_creates() -> None:
    assert set(way_out.ENDPOINTS) == set(ENDPOINTS)
