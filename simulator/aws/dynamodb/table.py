"""The table's calls: single items, paged queries, simulated loss and restore."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from simulator.aws.dynamodb.items import Items, Key, Listener
from simulator.aws.dynamodb.queries import KeyRange, read_key_condition
from simulator.aws.dynamodb.requests import CONDITION_FAILED, Schema, Write, read_write
from simulator.aws.dynamodb.transactions import Transactions
from simulator.aws.dynamodb.updates import picked
from simulator.aws.dynamodb.values import Item, bytes_of, copied
from simulator.aws.errors import AwsError, UnansweredError
from simulator.clock import VirtualClock

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
        known = _KNOWN[operation]

        def ask(request: dict[str, Any]) -> dict[str, Any]:
            if not request.keys() <= known:
                unknown = ", ".join(sorted(request.keys() - known))
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
        found = self._found(request, wanted)
        page: list[Item] = []
        size, limit = 0, request.get("Limit")
        is_long = self._items.bytes_in(wanted.partition) > PAGE_BYTES
        answer: dict[str, Any] = {}
        for sort, item in found:
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
