"""Checks, by NodePools and claims alone, whether budgets let any node go now, and when that may change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.disruption.budgets.node_pool_budgets import allowed, next_edge
from core.model.node_pool import NodePool

EDGES_MAX: Final = 64
"""The most window edges of a NodePool that are examined.

A schedule may have one each minute; the last examined edge counts for all later ones.
"""

AHEAD: Final = timedelta(minutes=3)
"""How long before consolidateAfter must start to count that pods are observed again: two passes and a margin."""


class PoolNodes(msgspec.Struct, frozen=True):
    """Bounds for one NodePool: the most nodes that its budgets apply to, and the fewest that are leaving."""

    present: int
    going: int


def may_any_go(
    pools: Iterable[NodePool], nodes: Mapping[str, PoolNodes], reasons: Collection[str], now: datetime
) -> bool:
    """Whether some NodePool's budgets may let one more node go for one of these reasons; True in doubt."""
    return any(_may_go(pool, nodes[pool.name], reasons, now) for pool in pools if pool.name in nodes)


def wakes_at(
    pools: Iterable[NodePool], nodes: Mapping[str, PoolNodes], reasons: Collection[str], now: datetime
) -> datetime | None:
    """Return when to observe pods again while no budget lets a node go: consolidateAfter before the first window that opens.

    None if no window opens by itself.
    """
    found = []
    for pool in sorted(pools, key=lambda pool: pool.name):
        if pool.name in nodes:
            opening = _next_opening(pool, nodes[pool.name].present, reasons, now)
            if opening is not None:
                found.append(opening - (pool.disruption.consolidate_after or timedelta(0)) - AHEAD)
    return min(found, default=None)


def _may_go(pool: NodePool, nodes: PoolNodes, reasons: Collection[str], now: datetime) -> bool:
    tops = [allowed(pool, nodes.present, reason, now) for reason in sorted(reasons)]
    return any(top is None or top > nodes.going for top in tops)


def _next_opening(pool: NodePool, present: int, reasons: Collection[str], now: datetime) -> datetime | None:
    """Return the first window edge at which a node may go if no other node is leaving by then."""
    moment = now
    for _ in range(EDGES_MAX):
        edge = next_edge(pool.disruption.budgets, moment)
        if edge is None or _may_go(pool, PoolNodes(present, 0), reasons, edge):
            return edge
        moment = edge
    return moment
