"""Explains why a NodePool's budgets keep a node: how many nodes may go, which nodes use the budgets up, and until when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from core.disruption.budgets.node_pool_budgets import allowed, next_edge, unreadable
from core.model.node_pool import NodePool

NAMED_MAX: Final = 3
"""The most nodes that are named."""

EDGES_MAX: Final = 200
"""The most window edges that are checked for one at which more nodes may go."""


def budget_explanation(pool: NodePool, nodes: int, reason: str, going: Sequence[str], now: datetime) -> str:
    """Return why the budgets let no further node of the pool go.

    Args:
        pool: The NodePool.
        nodes: How many nodes its budgets apply to.
        reason: Why a node would go.
        going: Names of the nodes that count against the budgets: they are leaving or not Ready, twice if both.
        now: The time.
    """
    problem = unreadable(pool)
    if problem:
        return f"NodePool {pool.name} lets no node go until this is corrected: {problem}"
    top = allowed(pool, nodes, reason, now)
    text = f"the disruption budgets of NodePool {pool.name} let {top or 'none'} of {nodes} nodes go for {reason} now"
    if top and going:
        names = tuple(dict.fromkeys(going))
        named = (f"{name} (two places)" if going.count(name) > 1 else name for name in names[:NAMED_MAX])
        more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
        text += f"; their places are taken by {', '.join(named)}{more}"
    opening = _opening(pool, nodes, reason, now)
    return text if opening is None else f"{text}; from {opening:%Y-%m-%dT%H:%M:%SZ} they let more go"


def _opening(pool: NodePool, nodes: int, reason: str, now: datetime) -> datetime | None:
    """Return when more nodes may next go for the reason than now; None if never."""
    top, moment = allowed(pool, nodes, reason, now), now
    for _ in range(EDGES_MAX):
        edge = next_edge(pool.disruption.budgets, moment)
        if edge is None or top is None:
            return None
        then = allowed(pool, nodes, reason, edge)
        if then is None or then > top:
            return edge
        moment = edge
    return None
