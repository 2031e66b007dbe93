"""Stores claims in DynamoDB, together with the counters of their NodePools.

Each write that changes what a claim holds is one transaction with its NodePool's counters, so both stay consistent and neither
a limit nor a disruption budget is exceeded, even if a run crashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from adapters.aws.dynamodb.claim_transactions import ClaimTransactions
from adapters.aws.dynamodb.instance_rows import InstanceRows
from adapters.aws.dynamodb.shards import ShardedItems
from adapters.aws.dynamodb.table import (
    ABSENT,
    DynamoTable,
    Operation,
    at_version,
    key,
)
from adapters.aws.dynamodb.usage import Moves, UsageItems, limit_bounds, unchanged, usage_of
from adapters.ports import ConflictError
from adapters.store import ClaimChange, CommandChange, Disrupted, Lease, PoolUsage, Requested
from adapters.store.unreadable_rows import CLAIMS
from core.lifecycle.records import ClaimRecord

_CALL: Final = "dynamodb:TransactWriteItems"


class DynamoClaims:
    """The claims of one cluster (`adapters.store.ClaimStore`)."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._items = ShardedItems(table, cluster, CLAIMS, ClaimRecord)
        self._usage = UsageItems(cluster)
        self._index = InstanceRows(table, cluster)
        self._transactions = ClaimTransactions(table, cluster, self._items)

    def all(self) -> tuple[ClaimRecord, ...]:
        """Return every claim, by name."""
        return self._items.all()

    def get(self, name: str) -> ClaimRecord | None:
        """Return one claim, None if there is none."""
        return self._items.get(name)

    def of_instance(self, instance_id: str) -> ClaimRecord | None:
        """Return the claim that was launched as this instance, None if there is none."""
        name = self._index.claim_of(instance_id)
        record = self.get(name) if name is not None else None
        return record if record is not None and record.instance_id == instance_id else None

    def indexed(self) -> frozenset[str]:
        """Return the instance ids in the index that `of_instance` searches."""
        return self._index.instances()

    def index(self, claim: ClaimRecord) -> None:
        """Add a claim to that index.

        `of_instance` also reads the claim, so an index row of a claim that is gone does no harm.
        """
        self._index.add(claim)

    def request(
        self, claims: Sequence[ClaimRecord], limits: Mapping[str, Mapping[str, int]], lease: Lease | None
    ) -> Requested:
        """Store new claims together with what they reserve, as many per transaction as possible."""
        accepted: list[ClaimRecord] = []
        refused: list[ClaimRecord] = []
        first = [msgspec.structs.replace(claim, version=1) for claim in claims]
        for part in self._transactions.parts([(claim, claim) for claim in first]):
            if self._transactions.request(part, limits, lease):
                accepted += [claim for claim, _ in part]
                continue
            for claim, item in part:
                stored = self._is_stored(claim) or self._transactions.request([(claim, item)], limits, lease)
                (accepted if stored else refused).append(claim)
        return Requested(tuple(accepted), tuple(refused))

    def restore(self, claim: ClaimRecord) -> ClaimRecord | None:
        """Store a claim whose row is lost, with what it holds; return None if the name is taken."""
        first = msgspec.structs.replace(claim, version=1)
        moves = Moves()
        moves.add(first.plan.node_pool, None, first)
        put = ("Put", {"Item": self._items.item(first.name, first), **ABSENT})
        operations = [put, *self._transactions.counted(moves), *self._index.changes(None, first)]
        return first if self._table.transact(operations) is None else None

    def discard_unreadable(self, name: str) -> None:
        """Delete a claim's row if it cannot be read; the counters stay as they are."""
        self._items.discard_unreadable(name)

    def change(self, before: ClaimRecord, after: ClaimRecord) -> ClaimRecord:
        """Replace `before` by `after`, in a transaction with the counters if these change.

        Of claims that share a launch, only one gets an instance.
        """
        stored = msgspec.structs.replace(after, version=before.version + 1)
        item, condition = self._items.item(stored.name, stored), at_version(before.version)
        others = [
            *self._transactions.counted(Moves([ClaimChange(before, stored)])),
            *self._index.changes(before, stored),
        ]
        if not others:
            self._table.put(item, condition=condition)
            return stored
        if self._table.transact([("Put", {"Item": item, **condition}), *others]) is not None:
            raise ConflictError(_CALL, f"claim {before.name} has changed")
        return stored

    def change_within(self, before: ClaimRecord, after: ClaimRecord, limits: Mapping[str, int]) -> ClaimRecord | None:
        """Replace `before` by `after` if its NodePool's limits allow it."""
        stored = msgspec.structs.replace(after, version=before.version + 1)
        put: Operation = ("Put", {"Item": self._items.item(stored.name, stored), **at_version(before.version)})
        moves = Moves([ClaimChange(before, stored)])
        operations = [put]
        for pool in moves.pools():
            count = self._usage.moved(pool, moves, limit_bounds(limits))
            if count is None:
                return None
            operations.append(count)
        report = self._table.transact(operations)
        if report is None:
            return stored
        if report.failed[0]:
            raise ConflictError(_CALL, f"claim {before.name} has changed")
        return None

    def disrupt(
        self,
        claims: Sequence[ClaimChange],
        bounds: Mapping[str, int],
        *,
        command: CommandChange | None = None,
        lease: Lease | None = None,
    ) -> Disrupted:
        """Store that claims begin to leave, each counted among its NodePool's leaving claims."""
        marked = [
            ClaimChange(
                change.before,
                msgspec.structs.replace(change.after, is_disrupting=True, version=change.before.version + 1),
            )
            for change in claims
        ]
        parts = list(self._transactions.parts([(change.after, change) for change in marked])) or [[]]
        lease_check = [("ConditionCheck", self._transactions.holds(lease))] if lease is not None else []
        last, moved = self._transactions.command_change(command)
        stored: list[ClaimRecord] = []
        for index, part in enumerate(parts):
            others = lease_check + (last if index == len(parts) - 1 else [])
            spent = self._transactions.disrupt(part, bounds, others)
            if spent:
                return Disrupted(tuple(stored), None, spent)
            stored += [change.after for change, _ in part]
        return Disrupted(tuple(stored), moved)

    def forget(self, record: ClaimRecord) -> None:
        """Delete the claim and release all that it held."""
        condition = at_version(record.version)
        moves = Moves()
        moves.add(record.plan.node_pool, record, None)
        others = [*self._transactions.counted(moves), *self._index.changes(record, None)]
        if not others:
            try:
                self._table.delete(self._items.partition(record.name), record.name, condition=condition)
            except ConflictError:
                self._raise_if_stored(record)
            return
        delete = ("Delete", {"Key": key(self._items.partition(record.name), record.name), **condition})
        if self._table.transact([delete, *others]) is not None:
            self._raise_if_stored(record)

    def usage(self) -> tuple[PoolUsage, ...]:
        """Return the counters of every NodePool that ever had a claim, by name."""
        found = tuple(map(usage_of, self._table.query(self._usage.partition)))
        self._table.leave_out(
            self._usage.partition, {usage.node_pool: usage.problem for usage in found if usage.problem}
        )
        return found

    def recount(self, before: PoolUsage, after: PoolUsage) -> None:
        """Correct a NodePool's counters, unless they have changed."""
        counted = msgspec.structs.replace(after, node_pool=before.node_pool, version=before.version + 1)
        self._table.put(self._usage.item(counted), condition=unchanged(before))

    def _raise_if_stored(self, record: ClaimRecord) -> None:
        if self.get(record.name) is not None:
            raise ConflictError("dynamodb:DeleteItem", f"claim {record.name} has changed")

    def _is_stored(self, claim: ClaimRecord) -> bool:
        found = self.get(claim.name)
        return found is not None and found.token == claim.token
