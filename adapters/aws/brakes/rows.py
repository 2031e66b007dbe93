"""Brakes in DynamoDB: those that functions engage, and a breaker per NodePool; one partition, read by one query."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from adapters.aws.dynamodb.readable_rows import decoded
from adapters.aws.dynamodb.records import packed, partition_of, unpacked
from adapters.aws.dynamodb.table import DynamoTable, Item, key, number, sort_of
from adapters.ports import Clock, ConflictError
from core.brakes.brake import Brake, BrakeKind
from core.brakes.breaker import Breaker
from installation.wiring import TABLE

TRIES: Final = 5
"""How often a conflicting write of a breaker's row is retried; failures of one pool come together."""

KEPT_FOR: Final = timedelta(days=90)
"""How long a breaker's row is kept after its last result: a deleted NodePool leaves its row behind."""

_HELD: Final = "held#"
_BREAKER: Final = "breaker#"


class DynamoBrakes:
    """`HeldBrakes` and `Breakers` of `adapters.brakes.ports`, and an `adapters.brakes.brake_reader.Source` for both."""

    name = "the brakes in the table"

    def __init__(self, table: DynamoTable, cluster: str, clock: Clock) -> None:
        self._table = table
        self._partition = partition_of(cluster, "brakes")
        self._clock = clock

    def read(self) -> tuple[Brake, ...]:
        """Return all engaged brakes. Raises PortError."""
        now, items = self._clock.now(), tuple(self._table.query(self._partition))
        breakers = (_breaker(item, now).brake(now) for item in items if not _is_held(item))
        return (
            *(_brake(item) for item in items if _is_held(item)),
            *(brake for brake in breakers if brake is not None),
        )

    def held(self) -> tuple[Brake, ...]:
        """Return the brakes that functions engaged."""
        return tuple(_brake(item) for item in self._table.query(self._partition) if _is_held(item))

    def hold(self, brake: Brake, now: datetime) -> None:
        """Engage the brake, or replace its message."""
        item = key(self._partition, _held(brake.kind, brake.node_pool))
        since = {"since": {"S": now.isoformat()}}
        self._table.put({**item, **since, "body": packed(msgspec.json.encode(brake))})

    def release(self, kind: BrakeKind, node_pool: str = "") -> None:
        """Release the brake; no error if it is not engaged."""
        self._table.delete(self._partition, _held(kind, node_pool))

    def failed(self, node_pool: str, message: str, now: datetime) -> bool:
        """Count a failure; return whether that opens the breaker. Raises ConflictError if others keep writing the row."""
        before, after = self._change(node_pool, lambda breaker: breaker.after_failure(message, now), now)
        return after.openings > before.openings

    def joined(self, node_pool: str, now: datetime) -> bool:
        """Forget the failures; return whether that closes an open breaker.

        Raises ConflictError if others keep writing the row.
        """
        before, _ = self._change(node_pool, Breaker.after_success, now)
        return before.brake(now) is not None

    def breakers(self) -> tuple[Breaker, ...]:
        """Return all breakers, open or not."""
        now = self._clock.now()
        return tuple(_breaker(item, now) for item in self._table.query(self._partition) if not _is_held(item))

    def renew(self, node_pool: str, generations: str, now: datetime) -> None:
        """Drop the results of other generations of NodePool and EC2NodeClass. Raises ConflictError."""
        self._change(node_pool, lambda breaker: breaker.at(generations), now)

    def _change(self, node_pool: str, change: Callable[[Breaker], Breaker], now: datetime) -> tuple[Breaker, Breaker]:
        """Return the breaker before and after the change; a conflicting write is retried on the new row."""
        for _ in range(TRIES - 1):
            try:
                return self._change_once(node_pool, change, now)
            except ConflictError:
                continue
        return self._change_once(node_pool, change, now)

    def _change_once(
        self, node_pool: str, change: Callable[[Breaker], Breaker], now: datetime
    ) -> tuple[Breaker, Breaker]:
        item = self._table.get(self._partition, _BREAKER + node_pool)
        before = Breaker(node_pool=node_pool) if item is None else _breaker(item, now)
        after = change(before)
        if after != before:
            self._table.put(self._item(after, now, before.version + 1), condition=_unchanged(item))
        return before, after

    def _item(self, breaker: Breaker, now: datetime, version: int) -> Item:
        stored = msgspec.structs.replace(breaker, version=version)
        return {
            **key(self._partition, _BREAKER + breaker.node_pool),
            "body": packed(msgspec.json.encode(stored)),
            "version": number(version),
            TABLE.expiry: number(int((now + KEPT_FOR).timestamp())),
        }


def _held(kind: BrakeKind, node_pool: str) -> str:
    return f"{_HELD}{kind}#{node_pool}"


def _is_held(item: Item) -> bool:
    return sort_of(item).startswith(_HELD)


def _brake(item: Item) -> Brake:
    """Return the brake of a row. Raises DeniedError if it cannot be read."""
    return decoded(item, lambda item: msgspec.json.decode(unpacked(item["body"]), type=Brake))


def _breaker(item: Item, now: datetime) -> Breaker:
    """Return the breaker of a row; one that has expired and is not yet deleted counts as empty. Raises DeniedError."""

    def read(item: Item) -> Breaker:
        found = msgspec.json.decode(unpacked(item["body"]), type=Breaker)
        if int(item[TABLE.expiry]["N"]) <= now.timestamp():
            return Breaker(node_pool=found.node_pool, version=found.version)
        return found

    return decoded(item, read)


def _unchanged(item: Item | None) -> dict[str, object]:
    if item is None:
        return {"ConditionExpression": "attribute_not_exists(#p)", "ExpressionAttributeNames": {"#p": TABLE.sort_key}}
    return {
        "ConditionExpression": "#v = :v",
        "ExpressionAttributeNames": {"#v": "version"},
        "ExpressionAttributeValues": {":v": item["version"]},
    }
