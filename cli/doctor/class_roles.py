"""Checks the role of nodes of each EC2NodeClass: it exists, the functions may pass it, its nodes may join and become ready."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from cli.doctor.access_entries import is_shadow
from cli.doctor.account import Account
from cli.doctor.cluster_api import CONFIG_MAPS
from cli.doctor.errors import NotAllowedError, NotAnsweredError, unanswered
from cli.doctor.finding import OK, PROBLEM, UNKNOWN, AccountFinding, FindingPart
from cli.doctor.network import DEPLOYS, JOINING
from cli.doctor.node_roles import passed_roles
from cli.doctor.role_policies import lacking
from cli.doctor.way_out import way_to_iam
from core.ami_families.custom import CUSTOM
from core.ami_families.registry import family_of
from core.api.objects import mapping, sequence
from core.catalogue.node_class import without_path
from core.manifests.wire.api_resources import EC2_NODE_CLASSES

ONLY_ENTRIES: Final = "API"
"""The authentication mode in which the ConfigMap aws-auth does not count."""

PUBLISHED: Final = "/aws/service/"
"""Beginning of the SSM parameters with which AWS publishes images."""

WORST: Final = (PROBLEM, UNKNOWN, OK)
"""States of parts; the first one decides."""


class _Users(NamedTuple):
    """Names of the EC2NodeClasses with a role: all, and those with images of EKS; others' images may need less."""

    every: list[str]
    of_eks: list[str]


def class_roles(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether the nodes of each EC2NodeClass can be launched with its role, and join."""
    classes = account.api.list(EC2_NODE_CLASSES)
    if not classes:
        return AccountFinding(name, OK, "there is no EC2NodeClass yet")
    roles: dict[str, _Users] = {}
    found = [one for manifest in classes for one in _answered(_assign(account, manifest, roles))]
    found += _answered(_unmade_profiles(account, classes))
    for role, users in sorted(roles.items()):
        found += _answered(_of_role(account, role, users))
    return _together(name, found, f"the roles of all EC2NodeClasses are usable: {', '.join(sorted(roles))}")


def _together(name: str, found: list[FindingPart], usable: str) -> AccountFinding:
    """Return the finding of all parts, the worst ones first; it begins with `usable` where all are notes."""
    state = next((worst for worst in WORST if any(one.state == worst for one in found)), OK)
    every = [FindingPart(OK, usable), *found] if state == OK else sorted(found, key=lambda one: WORST.index(one.state))
    mends = list(dict.fromkeys(one.mends for one in every if one.mends))
    mends.sort(key=lambda command: command.startswith(DEPLOYS))  # its comment would end what follows
    return AccountFinding(name, state, "; ".join(dict.fromkeys(one.says for one in every)), " && ".join(mends))


def _answered(found: Iterator[FindingPart]) -> Iterator[FindingPart]:
    """Yield what is found until a call has no answer, and then that: what others found stays."""
    try:
        yield from found
    except (NotAllowedError, NotAnsweredError) as error:
        yield FindingPart(UNKNOWN, unanswered(error))


def _assign(account: Account, manifest: dict[str, Any], roles: dict[str, _Users]) -> Iterator[FindingPart]:
    """Add a class to the users of its role; yield the problem of one without a role."""
    known, spec = str(manifest["metadata"]["name"]), mapping(manifest.get("spec"))
    role, profile = without_path(str(spec.get("role") or "")), str(spec.get("instanceProfile") or "")
    if profile and not role:
        role = _role_of(account, profile)
    if role:
        users = roles.setdefault(role, _Users([], []))
        users.every.append(known)
        if _has_images_of_eks(spec):
            users.of_eks.append(known)
    elif profile:
        says = f"EC2NodeClass {known} has the instance profile {profile}, which does not exist or has no role"
        yield FindingPart(PROBLEM, says, f"aws iam get-instance-profile --instance-profile-name {profile}")


def _has_images_of_eks(spec: Mapping[str, Any]) -> bool:
    """Whether the class selects images by an alias or a parameter of AWS, and lets the family write their user data."""
    terms = sequence(spec.get("amiSelectorTerms"))
    alias = next((str(term["alias"]) for term in terms if term.get("alias")), "")
    published = any(str(term.get("ssmParameter") or "").startswith(PUBLISHED) for term in terms)
    return family_of(str(spec.get("amiFamily") or ""), alias) is not CUSTOM and bool(alias or published)


def _unmade_profiles(account: Account, classes: list[dict[str, Any]]) -> Iterator[FindingPart]:
    """Yield the classes whose instance profile the functions cannot create, because no call of theirs gets to IAM."""
    named = sorted(str(one["metadata"]["name"]) for one in classes if mapping(one.get("spec")).get("role"))
    if not named or not account.is_deployed() or is_shadow(account):
        return
    way = way_to_iam(account)
    creates = f"to create instance profiles for {', '.join(named)}"
    if way.answer is None:
        behind = f"it depends on the networks behind {', '.join(way.elsewhere)}"
        shows = "the condition InstanceProfileReady of these EC2NodeClasses shows it"
        yield FindingPart(UNKNOWN, f"cannot tell whether the functions reach IAM {creates}: {behind}; {shows}")
    elif not way.answer:
        says = f"the functions cannot reach IAM {creates}: name an instanceProfile in place of the role"
        yield FindingPart(PROBLEM, says, f"kubectl edit ec2nodeclasses {' '.join(named)}")


def _role_of(account: Account, profile: str) -> str:
    """Return the name of an instance profile's role, empty if there is none."""
    found = mapping(account.ask("iam", "GetInstanceProfile", InstanceProfileName=profile))
    roles = sequence(mapping(found.get("InstanceProfile")).get("Roles"))
    return str(roles[0]["RoleName"]) if roles else ""


def _of_role(account: Account, role: str, users: _Users) -> Iterator[FindingPart]:
    whose, has = _named(users.every), "has" if len(users.every) == 1 else "have"
    described = mapping(account.ask("iam", "GetRole", RoleName=role)).get("Role")
    if described is None:
        says = f"{whose} {has} the role {role}, which the account does not have: launches fail"
        yield FindingPart(PROBLEM, says, f"kubectl edit ec2nodeclasses {' '.join(users.every)}")
        return
    arn = str(described["Arn"])
    yield from _answered(_passing(account, arn, f"{whose} {has} the role {role}"))
    yield from _answered(_joining(account, arn, f"nodes with the role {role} of {whose}"))
    yield from _answered(lacking(account, arn, _named(users.of_eks or users.every), is_of_eks=bool(users.of_eks)))


def _named(classes: list[str]) -> str:
    return f"{'EC2NodeClass' if len(classes) == 1 else 'EC2NodeClasses'} {', '.join(classes)}"


def _passing(account: Account, arn: str, says: str) -> Iterator[FindingPart]:
    if account.is_deployed() and not is_shadow(account) and arn not in passed_roles(account):
        mends = f"{DEPLOYS}  # with {arn.partition(':role/')[2]} in nodeRoles"
        yield FindingPart(PROBLEM, f"{says}, which the functions may not pass: launches fail", mends)


def _joining(account: Account, arn: str, nodes: str) -> Iterator[FindingPart]:
    if not _may_join(account, arn):
        names = f"--cluster-name {account.cluster} --principal-arn {arn} --type EC2_LINUX"
        mends = f"aws eks create-access-entry --region {account.region} {names}"
        yield FindingPart(PROBLEM, f"{nodes} cannot join: it has no access entry of type EC2_LINUX", mends)


def _may_join(account: Account, arn: str) -> bool:
    entry = account.ask("eks", "DescribeAccessEntry", clusterName=account.cluster, principalArn=arn)
    if mapping(mapping(entry).get("accessEntry")).get("type") in JOINING:
        return True
    mode = mapping(account.described().get("accessConfig")).get("authenticationMode", "CONFIG_MAP")
    return mode != ONLY_ENTRIES and _is_mapped(mapping(account.api.find(CONFIG_MAPS, "aws-auth", "kube-system")), arn)


def _is_mapped(config_map: Mapping[str, Any], arn: str) -> bool:
    """Whether the ConfigMap aws-auth has the role, which it names without its path."""
    mapped = str(mapping(config_map.get("data")).get("mapRoles") or "")
    return re.search(rf":role/{re.escape(without_path(arn))}(?![\w+=,.@/-])", mapped) is not None
