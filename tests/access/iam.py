"""Evaluates identity policies for a request by IAM's rules.

An explicit deny wins, else one statement must allow. A statement counts if action, resource and every condition match.
Anything that this evaluator does not know raises an error and never counts as a match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

Context = Mapping[str, tuple[str, ...]]


class UnknownPolicyError(Exception):
    """A policy contains something that this evaluator does not support."""


class Request(msgspec.Struct, frozen=True):
    """One authorization: `context` holds the condition keys, each with its values."""

    action: str
    resource: str
    context: dict[str, tuple[str, ...]] = {}

    def __str__(self) -> str:
        told = ", ".join(f"{key}={'|'.join(values)}" for key, values in sorted(self.context.items()))
        return f"{self.action} on {self.resource} ({told})"


class Statement(msgspec.Struct, frozen=True):
    """One statement with its wildcards; conditions by operator, then key."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: dict[str, dict[str, tuple[str, ...]]] = {}
    allows: bool = True

    @property
    def scope(self) -> tuple[tuple[str, ...], dict[str, dict[str, tuple[str, ...]]]]:
        """Its resources and conditions."""
        return self.resources, self.conditions

    def matches(self, request: Request) -> bool:
        """Return whether the statement applies to the request."""
        return (
            any(_is_like(request.action.lower(), action.lower()) for action in self.actions)
            and any(_is_like(request.resource, resource) for resource in self.resources)
            and all(
                _holds(operator, values, _values(request.context, key))
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
                msgspec.structs.replace(one, actions=tuple(a for a in one.actions if a != action or one.scope != scope))
                for one in self.statements
            ]
        )

    def actions(self) -> frozenset[str]:
        """Return every action that a statement allows."""
        return frozenset(a for statement in self.statements if statement.allows for a in statement.actions)


def read_statement(written: Mapping[str, Any]) -> Statement:
    """Return a statement read from the policy's JSON."""
    unknown = set(written) - {"Sid", "Effect", "Action", "Resource", "Condition"}
    if unknown:
        raise UnknownPolicyError(f"statement with {', '.join(sorted(unknown))}")
    conditions = {
        operator: {key: _listed(value) for key, value in keys.items()}
        for operator, keys in written.get("Condition", {}).items()
    }
    for operator in conditions:
        _operator(operator)
    return Statement(
        actions=_listed(written["Action"]),
        resources=_listed(written["Resource"]),
        conditions=conditions,
        allows={"Allow": True, "Deny": False}[written["Effect"]],
    )


def _listed(value: Any) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list) else (str(value),)


def _values(context: Context, key: str) -> tuple[str, ...] | None:
    """Return a condition key's values, or None if the request lacks the key. Only tag keys are case-sensitive."""
    prefix, slash, tag = key.partition("/")
    for name, values in context.items():
        found, found_slash, found_tag = name.partition("/")
        if (found.lower(), found_slash, found_tag) == (prefix.lower(), slash, tag):
            return values
    return None


def _holds(operator: str, wanted: Iterable[str], found: tuple[str, ...] | None) -> bool:
    every_value, compare = _operator(operator)
    if every_value:
        return all(any(compare(value, one) for one in wanted) for value in found or ())
    return found is not None and any(compare(value, one) for value in found for one in wanted)


def _operator(name: str) -> tuple[bool, Callable[[str, str], bool]]:
    """Return whether all values of a key must match (`ForAllValues:`), and how one value is compared."""
    prefix, _, rest = name.rpartition(":")
    if prefix not in ("", "ForAllValues") or rest not in _OPERATORS:
        raise UnknownPolicyError(f"condition operator {name}")
    return prefix == "ForAllValues", _OPERATORS[rest]


def _is_like(value: str, pattern: str) -> bool:
    parts = (".*" if c == "*" else "." if c == "?" else re.escape(c) for c in pattern)
    return re.fullmatch("".join(parts), value, re.DOTALL) is not None


_OPERATORS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "StringEquals": lambda value, one: value == one,
    "StringLike": _is_like,
    "ArnEquals": _is_like,
    "ArnLike": _is_like,
}
