"""Stores claims in DynamoDB, together with the counters of their NodePools.

Each write that changes what a claim holds is one transaction with its NodePool's counters, so both stay consistent and neither
a limit nor a disruption budget is exceeded, even if a run crashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from adapters.aws.dynamodb.table import (
    ABSENT,
    TRANSACTION_BYTES,
    Cancelled,
    DynamoTable,
    Item,
    Operation,
    RecordItems,
    Versioned,
    at_version,
    key,
    number,
    partition_of,
    readable_row,
    readable_rows,
    size_of,
    sort_of,
)
from adapters.ports import ConflictError
from adapters.store import CLAIMS, COMMANDS, ClaimChange, CommandChange, Disrupted, Lease, PoolUsage, Requested
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.model.values import quantity

if TYPE_CHECKING:
    from core.lifecycle.metering import SpendMeter

# An index of claims by instance, which finds an event's claim without reading all claims.


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


NAME_MAX: Final = 253
"""The longest name of an object (Kubernetes). DynamoDB refuses to look for an empty or very long key."""


def _claim_named_in(row: Item) -> str:
    name: str = row["claim"]["S"]
    if not 0 < len(name) <= NAME_MAX:
        raise ValueError("claim is no name of an object")
    return name


# Distributes records over several partitions by their name: one partition serves at most 3,000 read units a second.
#
# Five thousand claims are several megabytes, and each full observation reads all of them.


SHARDS: Final = 8
"""Partitions for the records of one type. With more, small clusters would pay for queries that find nothing."""

R = TypeVar("R", bound=Versioned)


class ShardedItems(Generic[R]):
    """The records of one type in `SHARDS` partitions of the table."""

    def __init__(self, table: DynamoTable, cluster: str, kind: str, type_: type[R]) -> None:
        self._shards = [RecordItems(table, shard, type_) for shard in _partitions(cluster, kind)]

    def all(self) -> tuple[R, ...]:
        """Return every record, by name."""
        records = {name: record for shard in self._shards for name, record in shard.named()}
        return tuple(record for _, record in sorted(records.items()))

    def get(self, name: str) -> R | None:
        """Return one record, None if there is none."""
        return self._shard(name).get(name)

    def discard_unreadable(self, name: str) -> None:
        """Delete the record's row if it cannot be read. Raises ConflictError if it changes meanwhile."""
        self._shard(name).discard_unreadable(name)

    def item(self, name: str, record: R) -> Item:
        """Return the item to write for `record`, under its own version."""
        return self._shard(name).item(name, record)

    def partition(self, name: str) -> str:
        """Return the key of the partition that holds the record."""
        return self._shard(name).partition

    def _shard(self, name: str) -> RecordItems[R]:
        return self._shards[_shard_of(name)]


def shard_partition(cluster: str, kind: str, name: str) -> str:
    """Return the key of the partition that holds the record."""
    return _partitions(cluster, kind)[_shard_of(name)]


def _partitions(cluster: str, kind: str) -> list[str]:
    return [partition_of(cluster, f"{kind}#{shard}") for shard in range(SHARDS)]


def _shard_of(name: str) -> int:
    return blake2b(name.encode(), digest_size=1).digest()[0] % SHARDS


# Counts in DynamoDB what each NodePool's claims hold of its limits, and how many of its claims are leaving.
#
# There is one item per NodePool, and one per group of NodePools that share limits. It changes only in a transaction with the
# claims that it counts, so the two stay consistent.


_RESOURCE: Final = "r:"
_DISRUPTING: Final = "disrupting"
_VERSION: Final = "version"
_NOT_RESOURCES: Final = frozenset({_DISRUPTING, _VERSION})


class Moves:
    """The changes of the counters of NodePools and their groups, summed over several claims."""

    def __init__(self, changes: Iterable[ClaimChange] = ()) -> None:
        self.reserved: dict[str, dict[str, int]] = {}
        self.disrupting: dict[str, int] = {}
        for change in changes:
            self.add(change.before, change.after)

    def add(self, before: ClaimRecord | None, after: ClaimRecord | None) -> None:
        """Count a claim that is added (no `before`), changed, or forgotten (no `after`), if it has a NodePool."""
        claim = after or before
        if claim is None:
            return
        places = int(after is not None and after.is_disrupting) - int(before is not None and before.is_disrupting)
        for counter in dict.fromkeys((*claim.counters, *(before.counters if before is not None else ()))):
            old, new = (
                record.reserved_in(counter) if record is not None and counter in record.counters else {}
                for record in (before, after)
            )
            self.reserved[counter] = quantity.add(self.reserved.get(counter, {}), quantity.subtract(new, old))
            in_budget = places if counter == claim.plan.node_pool else 0  # budgets are those of a NodePool
            self.disrupting[counter] = self.disrupting.get(counter, 0) + in_budget

    def of(self, counter: str) -> dict[str, int]:
        """Return attribute → change; unchanged counters are left out."""
        moves = {_RESOURCE + name: amount for name, amount in sorted(self.reserved[counter].items()) if amount}
        return moves | ({_DISRUPTING: self.disrupting[counter]} if self.disrupting[counter] else {})

    def counters(self) -> list[str]:
        """Counters that change, by name."""
        return [counter for counter in sorted(self.reserved) if self.of(counter)]


class UsageItems:
    """Builds the operations of a transaction on the counters of one cluster's NodePools."""

    def __init__(self, cluster: str) -> None:
        self.partition = partition_of(cluster, "usage")

    def moved(self, counter: str, moves: Moves, bounds: Mapping[str, int] | None = None) -> Operation | None:
        """Return the operation that changes a counter's amounts on condition that each stays within its bound.

        Args:
            counter: Name of the counter (`ClaimRecord.counters`).
            moves: The changes.
            bounds: Attribute (`limit_bounds`, `place_bound`) → its maximum; only counters that grow are checked.

        Returns:
            None if the change alone exceeds a bound.
        """
        moved = moves.of(counter)
        limited = {name: bound for name, bound in (bounds or {}).items() if moved.get(name, 0) > 0}
        if any(moved[name] > bound for name, bound in limited.items()):
            return None
        amounts = moved | {_VERSION: 1}
        names = {f"#c{index}": name for index, name in enumerate(amounts)}
        values = {f":c{index}": number(amount) for index, amount in enumerate(amounts.values())}
        conditions = []
        for index, name in enumerate(amounts):
            if name in limited:
                values[f":m{index}"] = number(limited[name] - amounts[name])
                conditions.append(f"(attribute_not_exists(#c{index}) OR #c{index} <= :m{index})")
        update: dict[str, Any] = {
            "Key": key(self.partition, counter),
            "UpdateExpression": "ADD " + ", ".join(f"#c{index} :c{index}" for index in range(len(amounts))),
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
        }
        return "Update", update | ({"ConditionExpression": " AND ".join(conditions)} if conditions else {})

    def item(self, usage: PoolUsage) -> Item:
        """Return the whole item."""
        return {
            **key(self.partition, usage.node_pool),
            **{_RESOURCE + name: number(amount) for name, amount in sorted(usage.reserved.items())},
            _DISRUPTING: number(usage.disrupting),
            _VERSION: number(usage.version),
        }


def limit_bounds(limits: Mapping[str, int]) -> dict[str, int]:
    """Return a NodePool's limits as bounds of its counters."""
    return {_RESOURCE + name: limit for name, limit in limits.items()}


def place_bound(places: int) -> dict[str, int]:
    """Return how many of a NodePool's claims may leave at once, as a bound of its counter."""
    return {_DISRUPTING: places}


def usage_of(item: Item) -> PoolUsage:
    """Return the counters in an item; those that are no whole numbers count as zero and are named in `problem`."""
    ours = {name: typed for name, typed in sorted(item.items()) if name.startswith(_RESOURCE) or name in _NOT_RESOURCES}
    counters = {name: amount for name, typed in ours.items() if (amount := _whole(typed)) is not None}
    malformed = ", ".join(sorted(ours.keys() - counters.keys()))
    return PoolUsage(
        node_pool=sort_of(item),
        reserved={
            name.removeprefix(_RESOURCE): amount
            for name, amount in counters.items()
            if name.startswith(_RESOURCE) and amount
        },
        disrupting=counters.get(_DISRUPTING, 0),
        version=counters.get(_VERSION, 0),
        problem=f"counters of NodePool {sort_of(item)} are no whole numbers: {malformed}" if malformed else "",
    )


def unchanged(usage: PoolUsage) -> dict[str, Any]:
    """Condition: the item is still at the version that was read.

    A version that is no number cannot change: the transactions that add to it fail.
    """
    if usage.problem and not usage.version:
        return {
            "ConditionExpression": "NOT attribute_type(#v, :n)",
            "ExpressionAttributeNames": {"#v": _VERSION},
            "ExpressionAttributeValues": {":n": {"S": "N"}},
        }
    if not usage.version:
        return {"ConditionExpression": "attribute_not_exists(#v)", "ExpressionAttributeNames": {"#v": _VERSION}}
    return at_version(usage.version)


def _whole(typed: Mapping[str, str]) -> int | None:
    """Return the whole number in an attribute, None if it has another type or a fraction."""
    try:
        return int(typed["N"])
    except (KeyError, ValueError):
        return None


# The meters of caps: what ended claims cost, and its sum at the start of the present day and month.


_ENDED: Final = "ended"
_SINCE: Final = "since:"
_READING: Final = "reading:"


class MeterItems:
    """The meters of one cluster's caps; one that cannot be read counts as new."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._partition = partition_of(cluster, "spending")

    def all(self) -> dict[str, SpendMeter]:
        """Return the meters, by cap."""
        return readable_rows(self._table, self._partition, _meter_of)

    def grown(self, costs: Mapping[str, int]) -> list[Operation]:
        """Return the operations that add what a claim cost."""
        return [
            (
                "Update",
                {
                    "Key": key(self._partition, cap),
                    "UpdateExpression": "ADD #e :c",
                    "ExpressionAttributeNames": {"#e": _ENDED},
                    "ExpressionAttributeValues": {":c": number(amount)},
                },
            )
            for cap, amount in sorted(costs.items())
        ]

    def read(self, cap: str, period: str, since: datetime, reading: int) -> None:
        """Store a reading unless there is one of this start."""
        with suppress(ConflictError):
            self._table.update(
                self._partition,
                cap,
                UpdateExpression="SET #s = :s, #r = :r",
                ConditionExpression="attribute_not_exists(#s) OR #s < :s",
                ExpressionAttributeNames={"#s": _SINCE + period, "#r": _READING + period},
                ExpressionAttributeValues={":s": {"S": since.isoformat()}, ":r": number(reading)},
            )


def _meter_of(row: Item) -> SpendMeter:
    from core.lifecycle.metering import SpendMeter  # few clusters have caps of days or months

    periods = [name.removeprefix(_SINCE) for name in sorted(row) if name.startswith(_SINCE)]
    return SpendMeter(
        cap=sort_of(row),
        ended=int(row[_ENDED]["N"]) if _ENDED in row else 0,
        readings={
            period: (datetime.fromisoformat(row[_SINCE + period]["S"]), int(row[_READING + period]["N"]))
            for period in periods
        },
    )


# Transactions of claims with the counters of their NodePools: as many claims in each as DynamoDB takes.


_CLAIMS_MAX: Final = 40
_ITEMS_MAX: Final = 80
"""Claims per transaction, and claims with their counters: with their index rows, a lease and a command, a transaction stays
within DynamoDB's limit of a hundred operations."""

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
        counters: set[str] = set()
        size = 0
        for record, subject in claims:
            item = self._items.item(record.name, record)
            operations = 1 + len(part) + len(counters.union(record.counters))
            is_full = len(part) == _CLAIMS_MAX or operations > _ITEMS_MAX or size + size_of(item) > TRANSACTION_BYTES
            if part and is_full:
                yield part
                part, size = [], 0
                counters.clear()
            part.append((subject, item))
            counters.update(record.counters)
            size += size_of(item)
        if part:
            yield part

    def request(
        self, part: Sequence[tuple[ClaimRecord, Item]], limits: Mapping[str, Mapping[str, int]], lease: Lease | None
    ) -> str | None:
        """Run one transaction; return None if it is done, else the counter without room, empty for an existing claim."""
        moves = Moves()
        for claim, _ in part:
            moves.add(None, claim)
        counts = {name: self._usage.moved(name, moves, limit_bounds(limits.get(name, {}))) for name in moves.counters()}
        for name, count in counts.items():
            if count is None:
                return name
        operations: list[Operation] = [("ConditionCheck", self.holds(lease))] if lease is not None else []
        operations += [count for count in counts.values() if count is not None]
        operations += [("Put", {"Item": item, **ABSENT}) for _, item in part]
        report = self._table.transact(operations)
        if lease is not None and isinstance(report, Cancelled) and report.failed[0]:
            raise ConflictError(_CALL, f"the {lease.name} lease is another's by now")
        if report is None:
            return None
        failed = report.failed[int(lease is not None) :]
        return next((name for name, is_full in zip(counts, failed, strict=False) if is_full), "")

    def disrupt(
        self, part: Sequence[tuple[ClaimChange, Item]], bounds: Mapping[str, int], others: Sequence[Operation]
    ) -> tuple[str, ...]:
        """Run one transaction; return the NodePools whose budgets are used up, none if it succeeded."""
        moves = Moves(change for change, _ in part)
        counters = moves.counters()
        counts = {
            name: self._usage.moved(name, moves, place_bound(bounds[name]) if name in bounds else None)
            for name in counters
        }
        spent = tuple(pool for pool, count in counts.items() if count is None)
        if spent:
            return spent
        operations = [count for count in counts.values() if count is not None]
        operations += [("Put", {"Item": item, **at_version(change.before.version)}) for change, item in part]
        report = self._table.transact([*operations, *others])
        if report is None:
            return ()
        if any(report.failed[len(counters) :]):
            raise ConflictError(_CALL, "a claim, the command or the lease has changed")
        return tuple(pool for pool, failed in zip(counters, report.failed, strict=False) if failed)

    def counted(self, moves: Moves) -> list[Operation]:
        """Return the operations that move the counters."""
        return [count for name in moves.counters() if (count := self._usage.moved(name, moves)) is not None]

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


class DynamoClaims:
    """The claims of one cluster (`adapters.store.ClaimStore`)."""

    def __init__(self, table: DynamoTable, cluster: str) -> None:
        self._table = table
        self._items = ShardedItems(table, cluster, CLAIMS, ClaimRecord)
        self._usage = UsageItems(cluster)
        self._index = InstanceRows(table, cluster)
        self._transactions = ClaimTransactions(table, cluster, self._items)
        self._meters = MeterItems(table, cluster)

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
        full: dict[str, str] = {}
        first = [msgspec.structs.replace(claim, version=1) for claim in claims]
        for part in self._transactions.parts([(claim, claim) for claim in first]):
            if self._transactions.request(part, limits, lease) is None:
                accepted += [claim for claim, _ in part]
                continue
            for claim, item in part:
                lacking = None if self._is_stored(claim) else self._transactions.request([(claim, item)], limits, lease)
                (accepted if lacking is None else refused).append(claim)
                if lacking is not None:
                    full[claim.name] = lacking
        return Requested(tuple(accepted), tuple(refused), full)

    def restore(self, claim: ClaimRecord) -> ClaimRecord | None:
        """Store a claim whose row is lost, with what it holds; return None if the name is taken."""
        first = msgspec.structs.replace(claim, version=1)
        moves = Moves()
        moves.add(None, first)
        put = ("Put", {"Item": self._items.item(first.name, first), **ABSENT})
        operations = [put, *self._transactions.counted(moves), *self._index.changes(None, first)]
        return first if self._table.transact(operations) is None else None

    def discard_unreadable(self, name: str) -> None:
        """Delete a claim's row if it cannot be read; the counters stay as they are."""
        self._items.discard_unreadable(name)

    def change(self, before: ClaimRecord, after: ClaimRecord, costs: Mapping[str, int] = {}) -> ClaimRecord:
        """Replace `before` by `after`, in a transaction with the counters and meters if these change.

        Of claims that share a launch, only one gets an instance.
        """
        stored = msgspec.structs.replace(after, version=before.version + 1)
        item, condition = self._items.item(stored.name, stored), at_version(before.version)
        others = [
            *self._transactions.counted(Moves([ClaimChange(before, stored)])),
            *self._index.changes(before, stored),
            *self._meters.grown(costs),
        ]
        if not others:
            self._table.put(item, condition=condition)
            return stored
        if self._table.transact([("Put", {"Item": item, **condition}), *others]) is not None:
            raise ConflictError(_CALL, f"claim {before.name} has changed")
        return stored

    def change_within(
        self, before: ClaimRecord, after: ClaimRecord, limits: Mapping[str, Mapping[str, int]]
    ) -> ClaimRecord | None:
        """Replace `before` by `after` if the limits of its counters allow it."""
        stored = msgspec.structs.replace(after, version=before.version + 1)
        put: Operation = ("Put", {"Item": self._items.item(stored.name, stored), **at_version(before.version)})
        moves = Moves([ClaimChange(before, stored)])
        operations = [put]
        for counter in moves.counters():
            count = self._usage.moved(counter, moves, limit_bounds(limits.get(counter, {})))
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

    def forget(self, record: ClaimRecord, costs: Mapping[str, int] = {}) -> None:
        """Delete the claim, release all that it held, and add what it cost to the meters of its caps."""
        condition = at_version(record.version)
        moves = Moves()
        moves.add(record, None)
        others = [
            *self._transactions.counted(moves),
            *self._index.changes(record, None),
            *self._meters.grown(costs),
        ]
        if not others:
            try:
                self._table.delete(self._items.partition(record.name), record.name, condition=condition)
            except ConflictError:
                self._raise_if_stored(record)
            return
        delete = ("Delete", {"Key": key(self._items.partition(record.name), record.name), **condition})
        if self._table.transact([delete, *others]) is not None:
            self._raise_if_stored(record)

    def meters(self) -> dict[str, SpendMeter]:
        """Return the meters of caps, by cap."""
        return self._meters.all()

    def read_meter(self, cap: str, period: str, since: datetime, reading: int) -> None:
        """Store the reading of a cap's meter at the start of a period; the first one of each start stays."""
        self._meters.read(cap, period, since, reading)

    def usage(self) -> tuple[PoolUsage, ...]:
        """Return the counters of every NodePool that ever had a claim, by name."""
        usages = tuple(map(usage_of, self._table.query(self._usage.partition)))
        self._table.leave_out(
            self._usage.partition, {usage.node_pool: usage.problem for usage in usages if usage.problem}
        )
        return usages

    def recount(self, before: PoolUsage, after: PoolUsage) -> None:
        """Correct a NodePool's counters, unless they have changed."""
        counted = msgspec.structs.replace(after, node_pool=before.node_pool, version=before.version + 1)
        self._table.put(self._usage.item(counted), condition=unchanged(before))

    def _raise_if_stored(self, record: ClaimRecord) -> None:
        if self.get(record.name) is not None:
            raise ConflictError("dynamodb:DeleteItem", f"claim {record.name} has changed")

    def _is_stored(self, claim: ClaimRecord) -> bool:
        record = self.get(claim.name)
        return record is not None and record.token == claim.token
