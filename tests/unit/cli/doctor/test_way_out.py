"""Functions in a VPC that cannot reach AWS hang at each call until they time out: the doctor says why."""

from __future__ import annotations

from typing import Any, Final

import pytest

from cli.doctor import checks, way_out
from cli.doctor.account import Account
from cli.doctor.finding import OK, PROBLEM, UNKNOWN, AccountFinding
from installation.network_services import BY_SETTING, GATEWAYS, SERVICES
from tests.builders import NOW

VPC = "vpc-0a1b2c3d"
NAT = {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-1", "State": "active"}
LOCAL = {"DestinationCidrBlock": "10.0.0.0/16", "GatewayId": "local", "State": "active"}
PEERED = {"DestinationCidrBlock": "0.0.0.0/0", "VpcPeeringConnectionId": "pcx-1", "State": "active"}
NEXT = {"DestinationCidrBlock": "10.1.0.0/16", "VpcPeeringConnectionId": "pcx-2", "State": "active"}
TRANSIT = {"DestinationPrefixListId": "pl-1", "TransitGatewayId": "tgw-1", "State": "active"}
PUBLIC = {"DestinationCidrBlock": "0.0.0.0/0", "GatewayId": "igw-1", "State": "active"}


OPEN = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


class Routed(Account):
    """A deployed function, and the network that EC2 describes. A table's id is `rtb-` and the subnet that it is of.

    Its functions have the security group `sg-own`, which lets everything out if nothing else is said.
    """

    def __init__(
        self,
        *,
        routes: dict[str, Any],
        endpoints: list[dict[str, Any]] | None = None,
        ingress: dict[str, list[dict[str, Any]]] | None = None,
        egress: list[dict[str, Any]] | None = None,
        **settings: str,
    ) -> None:
        self.cluster, self.region, self.stack = "prod", "eu-west-1", "fleetwright-prod"
        self._routes, self._endpoints, self._settings = routes, endpoints or [], settings
        own = {"GroupId": "sg-own", "IpPermissionsEgress": [OPEN] if egress is None else egress}
        self.subnets = {"subnet-a", "subnet-b"}
        self.groups = [own, *({"GroupId": one, "IpPermissions": rules} for one, rules in (ingress or {}).items())]

    def is_deployed(self) -> bool:
        return True

    def provision(self) -> dict[str, Any]:
        subnets = ["subnet-a", "subnet-b"] if self._routes else []
        vpc = {"SubnetIds": subnets, "VpcId": VPC, "SecurityGroupIds": ["sg-own"]}
        return {"VpcConfig": vpc, "Environment": {"Variables": self._settings}}

    def ask(self, service: str, operation: str, **arguments: Any) -> dict[str, Any] | None:
        if operation == "DescribeSecurityGroups":
            return {"SecurityGroups": [one for one in self.groups if one["GroupId"] in arguments["GroupIds"]]}
        if operation == "DescribeSubnets":
            blocks = {"subnet-a": "10.0.1.0/24", "subnet-b": "10.0.2.0/24"}
            return {"Subnets": [{"SubnetId": one, "CidrBlock": blocks[one]} for one in sorted(self.subnets)]}
        assert arguments["Filters"] == [{"Name": "vpc-id", "Values": [VPC]}]
        if operation == "DescribeVpcEndpoints":
            return {"VpcEndpoints": self._endpoints}
        whose = {"main": {"Main": True}}
        return {
            "RouteTables": [
                {
                    "RouteTableId": f"rtb-{of}",
                    "Associations": [whose.get(of, {"SubnetId": of, "Main": False})],
                    "Routes": [LOCAL, *found],
                }
                for of, found in self._routes.items()
            ]
        }


def endpoint(service: str, **more: Any) -> dict[str, Any]:
    """An endpoint that works for subnets with the main table."""
    kind: dict[str, Any] = {"VpcEndpointType": "Interface", "PrivateDnsEnabled": True}
    if service in GATEWAYS:
        kind = {"VpcEndpointType": "Gateway", "PrivateDnsEnabled": False, "RouteTableIds": ["rtb-main"]}
    return {"ServiceName": f"com.amazonaws.eu-west-1.{service}", "State": "available", **kind, **more}


ALWAYS: Final = tuple(name for name in SERVICES if name not in BY_SETTING)


def found(account: Account) -> AccountFinding:
    return way_out.way_out("way-out", account, NOW)


def test_a_route_out_of_each_subnet_is_enough() -> None:
    assert found(Routed(routes={"main": [NAT]})).state == OK
    assert found(Routed(routes={"main": [], "subnet-a": [NAT], "subnet-b": [NAT]})).state == OK


def test_functions_outside_of_a_vpc_need_none() -> None:
    assert found(Routed(routes={})).says == "the functions are in no VPC"


def test_a_subnet_without_a_way_is_named_with_the_missing_endpoints() -> None:
    present = [endpoint(name) for name in ("ec2", "eks", "sqs", "ssm")]
    told = found(Routed(routes={"main": [], "subnet-a": [NAT]}, endpoints=present))
    assert told.state == PROBLEM
    assert told.says == "subnet-b have no route out, and no endpoint for dynamodb, s3, scheduler: calls hang"
    assert told.mends.endswith("vpc.endpoints: dynamodb, s3, scheduler; vpc.routeTables: rtb-main")


def test_services_of_settings_that_are_off_are_not_missed() -> None:
    present = [endpoint(name) for name in ALWAYS]
    assert found(Routed(routes={"main": []}, endpoints=present)).state == OK
    settings = {"PAUSING_ALARMS": "a", "APPROVAL_TOPIC_ARN": "arn:aws:sns:eu-west-1:1:t"}
    told = found(Routed(routes={"main": []}, endpoints=present, **settings))
    assert "endpoint for monitoring, sns:" in told.says
    assert told.mends.endswith("vpc.endpoints: monitoring, sns")


def test_a_gateway_serves_only_the_route_tables_that_it_is_in() -> None:
    """S3 and DynamoDB counted as reached wherever the VPC had a gateway, though the functions' subnets had no route to it."""
    routes: dict[str, Any] = {"main": [], "subnet-b": []}
    in_both = [endpoint(name, RouteTableIds=["rtb-main", "rtb-subnet-b"]) for name in GATEWAYS]
    interfaces = [endpoint(name) for name in ALWAYS if name not in GATEWAYS]
    assert found(Routed(routes=routes, endpoints=[*interfaces, *in_both])).state == OK
    in_one = [*in_both[:1], endpoint("s3")]
    assert "no endpoint for s3:" in found(Routed(routes=routes, endpoints=[*interfaces, *in_one])).says
    apart = [*in_both[:1], endpoint("s3"), endpoint("s3", RouteTableIds=["rtb-subnet-b"])]
    assert found(Routed(routes=routes, endpoints=[*interfaces, *apart])).state == OK


@pytest.mark.parametrize(
    "broken",
    [
        {"State": "pendingAcceptance"},
        {"State": "failed"},
        {"PrivateDnsEnabled": False},
        {"DnsOptions": {"PrivateDnsOnlyForInboundResolverEndpoint": True}},
    ],
)
def test_an_endpoint_to_which_no_call_leads_is_none(broken: dict[str, Any]) -> None:
    present = [endpoint(name, **(broken if name == "sqs" else {})) for name in ALWAYS]
    assert "no endpoint for sqs:" in found(Routed(routes={"main": []}, endpoints=present)).says


def test_an_endpoint_works_however_the_state_is_spelled() -> None:
    """The reference of the API writes `Available`, its answers `available`."""
    present = [endpoint(name, State="Available") for name in ALWAYS]
    assert found(Routed(routes={"main": []}, endpoints=present)).state == OK


@pytest.mark.parametrize("route", [PUBLIC, {**NAT, "State": "blackhole"}, {**PEERED, "State": "blackhole"}])
def test_a_route_that_leads_nowhere_is_none(route: dict[str, Any]) -> None:
    """Functions have no public address; a NAT gateway that was deleted leaves its route behind."""
    assert found(Routed(routes={"main": [route]})).state == PROBLEM


@pytest.mark.parametrize("route", [PEERED, NEXT, TRANSIT])
def test_a_route_to_another_network_may_lead_to_its_endpoints(route: dict[str, Any]) -> None:
    """Endpoints of one VPC serve many by peering or a transit gateway, and the doctor does not read that VPC."""
    target = route.get("TransitGatewayId") or route["VpcPeeringConnectionId"]
    present = [endpoint(name) for name in ALWAYS if name != "sqs"]
    told = found(Routed(routes={"main": [route]}, endpoints=present))
    assert told.state == UNKNOWN
    assert told.says.startswith(
        "subnet-a, subnet-b have no route out, and their VPC no endpoint for sqs: calls hang unless"
    )
    assert f"the networks behind {target} have" in told.says
    assert found(Routed(routes={"main": [route]}, endpoints=[*present, endpoint("sqs")])).state == OK
    assert found(Routed(routes={"main": [], "subnet-a": [route]}, endpoints=present)).state == PROBLEM, "subnet-b"
    in_ipv6 = {**TRANSIT, "DestinationIpv6CidrBlock": "fd00::/8"}
    assert found(Routed(routes={"main": [in_ipv6]}, endpoints=present)).state == PROBLEM


def test_functions_cannot_use_a_route_for_ipv6() -> None:
    egress = {"DestinationIpv6CidrBlock": "::/0", "EgressOnlyInternetGatewayId": "eigw-1", "State": "active"}
    told = found(Routed(routes={"main": [egress]}))
    assert told.state == PROBLEM
    assert told.says.endswith("A route for IPv6 does not help: functions have IPv4 addresses")
    assert found(Routed(routes={"main": [egress, NAT]})).state == OK


def https(**source: Any) -> dict[str, Any]:
    """A rule for HTTPS from these sources."""
    return {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, **source}


def addresses(*ranges: str) -> list[dict[str, str]]:
    return [{"CidrIp": found} for found in ranges]


@pytest.mark.parametrize(
    ("rules", "state"),
    [
        ([https(UserIdGroupPairs=[{"GroupId": "sg-own"}])], OK),
        ([https(IpRanges=addresses("10.0.0.0/16"))], OK),
        ([https(IpRanges=addresses("10.0.1.0/24")), https(IpRanges=addresses("10.0.2.0/23"))], OK),
        ([https(IpRanges=addresses("10.0.1.0/25", "10.0.1.128/25")), https(IpRanges=addresses("10.0.2.0/24"))], OK),
        ([https(IpRanges=addresses("10.0.1.0/25", "10.0.2.0/24"))], PROBLEM),  # half of the first subnet is shut out
        ([https(IpRanges=addresses("10.0.1.0/24"))], PROBLEM),  # the second subnet is shut out
        ([https(PrefixListIds=[{"PrefixListId": "pl-1"}])], OK),
        ([OPEN], OK),
        ([{**https(IpRanges=addresses("0.0.0.0/0")), "ToPort": 80, "FromPort": 80}], PROBLEM),
        ([{**https(IpRanges=addresses("0.0.0.0/0")), "IpProtocol": "udp"}], PROBLEM),
        ([https(UserIdGroupPairs=[{"GroupId": "sg-nodes"}])], PROBLEM),
        ([], PROBLEM),
    ],
)
@pytest.mark.parametrize("route", [[], [NAT]], ids=["closed", "with a route out"])
def test_an_endpoint_lets_the_functions_in(
    rules: list[dict[str, Any]], state: str, route: list[dict[str, Any]]
) -> None:
    """Also beside a route out: the service's name leads to the endpoint in the whole VPC."""
    present = [endpoint(name, Groups=[{"GroupId": "sg-endpoint"}] if name == "sqs" else []) for name in ALWAYS]
    told = found(Routed(routes={"main": route}, endpoints=present, ingress={"sg-endpoint": rules}))
    assert told.state == state, told.says
    if state == PROBLEM:
        assert told.says == "no HTTPS from the functions gets into the endpoint for sqs: calls hang"
        opens = "--group-id sg-endpoint --protocol tcp --port 443 --source-group sg-own"
        assert told.mends == f"aws ec2 authorize-security-group-ingress --region eu-west-1 {opens}"


def test_what_ec2_does_not_describe_is_not_called_closed() -> None:
    """Groups that it left out "let no HTTPS out", with a command that opens them."""
    present = [endpoint(name, Groups=[{"GroupId": "sg-endpoint"}]) for name in ALWAYS]
    rules = [https(IpRanges=addresses("10.0.0.0/16"))]
    account = Routed(routes={"main": [NAT]}, endpoints=present, ingress={"sg-endpoint": rules})
    assert checks.finding_of("way-out", account, NOW).state == OK
    account.subnets = {"subnet-a"}
    told = checks.finding_of("way-out", account, NOW)
    assert (told.state, told.says) == (UNKNOWN, "EC2 does not describe the subnets subnet-b")
    account.groups = [one for one in account.groups if one["GroupId"] != "sg-own"]
    told = checks.finding_of("way-out", account, NOW)
    assert (told.state, told.says) == (UNKNOWN, "EC2 does not describe the security groups sg-own")
    told = checks.finding_of("way-out", Routed(routes={"subnet-a": [NAT]}), NOW)
    assert (told.state, told.says) == (UNKNOWN, "EC2 describes no route table of subnet-b")


def test_functions_whose_security_group_lets_nothing_out_are_named() -> None:
    told = found(Routed(routes={"main": [NAT]}, egress=[https() | {"FromPort": 5432, "ToPort": 5432}]))
    assert (told.state, told.says) == (
        PROBLEM,
        "the functions' security groups sg-own let no HTTPS out: calls hang",
    )
    assert told.mends.startswith("aws ec2 authorize-security-group-egress --region eu-west-1 --group-id sg-own ")
    assert found(Routed(routes={"main": [NAT]}, egress=[https(IpRanges=addresses("10.0.0.0/8"))])).state == OK
