"""Checks that EKS knows the functions' roles: each has an access entry with its own group."""

from __future__ import annotations

from datetime import datetime

from cli.doctor.account import Account
from cli.doctor.finding import OK, PROBLEM, AccountFinding
from core.api.objects import mapping, sequence
from installation.cluster_roles import RULES_OF, SHADOW_RULES_OF, group_of
from installation.settings import SHADOW
from installation.stack_names import role_name


def access_entries(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether the roles of the deployed functions that ask the API server are in their groups.

    The deployment creates the entries, and does not notice that one was changed or deleted afterwards.
    """
    if not account.is_deployed():
        return AccountFinding(name, OK, "not deployed yet: the deployment creates the functions' entries")
    functions = SHADOW_RULES_OF if is_shadow(account) else RULES_OF
    problems, mends = [], []
    for function in functions:
        arn, group = account.role(role_name(account.stack, account.region, function)), group_of(function)
        found = account.ask("eks", "DescribeAccessEntry", clusterName=account.cluster, principalArn=arn)
        groups = sequence(mapping(mapping(found).get("accessEntry")).get("kubernetesGroups"))
        if group not in groups:
            verb = "update" if found else "create"
            problems.append(f"the entry of {arn} lacks the group {group}" if found else f"{arn} has no entry")
            names = f"--cluster-name {account.cluster} --principal-arn {arn}"
            every = " ".join((*groups, group))  # an update replaces the list
            mends.append(f"aws eks {verb}-access-entry --region {account.region} {names} --kubernetes-groups {every}")
    if problems:
        return AccountFinding(name, PROBLEM, f"{'; '.join(problems)}: its calls are refused", " && ".join(mends))
    return AccountFinding(name, OK, "each function that asks the API server is in its group")


def is_shadow(account: Account) -> bool:
    """Whether the deployed functions only decide and record."""
    return account.settings().get("MODE") == SHADOW
