"""An index of claims by instance, which finds an event's claim without reading all claims."""

from __future__ import annotations

from adapters.aws.dynamodb.readable_rows import readable_row
from adapters.aws.dynamodb.records import partition_of
from adapters.aws.dynamodb.table import ABSENT, DynamoTable, Item, Operation, key, sort_of
from core.lifecycle.records import ClaimRecord


class InstanceRows:
    """The index of one cluster: a row for each instance with the name of its claim."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "instances")

    def claim_of(self, instance_id: str) -> str | None:
        """Return the name in the instance's row, None if there is no readable row. The claim may be gone."""
        return readable_row(self._table.get(self._partition, instance_id), _claim_named_in)

    def instances(self) -> frozenset[str]:
        """Return the ids of all instances that have a row."""
        return frozenset(sort_of(row) for row in self._table.query(self._partition))

    def add(self, claim: ClaimRecord) -> None:
        """Store the row of a claim."""
        self._table.put(self._row(claim))

    def changes(self, before: ClaimRecord | None, after: ClaimRecord | None) -> list[Operation]:
        """Return the operations that keep the index up to date when a claim changes; None: there is no claim."""
        old, new = (record.instance_id if record is not None else "" for record in (before, after))
        operations: list[Operation] = []
        if old and old != new:
            operations.append(("Delete", {"Key": key(self._partition, old)}))
        if after is not None and new and old != new:
            # Claims that share a launch may look for their instances at the same time.
            condition = ABSENT if after.shares > 1 else {}
            operations.append(("Put", {"Item": self._row(after), **condition}))
        return operations

    def _row(self, claim: ClaimRecord) -> Item:
        return {**key(self._partition, claim.instance_id), "claim": {"S": claim.name}}


def _claim_named_in(row: Item) -> str:
    name: str = row["claim"]["S"]
    return name
