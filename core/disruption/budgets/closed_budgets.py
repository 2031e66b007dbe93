"""Finds NodePools whose budgets have let no node go for so long that they may have been forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from core.disruption.budgets.node_pool_budgets import allowed
from core.model.node_pool import NodePool
from core.reasons.termination import BUDGETED

LONG: Final = timedelta(days=7)
"""A window that opens once a week is usual; drift or consolidation that waits longer is either a decision or a mistake."""

STEP: Final = timedelta(minutes=15)
"""Step between the evaluated moments. A shorter window is of little use, since a drain takes minutes."""

_NODES: Final = 100
"""A number of nodes of which one percent is a node."""


def closed_for_long(pools: Iterable[NodePool], now: datetime) -> tuple[str, ...]:
    """Return names of the pools that no node may leave for any reason, now and during the whole period; unreadable ones too."""
    return tuple(sorted(pool.name for pool in pools if _is_closed(pool, now)))


def _is_closed(pool: NodePool, now: datetime) -> bool:
    moments = (now - STEP * back for back in range(LONG // STEP + 1))
    return all(allowed(pool, _NODES, reason, moment) == 0 for moment in moments for reason in BUDGETED)
