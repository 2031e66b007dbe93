"""TransactWriteItems: atomic, idempotent by token, and in conflict with concurrent writes to the same item."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from simulator.aws.dynamodb.items import Items, Key
from simulator.aws.dynamodb.requests import CONDITION_FAILED, Schema, Write, read_write
from simulator.aws.dynamodb.values import Item, bytes_of, invalid
from simulator.aws.errors import AwsError
from simulator.clock import VirtualClock

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
