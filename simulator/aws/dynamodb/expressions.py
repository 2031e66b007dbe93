"""Parses DynamoDB's expressions into trees: conditions, keys, updates. Each text is parsed once per process."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NoReturn

import msgspec

from simulator.aws.dynamodb.values import (
    Item,
    Value,
    added,
    contains,
    copied,
    equal,
    invalid,
    joined,
    kind_of,
    length,
    order_of,
    taken_in,
    without,
)

_TOKEN: Final = re.compile(r"\s*(?:(<>|<=|>=|[=<>(),.+\-\[\]])|([#:]?[A-Za-z0-9_]+))")
_COMPARATORS: Final = ("=", "<>", "<", "<=", ">", ">=")
_FUNCTIONS: Final = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
    "size": 1,
}
_VALUE_FUNCTIONS: Final = {"if_not_exists": 2, "list_append": 2}
_CLAUSES: Final = ("SET", "REMOVE", "ADD", "DELETE")
_READ_ONCE: Final = 1024
"""Maximum number of parsed texts to keep; the functions use a few dozen."""


class Path(msgspec.Struct, frozen=True):
    """Where a value is: attribute names, as they are written (`#name`), and positions in lists."""

    parts: tuple[str | int, ...]


class Given(msgspec.Struct, frozen=True):
    """A value that comes with the request: `:value`."""

    name: str


class Operation(msgspec.Struct, frozen=True):
    """A function, comparison or connective with its operands."""

    name: str
    operands: tuple[Any, ...]


class Change(msgspec.Struct, frozen=True):
    """One change of an update: its clause (SET, REMOVE, ADD, DELETE), where, and what; None for REMOVE."""

    clause: str
    path: Path
    operand: Any


class Expression(msgspec.Struct, frozen=True):
    """A parsed text: its tree, its placeholders, and those that are the bounds of a BETWEEN."""

    tree: Any
    names: frozenset[str]
    values: frozenset[str]
    ranges: tuple[tuple[str, str], ...] = ()


@lru_cache(_READ_ONCE)
def condition(text: str) -> Expression:
    """Read a condition. Raises AwsError."""
    return _read(text, "ConditionExpression", _Reader.condition)


@lru_cache(_READ_ONCE)
def key_condition(text: str) -> Expression:
    """Read a query's key condition. Raises AwsError."""
    return _read(text, "KeyConditionExpression", _Reader.condition)


@lru_cache(_READ_ONCE)
def update(text: str) -> Expression:
    """Read an update: its tree is a tuple of changes. Raises AwsError."""
    return _read(text, "UpdateExpression", _Reader.update)


def _read(text: str, what: str, read: Callable[[_Reader], Any]) -> Expression:
    reader = _Reader(text, what)
    tree = read(reader)
    reader.end()
    placeholders = reader.tokens
    return Expression(
        tree,
        frozenset(token for token in placeholders if token.startswith("#")),
        frozenset(token for token in placeholders if token.startswith(":")),
        tuple(reader.ranges),
    )


class _Reader:
    """Parses one text by recursive descent."""

    def __init__(self, text: str, what: str) -> None:
        self._what = what
        self._at = 0
        self.tokens: list[str] = []
        self.ranges: list[tuple[str, str]] = []
        position = 0
        while text[position:].strip():
            token = _TOKEN.match(text, position)
            if token is None:
                self._refuse(text[position:].strip()[:1])
            self.tokens.append(token[1] or token[2])
            position = token.end()
        if not self.tokens:
            raise invalid(f"Invalid {what}: The expression can not be empty;")

    def end(self) -> None:
        """Refuse trailing text."""
        if self._at < len(self.tokens):
            self._refuse(self.tokens[self._at])

    def condition(self) -> Any:
        """`a OR b`, loosest first."""
        return self._connected("OR", lambda: self._connected("AND", self._negation))

    def update(self) -> tuple[Change, ...]:
        """Clauses, each at most once."""
        changes: list[Change] = []
        seen: set[str] = set()
        while self._peek():
            clause = self._next().upper()
            if clause not in _CLAUSES:
                self._refuse(clause)
            if clause in seen:
                raise invalid(
                    f'Invalid UpdateExpression: The "{clause}" section can only be used once in an update expression;'
                )
            seen.add(clause)
            changes.append(self._change(clause))
            while self._take(","):
                changes.append(self._change(clause))
        return tuple(changes)

    def _change(self, clause: str) -> Change:
        path = self._path()
        if clause == "REMOVE":
            return Change(clause, path, None)
        if clause != "SET":
            return Change(clause, path, self._given())
        self._expect("=")
        return Change(clause, path, self._sum())

    def _connected(self, word: str, part: Callable[[], Any]) -> Any:
        tree = part()
        while self._peek().upper() == word:
            self._next()
            tree = Operation(word, (tree, part()))
        return tree

    def _negation(self) -> Any:
        if self._peek().upper() == "NOT":
            self._next()
            return Operation("NOT", (self._negation(),))
        return self._term()

    def _term(self) -> Any:
        if self._take("("):
            inner = self.condition()
            self._expect(")")
            return inner
        operand = self._operand(_FUNCTIONS)
        word = self._peek().upper()
        if word in _COMPARATORS:
            self._next()
            return Operation(word, (operand, self._operand(_FUNCTIONS)))
        if word == "BETWEEN":
            self._next()
            low = self._operand(_FUNCTIONS)
            if self._next().upper() != "AND":
                self._refuse("BETWEEN")
            high = self._operand(_FUNCTIONS)
            if isinstance(low, Given) and isinstance(high, Given):
                self.ranges.append((low.name, high.name))
            return Operation(word, (operand, low, high))
        if word == "IN":
            self._next()
            return Operation(word, (operand, *self._arguments(_FUNCTIONS)))
        if not isinstance(operand, Operation) or operand.name == "size":
            self._refuse(word or "<EOF>")
        return operand

    def _sum(self) -> Any:
        operand = self._operand(_VALUE_FUNCTIONS)
        sign = self._peek()
        if sign not in ("+", "-"):
            return operand
        self._next()
        return Operation(sign, (operand, self._operand(_VALUE_FUNCTIONS)))

    def _operand(self, functions: dict[str, int]) -> Any:
        token = self._peek()
        if token.startswith(":"):
            return self._given()
        if token in functions and self.tokens[self._at + 1 : self._at + 2] == ["("]:
            self._next()
            arguments = self._arguments(functions)
            if len(arguments) != functions[token]:
                raise invalid(
                    f"Invalid {self._what}: Incorrect number of operands for operator or function; "
                    f"operator or function: {token}, number of operands: {len(arguments)}"
                )
            return Operation(token, arguments)
        return self._path()

    def _arguments(self, functions: dict[str, int]) -> tuple[Any, ...]:
        self._expect("(")
        operands = [self._operand(functions)]
        while self._take(","):
            operands.append(self._operand(functions))
        self._expect(")")
        return tuple(operands)

    def _given(self) -> Given:
        token = self._next()
        if not token.startswith(":"):
            self._refuse(token)
        return Given(token)

    def _path(self) -> Path:
        parts: list[str | int] = [self._name()]
        while self._peek() in (".", "["):
            if self._take("."):
                parts.append(self._name())
                continue
            self._next()
            parts.append(int(self._next()))
            self._expect("]")
        return Path(tuple(parts))

    def _name(self) -> str:
        token = self._next()
        if not token.lstrip("#").replace("_", "a").isalnum() or token.startswith(":"):
            self._refuse(token)
        return token

    def _peek(self) -> str:
        return self.tokens[self._at] if self._at < len(self.tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        if not token:
            self._refuse("<EOF>")
        self._at += 1
        return token

    def _take(self, token: str) -> bool:
        is_next = self._peek() == token
        self._at += is_next
        return is_next

    def _expect(self, token: str) -> None:
        if not self._take(token):
            self._refuse(self._peek() or "<EOF>")

    def _refuse(self, token: str) -> NoReturn:
        raise invalid(f'Invalid {self._what}: Syntax error; token: "{token}"')


# Evaluates conditions on an item.


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
        for used, defined, kind in ((names, self._names, "name"), (values, self._values, "value")):
            if used == defined.keys():
                continue
            for missing in sorted(used - defined.keys()):
                raise invalid(f"An expression attribute {kind} used in expression is not defined: {missing}")
            for unused in sorted(defined.keys() - used):
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

    def given(self, placeholder: Given) -> Value:
        """Return the value of a placeholder."""
        return self._values[placeholder.name]


def read(item: Item, path: tuple[str | int, ...]) -> Value | None:
    """Return the value at a path, None if there is none."""
    current: Any = {"M": item}
    for part in path:
        content = current.get("M" if isinstance(part, str) else "L")
        if content is None or (isinstance(part, int) and part >= len(content)):
            return None
        current = content.get(part) if isinstance(part, str) else content[part]
        if current is None:
            return None
    value: Value = current
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
    values = [_value(operand, item, scope) for operand in operands]
    if name == "attribute_exists":
        return values[0] is not None
    if name == "attribute_not_exists":
        return values[0] is None
    if name in ("=", "<>"):
        return equal(values[0], values[1]) is (name == "=")
    if name == "IN":
        return any(equal(values[0], candidate) for candidate in values[1:])
    if any(value is None for value in values):
        return False
    return _compared(name, [value for value in values if value is not None])


def _compared(name: str, operands: list[Value]) -> bool:
    if name == "begins_with":
        kind = kind_of(operands[1])
        return kind in ("S", "B") and kind in operands[0] and bool(operands[0][kind].startswith(operands[1][kind]))
    if name == "contains":
        return contains(operands[0], operands[1])
    if name == "attribute_type":
        return bool(kind_of(operands[0]) == operands[1]["S"])
    if name == "BETWEEN":
        return _ordered("<=", operands[1], operands[0]) and _ordered("<=", operands[0], operands[2])
    return _ordered(name, operands[0], operands[1])


def _ordered(name: str, first: Value, second: Value) -> bool:
    if first.keys() != second.keys():
        return False
    return _ORDER[name](order_of(first), order_of(second))


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


# Applies update expressions to an item.


_SETS: Final = ("SS", "NS", "BS")
_OPERANDS: Final = {"ADD": ("N", *_SETS), "DELETE": _SETS}
Where = tuple[str | int, ...]


def check_changes(changes: tuple[Change, ...], scope: Scope) -> None:
    """Check, without the item, that no two paths overlap, and that values are valid for ADD and DELETE.

    Raises AwsError.
    """
    _check_overlaps([scope.path(change.path) for change in changes])
    for change in changes:
        allowed = _OPERANDS.get(change.clause)
        kind = kind_of(scope.given(change.operand)) if allowed else ""
        if allowed and kind not in allowed:
            raise invalid(
                "Invalid UpdateExpression: Incorrect operand type for operator or function; "
                f"operator: {change.clause}, operand type: {kind}"
            )


def updated(item: Item, changes: tuple[Change, ...], scope: Scope) -> tuple[Item, tuple[Where, ...]]:
    """The item after the changes, and the paths that they name.

    Every change reads the item as it was before. Call `check_changes` first. Raises AwsError.
    """
    paths = [scope.path(change.path) for change in changes]
    planned = [(change, path, _result(change, path, item, scope)) for change, path in zip(changes, paths, strict=True)]
    after = copied(item)
    for _, path, value in planned:
        if value is not None:
            _put(after, path, value)
    removals = [path for _, path, value in planned if value is None]
    for path in sorted(removals, key=lambda path: [(isinstance(p, int), str(p)) for p in path], reverse=True):
        _remove(after, path)
    return after, tuple(paths)


def picked(item: Item, paths: Iterable[Where]) -> Item:
    """Return the item's values at these paths, with their enclosing structure."""
    item_part: Item = {}
    for path in paths:
        value = read(item, path)
        if value is not None:
            _pick(item_part, path, copied({"v": value})["v"])
    return item_part


def _pick(holder: Any, path: Where, value: Value) -> None:
    first, *rest = path
    if not rest:
        inner = value
    else:
        kind = "M" if isinstance(rest[0], str) else "L"
        held = holder.get(first) if isinstance(first, str) else None
        inner = held or {kind: {} if kind == "M" else []}
        _pick(inner[kind], tuple(rest), value)
    if isinstance(first, str):
        holder[first] = inner
    else:
        holder.append(inner)


def _result(change: Change, path: Where, item: Item, scope: Scope) -> Value | None:
    """Return the new value at the path, None if it is removed."""
    if change.clause == "SET":
        return _operand(change.operand, item, scope)
    if change.clause == "REMOVE":
        return None
    current, operand = read(item, path), scope.given(change.operand)
    kind = kind_of(operand)
    if change.clause == "ADD":
        return _added(current, operand, kind)
    if current is None:
        return None
    if kind_of(current) != kind:
        raise _mismatch()
    remainder = without(kind, current[kind], operand[kind])
    return {kind: remainder} if remainder else None


def _added(current: Value | None, operand: Value, kind: str) -> Value:
    if current is None:
        return taken_in({"v": operand})["v"]
    if kind_of(current) != kind:
        raise _mismatch()
    if kind == "N":
        return {kind: added(current[kind], operand[kind])}
    return {kind: joined(kind, current[kind], operand[kind])}


def _operand(operand: Any, item: Item, scope: Scope) -> Value:
    if isinstance(operand, Given):
        return taken_in({"v": scope.given(operand)})["v"]
    if isinstance(operand, Path):
        value = read(item, scope.path(operand))
        if value is None:
            raise invalid("The provided expression refers to an attribute that does not exist in the item")
        return copied({"v": value})["v"]
    return _computed(operand, item, scope)


def _computed(operation: Operation, item: Item, scope: Scope) -> Value:
    first, other = operation.operands
    if operation.name == "if_not_exists":
        present = read(item, scope.path(first))
        return _operand(other, item, scope) if present is None else copied({"v": present})["v"]
    augend, right = _operand(first, item, scope), _operand(other, item, scope)
    kind = "L" if operation.name == "list_append" else "N"
    if kind_of(augend) != kind or kind_of(right) != kind:
        raise _mismatch()
    if operation.name == "list_append":
        return {kind: augend[kind] + right[kind]}
    return {kind: added(augend[kind], right[kind], 1 if operation.name == "+" else -1)}


def _put(item: Item, path: Where, value: Value) -> None:
    content, last = _holder(item, path), path[-1]
    if isinstance(last, int) and last >= len(content):
        content.append(value)
    else:
        content[last] = value


def _remove(item: Item, path: Where) -> None:
    content, last = _holder(item, path), path[-1]
    if isinstance(last, str):
        content.pop(last, None)
    elif last < len(content):
        del content[last]


def _holder(item: Item, path: Where) -> Any:
    """Return the container of the path's last element: the item, or a map or list in it."""
    holder = read(item, path[:-1]) if len(path) > 1 else {"M": item}
    kind = "M" if isinstance(path[-1], str) else "L"
    if holder is None or kind not in holder:
        raise invalid("The document path provided in the update expression is invalid for update")
    return holder[kind]


def _check_overlaps(paths: list[Where]) -> None:
    for index, path in enumerate(paths):
        for other in paths[index + 1 :]:
            shorter = min(len(path), len(other))
            if path[:shorter] == other[:shorter]:
                raise invalid(
                    "Invalid UpdateExpression: Two document paths overlap with each other; "
                    f"must remove or rewrite one of these paths; path one: {list(path)}, path two: {list(other)}"
                )


def _mismatch() -> Exception:
    return invalid("An operand in the update expression has an incorrect data type")
