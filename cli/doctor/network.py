"""What `doctor` finds in the network: routes to the API server, endpoints, security groups, and nodes' way out."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from ipaddress import IPv4Network, collapse_addresses, ip_network
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cli.doctor.cluster_api import NoClusterError, NotAllowedError, NotAnsweredError
from core.api.objects import mapping, sequence
from installation.network_services import GATEWAYS, called
from installation.stack_names import role_name

if TYPE_CHECKING:
    import boto3

    from cli.doctor.cluster_api import ClusterApi


# An AWS account for the checks: calls may be refused, and objects may be missing.


PAGES_MAX: Final = 10
"""The most pages of a list, a hundred entries each: more than a stack may have resources."""

NOT_YET: Final = frozenset({"", "REVIEW_IN_PROGRESS", "CREATE_IN_PROGRESS"})
"""Statuses of a stack that has no functions yet; the first is that of none."""

NEVER_CREATED: Final = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED"})
"""Statuses of a stack that cannot be updated: its creation or its removal failed."""


INVALID_CREDENTIALS: Final = (
    "AuthFailure",
    "ExpiredToken",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignature",
    "MissingAuthenticationToken",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClient",
)
"""Beginnings of the error codes after which no other call would be answered either."""


class AccountAnswer(NamedTuple):
    """What AWS said to a call.

    Attributes:
        body: The answer, or the document of the error.
        asked_at, answered_at: When, by the clock of this machine.
        code, message: Those of the error; empty if the call succeeded.
    """

    body: dict[str, Any]
    asked_at: datetime
    answered_at: datetime
    code: str = ""
    message: str = ""

    @property
    def is_denied(self) -> bool:
        """Whether the credentials may not make the call."""
        return self.code.startswith(("AccessDenied", "UnauthorizedOperation"))


class Account:
    """One region of an account, and the cluster in it.

    Attributes:
        session: Whose credentials are used.
        cluster: Name of the EKS cluster.
        region: Where it is.
        stack: Name of the stack that serves it; `infra.config` defines it.
    """

    def __init__(self, session: boto3.Session, cluster: str, stack: str) -> None:
        self.session = session
        self.cluster = cluster
        self.region = str(session.region_name)
        self.stack = stack
        self._clients: dict[tuple[str, str], Any] = {}

    def answered(self, service: str, operation: str, region: str = "", **arguments: Any) -> AccountAnswer:
        """Return AWS's answer to a call, refusals included; `region` is another than the cluster's.

        Raises:
            ClientError: If the credentials are not valid.
        """
        from botocore import xform_name
        from botocore.exceptions import ClientError

        began = datetime.now(UTC)
        try:
            body: dict[str, Any] = getattr(self._client_of(service, region), xform_name(operation))(**arguments)
        except ClientError as error:
            code, body = str(error.response["Error"]["Code"]), dict(error.response)
            if code.startswith(INVALID_CREDENTIALS):
                raise
            return AccountAnswer(
                body, began, datetime.now(UTC), code, str(error.response["Error"].get("Message") or "")
            )
        return AccountAnswer(body, began, datetime.now(UTC))

    def _client_of(self, service: str, region: str) -> Any:
        if (service, region) not in self._clients:
            more = {"region_name": region} if region else {}
            self._clients[service, region] = self.session.client(service, **more)
        return self._clients[service, region]

    def ask(self, service: str, operation: str, **arguments: Any) -> dict[str, Any] | None:
        """Return the answer to a call; None if the named object does not exist.

        Raises:
            NotAllowedError: If the credentials lack the permission.
            NotAnsweredError: If the call fails otherwise.
            ClientError: If the credentials are not valid.
        """
        answer = self.answered(service, operation, **arguments)
        if not answer.code:
            return answer.body
        if answer.is_denied:
            raise NotAllowedError(f"{service}:{operation}")
        if answer.code.startswith(("ResourceNotFound", "NotFound", "NoSuch", "ValidationError", "404")):
            return None
        raise NotAnsweredError(f"{service}:{operation}: {answer.message or answer.code}")

    def every(
        self, service: str, operation: str, entries: str, token: tuple[str, str], **arguments: Any
    ) -> Iterator[Any]:
        """Yield the entries of all pages; `token` is what a request calls the place of the next page, and what an answer does.

        Raises:
            NotAllowedError: If the credentials lack the permission.
        """
        sent, answered = token
        for _ in range(PAGES_MAX):
            page = mapping(self.ask(service, operation, **arguments))
            yield from page.get(entries, ())
            if not page.get(answered):
                return
            arguments[sent] = page[answered]

    def stack_status(self) -> str:
        """CloudFormation's status of the stack; empty if there is none."""
        stacks = mapping(self.ask("cloudformation", "DescribeStacks", StackName=self.stack))
        return next((str(stack["StackStatus"]) for stack in stacks.get("Stacks", ())), "")

    def is_deployed(self) -> bool:
        """Whether the stack's functions are there: its creation has ended, and did not fail."""
        return self.stack_status() not in NOT_YET | NEVER_CREATED

    def resources(self) -> Iterator[Any]:
        """Yield the summary of each resource of the stack."""
        tokens = ("NextToken", "NextToken")
        return self.every(
            "cloudformation", "ListStackResources", "StackResourceSummaries", tokens, StackName=self.stack
        )

    def subscribes(self) -> bool:
        """Whether the deployed stack is to read the audit log; False where `auditLogGroup` is empty."""
        return any(resource["ResourceType"] == "AWS::Logs::SubscriptionFilter" for resource in self.resources())

    def provision(self) -> dict[str, Any]:
        """Configuration of the deployed function `provision`; empty if there is none."""
        for name in self.functions("provision"):
            return mapping(self.ask("lambda", "GetFunctionConfiguration", FunctionName=name))
        return {}

    def functions(self, name: str) -> list[str]:
        """Return the name that the function of the wiring has in the account; none if it is not deployed."""
        return [
            str(resource["PhysicalResourceId"])
            for resource in self.resources()
            if resource["ResourceType"] == "AWS::Lambda::Function"
            and str(resource["LogicalResourceId"]).startswith(name.replace("_", ""))
        ][:1]

    def role_name(self, function: str) -> str:
        """Return the name of a function's role: the stack's, or what `cdk deploy` calls it where the stack cannot be listed.

        In the templates of a release, CloudFormation names roles.
        """
        logical = f"{function.replace('_', '')}Role"
        try:
            listed = [
                str(resource["PhysicalResourceId"])
                for resource in self.resources()
                if resource["ResourceType"] == "AWS::IAM::Role"
                and str(resource["LogicalResourceId"]).startswith(logical)
            ]
        except (NotAllowedError, NotAnsweredError):
            listed = []
        return listed[0] if listed else role_name(self.stack, self.region, function)

    def role(self, name: str) -> str:
        """Return the ARN of a role of the account."""
        caller = str(mapping(self.ask("sts", "GetCallerIdentity"))["Arn"])
        partition, number = caller.split(":")[1], caller.split(":")[4]
        return f"arn:{partition}:iam::{number}:role/{name}"

    def settings(self) -> dict[str, str]:
        """Environment variables of the deployed functions: all have the same; empty if there are none."""
        variables: dict[str, str] = mapping(mapping(self.provision().get("Environment")).get("Variables"))
        return variables

    @cached_property
    def api(self) -> ClusterApi:
        """The cluster's API server."""
        from cli.doctor.cluster_api import ClusterApi

        return ClusterApi(self.session, self.cluster, self.described)

    def described(self) -> dict[str, Any]:
        """Return EKS's description of the cluster.

        Raises:
            NoClusterError: If there is none of the name.
            NotAllowedError: If the credentials lack the permission.
        """
        cluster = self.ask("eks", "DescribeCluster", name=self.cluster)
        if cluster is None:
            raise NoClusterError
        return dict(cluster["cluster"])


# The result of a check of an account.


OK: Final = "ok"
PROBLEM: Final = "problem"
UNKNOWN: Final = "unknown"


class AccountFinding(NamedTuple):
    """The result of a check.

    Attributes:
        mends: The repair command; empty if there is nothing to do.
    """

    check: str
    state: str
    says: str
    mends: str = ""


class FindingPart(NamedTuple):
    """A part of a finding: a problem, what has no answer, or with the state `ok` a note.

    Attributes:
        mends: The repair command; empty if there is nothing to do. It ends with a comment if it is a deployment.
    """

    state: str
    says: str
    mends: str = ""


JOINING: Final = ("EC2_LINUX", "EC2_WINDOWS")
"""Types of access entries with which instances join; `EC2` is that of EKS Auto Mode's own nodes."""

EVERYWHERE: Final = "0.0.0.0/0"
DEPLOYS: Final = "npx --no-install cdk deploy --all"


def endpoint(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether the functions reach the API server."""
    access = account.described().get("resourcesVpcConfig", {})
    ranges = access.get("publicAccessCidrs") or [EVERYWHERE]
    if access.get("endpointPublicAccess", True) and EVERYWHERE in ranges:
        return AccountFinding(name, OK, "the API server can be reached")
    if access.get("endpointPublicAccess", True):
        says = f"the API server is open to {', '.join(ranges)} only"
    else:
        says = "the API server is private"
    if _are_in_a_vpc(account):
        return AccountFinding(name, OK, f"{says}; the functions that ask it are in a VPC")
    return AccountFinding(
        name, PROBLEM, f"{says}: functions outside of its VPC cannot reach it", f"{DEPLOYS} -c vpc='{_vpc_of(access)}'"
    )


def node_entries(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether an access entry lets nodes join."""
    account.described()
    entries = account.every(
        "eks", "ListAccessEntries", "accessEntries", ("nextToken", "nextToken"), clusterName=account.cluster
    )
    for arn in entries:
        entry = mapping(account.ask("eks", "DescribeAccessEntry", clusterName=account.cluster, principalArn=arn))
        if entry.get("accessEntry", {}).get("type") in JOINING:
            return AccountFinding(name, OK, f"nodes of {arn} may join")
    return AccountFinding(
        name,
        PROBLEM,
        "no access entry of type EC2_LINUX: nodes cannot join, unless the ConfigMap aws-auth has their role",
        f"{DEPLOYS} -c nodeAccessEntries=true",
    )


def _are_in_a_vpc(account: Account) -> bool:
    if not account.is_deployed():
        return False
    return bool(mapping(account.provision().get("VpcConfig")).get("SubnetIds"))


def _vpc_of(access: dict[str, Any]) -> str:
    """Return the context key for the cluster's own VPC: its subnets work if they have a route out."""
    vpc = {
        "id": access.get("vpcId", "VPC"),
        "subnets": access.get("subnetIds") or ["SUBNET"],
        "clusterSecurityGroup": access.get("clusterSecurityGroupId", ""),
    }
    return json.dumps({key: value for key, value in vpc.items() if value})


# Checks that security groups let HTTPS from the functions in a VPC through to its endpoints.


HTTPS: Final = 443
ANY_PROTOCOL: Final = "-1"
TCP: Final = ("tcp", "6", ANY_PROTOCOL)

_OUT: Final = f"IpProtocol=tcp,FromPort={HTTPS},ToPort={HTTPS},IpRanges=[{{CidrIp={EVERYWHERE}}}]"


class _Callers(NamedTuple):
    """Where calls come from: the functions' security groups, and the addresses of their subnets."""

    groups: tuple[str, ...]
    networks: tuple[IPv4Network, ...]

    @classmethod
    def of(cls, account: Account, vpc: Mapping[str, Any]) -> _Callers:
        """Return those of functions with this `VpcConfig`. Raises NotAnsweredError."""
        subnets = [str(subnet) for subnet in vpc.get("SubnetIds", ())]
        described = mapping(account.ask("ec2", "DescribeSubnets", SubnetIds=subnets)).get("Subnets", ())
        _require("subnets", subnets, [str(subnet["SubnetId"]) for subnet in described])
        networks = tuple(IPv4Network(subnet["CidrBlock"]) for subnet in described if subnet.get("CidrBlock"))
        return cls(tuple(str(group) for group in vpc.get("SecurityGroupIds", ())), networks)


def refused_group(
    name: str, account: Account, vpc: Mapping[str, Any], interfaces: Mapping[str, frozenset[str]]
) -> AccountFinding | None:
    """Return the problem of groups that let no call out of the functions, or into an endpoint; None without one.

    Args:
        name: The check.
        account: The account.
        vpc: The functions' `VpcConfig`.
        interfaces: Service → the groups of the endpoint to which calls of the service go.

    Raises:
        NotAnsweredError: If EC2 leaves out one of the groups or subnets.
    """
    group_ids = [str(group) for group in vpc.get("SecurityGroupIds", ())]
    groups = _described(account, frozenset(group_ids).union(*interfaces.values()))
    if group_ids and not _lets_out(groups[group_id] for group_id in group_ids):
        says = f"the functions' security groups {', '.join(group_ids)} let no HTTPS out: calls hang"
        return AccountFinding(
            name, PROBLEM, says, f"{_authorizes(account, 'egress', group_ids[0])} --ip-permissions '{_OUT}'"
        )
    if not interfaces:
        return None
    callers = _Callers.of(account, vpc)
    shut = {
        service: min(ids)
        for service, ids in sorted(interfaces.items())
        if ids and not _lets_in([groups[group_id] for group_id in sorted(ids)], callers)
    }
    if not shut:
        return None
    which = "endpoint for" if len(shut) == 1 else "endpoints for each of"
    says = f"no HTTPS from the functions gets into the {which} {', '.join(shut)}: calls hang"
    source = f"--source-group {group_ids[0]}" if group_ids else "--cidr ADDRESSES_OF_THE_SUBNETS"
    https = f"--protocol tcp --port {HTTPS} {source}"
    mends = " && ".join(
        f"{_authorizes(account, 'ingress', group_id)} {https}" for group_id in sorted(set(shut.values()))
    )
    return AccountFinding(name, PROBLEM, says, mends)


def _authorizes(account: Account, direction: str, group: str) -> str:
    return f"aws ec2 authorize-security-group-{direction} --region {account.region} --group-id {group}"


def _described(account: Account, groups: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return id → EC2's description of these security groups. Raises NotAnsweredError."""
    answer = account.ask("ec2", "DescribeSecurityGroups", GroupIds=sorted(groups)) if groups else None
    described = {str(group["GroupId"]): group for group in mapping(answer).get("SecurityGroups", ())}
    _require("security groups", groups, described)
    return described


def _require(kind: str, required: Collection[str], described: Collection[str]) -> None:
    """Require that all are described: one that is not counts neither as open nor as closed. Raises NotAnsweredError."""
    if left_out := sorted(set(required).difference(described)):
        raise NotAnsweredError(f"EC2 does not describe the {kind} {', '.join(left_out)}")


def _lets_out(groups: Iterable[Mapping[str, Any]]) -> bool:
    """Whether any of the functions' groups has a rule for HTTPS out, wherever to."""
    return any(_is_https(rule) for group in groups for rule in group.get("IpPermissionsEgress", ()))


def _lets_in(groups: Iterable[Mapping[str, Any]], callers: _Callers) -> bool:
    """Whether any of these groups of an endpoint lets all callers in. A prefix list counts as if it had them."""
    rules = [rule for group in groups for rule in group.get("IpPermissions", ()) if _is_https(rule)]
    sources = {str(pair.get("GroupId")) for rule in rules for pair in rule.get("UserIdGroupPairs", ())}
    if any(rule.get("PrefixListIds") for rule in rules) or not sources.isdisjoint(callers.groups):
        return True
    ranges = [
        ip_network(written_range["CidrIp"], strict=False)
        for rule in rules
        for written_range in rule.get("IpRanges", ())
    ]
    open_to = list(collapse_addresses(ip_range for ip_range in ranges if isinstance(ip_range, IPv4Network)))
    return bool(callers.networks) and all(
        any(network.subnet_of(ip_range) for ip_range in open_to) for network in callers.networks
    )


def _is_https(rule: Mapping[str, Any]) -> bool:
    if str(rule.get("IpProtocol")) not in TCP:
        return False
    if str(rule["IpProtocol"]) == ANY_PROTOCOL:
        return True
    return int(rule.get("FromPort", 0)) <= HTTPS <= int(rule.get("ToPort", 65535))


# The services that a subnet reaches over endpoints of its VPC.


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


# Checks that functions in a VPC reach AWS: by a route out of their subnets, or by endpoints of the VPC.


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
    refused = refused_group(name, account, vpc, dict(called_interfaces(endpoints, settings)))
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
    main, by_subnet = RouteTable(), {}
    for table in described:
        read = _table(table)
        for association in table.get("Associations", ()):
            if association.get("Main"):
                main = read
            if association.get("SubnetId"):
                by_subnet[str(association["SubnetId"])] = read
    tables = {str(subnet): by_subnet.get(str(subnet), main) for subnet in vpc["SubnetIds"]}
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
