"""Claims in DynamoDB, and the NodePools' use of their limits beside them.

Each write that changes what a claim reserves is one transaction with the counter of its NodePool, so the two cannot part,
and a limit cannot be overshot whoever dies where.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from core.lifecycle.records import ClaimRecord
from core.model import resources
from lambdas.adapters.aws.dynamo_records import RecordItems, partition_of
from lambdas.adapters.aws.dynamo_table import (
    ABSENT,
    TRANSACTION_BYTES,
    Cancelled,
    DynamoTable,
    Item,
    at_version,
    key,
    number,
    size_of,
)
from lambdas.ports import ConflictError
from lambdas.store import Lease, Requested

_BATCH: Final = 40
"""Claims per transaction; with a lease and at most as many counters it stays below DynamoDB's hundred operations."""

_New = tuple[ClaimRecord, Item]
"""A claim as it is stored first, and its item."""


class DynamoClaims:
    """The claims of one cluster (`lambdas.store.ClaimStore`)."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._items = RecordItems(table, partition_of(cluster, "claims"), ClaimRecord)
        self._usage = partition_of(cluster, "usage")
        self._leases = partition_of(cluster, "leases")

    def all(self) -> tuple[ClaimRecord, ...]:
        """Every claim, by name."""
        return self._items.all()

    def get(self, name: str) -> ClaimRecord | None:
        """One claim, None if there is none."""
        return self._items.get(name)

    def request(
        self, claims: Sequence[ClaimRecord], limits: Mapping[str, Mapping[str, int]], lease: Lease
    ) -> Requested:
        """Store new claims together with what they reserve, as many at once as possible."""
        accepted: list[ClaimRecord] = []
        refused: list[ClaimRecord] = []
        for batch in self._batches(claims):
            if self._request_together(batch, limits, lease):
                accepted += [claim for claim, _ in batch]
                continue
            for claim, item in batch:
                stored = self._is_stored(claim) or self._request_together([(claim, item)], limits, lease)
                (accepted if stored else refused).append(claim)
        return Requested(tuple(accepted), tuple(refused))

    def change(self, before: ClaimRecord, after: ClaimRecord) -> ClaimRecord:
        """Replace `before` by `after`; in a transaction with the counter where `reserved` differs."""
        stored = msgspec.structs.replace(after, version=before.version + 1)
        item, condition = self._items.item(stored.name, stored), at_version(before.version)
        delta = _moved(before.reserved, stored.reserved)
        if not delta:
            self._table.put(item, condition=condition)
            return stored
        put = ("Put", {"Item": item, **condition})
        if self._table.transact([put, self._count(before.plan.node_pool, delta)]) is not None:
            raise ConflictError("dynamodb:TransactWriteItems", f"claim {before.name} has changed")
        return stored

    def forget(self, record: ClaimRecord) -> None:
        """Delete the claim and give back what it reserved."""
        condition = at_version(record.version)
        if not record.reserved:
            try:
                self._table.delete(self._items.partition, record.name, condition=condition)
            except ConflictError:
                self._raise_if_stored(record)
            return
        delete = ("Delete", {"Key": key(self._items.partition, record.name), **condition})
        counted = self._count(record.plan.node_pool, _moved(record.reserved, {}))
        if self._table.transact([delete, counted]) is not None:
            self._raise_if_stored(record)

    def _raise_if_stored(self, record: ClaimRecord) -> None:
        if self.get(record.name) is not None:
            raise ConflictError("dynamodb:DeleteItem", f"claim {record.name} has changed")

    def _batches(self, claims: Sequence[ClaimRecord]) -> Iterator[list[_New]]:
        """New claims with their items, as many together as one transaction takes."""
        batch: list[_New] = []
        size = 0
        for claim in claims:
            first = msgspec.structs.replace(claim, version=1)
            item = self._items.item(first.name, first)
            if batch and (len(batch) == _BATCH or size + size_of(item) > TRANSACTION_BYTES):
                yield batch
                batch, size = [], 0
            batch.append((first, item))
            size += size_of(item)
        if batch:
            yield batch

    def _is_stored(self, claim: ClaimRecord) -> bool:
        found = self.get(claim.name)
        return found is not None and found.token == claim.token

    def _request_together(self, batch: Sequence[_New], limits: Mapping[str, Mapping[str, int]], lease: Lease) -> bool:
        """One transaction; False where a limit or an existing claim is in the way."""
        wanted: dict[str, dict[str, int]] = {}
        for claim, _ in batch:
            wanted[claim.plan.node_pool] = resources.add(wanted.get(claim.plan.node_pool, {}), claim.reserved)
        if any(not _fits_at_all(amounts, limits.get(pool, {})) for pool, amounts in wanted.items()):
            return False
        operations: list[tuple[str, Item]] = [("ConditionCheck", self._holds(lease))]
        operations += [
            self._count(pool, amounts, limits.get(pool, {})) for pool, amounts in sorted(wanted.items()) if amounts
        ]
        operations += [("Put", {"Item": item, **ABSENT}) for _, item in batch]
        outcome = self._table.transact(operations)
        if isinstance(outcome, Cancelled) and outcome.failed[0]:
            raise ConflictError("dynamodb:TransactWriteItems", f"the {lease.name} lease is another's by now")
        return outcome is None

    def _holds(self, lease: Lease) -> Item:
        return {
            "Key": key(self._leases, lease.name),
            "ConditionExpression": "#f = :f",
            "ExpressionAttributeNames": {"#f": "fence"},
            "ExpressionAttributeValues": {":f": number(lease.fence)},
        }

    def _count(
        self, pool: str, delta: Mapping[str, int], limits: Mapping[str, int] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Move a NodePool's counter by `delta`, on condition that it stays within `limits`."""
        names = {f"#r{index}": f"r:{name}" for index, name in enumerate(sorted(delta))}
        values = {f":r{index}": number(delta[name]) for index, name in enumerate(sorted(delta))}
        conditions: list[str] = []
        for index, name in enumerate(sorted(delta)):
            if limits is not None and name in limits:
                values[f":m{index}"] = number(limits[name] - delta[name])
                conditions.append(f"(attribute_not_exists(#r{index}) OR #r{index} <= :m{index})")
        update: dict[str, Any] = {
            "Key": key(self._usage, pool),
            "UpdateExpression": "ADD " + ", ".join(f"#r{index} :r{index}" for index in range(len(delta))),
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
        }
        return "Update", update | ({"ConditionExpression": " AND ".join(conditions)} if conditions else {})


def _moved(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in resources.subtract(after, before).items() if amount}


def _fits_at_all(amounts: Mapping[str, int], limits: Mapping[str, int]) -> bool:
    return all(amounts.get(name, 0) <= limit for name, limit in limits.items())
