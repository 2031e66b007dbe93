"""Policy Balanced: the share of the pool's cost that a move saves must be at least half its share of the pool's disruption.

Karpenter's rule with k = 2: score = (savings / pool cost) / (moved disruption / pool disruption) must reach 1/k.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from core.commitments.coverage import paid_price
from core.disruption.candidates.candidate import Candidate
from core.disruption.candidates.eviction_cost import reschedule_cost
from core.model.node_pool import BALANCED
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode
from core.pods.disposition import reschedulable

_K: Final = 2


class PoolTotals(msgspec.Struct, frozen=True):
    """The cost of all nodes of a pool, in nano-dollars per hour, and the disruption cost of moving all their pods."""

    price: int
    cost: int


def pool_totals(snapshot: Snapshot, states: Iterable[StateNode]) -> dict[str, PoolTotals]:
    """Return the totals of each pool of policy Balanced over all its nodes, candidates or not."""
    pools = {pool.name for pool in snapshot.node_pools if pool.disruption.policy == BALANCED}
    result: dict[str, PoolTotals] = {}
    for state in states:
        if state.node_pool not in pools or state.is_marked_for_deletion(snapshot):
            continue
        before = result.get(state.node_pool, PoolTotals(0, 0))
        price = paid_price(state, snapshot)
        moving = reschedule_cost(reschedulable(state.pods))
        result[state.node_pool] = PoolTotals(before.price + price, before.cost + moving)
    return result


def rejecting_pool(candidates: Sequence[Candidate], savings: int, totals: Mapping[str, PoolTotals]) -> str:
    """Return the first pool of policy Balanced that rejects the move, empty if all approve.

    The savings are divided among the pools by the cost of their nodes.
    """
    total_price = sum(c.price for c in candidates)
    for name in sorted({c.pool.name for c in candidates}):
        own = [c for c in candidates if c.pool.name == name]
        if own[0].pool.disruption.policy != BALANCED:
            continue
        pool = totals.get(name, PoolTotals(0, 0))
        own_price, moved = sum(c.price for c in own), sum(c.cost for c in own)
        # savings · own/total / pool.price ÷ (moved / pool.cost) ≥ 1/k, without division
        share, whole = (own_price, total_price) if total_price else (1, 1)
        worth = pool.price > 0 and savings > 0
        if not worth or savings * share * pool.cost * _K < moved * pool.price * whole:
            return name
    return ""
