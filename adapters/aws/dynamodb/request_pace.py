"""Paces requests to EC2 over all sandboxes: a token bucket in DynamoDB, one item for each operation.

EC2 throttles by account and region, so no thread or sandbox knows its own rate. The item holds the moment at which the bucket
is full again, and while EC2 throttles the reduced rate (`core.launch.request_pace`).
At the fastest rate, each request moves the moment by the time that one token takes to return: two conditional updates do this
regardless of other writers (the generic cell rate algorithm of ATM networks). A reduced rate is read, and written on condition
that nobody else has.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from adapters.aws.dynamodb.table import DynamoTable, Item, number
from adapters.ports import ConflictError, PortError, ThrottledError
from core.launch.request_pace import (
    AT_ONCE,
    CLOCKS_APART,
    FASTEST,
    LONGEST_WAIT,
    Pace,
    latest_full,
    slowed,
    take_turn,
    token_time,
)
from installation.wiring import TABLE

PARTITION: Final = "request-rates"

ATTEMPTS: Final = 5
"""Attempts against concurrent writers. At the fastest rate only a bucket that becomes full between two conditions needs a
second one; at a reduced rate, other requests take the next turn."""

KEPT_FOR: Final = timedelta(minutes=10)
MILLISECOND: Final = timedelta(milliseconds=1)
_FULL_AT: Final = "fullAt"
_RATE: Final = "rate"
_SLOWED_AT: Final = "slowedAt"
_NAMES: Final = {"#f": _FULL_AT, "#r": _RATE, "#s": _SLOWED_AT, "#e": TABLE.expiry}


class DynamoRequestPace:
    """Assigns turns for one operation."""

    def __init__(self, table: DynamoTable, operation: str) -> None:
        self._table = table
        self._operation = operation

    def wait(self, now: datetime) -> timedelta:
        """Take the next turn and return how long to wait for it; zero if the table does not answer.

        Raises:
            ThrottledError: If no turn comes within `LONGEST_WAIT`.
        """
        try:
            wait = self._take(_milliseconds(now))
        except PortError:
            return timedelta(0)
        if wait > LONGEST_WAIT:
            said = f"{self._operation} is throttled: the next request may be sent in {wait // 1000} s"
            raise ThrottledError(self._operation, said, wait * MILLISECOND)
        return wait * MILLISECOND

    def slow_down(self, sent: datetime, now: datetime, answers: int) -> None:
        """Reduce the rate after this many throttled answers to the request that was sent then.

        Raises:
            PortError: If the table does not answer.
        """
        for _ in range(ATTEMPTS):
            item = self._table.get(PARTITION, self._operation)
            before = _pace_of(item)
            after = slowed(before, _milliseconds(sent), _milliseconds(now), answers)
            if after == before:
                return
            with suppress(ConflictError):
                self._replace(item, after, _milliseconds(now))
                return

    def _take(self, now: int) -> int:
        """Return the wait of the turn that was taken; more than `LONGEST_WAIT` if none was."""
        wait = LONGEST_WAIT + 1
        for _ in range(ATTEMPTS):
            for change, condition, values in _at_fastest(now):
                with suppress(ConflictError):
                    written = self._table.update(
                        PARTITION,
                        self._operation,
                        UpdateExpression=f"SET {change}, #e = :e",
                        ConditionExpression=f"{condition} AND attribute_not_exists(#s)",
                        ExpressionAttributeNames={name: _NAMES[name] for name in ("#f", "#s", "#e")},
                        ExpressionAttributeValues={**values, ":e": _expiry(now)},
                    )
                    return max(0, _whole(written, _FULL_AT) - AT_ONCE * token_time(FASTEST) - now)
            item = self._table.get(PARTITION, self._operation)
            wait, after = take_turn(_pace_of(item), now)
            if after is None:
                return wait
            with suppress(ConflictError):
                self._replace(item, after, now)
                return wait
        return max(wait, LONGEST_WAIT + 1)

    def _replace(self, item: Item | None, pace: Pace, now: int) -> None:
        """Write the bucket unless another writer did since it was read. Raises ConflictError."""
        values = {":f": number(pace.full_at), ":e": _expiry(now)}
        change = "SET #f = :f, #e = :e REMOVE #r, #s"
        if pace.slowed_at:
            values |= {":r": number(pace.rate), ":s": number(pace.slowed_at)}
            change = "SET #f = :f, #r = :r, #s = :s, #e = :e"
        condition = "attribute_not_exists(#f)"
        if item is not None and _FULL_AT in item:
            condition, values[":before"] = "#f = :before", item[_FULL_AT]
        self._table.update(
            PARTITION,
            self._operation,
            UpdateExpression=change,
            ConditionExpression=condition,
            ExpressionAttributeNames=_NAMES,
            ExpressionAttributeValues=values,
        )


def _at_fastest(now: int) -> tuple[tuple[str, str, dict[str, dict[str, str]]], ...]:
    """Return change, condition and values of the updates that take a token at the fastest rate; at most one of them holds."""
    each = token_time(FASTEST)
    begun = {":now": number(now), ":latest": number(latest_full(now)), ":token": number(each)}
    longest = number(latest_full(now) + CLOCKS_APART)
    full = {":after": number(now + 1), ":longest": longest, ":one": number(now + each)}
    return (
        ("#f = #f + :token", "#f > :now AND #f <= :latest", begun),
        ("#f = :one", "NOT (#f BETWEEN :after AND :longest)", full),
    )


def _pace_of(item: Item | None) -> Pace:
    """Return the stored bucket; a full one where a person or another release wrote what cannot be read."""
    if item is None:
        return Pace()
    try:
        slowed_at = _whole(item, _SLOWED_AT) if _SLOWED_AT in item else 0
        return Pace(_whole(item, _FULL_AT), _whole(item, _RATE) if slowed_at else FASTEST, slowed_at)
    except (KeyError, ValueError, OverflowError):
        return Pace()


def _whole(item: Item, attribute: str) -> int:
    """Return a number; a person may have written a fraction."""
    return int(float(item[attribute]["N"]))


def _expiry(now: int) -> dict[str, str]:
    return number(now // 1000 + int(KEPT_FOR.total_seconds()))


def _milliseconds(moment: datetime) -> int:
    return (moment - datetime.fromtimestamp(0, UTC)) // MILLISECOND
