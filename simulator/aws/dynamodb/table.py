"""The table's calls: single items, paged queries, simulated loss and restore."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from random import Random
from typing import Any, Final, NamedTuple

import msgspec

from simulator.aws.dynamodb import expressions
from simulator.aws.dynamodb.expressions import Given, Operation, Path, Scope, check_changes, holds, picked, updated
from simulator.aws.dynamodb.values import ITEM_BYTES_MAX, Item, bytes_of, copied, invalid, taken_in
from simulator.aws.queues import AwsError, UnansweredError
from simulator.clock import VirtualClock

# The table's content, with a journal of every write: items can be read and restored as of any moment.


class Key(NamedTuple):
    """Partition and sort key."""

    partition: str
    sort: str


class Written(NamedTuple):
    """One write, with the item before and after; None if it did not exist."""

    at: datetime
    key: Key
    before: Item | None
    after: Item | None


Listener = Callable[[Key, Item | None], None]
"""Called for each write with the key and the present item, None if it is gone."""


class Items:
    """Items by partition in the order of their sort keys. They are replaced, never changed."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._partitions: dict[str, dict[str, Item]] = {}
        self._sorted: dict[str, tuple[str, ...]] = {}
        self._bytes: dict[str, int] = {}
        self._journal: list[Written] = []

    def get(self, key: Key) -> Item | None:
        """One item."""
        return self._partitions.get(key.partition, {}).get(key.sort)

    def partition(self, name: str) -> Iterator[tuple[str, Item]]:
        """The sort keys of a partition with their items, in order."""
        stored = self._partitions.get(name, {})
        if name not in self._sorted:
            # DynamoDB sorts by the bytes of UTF-8, which is the order of code points.
            self._sorted[name] = tuple(sorted(stored))
        return ((sort, stored[sort]) for sort in self._sorted[name])

    def bytes_in(self, name: str) -> int:
        """Return the size in bytes of a partition's items together."""
        return self._bytes.get(name, 0)

    def all(self) -> Iterator[tuple[Key, Item]]:
        """Every item, in the order of keys."""
        for name in sorted(self._partitions):
            for sort, item in self.partition(name):
                yield Key(name, sort), item

    def write(self, at: datetime, key: Key, item: Item | None) -> None:
        """Store an item, or remove it if `item` is None."""
        stored = self._partitions.setdefault(key.partition, {})
        before = stored.get(key.sort)
        size = self._bytes.get(key.partition, 0)
        self._bytes[key.partition] = size + bytes_of(item or {}) - bytes_of(before or {})
        if item is None:
            stored.pop(key.sort, None)
        else:
            stored[key.sort] = item
        if (before is None) != (item is None):
            self._sorted.pop(key.partition, None)
        if before is not None or item is not None:
            self._journal.append(Written(at, key, before, item))
            for listener in self._listeners:
                listener(key, item)

    def listen(self, listener: Listener) -> None:
        """Call `listener` with each item written or removed from now on."""
        self._listeners.append(listener)

    def changed_since(self, moment: datetime) -> dict[Key, Item | None]:
        """Return what was written after `moment`, with the items as they were then."""
        items_before: dict[Key, Item | None] = {}
        for written in reversed(self._journal):
            if written.at <= moment:
                break
            items_before[written.key] = written.before
        return items_before

    def newest(self) -> Iterator[Key]:
        """Return the keys of all items, the most recently written first."""
        seen: set[Key] = set()
        for written in reversed(self._journal):
            if written.key not in seen and self.get(written.key) is not None:
                yield written.key
            seen.add(written.key)


# The common parts of every request to the table: keys, conditions, items within bounds.


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
    condition: expressions.Expression | None
    update: expressions.Expression | None

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
        None if condition is None else expressions.condition(condition),
        None if update is None else expressions.update(update),
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


# Selects the items of a partition that match a query.


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
    expression = expressions.key_condition(request["KeyConditionExpression"])
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
    for part in _parts(expressions.key_condition(text).tree):
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


# TransactWriteItems: atomic, idempotent by token, and in conflict with concurrent writes to the same item.


TAKES: Final = timedelta(milliseconds=4)
"""How long a transaction locks its items; other writers get a conflict meanwhile. AWS publishes no figure."""

OPERATIONS_MAX: Final = 100
BYTES_MAX: Final = 4 * 1024 * 1024
"""DynamoDB's quotas for one transaction."""

REMEMBERED: Final = timedelta(minutes=10)
"""How long a token identifies its transaction."""


class _Done(msgspec.Struct, frozen=True):
    at: datetime
    content: bytes
    is_finished: bool


class Transactions:
    """Executes transactions. `spend` advances time while one locks its items."""

    def __init__(self, clock: VirtualClock, items: Items, schema: Schema, spend: Callable[[timedelta], None]) -> None:
        self._clock = clock
        self._items = items
        self._schema = schema
        self._spend = spend
        self._locked: set[Key] = set()
        self._by_token: dict[str, _Done] = {}

    def check_free(self, key: Key) -> None:
        """Raise AwsError if a transaction holds the item."""
        if key in self._locked:
            raise AwsError("TransactionConflictException", "Transaction is ongoing for the item")

    def write(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer dynamodb:TransactWriteItems."""
        writes = self._read(request)
        token = request.get("ClientRequestToken")
        if token and self._is_done(token, request):
            return {}
        reasons = [{"Code": "None"} if w.key not in self._locked else _conflict() for w in writes]
        _raise_unless_none(reasons)
        content = msgspec.json.encode(request["TransactItems"])
        keys = {write.key for write in writes}
        self._locked |= keys
        if token:
            self._by_token[token] = _Done(self._clock.now(), content, is_finished=False)
        try:
            self._spend(TAKES)
            self._commit(writes)
        except BaseException:
            self._by_token.pop(token or "", None)
            raise
        finally:
            self._locked -= keys
        if token:
            self._by_token[token] = _Done(self._clock.now(), content, is_finished=True)
        return {}

    def _read(self, request: dict[str, Any]) -> list[Write]:
        entries = request["TransactItems"]
        if not 0 < len(entries) <= OPERATIONS_MAX:
            raise invalid(f"Member must have length between 1 and {OPERATIONS_MAX}, inclusive: transactItems")
        writes = [read_write(kind, arguments, self._schema) for entry in entries for kind, arguments in entry.items()]
        if len({write.key for write in writes}) < len(writes):
            raise invalid("Transaction request cannot include multiple operations on one item")
        size = sum(bytes_of(w.request.get("Item") or self._schema.attributes(w.key)) for w in writes)
        if size > BYTES_MAX:
            raise invalid(f"Transaction payload size cannot exceed 4MB. Payload Size: {size}")
        return writes

    def _commit(self, writes: Sequence[Write]) -> None:
        reasons: list[dict[str, Any]] = []
        after: list[tuple[Key, Item | None]] = []
        for write in writes:
            before = self._items.get(write.key)
            if not write.holds(before):
                failed = {"Code": "ConditionalCheckFailed", "Message": CONDITION_FAILED}
                reasons.append(failed | write.refused(before))
                continue
            try:
                result = write.after(before, self._schema)
            except AwsError as error:
                reasons.append({"Code": "ValidationError", "Message": error.message})
                continue
            reasons.append({"Code": "None"})
            if write.kind != "ConditionCheck":
                after.append((write.key, result))
        _raise_unless_none(reasons)
        for key, item in after:
            self._items.write(self._clock.now(), key, item)

    def _is_done(self, token: str, request: dict[str, Any]) -> bool:
        done = self._by_token.get(token)
        if done is None or self._clock.now() - done.at > REMEMBERED:
            return False
        if done.content != msgspec.json.encode(request["TransactItems"]):
            raise AwsError("IdempotentParameterMismatchException", "The token was used with other parameters before")
        if not done.is_finished:
            raise AwsError("TransactionInProgressException", "The transaction with the given token is in progress")
        return True


def _conflict() -> dict[str, Any]:
    return {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"}


def _raise_unless_none(reasons: list[dict[str, Any]]) -> None:
    codes = [reason["Code"] for reason in reasons]
    if any(code != "None" for code in codes):
        raise cancelled(reasons)


def cancelled(reasons: list[dict[str, Any]]) -> AwsError:
    """Return the error of a cancelled transaction, with one reason for each operation."""
    codes = ", ".join(reason["Code"] for reason in reasons)
    message = f"Transaction cancelled, please refer cancellation reasons for specific reasons [{codes}]"
    return AwsError("TransactionCanceledException", message, fields={"CancellationReasons": reasons})


PAGE_BYTES: Final = 1024 * 1024
"""A query's page ends with the item that exceeds this size."""

LAG_MAX: Final = timedelta(seconds=1)
"""Longest lag of an eventually consistent read: usually less than a second, according to AWS. Here half of them lag."""

EXPIRED_FOR: Final = timedelta(minutes=10)
"""How long an item stays after it has expired; with AWS up to days."""

_COMMON: Final = frozenset({"TableName", "ExpressionAttributeNames", "ExpressionAttributeValues"})
_WRITES: Final = _COMMON | {"ConditionExpression", "ReturnValues", "ReturnValuesOnConditionCheckFailure"}
_KNOWN: Final = {
    "GetItem": frozenset({"TableName", "Key", "ConsistentRead"}),
    "Query": _COMMON | {"KeyConditionExpression", "ConsistentRead", "ExclusiveStartKey", "Limit", "ScanIndexForward"},
    "PutItem": _WRITES | {"Item"},
    "DeleteItem": _WRITES | {"Key"},
    "UpdateItem": _WRITES | {"Key", "UpdateExpression"},
    "TransactWriteItems": frozenset({"TransactItems", "ClientRequestToken"}),
}
"""Parameters that requests may have. Any other parameter has a meaning that this table does not implement, so it is an error.
"""


class Table:
    """One table. `spend` advances the calling function's time; `rng` draws the lag of eventually consistent reads."""

    def __init__(self, clock: VirtualClock, schema: Schema, spend: Callable[[timedelta], None], rng: Random) -> None:
        self._clock = clock
        self._schema = schema
        self._rng = rng
        self._items = Items()
        self._transactions = Transactions(clock, self._items, schema, spend)
        self._swept_at = clock.now()

    def answers(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        """Return the responder of each call."""
        calls = {
            "GetItem": self._get,
            "Query": self._query,
            "PutItem": self._put,
            "DeleteItem": self._delete,
            "UpdateItem": self._update,
            "TransactWriteItems": self._transactions.write,
        }
        return {f"dynamodb:{operation}": self._checked(operation, answer) for operation, answer in calls.items()}

    def all(self) -> Iterator[Item]:
        """Every item as it is now, by partition and sort key. Not to be changed."""
        return (item for _, item in self._items.all())

    def listen(self, listener: Listener) -> None:
        """Call `listener` with each item that is written, lost or put back from now on."""
        self._items.listen(listener)

    def put_by_stranger(self, item: Item) -> Key:
        """Write an item that no function wrote, and return its key. Raises AwsError for one that the table cannot have."""
        key = self._schema.key_of(item)
        self._items.write(self._clock.now(), key, taken_in(item))
        return key

    def lose(self, newest: int | None) -> None:
        """Remove the `newest` most recently written items, None for all. No function is notified."""
        lost = list(self._items.newest())[:newest]
        for key in lost:
            self._items.write(self._clock.now(), key, None)

    def restore(self, moment: datetime) -> None:
        """Restore every item to its state at `moment`."""
        for key, item in sorted(self._items.changed_since(moment).items()):
            self._items.write(self._clock.now(), key, item)

    def _checked(
        self, operation: str, answer: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> Callable[[dict[str, Any]], dict[str, Any]]:
        parameters = _KNOWN[operation]

        def ask(request: dict[str, Any]) -> dict[str, Any]:
            if not request.keys() <= parameters:
                unknown = ", ".join(sorted(request.keys() - parameters))
                raise UnansweredError(f"{operation} with {unknown}: add it to {__name__}")
            self._sweep()
            return answer(request)

        return ask

    def _get(self, request: dict[str, Any]) -> dict[str, Any]:
        self._schema.check_table(request)
        key = self._schema.key(request["Key"])
        late = self._late(request)
        item = late[key] if key in late else self._items.get(key)
        return {"Item": copied(item)} if item is not None else {}

    def _query(self, request: dict[str, Any]) -> dict[str, Any]:
        self._schema.check_table(request)
        wanted = read_key_condition(request, self._schema)
        rows = self._found(request, wanted)
        page: list[Item] = []
        size, limit = 0, request.get("Limit")
        is_long = self._items.bytes_in(wanted.partition) > PAGE_BYTES
        answer: dict[str, Any] = {}
        for sort, item in rows:
            page.append(copied(item))
            size += bytes_of(item) if is_long else 0
            if size > PAGE_BYTES or len(page) == limit:
                answer = {"LastEvaluatedKey": self._schema.attributes(Key(wanted.partition, sort))}
                break
        return {"Items": page, "Count": len(page), "ScannedCount": len(page), **answer}

    def _found(self, request: Mapping[str, Any], wanted: KeyRange) -> Iterator[tuple[str, Item]]:
        entries = list(self._items.partition(wanted.partition))
        if late := self._late(request):
            entries = _as_it_was(wanted.partition, entries, late)
        is_forward = request.get("ScanIndexForward", True)
        start = request.get("ExclusiveStartKey")
        after = None if start is None else self._schema.key(start).sort
        for sort, item in entries if is_forward else reversed(entries):
            is_before = after is not None and (sort <= after if is_forward else sort >= after)
            if not is_before and wanted.has(sort):
                yield sort, item

    def _put(self, request: dict[str, Any]) -> dict[str, Any]:
        write, before, _ = self._write("Put", request)
        return _returned(write, before)

    def _delete(self, request: dict[str, Any]) -> dict[str, Any]:
        write, before, _ = self._write("Delete", request)
        return _returned(write, before)

    def _update(self, request: dict[str, Any]) -> dict[str, Any]:
        write, before, after = self._write("Update", request)
        wanted = request.get("ReturnValues", "NONE")
        if wanted in ("NONE", "ALL_OLD"):
            return _returned(write, before)
        shown = after if wanted.endswith("NEW") else before
        if wanted == "ALL_NEW":
            return {"Attributes": copied(shown or {})}
        changes = write.update.tree if write.update else ()
        attributes = picked(shown or {}, [write.scope.path(change.path) for change in changes])
        return {"Attributes": attributes} if attributes else {}

    def _write(self, kind: str, request: dict[str, Any]) -> tuple[Write, Item | None, Item | None]:
        write = read_write(kind, request, self._schema)
        self._transactions.check_free(write.key)
        before = self._items.get(write.key)
        if not write.holds(before):
            raise AwsError("ConditionalCheckFailedException", CONDITION_FAILED, fields=write.refused(before))
        after = write.after(before, self._schema)
        self._items.write(self._clock.now(), write.key, after)
        return write, before, after

    def _late(self, request: Mapping[str, Any]) -> dict[Key, Item | None]:
        """Return the state that an eventually consistent read sees."""
        if request.get("ConsistentRead"):
            return {}
        lag = max(0.0, self._rng.uniform(-1, 1)) * LAG_MAX
        return self._items.changed_since(self._clock.now() - lag) if lag else {}

    def _sweep(self) -> None:
        now = self._clock.now()
        if now - self._swept_at < EXPIRED_FOR:
            return
        self._swept_at = now
        latest = (now - EXPIRED_FOR).timestamp()
        for key, item in list(self._items.all()):
            expires_at = item.get(self._schema.expiry, {}).get("N")
            if expires_at is not None and float(expires_at) < latest:
                self._items.write(now, key, None)


def _returned(write: Write, before: Item | None) -> dict[str, Any]:
    wanted = write.request.get("ReturnValues", "NONE")
    return {"Attributes": copied(before)} if wanted == "ALL_OLD" and before else {}


def _as_it_was(
    partition: str, entries: Iterable[tuple[str, Item]], late: Mapping[Key, Item | None]
) -> list[tuple[str, Item]]:
    seen = dict(entries)
    for key, item in late.items():
        if key.partition == partition:
            seen.pop(key.sort, None)
            if item is not None:
                seen[key.sort] = item
    return sorted(seen.items(), key=lambda entry: entry[0])
