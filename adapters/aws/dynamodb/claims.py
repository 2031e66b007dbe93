"""Stores claims in DynamoDB, together with the counters of their NodePools.

Each write that changes what a claim holds is one transaction with its NodePool's counters, so both stay consistent and neither
a limit nor a disruption budget is exceeded, even if a run crashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from adapters.aws.dynamodb.instance_rows import InstanceRows
from adapters.aws.dynamodb.records import RecordItems, partition_of
from adapters.aws.dynamodb.shards import ShardedItems
from adapters.aws.dynamodb.table import (
    ABSENT,
    TRANSACTION_BYTES,
    Cancelled,
    DynamoTable,
    Item,
    Operation,
    at_version,
    key,
    number,
    size_of,
)
from adapters.aws.dynamodb.usage import Moves, UsageItems, limit_bounds, place_bound, unchanged, usage_of
from adapters.ports import ConflictError
from adapters.store import ClaimChange, CommandChange, Disrupted, Lease, PoolUsage, Requested
from adapters.store.unreadable_rows import CLAIMS, COMMANDS
from core.lifecycle.records import ClaimRecord, CommandRecord

_BATCH: Final = 40
"""Claims per transaction; with a lease, a command and at most one counter per claim it stays below DynamoDB's limit of a
hundred operations."""

_CALL: Final = "dynamodb:TransactWriteItems"
_T = TypeVar("_T", ClaimRecord, ClaimChange)


class DynamoClaims:
    """The claims of one cluster (`adapters.store.ClaimStore`)."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._items = ShardedItems(table, cluster, CLAIMS, ClaimRecord)
        self._commands = RecordItems(table, partition_of(cluster, COMMANDS), CommandRecord)
        self._usage = UsageItems(cluster)
        self._leases = partition_of(cluster, "leases")
        self._index = InstanceRows(table, cluster)

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
        for batch in self._batches([(claim, claim) for claim in first]):
            if self._request_together(batch, limits, lease):
                accepted += [claim for claim, _ in batch]
                continue
            for claim, item in batch:
                stored = self._is_stored(claim) or self._request_together([(claim, item)], limits, lease)
                (accepted if stored else refused).append(claim)
        return Requested(tuple(accepted), tuple(refused))

    def restore(self, claim: ClaimRecord) -> ClaimRecord | None:
        """Store a claim whose row is lost, with what it holds; return None if the name is taken."""
        first = msgspec.structs.replace(claim, version=1)
        moves = Moves()
        moves.add(first.plan.node_pool, None, first)
        put = ("Put", {"Item": self._items.item(first.name, first), **ABSENT})
        operations = [put, *self._counted(moves), *self._index.changes(None, first)]
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
        others = [*self._counted(Moves([ClaimChange(before, stored)])), *self._index.changes(before, stored)]
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
        batches = list(self._batches([(change.after, change) for change in marked])) or [[]]
        lease_check = [("ConditionCheck", self._holds(lease))] if lease is not None else []
        last, moved = self._command_moved(command)
        stored: list[ClaimRecord] = []
        for index, batch in enumerate(batches):
            others = lease_check + (last if index == len(batches) - 1 else [])
            spent = self._disrupt_together(batch, bounds, others)
            if spent:
                return Disrupted(tuple(stored), None, spent)
            stored += [change.after for change, _ in batch]
        return Disrupted(tuple(stored), moved)

    def forget(self, record: ClaimRecord) -> None:
        """Delete the claim and release all that it held."""
        condition = at_version(record.version)
        moves = Moves()
        moves.add(record.plan.node_pool, record, None)
        others = [*self._counted(moves), *self._index.changes(record, None)]
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

    def _batches(self, claims: Sequence[tuple[ClaimRecord, _T]]) -> Iterator[list[tuple[_T, Item]]]:
        """Yield batches of claims with their items, each as large as one transaction allows."""
        batch: list[tuple[_T, Item]] = []
        size = 0
        for record, subject in claims:
            item = self._items.item(record.name, record)
            if batch and (len(batch) == _BATCH or size + size_of(item) > TRANSACTION_BYTES):
                yield batch
                batch, size = [], 0
            batch.append((subject, item))
            size += size_of(item)
        if batch:
            yield batch

    def _is_stored(self, claim: ClaimRecord) -> bool:
        found = self.get(claim.name)
        return found is not None and found.token == claim.token

    def _request_together(
        self, batch: Sequence[tuple[ClaimRecord, Item]], limits: Mapping[str, Mapping[str, int]], lease: Lease | None
    ) -> bool:
        """Run one transaction; return False if a limit or an existing claim prevents it."""
        moves = Moves()
        for claim, _ in batch:
            moves.add(claim.plan.node_pool, None, claim)
        bounds = {pool: limit_bounds(limits.get(pool, {})) for pool in moves.pools()}
        counts = {pool: self._usage.moved(pool, moves, bounds[pool]) for pool in moves.pools()}
        if None in counts.values():
            return False
        operations: list[Operation] = [("ConditionCheck", self._holds(lease))] if lease is not None else []
        operations += [count for count in counts.values() if count is not None]
        operations += [("Put", {"Item": item, **ABSENT}) for _, item in batch]
        report = self._table.transact(operations)
        if lease is not None and isinstance(report, Cancelled) and report.failed[0]:
            raise ConflictError(_CALL, f"the {lease.name} lease is another's by now")
        return report is None

    def _disrupt_together(
        self, batch: Sequence[tuple[ClaimChange, Item]], bounds: Mapping[str, int], others: Sequence[Operation]
    ) -> tuple[str, ...]:
        """Run one transaction; return the NodePools whose budgets are used up, none if it succeeded."""
        moves = Moves(change for change, _ in batch)
        pools = moves.pools()
        counts = {
            pool: self._usage.moved(pool, moves, place_bound(bounds[pool]) if pool in bounds else None)
            for pool in pools
        }
        spent = tuple(pool for pool, count in counts.items() if count is None)
        if spent:
            return spent
        operations = [count for count in counts.values() if count is not None]
        operations += [("Put", {"Item": item, **at_version(change.before.version)}) for change, item in batch]
        report = self._table.transact([*operations, *others])
        if report is None:
            return ()
        if any(report.failed[len(pools) :]):
            raise ConflictError(_CALL, "a claim, the command or the lease has changed")
        return tuple(pool for pool, failed in zip(pools, report.failed, strict=False) if failed)

    def _counted(self, moves: Moves) -> list[Operation]:
        return [count for pool in moves.pools() if (count := self._usage.moved(pool, moves)) is not None]

    def _command_moved(self, command: CommandChange | None) -> tuple[list[Operation], CommandRecord | None]:
        if command is None:
            return [], None
        stored = msgspec.structs.replace(command.after, version=command.before.version + 1)
        item = self._commands.item(stored.id, stored)
        return [("Put", {"Item": item, **at_version(command.before.version)})], stored

    def _holds(self, lease: Lease) -> dict[str, Any]:
        return {
            "Key": key(self._leases, lease.name),
            "ConditionExpression": "#f = :f",
            "ExpressionAttributeNames": {"#f": "fence"},
            "ExpressionAttributeValues": {":f": number(lease.fence)},
        }
