"""Whether budgets let any node go at this moment, by NodePools and claims alone, and when that may change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.disruption.budgets.node_pool_budgets import allowed, next_edge
from core.model.node_pool import NodePool

EDGES_MAX: Final = 64
"""Edges of a NodePool's windows that are examined; after that many, when to ask again. A schedule may have one each minute."""

AHEAD: Final = timedelta(minutes=3)
"""How long before consolidateAfter must begin to count pods are observed again: two passes, and some more."""


class PoolNodes(msgspec.Struct, frozen=True):
    """How many nodes of a NodePool its budgets are about at most, and how many go at least."""

    present: int
    going: int


def may_any_go(
    pools: Iterable[NodePool], nodes: Mapping[str, PoolNodes], reasons: Collection[str], now: datetime
) -> bool:
    """Whether some NodePool's budgets may let one more node go for one of these reasons; rather yes than no."""
    return any(_may_go(pool, nodes[pool.name], reasons, now) for pool in pools if pool.name in nodes)


def wakes_at(
    pools: Iterable[NodePool], nodes: Mapping[str, PoolNodes], reasons: Collection[str], now: datetime
) -> datetime | None:
    """When pods must be examined again while no budget lets a node go: consolidateAfter before the first that opens.

    None: nothing opens by itself.
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
    """The first edge of a window at which a node may go, however many are going still."""
    moment = now
    for _ in range(EDGES_MAX):
        edge = next_edge(pool.disruption.budgets, moment)
        if edge is None or _may_go(pool, PoolNodes(present, 0), reasons, edge):
            return edge
        moment = edge
    return moment
