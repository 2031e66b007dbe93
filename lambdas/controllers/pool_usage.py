"""Compares the counters of NodePools' limits and budgets with what their claims hold.

Counters change in the same transaction as the claims; they differ only if rows are lost, restored or edited.
"""

from __future__ import annotations

from collections.abc import Iterable

from adapters.ports import ConflictError
from adapters.run_report import RunReport
from adapters.store import ClaimStore, PoolUsage
from core.lifecycle.records import ClaimRecord
from core.model.values import resources
from core.reasons.decision import DecisionKind
from core.reasons.run import RunReason

Mismatch = tuple[PoolUsage, PoolUsage]
"""A NodePool's counters as stored, and as computed from its claims."""


def mismatches(store: ClaimStore, seen: Iterable[ClaimRecord]) -> list[Mismatch]:
    """Return the counters that are wrong, by NodePool. Raises PortError.

    `seen` are the claims of an observation, with which the comparison takes one query. Only differing counters are read again,
    before the claims, so that a concurrent change of a claim also changes their version.
    """
    if not _wrong(store.usage(), seen):
        return []
    counted = store.usage()
    return _wrong(counted, store.all())


def recount(store: ClaimStore, mismatch: Mismatch, report: RunReport) -> None:
    """Correct a NodePool's counters, unless they have changed since; then the next comparison decides. Raises PortError."""
    before, after = mismatch
    try:
        store.recount(before, after)
    except ConflictError:
        return
    report.count("repairedUsage")
    message = f"{before.problem or f'counted {_amounts(before)}'}, its claims hold {_amounts(after)}"
    report.decide(DecisionKind.REPAIR, f"NodePool {before.node_pool}", RunReason.USAGE_RECOUNTED, message)


def _wrong(counted: Iterable[PoolUsage], claims: Iterable[ClaimRecord]) -> list[Mismatch]:
    by_pool = {usage.node_pool: usage for usage in counted}
    claims_of: dict[str, list[ClaimRecord]] = {}
    for claim in (claim for claim in claims if claim.plan.node_pool):
        claims_of.setdefault(claim.plan.node_pool, []).append(claim)
    pairs = [
        (by_pool.get(pool, PoolUsage(node_pool=pool)), _sum(pool, claims_of.get(pool, ())))
        for pool in sorted({*by_pool, *claims_of})
    ]
    return [(before, after) for before, after in pairs if before.problem or _holds(before) != _holds(after)]


def _sum(pool: str, claims: Iterable[ClaimRecord]) -> PoolUsage:
    records = tuple(claims)
    return PoolUsage(
        node_pool=pool,
        reserved=resources.add(*(record.reserved for record in records)),
        disrupting=sum(record.is_disrupting for record in records),
    )


def _holds(usage: PoolUsage) -> tuple[dict[str, int], int]:
    return {name: amount for name, amount in usage.reserved.items() if amount}, usage.disrupting


def _amounts(usage: PoolUsage) -> str:
    return f"{usage.reserved.get('nodes', 0)} nodes with {usage.reserved.get('cpu', 0)} millicores, {usage.disrupting} going"
