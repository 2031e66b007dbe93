"""What the policy of a KMS key says about EC2's requests for a role that launches: yes, no, or `None` for what it leaves open.

A condition whose key is not among `_KNOWN`, or whose operator is not among these below, may hold or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from core.api.objects import mapping

Statement = Mapping[str, Any]

_EQUALS: Final = ("Bool", "StringEquals", "StringEqualsIgnoreCase", "StringLike", "ArnEquals", "ArnLike")
_DIFFERS: Final = ("StringNotEquals", "StringNotEqualsIgnoreCase", "StringNotLike", "ArnNotEquals", "ArnNotLike")


class LaunchingRole(NamedTuple):
    """A role for which EC2 asks the key.

    Attributes:
        account: Number of its account.
        region: Where EC2 launches.
    """

    arn: str
    account: str
    region: str


def applies(policy: Mapping[str, Any], effect: str, role: LaunchingRole, action: str) -> bool | None:
    """Return whether a statement with this effect, `Allow` or `Deny`, applies to an action of EC2 for the role."""
    return any_of(
        _holds(statement, role)
        for statement in _listed(policy.get("Statement"))
        if statement.get("Effect") == effect and _is_about(statement, role, action)
    )


def any_of(answers: Iterable[bool | None]) -> bool | None:
    """Return True if one answer is True, else None if one is open, else False."""
    found = set(answers)
    return True if True in found else None if None in found else False


def _listed(value: Any) -> list[Any]:
    """Return what a policy may state alone or as a list."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _is_about(statement: Statement, role: LaunchingRole, action: str) -> bool:
    if "NotAction" in statement:
        is_action = not matches(statement["NotAction"], action)
    else:
        is_action = matches(statement.get("Action"), action)
    if "NotPrincipal" in statement:
        return is_action and role.arn not in _principals(statement["NotPrincipal"])
    named = {role.arn, "*"}
    if statement.get("Effect") == "Deny":
        named |= {role.account, f"arn:{role.arn.split(':')[1]}:iam::{role.account}:root"}
    return is_action and bool(named & set(_principals(statement.get("Principal"))))


def _principals(principal: Any) -> list[str]:
    """Return the named principals.

    An account that is allowed lets the policies of its roles decide, and ours name no key; one that is denied denies its roles.
    """
    return _listed(principal.get("AWS") if isinstance(principal, Mapping) else principal)


def matches(patterns: Any, text: str) -> bool:
    """Whether a pattern of IAM matches: `*` is any text, `?` any character."""
    found = (re.escape(str(pattern)).replace(r"\*", ".*").replace(r"\?", ".") for pattern in _listed(patterns))
    return any(re.fullmatch(pattern, text, re.IGNORECASE) for pattern in found)


def _holds(statement: Statement, role: LaunchingRole) -> bool | None:
    """Whether all conditions of the statement hold."""
    found = [
        _condition_holds(operator.removesuffix("IfExists"), str(key), values, role)
        for operator, keys in mapping(statement.get("Condition")).items()
        for key, values in keys.items()
    ]
    return False if False in found else None if None in found else True


def _condition_holds(operator: str, key: str, values: Any, role: LaunchingRole) -> bool | None:
    known = _KNOWN.get(key.lower())
    value = known(role) if known else ""
    if not value or operator not in (*_EQUALS, *_DIFFERS):
        return None
    return matches(values, value) == (operator in _EQUALS)


def _via_service(role: LaunchingRole) -> str:
    """Return the service in whose name the key is used; its suffix in China is not documented."""
    return "" if role.region.startswith("cn-") else f"ec2.{role.region}.amazonaws.com"


_KNOWN: Final[Mapping[str, Callable[[LaunchingRole], str]]] = {
    "aws:principalaccount": lambda role: role.account,
    "aws:principalarn": lambda role: role.arn,
    "aws:securetransport": lambda _: "true",
    "kms:calleraccount": lambda role: role.account,
    "kms:grantisforawsresource": lambda _: "true",
    "kms:viaservice": _via_service,
}
"""Key of a condition in small letters → its value in EC2's request."""
