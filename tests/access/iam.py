"""Evaluates policies of identities and of resources for a request by IAM's rules.

An explicit deny wins, else one statement must allow. A statement counts if action, resource and every condition match.
Anything that this evaluator does not know raises an error and never counts as a match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

Context = Mapping[str, tuple[str, ...]]


class UnknownPolicyError(Exception):
    """A policy contains something that this evaluator does not support."""


class Request(msgspec.Struct, frozen=True):
    """One authorization: `context` holds the condition keys, each with its values.

    Attributes:
        principal: Who asks, as a policy of a resource names it (`Service:events.amazonaws.com`); empty for the identity whose
            policy is asked.
    """

    action: str
    resource: str
    context: dict[str, tuple[str, ...]] = {}
    principal: str = ""

    def __str__(self) -> str:
        told = ", ".join(f"{key}={'|'.join(values)}" for key, values in sorted(self.context.items()))
        return f"{self.principal}{' asks for ' if self.principal else ''}{self.action} on {self.resource} ({told})"


class Statement(msgspec.Struct, frozen=True):
    """One statement with its wildcards; conditions by operator, then key; no principals in a policy of an identity."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: dict[str, dict[str, tuple[str, ...]]] = {}
    allows: bool = True
    principals: tuple[str, ...] = ()

    @property
    def scope(self) -> tuple[tuple[str, ...], dict[str, dict[str, tuple[str, ...]]]]:
        """Its resources and conditions."""
        return self.resources, self.conditions

    def matches(self, request: Request) -> bool:
        """Return whether the statement applies to the request."""
        return (
            any(matches(request.action.lower(), action.lower()) for action in self.actions)
            and any(matches(request.resource, resource) for resource in self.resources)
            and (not self.principals or any(matches(request.principal, who) for who in self.principals))
            and all(
                _holds(operator, _filled(values, request.context), _values(request.context, key))
                for operator, keys in self.conditions.items()
                for key, values in keys.items()
            )
        )


class Policy:
    """All statements of one role."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        self.statements = tuple(statements)

    def allows(self, request: Request) -> bool:
        """Return whether the role may make the request."""
        matching = [statement for statement in self.statements if statement.matches(request)]
        return bool(matching) and all(statement.allows for statement in matching)

    def without(self, number: int, action: str) -> Policy:
        """Return a policy without the action in the statement of this number, and in others about the same resources."""
        scope = self.statements[number].scope
        return Policy(
            [
                msgspec.structs.replace(
                    statement, actions=tuple(a for a in statement.actions if a != action or statement.scope != scope)
                )
                for statement in self.statements
            ]
        )

    def actions(self) -> frozenset[str]:
        """Return every action that a statement allows."""
        return frozenset(a for statement in self.statements if statement.allows for a in statement.actions)


def read_statement(written: Mapping[str, Any]) -> Statement:
    """Return a statement read from the policy's JSON."""
    unknown = set(written) - {"Sid", "Effect", "Action", "Resource", "Condition", "Principal"}
    if unknown:
        raise UnknownPolicyError(f"statement with {', '.join(sorted(unknown))}")
    conditions = {
        operator: {key: _listed(value) for key, value in keys.items()}
        for operator, keys in written.get("Condition", {}).items()
    }
    for operator in conditions.keys() - {_PRESENCE}:
        _operator(operator)
    return Statement(
        actions=_listed(written["Action"]),
        resources=_listed(written.get("Resource", "*")),  # a role's trust is about the role alone
        conditions=conditions,
        allows={"Allow": True, "Deny": False}[written["Effect"]],
        principals=_principals(written.get("Principal", {})),
    )


def _principals(written: Mapping[str, Any] | str) -> tuple[str, ...]:
    if isinstance(written, str):
        return (written,)
    named = (("*" if who == "*" else f"{kind}:{who}") for kind, all_ in written.items() for who in _listed(all_))
    return tuple(named)


def _listed(value: Any) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else (str(value),)


def _filled(patterns: Iterable[str], context: Context) -> list[str]:
    """Return the patterns with the request's values in place of variables; one that the request lacks matches nothing."""
    return [
        _VARIABLE.sub(lambda variable: (_values(context, variable[1]) or ("\0",))[0], pattern) for pattern in patterns
    ]


def _values(context: Context, key: str) -> tuple[str, ...] | None:
    """Return a condition key's values, or None if the request lacks the key. Only tag keys are case-sensitive."""
    prefix, slash, tag = key.partition("/")
    for name, values in context.items():
        key_prefix, key_slash, key_tag = name.partition("/")
        if (key_prefix.lower(), key_slash, key_tag) == (prefix.lower(), slash, tag):
            return values
    return None


def _holds(operator: str, wanted: Iterable[str], values: tuple[str, ...] | None) -> bool:
    if operator == _PRESENCE:
        return any(_IS_TRUE[wanted_value] == (values is None) for wanted_value in wanted)
    every_value, compare = _operator(operator)
    if every_value:
        return all(any(compare(value, wanted_value) for wanted_value in wanted) for value in values or ())
    return values is not None and any(compare(value, wanted_value) for value in values for wanted_value in wanted)


def _operator(name: str) -> tuple[bool, Callable[[str, str], bool]]:
    """Return whether all values of a key must match (`ForAllValues:`), and how one value is compared."""
    prefix, _, rest = name.rpartition(":")
    if prefix not in ("", "ForAllValues") or rest not in _OPERATORS:
        raise UnknownPolicyError(f"condition operator {name}")
    return prefix == "ForAllValues", _OPERATORS[rest]


def matches(value: str, pattern: str) -> bool:
    """Whether a value meets a pattern with `*` and `?`."""
    return _expression(pattern).fullmatch(value) is not None


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    parts = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
    return re.compile("".join(parts), re.DOTALL)


_VARIABLE: Final = re.compile(r"\$\{([A-Za-z0-9:]+)\}")
_PRESENCE: Final = "Null"
_IS_TRUE: Final = {"true": True, "false": False}
_OPERATORS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "StringEquals": lambda value, wanted_value: value == wanted_value,
    "StringLike": matches,
    "ArnEquals": matches,
    "ArnLike": matches,
    "Bool": lambda value, wanted_value: value.lower() == wanted_value.lower(),
}
