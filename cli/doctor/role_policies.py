"""The statements of a role's policies, its own and attached ones, and which actions they allow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cli.doctor.account import Account
from cli.doctor.key_policy import matches


def statements(account: Account, role: str) -> Iterator[dict[str, Any]]:
    """Yield the statements of all policies of a role. Raises NotAllowedError, NotAnsweredError."""
    tokens = ("Marker", "Marker")
    for name in account.every("iam", "ListRolePolicies", "PolicyNames", tokens, RoleName=role):
        found = account.ask("iam", "GetRolePolicy", RoleName=role, PolicyName=name) or {}
        yield from _each(found.get("PolicyDocument"))
    for policy in account.every("iam", "ListAttachedRolePolicies", "AttachedPolicies", tokens, RoleName=role):
        arn = policy["PolicyArn"]
        version = ((account.ask("iam", "GetPolicy", PolicyArn=arn) or {}).get("Policy") or {}).get("DefaultVersionId")
        said = account.ask("iam", "GetPolicyVersion", PolicyArn=arn, VersionId=version) if version else None
        yield from _each(((said or {}).get("PolicyVersion") or {}).get("Document"))


def refused(granted: Iterable[Mapping[str, Any]], actions: Iterable[str]) -> list[str]:
    """Return the actions that no statement allows. A condition or a resource of a statement counts as fulfilled."""
    allowing = [statement for statement in granted if statement.get("Effect") == "Allow"]
    return [action for action in actions if not any(_is_about(statement, action) for statement in allowing)]


def _is_about(statement: Mapping[str, Any], action: str) -> bool:
    if "NotAction" in statement:
        return not matches(statement["NotAction"], action)
    return matches(statement.get("Action"), action)


def _each(document: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the statements of a policy; IAM allows a single one without a list."""
    stated = (document or {}).get("Statement") or []
    return [stated] if isinstance(stated, dict) else list(stated)
