"""What the policy of a KMS key says about EC2's requests for a role that launches: yes, no, or `None` for what it leaves open.

A condition whose key is not among `_KNOWN`, or whose operator is not among these below, may hold or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

Statement = Mapping[str, Any]

_EQUALS: Final = ("Bool", "StringEquals", "StringEqualsIgnoreCase", "StringLike", "ArnEquals", "ArnLike")
_DIFFERS: Final = ("StringNotEquals", "StringNotEqualsIgnoreCase", "StringNotLike", "ArnNotEquals", "ArnNotLike")


class Launch(NamedTuple):
    """A launch for which EC2 asks the key.

    Attributes:
        role: ARN of the role that launches.
        account: Number of its account.
        region: Where EC2 launches.
    """

    role: str
    account: str
    region: str


def applies(policy: Mapping[str, Any], effect: str, launch: Launch, action: str) -> bool | None:
    """Return whether a statement with this effect, `Allow` or `Deny`, applies to an action of EC2 for the role."""
    return any_of(
        _holds(statement, launch)
        for statement in listed(policy.get("Statement"))
        if statement.get("Effect") == effect and _is_about(statement, launch, action)
    )


def any_of(answers: Iterable[bool | None]) -> bool | None:
    """Return True if one answer is True, else None if one is open, else False."""
    found = set(answers)
    return True if True in found else None if None in found else False


def listed(value: Any) -> list[Any]:
    """Return what a policy may state alone or as a list."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _is_about(statement: Statement, launch: Launch, action: str) -> bool:
    if "NotAction" in statement:
        is_action = not _matches(statement["NotAction"], action)
    else:
        is_action = _matches(statement.get("Action"), action)
    if "NotPrincipal" in statement:
        return is_action and launch.role not in _principals(statement["NotPrincipal"])
    return is_action and bool({launch.role, "*"} & set(_principals(statement.get("Principal"))))


def _principals(principal: Any) -> list[str]:
    """Return the named principals. An account is not its roles: it lets their own policies decide, and ours name no key."""
    return listed(principal.get("AWS") if isinstance(principal, Mapping) else principal)


def _matches(patterns: Any, text: str) -> bool:
    """Whether a pattern of IAM matches: `*` is any text, `?` any character."""
    found = (re.escape(str(pattern)).replace(r"\*", ".*").replace(r"\?", ".") for pattern in listed(patterns))
    return any(re.fullmatch(pattern, text, re.IGNORECASE) for pattern in found)


def _holds(statement: Statement, launch: Launch) -> bool | None:
    """Whether all conditions of the statement hold."""
    found = [
        _condition_holds(operator.removesuffix("IfExists"), str(key), values, launch)
        for operator, keys in (statement.get("Condition") or {}).items()
        for key, values in keys.items()
    ]
    return False if False in found else None if None in found else True


def _condition_holds(operator: str, key: str, values: Any, launch: Launch) -> bool | None:
    known = _KNOWN.get(key.lower())
    value = known(launch) if known else ""
    if not value or operator not in (*_EQUALS, *_DIFFERS):
        return None
    return _matches(values, value) == (operator in _EQUALS)


def _via_service(launch: Launch) -> str:
    """Return the service in whose name the key is used; its suffix in China is not documented."""
    return "" if launch.region.startswith("cn-") else f"ec2.{launch.region}.amazonaws.com"


_KNOWN: Final[Mapping[str, Callable[[Launch], str]]] = {
    "aws:principalaccount": lambda launch: launch.account,
    "aws:principalarn": lambda launch: launch.role,
    "aws:securetransport": lambda _: "true",
    "kms:calleraccount": lambda launch: launch.account,
    "kms:grantisforawsresource": lambda _: "true",
    "kms:viaservice": _via_service,
}
"""Key of a condition in small letters → its value in EC2's request."""
