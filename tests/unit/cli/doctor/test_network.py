"""Functions in a VPC that cannot reach AWS hang at each call until they time out: the doctor says why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError

from cli.doctor import cluster, network
from cli.doctor.cluster_api import NotAllowedError, NotAnsweredError, unanswered
from cli.doctor.network import (
    OK,
    PAGES_MAX,
    PROBLEM,
    UNKNOWN,
    Account,
    AccountFinding,
    called_interfaces,
    endpoints_of,
    has_interface,
    missing_services,
    refused_group,
)
from installation.network_services import BY_SETTING, GATEWAYS, SERVICES, called
from tests.builders import NOW
from tests.unit.cli.doctor.answering_account import DEPLOYS, AnsweringAccount

# How the answers of AWS are read: what is missing, not permitted, refused for a while, or too long for one page.


@pytest.mark.parametrize(
    "code", ["ResourceNotFoundException", "NotFoundException", "NoSuchEntity", "ValidationError", "404"]
)
def test_an_object_that_is_not_there_is_none(code: str) -> None:
    assert AnsweringAccount(GetRole=code).ask("iam", "GetRole", RoleName="r") is None


@pytest.mark.parametrize(
    ("listed", "name"),
    [
        ("executeRole7E71B443", "fleetwright-prod-executeRole-X1"),
        ("executeFunctionRole1", "fleetwright-prod-eu-west-1-execute"),
        (None, "fleetwright-prod-eu-west-1-execute"),
    ],
)
def test_a_functions_role_is_the_stacks_or_named_as_cdk_deploy_names_it(listed: str | None, name: str) -> None:
    """CloudFormation names the roles of a release's template; the right to list the stack may be missing."""
    kind = {"ResourceType": "AWS::IAM::Role", "LogicalResourceId": listed, "PhysicalResourceId": name}
    summaries = {"StackResourceSummaries": [kind]} if listed else "AccessDenied"
    assert AnsweringAccount(ListStackResources=summaries).role_name("execute") == name


@pytest.mark.parametrize("code", ["AccessDenied", "AccessDeniedException", "UnauthorizedOperation"])
def test_a_call_that_is_not_permitted_is_named(code: str) -> None:
    with pytest.raises(NotAllowedError) as refused:
        AnsweringAccount(GetRole=code).ask("iam", "GetRole")
    assert unanswered(refused.value) == "these credentials may not call iam:GetRole"


@pytest.mark.parametrize(("code", "says"), [("Throttling: slow down", "slow down"), ("Throttling", "Throttling")])
def test_a_call_that_fails_says_why(code: str, says: str) -> None:
    with pytest.raises(NotAnsweredError) as failed:
        AnsweringAccount(GetRole=code).ask("iam", "GetRole")
    assert unanswered(failed.value) == f"iam:GetRole: {says}"


def test_credentials_that_are_not_valid_end_the_command() -> None:
    with pytest.raises(ClientError):
        AnsweringAccount(GetRole="ExpiredTokenException").ask("iam", "GetRole")


def test_all_pages_are_read_ten_at_most() -> None:
    tokens = ("Marker", "NextMarker")
    pages = [{"Roles": ["a"], "NextMarker": "2"}, {"NextMarker": "3"}, {"Roles": ["b"]}]
    account = AnsweringAccount(ListRoles=pages)
    assert list(account.every("iam", "ListRoles", "Roles", tokens, PathPrefix="/")) == ["a", "b"]
    assert account.asked == [
        ("ListRoles", {"PathPrefix": "/"} | ({"Marker": marker} if marker else {})) for marker in ("", "2", "3")
    ]
    endless = AnsweringAccount(ListRoles={"Roles": ["a"], "NextMarker": "x"})
    assert len(list(endless.every("iam", "ListRoles", "Roles", tokens))) == PAGES_MAX == 10


@pytest.mark.parametrize(
    ("status", "is_deployed"),
    [
        ("", False),
        ("REVIEW_IN_PROGRESS", False),
        ("CREATE_IN_PROGRESS", False),
        ("ROLLBACK_COMPLETE", False),
        ("DELETE_FAILED", False),
        ("CREATE_COMPLETE", True),
        ("UPDATE_FAILED", True),
    ],
)
def test_functions_are_there_once_the_stack_was_created(status: str, is_deployed: bool) -> None:
    account = AnsweringAccount(status=status)
    assert (account.stack_status(), account.is_deployed()) == (status, is_deployed)


def test_settings_are_those_of_the_function_provision() -> None:
    def resource(kind: str, logical: str) -> dict[str, str]:
        return {"ResourceType": kind, "LogicalResourceId": logical, "PhysicalResourceId": f"physical-{logical}"}

    function = "AWS::Lambda::Function"
    resources = [
        resource("AWS::IAM::Role", "provisionRole"),
        resource(function, "disrupt1"),
        resource(function, "provision1"),
    ]
    configuration = {"Environment": {"Variables": {"MODE": "act"}}}
    answers = {"ListStackResources": {"StackResourceSummaries": resources}, "GetFunctionConfiguration": configuration}
    account = AnsweringAccount(**answers)
    assert account.settings() == {"MODE": "act"}
    assert account.asked[-1] == ("GetFunctionConfiguration", {"FunctionName": "physical-provision1"})
    assert account.asked[0] == ("ListStackResources", {"StackName": "fleetwright-prod"})
    assert not account.subscribes()
    resources.append(resource("AWS::Logs::SubscriptionFilter", "watch"))
    assert account.subscribes()
    assert AnsweringAccount().settings() == {}
    assert AnsweringAccount(**{**answers, "GetFunctionConfiguration": {}}).settings() == {}


def test_roles_are_named_in_the_partition_of_the_credentials() -> None:
    caller = {"Arn": "arn:aws-cn:sts::210987654321:assumed-role/a/b"}
    assert AnsweringAccount(GetCallerIdentity=caller).role("r") == "arn:aws-cn:iam::210987654321:role/r"


# What is said of the roles of EC2NodeClasses: several problems in one line, the repairs in an order that can be pasted.


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
    found = cluster.finding_of("class-roles", given, NOW)
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


# Security groups between the functions and the endpoints of their VPC: a call that one of them stops hangs.


SECURITY_GROUPS_VPC = {"SubnetIds": ["subnet-a", "subnet-b"], "SecurityGroupIds": ["sg-own", "sg-too"]}
INGRESS = "aws ec2 authorize-security-group-ingress --region eu-west-1 --group-id "


def rule(protocol: str = "tcp", **more: Any) -> dict[str, Any]:
    return {"IpProtocol": protocol, "FromPort": 443, "ToPort": 443, **more}


def of(*addresses: str) -> dict[str, Any]:
    return {"IpRanges": [{"CidrIp": one} for one in addresses]}


def security_groups_told(
    *,
    out: dict[str, Any] | None = None,
    into: dict[str, list[dict[str, Any]]] | None = None,
    interfaces: dict[str, tuple[str, ...]] | None = None,
    vpc: dict[str, Any] = SECURITY_GROUPS_VPC,
) -> tuple[str, str] | None:
    own = {"GroupId": "sg-own"}
    too = {"GroupId": "sg-too", "IpPermissionsEgress": [rule() if out is None else out]}
    groups = [own, too, *({"GroupId": one, "IpPermissions": rules} for one, rules in (into or {}).items())]
    subnets = [
        {"SubnetId": "subnet-a", "CidrBlock": "10.0.1.0/24"},
        {"SubnetId": "subnet-b", "CidrBlock": "10.0.2.0/24"},
    ]
    account = AnsweringAccount(DescribeSecurityGroups={"SecurityGroups": groups}, DescribeSubnets={"Subnets": subnets})
    found = refused_group("way-out", account, vpc, {name: frozenset(ids) for name, ids in (interfaces or {}).items()})
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
    assert security_groups_told(out=out) == (None if is_open else shut)


def test_functions_without_a_group_of_their_own_are_not_judged() -> None:
    assert security_groups_told(vpc={"SubnetIds": ["subnet-a", "subnet-b"]}) is None


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
    assert security_groups_told(into=into, interfaces={"sqs": ("sg-b", "sg-a")}) == (None if is_open else shut)


def test_endpoints_that_share_a_group_are_opened_once() -> None:
    into: dict[str, list[dict[str, Any]]] = {"sg-a": [], "sg-b": [], "sg-c": [rule("-1", **of("0.0.0.0/0"))]}
    interfaces = {"sqs": ("sg-b",), "eks": ("sg-a",), "ec2": ("sg-a",), "ssm": ("sg-c",), "sns": ()}
    https = "--protocol tcp --port 443 --source-group sg-own"
    assert security_groups_told(into=into, interfaces=interfaces) == (
        "no HTTPS from the functions gets into the endpoints for each of ec2, eks, sqs: calls hang",
        f"{INGRESS}sg-a {https} && {INGRESS}sg-b {https}",
    )
    without = security_groups_told(into=into, interfaces={"sqs": ("sg-b",)}, vpc={"SubnetIds": ["subnet-a"]})
    assert without is not None
    assert without[1] == f"{INGRESS}sg-b --protocol tcp --port 443 --cidr ADDRESSES_OF_THE_SUBNETS"


def test_any_rule_of_any_group_is_enough() -> None:
    groups = [
        {"GroupId": "sg-own", "IpPermissionsEgress": [rule("udp"), rule()], "IpPermissions": [rule("udp")]},
        {"GroupId": "sg-too", "IpPermissionsEgress": [], "IpPermissions": [rule(**of("0.0.0.0/0"))]},
    ]
    subnets = [{"SubnetId": "subnet-a", "CidrBlock": "10.0.1.0/24"}, {"SubnetId": "subnet-b"}]
    account = AnsweringAccount(DescribeSecurityGroups={"SecurityGroups": groups}, DescribeSubnets={"Subnets": subnets})
    assert refused_group("way-out", account, SECURITY_GROUPS_VPC, {"sqs": frozenset(("sg-own", "sg-too"))}) is None
    assert account.asked == [
        ("DescribeSecurityGroups", {"GroupIds": ["sg-own", "sg-too"]}),
        ("DescribeSubnets", {"SubnetIds": ["subnet-a", "subnet-b"]}),
    ]


def test_what_ec2_leaves_out_is_named() -> None:
    with pytest.raises(NotAnsweredError, match="EC2 does not describe the security groups sg-x, sg-y"):
        security_groups_told(interfaces={"sqs": ("sg-y", "sg-x")})
    with pytest.raises(NotAnsweredError, match="EC2 does not describe the subnets subnet-z"):
        security_groups_told(into={"sg-a": []}, interfaces={"sqs": ("sg-a",)}, vpc={"SubnetIds": ["subnet-z"]})


# Which services a subnet reaches without a route out, and to which groups calls go.


ALL = called({})


def vpc_endpoints_endpoint(service: str, **more: Any) -> dict[str, Any]:
    kind: dict[str, Any] = {"VpcEndpointType": "Interface", "PrivateDnsEnabled": True}
    if service in GATEWAYS:
        kind = {"VpcEndpointType": "Gateway", "RouteTableIds": ["rtb-1", "rtb-2"]}
    return {"ServiceName": f"com.amazonaws.eu-west-1.{service}", "State": "available", **kind, **more}


def test_endpoints_are_those_of_the_vpc() -> None:
    account = AnsweringAccount(DescribeVpcEndpoints={"VpcEndpoints": [vpc_endpoints_endpoint("sqs")]})
    assert endpoints_of(account, "vpc-1") == [vpc_endpoints_endpoint("sqs")]
    assert account.asked == [("DescribeVpcEndpoints", {"Filters": [{"Name": "vpc-id", "Values": ["vpc-1"]}]})]


def test_a_service_is_reached_from_each_of_the_route_tables_or_missing() -> None:
    present = [vpc_endpoints_endpoint(name) for name in ALL]
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
    present = [vpc_endpoints_endpoint("sqs", **changes), vpc_endpoints_endpoint("s3", State="available")]
    assert has_interface(present, "sqs") == works
    assert ("sqs" not in missing_services(present, {}, {"rtb-1"})) == works
    assert dict(called_interfaces(present, {})) == ({"sqs": frozenset()} if works else {})


def test_a_gateway_that_is_not_available_serves_no_table() -> None:
    assert "s3" in missing_services([vpc_endpoints_endpoint("s3", State="deleting")], {}, {"rtb-1"})
    assert "s3" not in missing_services([vpc_endpoints_endpoint("s3")], {}, {"rtb-1"})


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
    return network.way_out("way-out", account, NOW)


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
    assert cluster.finding_of("way-out", account, NOW).state == OK
    account.subnets = {"subnet-a"}
    told = cluster.finding_of("way-out", account, NOW)
    assert (told.state, told.says) == (UNKNOWN, "EC2 does not describe the subnets subnet-b")
    account.groups = [one for one in account.groups if one["GroupId"] != "sg-own"]
    told = cluster.finding_of("way-out", account, NOW)
    assert (told.state, told.says) == (UNKNOWN, "EC2 does not describe the security groups sg-own")
    told = cluster.finding_of("way-out", Routed(routes={"subnet-a": [NAT]}), NOW)
    assert (told.state, told.says) == (UNKNOWN, "EC2 describes no route table of subnet-b")


def test_functions_whose_security_group_lets_nothing_out_are_named() -> None:
    told = found(Routed(routes={"main": [NAT]}, egress=[https() | {"FromPort": 5432, "ToPort": 5432}]))
    assert (told.state, told.says) == (
        PROBLEM,
        "the functions' security groups sg-own let no HTTPS out: calls hang",
    )
    assert told.mends.startswith("aws ec2 authorize-security-group-egress --region eu-west-1 --group-id sg-own ")
    assert found(Routed(routes={"main": [NAT]}, egress=[https(IpRanges=addresses("10.0.0.0/8"))])).state == OK
