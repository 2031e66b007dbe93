"""Evaluates conditions on an item."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from simulator.aws.dynamodb.grammar import Expression, Given, Operation, Path
from simulator.aws.dynamodb.values import Item, Value, contains, equal, invalid, kind_of, length, order_of

_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Scope:
    """The values of placeholders in one request."""

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._names: dict[str, str] = request.get("ExpressionAttributeNames") or {}
        self._values: dict[str, Value] = request.get("ExpressionAttributeValues") or {}

    def check(self, *expressions: Expression | None) -> None:
        """Check that every placeholder is defined and every definition is used. Raises AwsError."""
        there = [expression for expression in expressions if expression is not None]
        if len(there) == 1:
            names, values = there[0].names, there[0].values
        else:
            names = frozenset[str]().union(*(expression.names for expression in there))
            values = frozenset[str]().union(*(expression.values for expression in there))
        for used, known, kind in ((names, self._names, "name"), (values, self._values, "value")):
            if used == known.keys():
                continue
            for missing in sorted(used - known.keys()):
                raise invalid(f"An expression attribute {kind} used in expression is not defined: {missing}")
            for unused in sorted(known.keys() - used):
                raise invalid(
                    f"Value provided in ExpressionAttribute{kind.title()}s unused in expressions: keys: {{{unused}}}"
                )

        for expression in there:
            for low, high in expression.ranges:
                self._check_range(self._values[low], self._values[high])

    def _check_range(self, low: Value, high: Value) -> None:
        if low.keys() != high.keys() or order_of(high) < order_of(low):
            raise invalid(
                "The BETWEEN operator requires upper bound to be greater than or equal to lower bound, of the same type"
            )

    def path(self, path: Path) -> tuple[str | int, ...]:
        """Return the path with its placeholders replaced by names."""
        return tuple(self._names[p] if isinstance(p, str) and p.startswith("#") else p for p in path.parts)

    def given(self, given: Given) -> Value:
        """Return the value of a placeholder."""
        return self._values[given.name]


def read(item: Item, path: tuple[str | int, ...]) -> Value | None:
    """Return the value at a path, None if there is none."""
    found: Any = {"M": item}
    for part in path:
        content = found.get("M" if isinstance(part, str) else "L")
        if content is None or (isinstance(part, int) and part >= len(content)):
            return None
        found = content.get(part) if isinstance(part, str) else content[part]
        if found is None:
            return None
    value: Value = found
    return value


def holds(tree: Any, item: Item, scope: Scope) -> bool:
    """Whether the condition holds for the item; a missing item is empty."""
    name, operands = tree.name, tree.operands
    if name == "OR":
        return holds(operands[0], item, scope) or holds(operands[1], item, scope)
    if name == "AND":
        return holds(operands[0], item, scope) and holds(operands[1], item, scope)
    if name == "NOT":
        return not holds(operands[0], item, scope)
    found = [_value(operand, item, scope) for operand in operands]
    if name == "attribute_exists":
        return found[0] is not None
    if name == "attribute_not_exists":
        return found[0] is None
    if name in ("=", "<>"):
        return equal(found[0], found[1]) is (name == "=")
    if name == "IN":
        return any(equal(found[0], candidate) for candidate in found[1:])
    if any(value is None for value in found):
        return False
    return _compared(name, [value for value in found if value is not None])


def _compared(name: str, found: list[Value]) -> bool:
    if name == "begins_with":
        kind = kind_of(found[1])
        return kind in ("S", "B") and kind in found[0] and bool(found[0][kind].startswith(found[1][kind]))
    if name == "contains":
        return contains(found[0], found[1])
    if name == "attribute_type":
        return bool(kind_of(found[0]) == found[1]["S"])
    if name == "BETWEEN":
        return _ordered("<=", found[1], found[0]) and _ordered("<=", found[0], found[2])
    return _ordered(name, found[0], found[1])


def _ordered(name: str, one: Value, other: Value) -> bool:
    if one.keys() != other.keys():
        return False
    return _ORDER[name](order_of(one), order_of(other))


def _value(operand: Any, item: Item, scope: Scope) -> Value | None:
    if isinstance(operand, Path):
        return read(item, scope.path(operand))
    if isinstance(operand, Given):
        return scope.given(operand)
    if isinstance(operand, Operation) and operand.name == "size":
        measured = _value(operand.operands[0], item, scope)
        count = None if measured is None else length(measured)
        return None if count is None else {"N": str(count)}
    raise invalid("Invalid ConditionExpression: an operand must be a path, a value or size(path)")
