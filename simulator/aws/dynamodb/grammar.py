"""Parses DynamoDB's expressions into trees: conditions, keys, updates. Each text is parsed once per process."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NoReturn

import msgspec

from simulator.aws.dynamodb.values import invalid

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
            found = _TOKEN.match(text, position)
            if found is None:
                self._refuse(text[position:].strip()[:1])
            self.tokens.append(found[1] or found[2])
            position = found.end()
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
        left = self._operand(_FUNCTIONS)
        word = self._peek().upper()
        if word in _COMPARATORS:
            self._next()
            return Operation(word, (left, self._operand(_FUNCTIONS)))
        if word == "BETWEEN":
            self._next()
            low = self._operand(_FUNCTIONS)
            if self._next().upper() != "AND":
                self._refuse("BETWEEN")
            high = self._operand(_FUNCTIONS)
            if isinstance(low, Given) and isinstance(high, Given):
                self.ranges.append((low.name, high.name))
            return Operation(word, (left, low, high))
        if word == "IN":
            self._next()
            return Operation(word, (left, *self._arguments(_FUNCTIONS)))
        if not isinstance(left, Operation) or left.name == "size":
            self._refuse(word or "<EOF>")
        return left

    def _sum(self) -> Any:
        left = self._operand(_VALUE_FUNCTIONS)
        sign = self._peek()
        if sign not in ("+", "-"):
            return left
        self._next()
        return Operation(sign, (left, self._operand(_VALUE_FUNCTIONS)))

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
        found = [self._operand(functions)]
        while self._take(","):
            found.append(self._operand(functions))
        self._expect(")")
        return tuple(found)

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
        found = self._peek() == token
        self._at += found
        return found

    def _expect(self, token: str) -> None:
        if not self._take(token):
            self._refuse(self._peek() or "<EOF>")

    def _refuse(self, token: str) -> NoReturn:
        raise invalid(f'Invalid {self._what}: Syntax error; token: "{token}"')
