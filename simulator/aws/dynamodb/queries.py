"""Selects the items of a partition that match a query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from simulator.aws.dynamodb import grammar
from simulator.aws.dynamodb.conditions import Scope, holds
from simulator.aws.dynamodb.grammar import Given, Operation, Path
from simulator.aws.dynamodb.requests import Schema
from simulator.aws.dynamodb.values import invalid

_OF_SORT_KEYS = ("=", "<", "<=", ">", ">=", "BETWEEN", "begins_with")


class KeyRange(msgspec.Struct, frozen=True):
    """A partition, and a condition on sort keys."""

    partition: str
    tree: Any
    scope: Scope
    sort_key: str

    def has(self, sort: str) -> bool:
        """Return whether the sort key is in the range."""
        return self.tree is None or holds(self.tree, {self.sort_key: {"S": sort}}, self.scope)


def read_key_condition(request: Mapping[str, Any], schema: Schema) -> KeyRange:
    """Read a query's key condition. Raises AwsError."""
    expression = grammar.key_condition(request["KeyConditionExpression"])
    scope = Scope(request)
    scope.check(expression)
    names = tuple((request.get("ExpressionAttributeNames") or {}).items())
    of_partition, of_sort_key = _understood(request["KeyConditionExpression"], names, schema)
    return KeyRange(_text(of_partition, scope), of_sort_key, scope, schema.sort_key)


@lru_cache(maxsize=256)
def _understood(text: str, names: tuple[tuple[str, str], ...], schema: Schema) -> tuple[Operation, Operation | None]:
    """Return the partition key's condition and the sort key's, if there is one; cached, since functions repeat a few texts."""
    scope = Scope({"ExpressionAttributeNames": dict(names)})
    of_partition: Operation | None = None
    of_sort_key: Operation | None = None
    for part in _parts(grammar.key_condition(text).tree):
        name = _attribute(part, scope)
        if name == schema.partition_key and part.name == "=" and of_partition is None:
            of_partition = part
        elif name == schema.sort_key and part.name in _OF_SORT_KEYS and of_sort_key is None:
            of_sort_key = part
        else:
            raise invalid("Query key condition not supported")
    if of_partition is None:
        raise invalid(f"Query condition missed key schema element: {schema.partition_key}")
    return of_partition, of_sort_key


def _parts(tree: Any) -> Iterator[Operation]:
    if tree.name == "AND":
        for operand in tree.operands:
            yield from _parts(operand)
    else:
        yield tree


def _attribute(part: Operation, scope: Scope) -> str:
    first = part.operands[0]
    return str(scope.path(first)[0]) if isinstance(first, Path) else ""


def _text(part: Operation, scope: Scope) -> str:
    second = part.operands[1]
    text = scope.given(second).get("S") if isinstance(second, Given) else None
    if not text:
        raise invalid("One or more parameter values were invalid: Condition parameter type does not match schema type")
    return str(text)
