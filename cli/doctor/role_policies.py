"""The statements of a role's policies, its own and attached ones, and which actions they refuse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from cli.doctor.account import Account
from cli.doctor.key_policy import Statement, matches


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


def refused(stated: Sequence[Statement], actions: Iterable[str]) -> list[str]:
    """Return the actions that no statement allows, or that one denies.

    A condition or a resource of an Allow counts as fulfilled. Permissions boundaries and policies of the organization are not read.
    """
    return [action for action in actions if is_denied(stated, action) or not _is_allowed(stated, action)]


def is_denied(stated: Iterable[Statement], action: str) -> bool:
    """Whether a statement denies the action for every resource, without a condition, which may not hold."""
    return any(
        statement.get("Effect") == "Deny" and _is_about(statement, action) and _always_applies(statement)
        for statement in stated
    )


def _is_allowed(stated: Iterable[Statement], action: str) -> bool:
    return any(statement.get("Effect") == "Allow" and _is_about(statement, action) for statement in stated)


def _always_applies(statement: Statement) -> bool:
    resources = statement.get("Resource")
    return not statement.get("Condition") and "*" in ([resources] if isinstance(resources, str) else resources or ())


def _is_about(statement: Statement, action: str) -> bool:
    if "NotAction" in statement:
        return not matches(statement["NotAction"], action)
    return matches(statement.get("Action"), action)


def _each(document: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the statements of a policy; IAM allows a single one without a list."""
    stated = (document or {}).get("Statement") or []
    return [stated] if isinstance(stated, dict) else list(stated)
