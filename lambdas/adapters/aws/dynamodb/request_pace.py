"""Paces requests to EC2 over all sandboxes: a token bucket in DynamoDB, one item for each operation.

EC2 throttles by account and region, so no thread or sandbox knows its own rate. The item holds the moment at which the bucket
is full again. Each request moves this moment by the time that one token takes to return. If the moment is within `FULL_AFTER`
from now, the request has a token; otherwise it waits until it is (the generic cell rate algorithm of ATM networks).
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from lambdas.adapters.aws.dynamodb.table import DynamoTable, number
from lambdas.ports import ConflictError, PortError, ThrottledError
from lambdas.wiring import TABLE

PARTITION: Final = "request-rates"
TOKEN_EVERY: Final = timedelta(milliseconds=200)
AT_ONCE: Final = 45
"""EC2 takes 50 CreateFleet requests at once and 5 a second from then on. The clocks of two sandboxes may be a second apart
(docs/adr/0028): five tokens."""

FULL_AFTER: Final = AT_ONCE * TOKEN_EVERY
LONGEST_WAIT: Final = timedelta(seconds=15)
"""A launch that would wait longer goes back to the queue instead of waiting in a function."""

CLOCKS_APART: Final = timedelta(minutes=1)
"""A moment later than the longest wait by more than this is of a wrong clock, or a person wrote it. Like an attribute that is
missing or no number, it counts as a full bucket: otherwise, nothing would be launched until that moment."""

ATTEMPTS: Final = 2
"""A bucket that becomes full between the two conditions of an attempt meets neither; it meets the first of the next attempt."""

KEPT_FOR: Final = timedelta(minutes=10)


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
            full_at = self._take(_milliseconds(now))
        except PortError:
            return timedelta(0)
        if full_at is None:
            raise ThrottledError(self._operation, "too many requests are waiting for EC2", LONGEST_WAIT)
        return max(timedelta(0), datetime.fromtimestamp(full_at / 1000, UTC) - FULL_AFTER - now)

    def _take(self, now: int) -> int | None:
        """Take a token and return when the bucket is full again; None where none returns in time. In milliseconds."""
        latest = now + (FULL_AFTER + LONGEST_WAIT - TOKEN_EVERY) // timedelta(milliseconds=1)
        longest = latest + CLOCKS_APART // timedelta(milliseconds=1)
        token = TOKEN_EVERY // timedelta(milliseconds=1)
        for _ in range(ATTEMPTS):
            with suppress(ConflictError):
                values = {":now": number(now), ":latest": number(latest), ":token": number(token)}
                return self._update(now, "#f = #f + :token", "#f > :now AND #f <= :latest", values)
            with suppress(ConflictError):
                values = {":after": number(now + 1), ":longest": number(longest), ":one": number(now + token)}
                return self._update(now, "#f = :one", "NOT (#f BETWEEN :after AND :longest)", values)
        return None

    def _update(self, now: int, change: str, condition: str, values: dict[str, dict[str, str]]) -> int:
        """Write the moment at which the bucket is full, and return it. Raises ConflictError if the condition does not hold."""
        expiry = now // 1000 + int(KEPT_FOR.total_seconds())
        written = self._table.update(
            PARTITION,
            self._operation,
            UpdateExpression=f"SET {change}, #e = :e",
            ConditionExpression=condition,
            ExpressionAttributeNames={"#f": "fullAt", "#e": TABLE.expiry},
            ExpressionAttributeValues={**values, ":e": number(expiry)},
        )
        return int(float(written["fullAt"]["N"]))  # a person may have written a fraction


def _milliseconds(moment: datetime) -> int:
    return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
