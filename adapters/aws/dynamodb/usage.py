"""Counts in DynamoDB what each NodePool's claims hold of its limits, and how many of its claims are leaving.

There is one item per NodePool. It changes only in a transaction with the claims that it counts, so the two stay consistent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from adapters.aws.dynamodb.records import partition_of
from adapters.aws.dynamodb.table import Item, Operation, at_version, key, number, sort_of
from adapters.store import ClaimChange, PoolUsage
from core.lifecycle.records import ClaimRecord
from core.model.values import resources

_RESOURCE: Final = "r:"
_DISRUPTING: Final = "disrupting"
_VERSION: Final = "version"
_NOT_RESOURCES: Final = frozenset({_DISRUPTING, _VERSION})


class Moves:
    """The changes of each NodePool's counters, summed over several claims."""

    def __init__(self, changes: Iterable[ClaimChange] = ()) -> None:
        self.reserved: dict[str, dict[str, int]] = {}
        self.disrupting: dict[str, int] = {}
        for change in changes:
            self.add(change.before.plan.node_pool, change.before, change.after)

    def add(self, pool: str, before: ClaimRecord | None, after: ClaimRecord | None) -> None:
        """Count a claim that is added (no `before`), changed, or forgotten (no `after`), if it has a NodePool."""
        if not pool:
            return
        old, new = before.reserved if before else {}, after.reserved if after else {}
        self.reserved[pool] = resources.add(self.reserved.get(pool, {}), resources.subtract(new, old))
        places = int(after is not None and after.is_disrupting) - int(before is not None and before.is_disrupting)
        self.disrupting[pool] = self.disrupting.get(pool, 0) + places

    def of(self, pool: str) -> dict[str, int]:
        """Return attribute → change; unchanged counters are left out."""
        moves = {_RESOURCE + name: amount for name, amount in sorted(self.reserved[pool].items()) if amount}
        return moves | ({_DISRUPTING: self.disrupting[pool]} if self.disrupting[pool] else {})

    def pools(self) -> list[str]:
        """NodePools with a counter that changes, by name."""
        return [pool for pool in sorted(self.reserved) if self.of(pool)]


class UsageItems:
    """Builds the operations of a transaction on the counters of one cluster's NodePools."""

    def __init__(self, cluster: str) -> None:
        self.partition = partition_of(cluster, "usage")

    def moved(self, pool: str, moves: Moves, bounds: Mapping[str, int] | None = None) -> Operation | None:
        """Return the operation that changes a NodePool's counters on condition that each stays within its bound.

        Args:
            pool: The NodePool.
            moves: The changes.
            bounds: Attribute (`limit_bounds`, `place_bound`) → its maximum; only counters that grow are checked.

        Returns:
            None if the change alone exceeds a bound.
        """
        moved = moves.of(pool)
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
            "Key": key(self.partition, pool),
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
