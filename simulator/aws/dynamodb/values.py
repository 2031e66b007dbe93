"""DynamoDB's typed values, `{"S": "text"}`: equality, order, copies and sizes in bytes."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final

from simulator.aws.queues import AwsError

Value = dict[str, Any]
Item = dict[str, Value]

ITEM_BYTES_MAX: Final = 400 * 1024
"""DynamoDB's limit on one item, names and values together."""

_NUMBERS: Final = Context(prec=38, traps=[InvalidOperation, Inexact])
"""DynamoDB keeps 38 digits and refuses a number that has more."""

_ORDERED: Final = ("S", "N", "B")
_SETS: Final = ("SS", "NS", "BS")
_NESTING: Final = 3
"""Overhead of a list or map in bytes."""


def invalid(message: str) -> AwsError:
    """Return the error for an invalid request."""
    return AwsError("ValidationException", message)


def kind_of(value: Value) -> str:
    """Its type: S, N, B, BOOL, NULL, M, L, SS, NS, BS."""
    (kind,) = value
    return kind


def number(text: str) -> Decimal:
    """Parse a number for comparison and addition. Raises AwsError if it is malformed."""
    try:
        return _NUMBERS.create_decimal(text)
    except Inexact:
        raise _too_long() from None
    except InvalidOperation:
        raise invalid("The parameter cannot be converted to a numeric value: " + text) from None


def added(first: str, second: str, sign: int = 1) -> str:
    """The sum of two numbers, or their difference. Raises AwsError if it has too many digits."""
    try:
        return written((_NUMBERS.add if sign > 0 else _NUMBERS.subtract)(number(first), number(second)))
    except Inexact:
        raise _too_long() from None


def written(amount: Decimal) -> str:
    """A number as DynamoDB writes it: no exponent, no needless zeros."""
    text = format(amount.normalize(_NUMBERS), "f")
    return "0" if text == "-0" else text


def taken_in(item: Item) -> Item:
    """Return a copy of a request's value, with numbers as DynamoDB writes them. Raises AwsError if it is malformed."""
    return {name: _taken_in(value) for name, value in item.items()}


def copied(item: Item) -> Item:
    """Return a deep copy."""
    return {name: _copied(value) for name, value in item.items()}


def equal(first: Value | None, second: Value | None) -> bool:
    """Return whether both exist and are equal: numbers by value, sets regardless of order."""
    if first is None or second is None or first.keys() != second.keys():
        return False
    kind = kind_of(first)
    if kind == "N":
        return number(first[kind]) == number(second[kind])
    if kind in _SETS:
        return _members(kind, first[kind]) == _members(kind, second[kind])
    if kind == "L":
        return len(first[kind]) == len(second[kind]) and all(map(equal, first[kind], second[kind]))
    if kind == "M":
        mine, theirs = first[kind], second[kind]
        return mine.keys() == theirs.keys() and all(equal(mine[name], theirs[name]) for name in mine)
    return bool(first[kind] == second[kind])


def order_of(value: Value) -> tuple[str, Any]:
    """Return the sort key of a value among values of its type: text by UTF-8 bytes.

    Raises AwsError for a type without order.
    """
    kind = kind_of(value)
    if kind not in _ORDERED:
        raise invalid(f"Invalid operand type for operator, operand type: {kind}")
    content = value[kind]
    return kind, number(content) if kind == "N" else content.encode() if kind == "S" else bytes(content)


def contains(container: Value, part: Value) -> bool:
    """Whether a set or list has this element, or a text this part."""
    kind, wanted = kind_of(container), kind_of(part)
    if kind in _SETS and wanted == kind[0]:
        return _members(kind, part.values()) <= _members(kind, container[kind])
    if kind == "L":
        return any(equal(element, part) for element in container[kind])
    return kind in ("S", "B") and wanted == kind and part[kind] in container[kind]


def length(value: Value) -> int | None:
    """Return the result of `size`, None for a type without a size."""
    kind = kind_of(value)
    if kind == "S":
        return len(value[kind].encode())
    return len(value[kind]) if kind in ("B", "L", "M", *_SETS) else None


def bytes_of(item: Item) -> int:
    """Return the item's size in bytes."""
    return sum(len(name.encode()) + _bytes(value) for name, value in item.items())


def joined(kind: str, first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """Return the union of both sets, sorted."""
    members = list(first)
    have = _members(kind, members)
    return members + [member for member in second if not _members(kind, (member,)) <= have]


def without(kind: str, first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """The first set without the members of the second."""
    taken = _members(kind, second)
    return [member for member in first if not _members(kind, (member,)) <= taken]


def _too_long() -> AwsError:
    return invalid("Attempting to store more than 38 significant digits in a Number")


def _members(kind: str, members: Iterable[Any]) -> frozenset[Any]:
    return frozenset(map(number, members) if kind == "NS" else members)


def _copied(value: Value) -> Value:
    ((kind, content),) = value.items()
    if kind == "M":
        return {kind: copied(content)}
    if kind == "L":
        return {kind: [_copied(element) for element in content]}
    return {kind: list(content) if kind in _SETS else content}


def _taken_in(value: Value) -> Value:
    (kind, content), *more = value.items()
    if more:
        raise invalid("Supplied AttributeValue has more than one datatypes set, must contain exactly one")
    if kind == "N":
        return {kind: written(number(content))}
    if kind == "M":
        return {kind: taken_in(content)}
    if kind == "L":
        return {kind: [_taken_in(element) for element in content]}
    if kind == "NS":
        return {kind: [written(number(element)) for element in content]}
    return {kind: list(content) if kind in _SETS else content}


def _bytes(value: Value) -> int:
    (kind, content), *_ = value.items()
    if kind == "S":
        return len(content.encode())
    if kind == "B":
        return len(content)
    if kind == "N":
        return _number_bytes(content)
    if kind == "M":
        return _NESTING + sum(1 + len(name.encode()) + _bytes(element) for name, element in content.items())
    if kind == "L":
        return _NESTING + sum(1 + _bytes(element) for element in content)
    if kind in _SETS:
        return sum(_bytes({kind[0]: member}) for member in content)
    return 1


def _number_bytes(text: str) -> int:
    """Return one byte per two digits, plus one, plus one for a sign."""
    digits = text.lstrip("-").replace(".", "").strip("0")
    return (len(digits) + 1) // 2 + 1 + text.startswith("-")
