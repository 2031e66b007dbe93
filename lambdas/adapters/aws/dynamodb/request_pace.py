"""Paces requests to EC2 over all sandboxes: one DynamoDB item for each operation and period counts them.

EC2 throttles by account and region, so neither a thread nor a sandbox can know alone how fast it may ask.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from lambdas.adapters.aws.dynamodb.table import DynamoTable, number
from lambdas.ports import PortError, ThrottledError
from lambdas.wiring import TABLE

PARTITION: Final = "request-rates"
PERIOD: Final = timedelta(seconds=5)
IN_A_PERIOD: Final = 25
"""EC2 takes 50 CreateFleet requests at once and 5 a second from then on. Requests of two periods may come together where they
meet; then the bucket gets as much as each further period takes."""

PERIODS_MAX: Final = 3
"""Most periods that are tried; then a launch goes back to the queue instead of waiting in a function."""

KEPT_FOR: Final = timedelta(minutes=10)


class DynamoRequestPace:
    """Gives turns for one operation."""

    def __init__(self, table: DynamoTable, operation: str) -> None:
        self._table = table
        self._operation = operation

    def wait(self, now: datetime) -> timedelta:
        """Take the next turn and return how long to wait for it; none where the table does not answer.

        Raises:
            ThrottledError: If no turn is left in the next `PERIODS_MAX` periods.
        """
        first = int(now.timestamp() / PERIOD.total_seconds())
        try:
            for period in range(first, first + PERIODS_MAX):
                if self._count(period) <= IN_A_PERIOD:
                    return max(timedelta(0), _begin(period) - now)
        except PortError:
            return timedelta(0)
        later = _begin(first + PERIODS_MAX) - now
        raise ThrottledError(self._operation, "more requests wait for EC2 than it takes now", later)

    def _count(self, period: int) -> int:
        """Count one more request in a period, and return how many there are."""
        expiry = int((_begin(period) + KEPT_FOR).timestamp())
        counted = self._table.update(
            PARTITION,
            f"{self._operation}#{period}",
            UpdateExpression="ADD #n :one SET #e = :e",
            ExpressionAttributeNames={"#n": "requests", "#e": TABLE.expiry},
            ExpressionAttributeValues={":one": number(1), ":e": number(expiry)},
        )
        return int(counted["requests"]["N"])


def _begin(period: int) -> datetime:
    return datetime.fromtimestamp(period * PERIOD.total_seconds(), UTC)
