"""Transactions of claims with the counters of their NodePools: as many claims in each as DynamoDB takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

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
from adapters.aws.dynamodb.usage import Moves, UsageItems, limit_bounds, place_bound
from adapters.ports import ConflictError
from adapters.store import ClaimChange, CommandChange, Lease
from adapters.store.unreadable_rows import COMMANDS
from core.lifecycle.records import ClaimRecord, CommandRecord

_CLAIMS_MAX: Final = 40
"""Claims per transaction; with a lease, a command and at most one counter per claim it stays below DynamoDB's limit of a
hundred operations."""

_CALL: Final = "dynamodb:TransactWriteItems"
_T = TypeVar("_T", ClaimRecord, ClaimChange)


class ClaimTransactions:
    """Writes several claims, their counters, a command and the check of a lease at once, or nothing."""

    def __init__(self, table: DynamoTable, cluster: str, items: ShardedItems[ClaimRecord]) -> None:
        self._table = table
        self._items = items
        self._commands = RecordItems(table, partition_of(cluster, COMMANDS), CommandRecord)
        self._usage = UsageItems(cluster)
        self._leases = partition_of(cluster, "leases")

    def parts(self, claims: Sequence[tuple[ClaimRecord, _T]]) -> Iterator[list[tuple[_T, Item]]]:
        """Yield the claims with their items in parts, each as large as one transaction allows."""
        part: list[tuple[_T, Item]] = []
        size = 0
        for record, subject in claims:
            item = self._items.item(record.name, record)
            if part and (len(part) == _CLAIMS_MAX or size + size_of(item) > TRANSACTION_BYTES):
                yield part
                part, size = [], 0
            part.append((subject, item))
            size += size_of(item)
        if part:
            yield part

    def request(
        self, part: Sequence[tuple[ClaimRecord, Item]], limits: Mapping[str, Mapping[str, int]], lease: Lease | None
    ) -> bool:
        """Run one transaction; return False if a limit or an existing claim prevents it."""
        moves = Moves()
        for claim, _ in part:
            moves.add(claim.plan.node_pool, None, claim)
        bounds = {pool: limit_bounds(limits.get(pool, {})) for pool in moves.pools()}
        counts = {pool: self._usage.moved(pool, moves, bounds[pool]) for pool in moves.pools()}
        if None in counts.values():
            return False
        operations: list[Operation] = [("ConditionCheck", self.holds(lease))] if lease is not None else []
        operations += [count for count in counts.values() if count is not None]
        operations += [("Put", {"Item": item, **ABSENT}) for _, item in part]
        report = self._table.transact(operations)
        if lease is not None and isinstance(report, Cancelled) and report.failed[0]:
            raise ConflictError(_CALL, f"the {lease.name} lease is another's by now")
        return report is None

    def disrupt(
        self, part: Sequence[tuple[ClaimChange, Item]], bounds: Mapping[str, int], others: Sequence[Operation]
    ) -> tuple[str, ...]:
        """Run one transaction; return the NodePools whose budgets are used up, none if it succeeded."""
        moves = Moves(change for change, _ in part)
        pools = moves.pools()
        counts = {
            pool: self._usage.moved(pool, moves, place_bound(bounds[pool]) if pool in bounds else None)
            for pool in pools
        }
        spent = tuple(pool for pool, count in counts.items() if count is None)
        if spent:
            return spent
        operations = [count for count in counts.values() if count is not None]
        operations += [("Put", {"Item": item, **at_version(change.before.version)}) for change, item in part]
        report = self._table.transact([*operations, *others])
        if report is None:
            return ()
        if any(report.failed[len(pools) :]):
            raise ConflictError(_CALL, "a claim, the command or the lease has changed")
        return tuple(pool for pool, failed in zip(pools, report.failed, strict=False) if failed)

    def counted(self, moves: Moves) -> list[Operation]:
        """Return the operations that move the counters of NodePools."""
        return [count for pool in moves.pools() if (count := self._usage.moved(pool, moves)) is not None]

    def command_change(self, command: CommandChange | None) -> tuple[list[Operation], CommandRecord | None]:
        """Return the operations that change a command, and the command as it is then stored."""
        if command is None:
            return [], None
        stored = msgspec.structs.replace(command.after, version=command.before.version + 1)
        item = self._commands.item(stored.id, stored)
        return [("Put", {"Item": item, **at_version(command.before.version)})], stored

    def holds(self, lease: Lease) -> dict[str, Any]:
        """Return the check that a lease is still held."""
        return {
            "Key": key(self._leases, lease.name),
            "ConditionExpression": "#f = :f",
            "ExpressionAttributeNames": {"#f": "fence"},
            "ExpressionAttributeValues": {":f": number(lease.fence)},
        }
