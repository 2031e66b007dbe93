"""Checks that the roles of nodes which the functions may pass to instances exist, under the ARN that their policy names."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from cli.doctor.access_entries import is_shadow
from cli.doctor.account import Account
from cli.doctor.finding import OK, PROBLEM, AccountFinding
from cli.doctor.network import DEPLOYS
from cli.doctor.role_policies import statements
from core.api.objects import mapping
from core.catalogue.node_class import without_path
from installation.stack_names import role_name

PASSES: Final = "iam:PassRole"
LAUNCHES: Final = "provision"
"""A function whose role may pass roles of nodes. Each function that launches may pass the same."""


def node_roles(name: str, account: Account, _: datetime) -> AccountFinding:
    """Whether IAM knows each role of the context's `nodeRoles` under its name and path."""
    if not account.is_deployed():
        return AccountFinding(name, OK, "not deployed yet")
    passed = passed_roles(account)
    if not passed and not is_shadow(account):
        role = role_name(account.stack, account.region, LAUNCHES)
        says = f"the role {role} may pass no role of nodes, or does not exist: launches fail"
        return AccountFinding(name, PROBLEM, says, f"{DEPLOYS}  # with the names of roles in nodeRoles")
    problems = [problem for arn in passed for problem in _problem(account, arn)]
    if problems:
        mends = f"{DEPLOYS}  # with the names of roles, and their paths, in nodeRoles"
        return AccountFinding(name, PROBLEM, f"{'; '.join(problems)}: launches fail", mends)
    return AccountFinding(
        name, OK, f"the functions may pass {', '.join(arn.partition('role/')[2] for arn in passed) or 'none'}"
    )


def passed_roles(account: Account) -> list[str]:
    """Return the ARNs of roles that the functions may pass to instances, sorted."""
    role = role_name(account.stack, account.region, LAUNCHES)
    return sorted({arn for statement in statements(account, role) for arn in _passed(statement)})


def _problem(account: Account, arn: str) -> Iterator[str]:
    known = without_path(arn)
    found = mapping(mapping(account.ask("iam", "GetRole", RoleName=known)).get("Role")).get("Arn")
    if found is None:
        yield f"the account has no role {known}"
    elif found != arn:
        yield f"the functions may pass {arn}, and the role is {found}"


def _passed(statement: dict[str, Any]) -> list[str]:
    actions, resources = (_listed(statement.get(key)) for key in ("Action", "Resource"))
    return resources if statement.get("Effect") == "Allow" and PASSES in actions else []


def _listed(given: object) -> list[str]:
    return [given] if isinstance(given, str) else [str(one) for one in given] if isinstance(given, list) else []
