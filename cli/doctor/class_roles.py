"""Checks the role of nodes of each EC2NodeClass: it exists, the functions may pass it, its nodes may join and become ready."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from cli.doctor.access_entries import is_shadow
from cli.doctor.account import Account
from cli.doctor.cluster_api import CONFIG_MAPS
from cli.doctor.finding import OK, PROBLEM, AccountFinding
from cli.doctor.network import DEPLOYS, JOINING
from cli.doctor.node_roles import passed_roles
from cli.doctor.role_policies import refused, statements
from cli.doctor.way_out import reaches_iam
from core.catalogue.node_class import without_path
from core.manifests.wire.api_resources import EC2_NODE_CLASSES

ONLY_ENTRIES: Final = "API"
"""The authentication mode in which the ConfigMap aws-auth does not count."""

NEEDED: Final = {
    "AmazonEKSWorkerNodePolicy": ("ec2:DescribeInstances",),
    "AmazonEC2ContainerRegistryPullOnly": (
        "ecr:BatchGetImage",
        "ecr:GetAuthorizationToken",
        "ecr:GetDownloadUrlForLayer",
    ),
}
"""Policy of AWS → what EKS' images need of it: the first to find their node's name, the other to pull kube-proxy and the CNI
plugin. The plugin's own permissions are left out, since its service account may have them."""


class _Problem(NamedTuple):
    """What is wrong with a role, and the command that mends it; `mends` ends with a comment if it is a deployment."""

    says: str
    mends: str


def class_roles(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether the nodes of each EC2NodeClass can be launched with its role, and join."""
    classes = account.api.list(EC2_NODE_CLASSES)
    if not classes:
        return AccountFinding(name, OK, "there is no EC2NodeClass yet")
    roles, problems = _roles(account, classes)
    problems += _unmade_profiles(account, classes)
    problems += [problem for role, users in sorted(roles.items()) for problem in _problems(account, role, users)]
    if problems:
        mends = list(dict.fromkeys(problem.mends for problem in problems))
        mends.sort(key=lambda command: command.startswith(DEPLOYS))  # its comment would end what follows
        return AccountFinding(name, PROBLEM, "; ".join(problem.says for problem in problems), " && ".join(mends))
    return AccountFinding(name, OK, f"the roles of all EC2NodeClasses are usable: {', '.join(sorted(roles))}")


def _roles(account: Account, classes: list[dict[str, Any]]) -> tuple[dict[str, list[str]], list[_Problem]]:
    """Return role → the names of the classes with it, and problems of classes without a role."""
    roles: dict[str, list[str]] = {}
    problems: list[_Problem] = []
    for manifest in sorted(classes, key=lambda one: str(one["metadata"]["name"])):
        known, spec = str(manifest["metadata"]["name"]), manifest.get("spec") or {}
        role, profile = without_path(str(spec.get("role") or "")), str(spec.get("instanceProfile") or "")
        if profile and not role:
            role = _role_of(account, profile)
        if role:
            roles.setdefault(role, []).append(known)
        elif profile:
            says = f"EC2NodeClass {known} has the instance profile {profile}, which does not exist or has no role"
            problems.append(_Problem(says, f"aws iam get-instance-profile --instance-profile-name {profile}"))
    return roles, problems


def _unmade_profiles(account: Account, classes: list[dict[str, Any]]) -> Iterator[_Problem]:
    """Yield the classes whose instance profile the functions cannot create, because no call of theirs gets to IAM."""
    named = sorted(str(one["metadata"]["name"]) for one in classes if (one.get("spec") or {}).get("role"))
    if named and account.is_deployed() and not is_shadow(account) and not reaches_iam(account):
        says = f"the functions cannot reach IAM to create instance profiles for {', '.join(named)}"
        yield _Problem(
            f"{says}: name an instanceProfile in place of the role", f"kubectl edit ec2nodeclasses {' '.join(named)}"
        )


def _role_of(account: Account, profile: str) -> str:
    """Return the name of an instance profile's role, empty if there is none."""
    found = account.ask("iam", "GetInstanceProfile", InstanceProfileName=profile) or {}
    roles = (found.get("InstanceProfile") or {}).get("Roles") or ()
    return str(roles[0]["RoleName"]) if roles else ""


def _problems(account: Account, role: str, users: list[str]) -> Iterator[_Problem]:
    whose = f"{'EC2NodeClass' if len(users) == 1 else 'EC2NodeClasses'} {', '.join(users)}"
    has = "has" if len(users) == 1 else "have"
    described = (account.ask("iam", "GetRole", RoleName=role) or {}).get("Role")
    if described is None:
        says = f"{whose} {has} the role {role}, which the account does not have: launches fail"
        yield _Problem(says, f"kubectl edit ec2nodeclasses {' '.join(users)}")
        return
    arn = str(described["Arn"])
    if account.is_deployed() and not is_shadow(account) and arn not in passed_roles(account):
        says = f"{whose} {has} the role {role}, which the functions may not pass: launches fail"
        yield _Problem(says, f"{DEPLOYS}  # with {arn.partition(':role/')[2]} in nodeRoles")
    if not _may_join(account, arn):
        says = f"nodes with the role {role} of {whose} cannot join: it has no access entry of type EC2_LINUX"
        names = f"--cluster-name {account.cluster} --principal-arn {arn} --type EC2_LINUX"
        yield _Problem(says, f"aws eks create-access-entry --region {account.region} {names}")
    yield from _lacking(account, arn, whose)


def _lacking(account: Account, arn: str, whose: str) -> Iterator[_Problem]:
    """Yield what the policies of the role lack, each with the policy of AWS that has it."""
    role, granted = arn.rpartition("/")[2], list(statements(account, arn.rpartition("/")[2]))
    for policy, actions in NEEDED.items():
        if missing := refused(granted, actions):
            says = f"the role {role} of {whose} may not {', '.join(missing)}: nodes of EKS' images do not become ready"
            of_aws = f"arn:{arn.split(':')[1]}:iam::aws:policy/{policy}"
            yield _Problem(says, f"aws iam attach-role-policy --role-name {role} --policy-arn {of_aws}")


def _may_join(account: Account, arn: str) -> bool:
    entry = account.ask("eks", "DescribeAccessEntry", clusterName=account.cluster, principalArn=arn)
    if ((entry or {}).get("accessEntry") or {}).get("type") in JOINING:
        return True
    mode = (account.described().get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP")
    return mode != ONLY_ENTRIES and _is_mapped(account.api.find(CONFIG_MAPS, "aws-auth", "kube-system") or {}, arn)


def _is_mapped(config_map: Mapping[str, Any], arn: str) -> bool:
    """Whether the ConfigMap aws-auth has the role, which it names without its path."""
    mapped = str((config_map.get("data") or {}).get("mapRoles") or "")
    return re.search(rf":role/{re.escape(arn.rpartition('/')[2])}(?![\w+=,.@/-])", mapped) is not None
