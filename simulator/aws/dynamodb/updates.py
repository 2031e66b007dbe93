"""Applies update expressions to an item."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from simulator.aws.dynamodb.conditions import Scope, read
from simulator.aws.dynamodb.grammar import Change, Given, Operation, Path
from simulator.aws.dynamodb.values import Item, Value, added, copied, invalid, joined, kind_of, taken_in, without

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
    found: Item = {}
    for path in paths:
        value = read(item, path)
        if value is not None:
            _pick(found, path, copied({"v": value})["v"])
    return found


def _pick(holder: Any, path: Where, value: Value) -> None:
    first, *rest = path
    if not rest:
        inner = value
    else:
        kind = "M" if isinstance(rest[0], str) else "L"
        known = holder.get(first) if isinstance(first, str) else None
        inner = known or {kind: {} if kind == "M" else []}
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
    known, given = read(item, path), scope.given(change.operand)
    kind = kind_of(given)
    if change.clause == "ADD":
        return _added(known, given, kind)
    if known is None:
        return None
    if kind_of(known) != kind:
        raise _mismatch()
    left = without(kind, known[kind], given[kind])
    return {kind: left} if left else None


def _added(known: Value | None, given: Value, kind: str) -> Value:
    if known is None:
        return taken_in({"v": given})["v"]
    if kind_of(known) != kind:
        raise _mismatch()
    if kind == "N":
        return {kind: added(known[kind], given[kind])}
    return {kind: joined(kind, known[kind], given[kind])}


def _operand(operand: Any, item: Item, scope: Scope) -> Value:
    if isinstance(operand, Given):
        return taken_in({"v": scope.given(operand)})["v"]
    if isinstance(operand, Path):
        found = read(item, scope.path(operand))
        if found is None:
            raise invalid("The provided expression refers to an attribute that does not exist in the item")
        return copied({"v": found})["v"]
    return _computed(operand, item, scope)


def _computed(operation: Operation, item: Item, scope: Scope) -> Value:
    one, other = operation.operands
    if operation.name == "if_not_exists":
        found = read(item, scope.path(one))
        return _operand(other, item, scope) if found is None else copied({"v": found})["v"]
    left, right = _operand(one, item, scope), _operand(other, item, scope)
    kind = "L" if operation.name == "list_append" else "N"
    if kind_of(left) != kind or kind_of(right) != kind:
        raise _mismatch()
    if operation.name == "list_append":
        return {kind: left[kind] + right[kind]}
    return {kind: added(left[kind], right[kind], 1 if operation.name == "+" else -1)}


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
    for index, one in enumerate(paths):
        for other in paths[index + 1 :]:
            shorter = min(len(one), len(other))
            if one[:shorter] == other[:shorter]:
                raise invalid(
                    "Invalid UpdateExpression: Two document paths overlap with each other; "
                    f"must remove or rewrite one of these paths; path one: {list(one)}, path two: {list(other)}"
                )


def _mismatch() -> Exception:
    return invalid("An operand in the update expression has an incorrect data type")
