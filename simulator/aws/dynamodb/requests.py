"""The common parts of every request to the table: keys, conditions, items within bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from simulator.aws.dynamodb import grammar
from simulator.aws.dynamodb.conditions import Scope, holds
from simulator.aws.dynamodb.items import Key
from simulator.aws.dynamodb.updates import check_changes, updated
from simulator.aws.dynamodb.values import ITEM_BYTES_MAX, Item, bytes_of, copied, invalid, taken_in
from simulator.aws.errors import AwsError

CONDITION_FAILED: Final = "The conditional request failed"


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """A table with text as partition and sort key. `expiry` is the attribute by which items expire."""

    table: str
    partition_key: str
    sort_key: str
    expiry: str

    def check_table(self, request: Mapping[str, Any]) -> None:
        """Raise AwsError if the request names another table."""
        if request["TableName"] != self.table:
            raise AwsError("ResourceNotFoundException", f"Requested resource not found: {request['TableName']}")

    def key(self, attributes: Mapping[str, Any]) -> Key:
        """Return the key from its attributes. Raises AwsError if they do not fit this table's schema."""
        if attributes.keys() != {self.partition_key, self.sort_key}:
            raise invalid("The provided key element does not match the schema")
        return self.key_of(attributes)

    def key_of(self, item: Mapping[str, Any]) -> Key:
        """An item's key. Raises AwsError for one that is missing, empty or no text."""
        return Key(self._text(item, self.partition_key), self._text(item, self.sort_key))

    def attributes(self, key: Key) -> Item:
        """A key as attributes."""
        return {self.partition_key: {"S": key.partition}, self.sort_key: {"S": key.sort}}

    def _text(self, item: Mapping[str, Any], name: str) -> str:
        if name not in item:
            raise invalid(f"One or more parameter values were invalid: Missing the key {name} in the item")
        text = item[name].get("S")
        if text is None:
            raise invalid(f"One or more parameter values were invalid: Type mismatch for key {name} expected: S")
        if not text:
            raise invalid(
                "One or more parameter values are not valid. The AttributeValue for a key attribute "
                f"cannot contain an empty string value. Key: {name}"
            )
        return str(text)


class Write(msgspec.Struct, frozen=True):
    """A parsed write, applied to the current item.

    Attributes:
        kind: Put, Update, Delete or ConditionCheck, as in a transaction.
    """

    kind: str
    key: Key
    request: Mapping[str, Any]
    scope: Scope
    condition: grammar.Expression | None
    update: grammar.Expression | None

    def holds(self, before: Item | None) -> bool:
        """Whether its condition holds."""
        return self.condition is None or holds(self.condition.tree, before or {}, self.scope)

    def after(self, before: Item | None, schema: Schema) -> Item | None:
        """The item as it is afterwards. Raises AwsError."""
        if self.kind == "ConditionCheck":
            return before
        if self.kind == "Delete":
            return None
        if self.kind == "Put":
            return _within_bounds(taken_in(self.request["Item"]), "Item size has exceeded the maximum allowed size")
        base = before or schema.attributes(self.key)
        if self.update is None:
            return copied(base)
        item, _ = updated(base, self.update.tree, self.scope)
        return _within_bounds(item, "Item size to update has exceeded the maximum allowed size")

    def refused(self, before: Item | None) -> dict[str, Any]:
        """Return the item for the answer to a failed condition, if the request asks for it."""
        wanted = self.request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
        return {"Item": copied(before)} if wanted and before else {}


def read_write(kind: str, request: Mapping[str, Any], schema: Schema) -> Write:
    """Parse a write and check everything that does not need the item. Raises AwsError."""
    schema.check_table(request)
    key = schema.key_of(request["Item"]) if kind == "Put" else schema.key(request["Key"])
    condition = request.get("ConditionExpression")
    update = request.get("UpdateExpression")
    scope = Scope(request)
    read = Write(
        kind,
        key,
        request,
        scope,
        None if condition is None else grammar.condition(condition),
        None if update is None else grammar.update(update),
    )
    scope.check(read.condition, read.update)
    changes = read.update.tree if read.update else ()
    check_changes(changes, scope)
    for change in changes:
        name = scope.path(change.path)[0]
        if name in (schema.partition_key, schema.sort_key):
            raise invalid(
                f"One or more parameter values were invalid: Cannot update attribute {name}. "
                "This attribute is part of the key"
            )
    return read


def _within_bounds(item: Item, message: str) -> Item:
    if bytes_of(item) > ITEM_BYTES_MAX:
        raise invalid(message)
    return item
