"""What NodePools hold of their limits and budgets, counted anew.

The counters move in the same transaction as the claims; they part from them only where rows are lost, restored or edited.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from core.lifecycle.records import ClaimRecord
from core.model.values import resources
from lambdas.controllers.sweeps.sweep import EACH_ROUND, Round
from lambdas.ports import ConflictError
from lambdas.store import ClaimStore, PoolUsage


class Usage:
    """Puts counters right that are not the sums of what the claims hold."""

    name: Final = "usage"
    every: timedelta = EACH_ROUND
    is_urgent: Final = False

    def __init__(self, claims: ClaimStore) -> None:
        self._claims = claims

    def run(self, round_: Round) -> None:
        """Compare with the look, which costs next to nothing; only what differs there is read anew and compared in order."""
        if not _wrong(self._claims.usage(), round_.view.claims.values()):
            return
        counted = self._claims.usage()
        wrong = _wrong(counted, self._claims.all())
        round_.each(
            wrong, lambda pair: self._repair(*pair, round_), subject=lambda pair: f"NodePool {pair[0].node_pool}"
        )

    def _repair(self, before: PoolUsage, after: PoolUsage, round_: Round) -> None:
        try:
            self._claims.recount(before, after)
        except ConflictError:  # it moved: a claim came or went, and the next round compares again
            return
        round_.outcome.count("repairedUsage")
        told = f"counted {_told(before)}, its claims hold {_told(after)}"
        round_.outcome.decide("repair", f"NodePool {before.node_pool}", "UsageRecounted", told)


def _wrong(counted: Iterable[PoolUsage], claims: Iterable[ClaimRecord]) -> list[tuple[PoolUsage, PoolUsage]]:
    """The counters that differ, as they are and as they should be, by NodePool."""
    by_pool = {usage.node_pool: usage for usage in counted}
    held: dict[str, list[ClaimRecord]] = {}
    for claim in claims:
        held.setdefault(claim.plan.node_pool, []).append(claim)
    pairs = [
        (by_pool.get(pool, PoolUsage(node_pool=pool)), _sum(pool, held.get(pool, ())))
        for pool in sorted({*by_pool, *held})
    ]
    return [(before, after) for before, after in pairs if _holds(before) != _holds(after)]


def _sum(pool: str, claims: Iterable[ClaimRecord]) -> PoolUsage:
    records = tuple(claims)
    return PoolUsage(
        node_pool=pool,
        reserved=resources.add(*(record.reserved for record in records)),
        disrupting=sum(record.is_disrupting for record in records),
    )


def _holds(usage: PoolUsage) -> tuple[dict[str, int], int]:
    return {name: amount for name, amount in usage.reserved.items() if amount}, usage.disrupting


def _told(usage: PoolUsage) -> str:
    return f"{usage.reserved.get('nodes', 0)} nodes with {usage.reserved.get('cpu', 0)} millicores, {usage.disrupting} going"
