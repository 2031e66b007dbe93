"""Checks that security groups let HTTPS from the functions in a VPC through to its endpoints."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from ipaddress import IPv4Network, collapse_addresses, ip_network
from typing import Any, Final, NamedTuple

from cli.doctor.account import Account
from cli.doctor.errors import NotAnsweredError
from cli.doctor.finding import PROBLEM, AccountFinding
from cli.doctor.network import EVERYWHERE
from core.api.objects import mapping

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


def refused(
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
    own = [str(group) for group in vpc.get("SecurityGroupIds", ())]
    groups = _described(account, frozenset(own).union(*interfaces.values()))
    if own and not _lets_out(groups[one] for one in own):
        says = f"the functions' security groups {', '.join(own)} let no HTTPS out: calls hang"
        return AccountFinding(
            name, PROBLEM, says, f"{_authorizes(account, 'egress', own[0])} --ip-permissions '{_OUT}'"
        )
    if not interfaces:
        return None
    callers = _Callers.of(account, vpc)
    shut = {
        service: min(ids)
        for service, ids in sorted(interfaces.items())
        if ids and not _lets_in([groups[one] for one in sorted(ids)], callers)
    }
    if not shut:
        return None
    which = "endpoint for" if len(shut) == 1 else "endpoints for each of"
    says = f"no HTTPS from the functions gets into the {which} {', '.join(shut)}: calls hang"
    source = f"--source-group {own[0]}" if own else "--cidr ADDRESSES_OF_THE_SUBNETS"
    https = f"--protocol tcp --port {HTTPS} {source}"
    mends = " && ".join(f"{_authorizes(account, 'ingress', one)} {https}" for one in sorted(set(shut.values())))
    return AccountFinding(name, PROBLEM, says, mends)


def _authorizes(account: Account, direction: str, group: str) -> str:
    return f"aws ec2 authorize-security-group-{direction} --region {account.region} --group-id {group}"


def _described(account: Account, groups: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return id → EC2's description of these security groups. Raises NotAnsweredError."""
    found = account.ask("ec2", "DescribeSecurityGroups", GroupIds=sorted(groups)) if groups else None
    described = {str(group["GroupId"]): group for group in mapping(found).get("SecurityGroups", ())}
    _require("security groups", groups, described)
    return described


def _require(kind: str, asked: Collection[str], described: Collection[str]) -> None:
    """Require that all are described: one that is not counts neither as open nor as closed. Raises NotAnsweredError."""
    if left_out := sorted(set(asked).difference(described)):
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
    ranges = [ip_network(one["CidrIp"], strict=False) for rule in rules for one in rule.get("IpRanges", ())]
    open_to = list(collapse_addresses(found for found in ranges if isinstance(found, IPv4Network)))
    return bool(callers.networks) and all(
        any(network.subnet_of(found) for found in open_to) for network in callers.networks
    )


def _is_https(rule: Mapping[str, Any]) -> bool:
    if str(rule.get("IpProtocol")) not in TCP:
        return False
    if str(rule["IpProtocol"]) == ANY_PROTOCOL:
        return True
    return int(rule.get("FromPort", 0)) <= HTTPS <= int(rule.get("ToPort", 65535))
