"""Finds when a NodePool's budgets next allow a different number of nodes: the next edge of a window that counts."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from core.disruption.budgets.node_pool_budgets import allowed, next_edge
from core.model.node_pool import NodePool
from core.reasons.termination import BUDGETED

EDGES_MAX: Final = 200
"""The most window edges that are checked: more than a week of a window that opens each hour and changes nothing."""


class BudgetChange(msgspec.Struct, frozen=True):
    """What the budgets allow from a moment on, leaving nodes not subtracted: reason → nodes, None for any number."""

    at: datetime
    allowed: dict[str, int | None]


def next_change(pool: NodePool, nodes: int, now: datetime) -> BudgetChange | None:
    """Return the next change for a pool of this size; None where no window changes anything, or a budget cannot be read."""
    before, moment = _allowed(pool, nodes, now), now
    for _ in range(EDGES_MAX):
        edge = next_edge(pool.disruption.budgets, moment)
        if edge is None:
            return None
        after = _allowed(pool, nodes, edge)
        if after != before:
            return BudgetChange(edge, after)
        moment = edge
    return None


def _allowed(pool: NodePool, nodes: int, now: datetime) -> dict[str, int | None]:
    return {reason: allowed(pool, nodes, reason, now) for reason in BUDGETED}
