"""On which nodes pods ended of late, in DynamoDB: an item for each node."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from lambdas.adapters.aws.dynamodb.records import partition_of, sort_of
from lambdas.adapters.aws.dynamodb.table import DynamoTable, key, number
from lambdas.ports import ConflictError
from lambdas.wiring import TABLE

KEPT_FOR: Final = timedelta(hours=3)
"""An observation of the pods takes over what it finds here, and `reconcile` observes them once an hour at least."""

_FIELD: Final = "ended_at"


class DynamoPodEnds:
    """`lambdas.store.PodEnds`."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "pod-ends")

    def latest(self, now: datetime) -> dict[str, datetime]:
        """Node → moment; DynamoDB deletes items some time after their end."""
        return {
            sort_of(item): datetime.fromisoformat(item[_FIELD]["S"])
            for item in self._table.query(self._partition)
            if int(item[TABLE.expiry]["N"]) > now.timestamp()
        }

    def record(self, ended: Mapping[str, datetime], now: datetime) -> None:
        """Replace the moments that are earlier."""
        expiry = number(int((now + KEPT_FOR).timestamp()))
        for node, at in sorted(ended.items()):
            item = {**key(self._partition, node), _FIELD: {"S": at.isoformat()}, TABLE.expiry: expiry}
            with suppress(ConflictError):  # a later delivery was faster
                self._table.put(item, condition=_later_than(at))


def _later_than(at: datetime) -> dict[str, Any]:
    """Condition: what is stored, if anything, is earlier. Times of one zone and precision are in the order of their texts."""
    return {
        "ConditionExpression": "attribute_not_exists(#f) OR #f < :at",
        "ExpressionAttributeNames": {"#f": _FIELD},
        "ExpressionAttributeValues": {":at": {"S": at.isoformat()}},
    }
