"""Finds NodePools whose budgets have let no node go for so long that they may have been forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from core.disruption.budgets.node_pool_budgets import concerns, is_active, limit, next_edge, unreadable
from core.model.node_pool import Budget, NodePool
from core.reasons.termination import BUDGETED

LONG: Final = timedelta(days=7)
"""Windows that open once a week are usual; if drift or consolidation waits longer, that is a decision or a mistake."""

STEP: Final = timedelta(minutes=15)
"""The shortest time between two evaluated moments. A shorter window is of little use, since a drain takes minutes."""

_PERIODS_KEPT: Final = 256
"""Size of the cache of periods. A week of short windows takes hundreds of evaluations of schedules,
and pools are checked every two minutes: checks within one `STEP` share a period."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_NODES: Final = 100
"""A number of nodes at which one percent is one node."""


def closed_for_long(pools: Iterable[NodePool], now: datetime) -> tuple[str, ...]:
    """Return the names of pools whose budgets let no node go for any reason, now and for all of `LONG`, or are unreadable."""
    return tuple(sorted(pool.name for pool in pools if _is_closed(pool, now)))


def _is_closed(pool: NodePool, now: datetime) -> bool:
    if unreadable(pool):
        return True
    closing = tuple(budget for budget in pool.disruption.budgets if limit(budget, _NODES) == 0)
    return _lets_none_go(closing, now) and _let_none_go(closing, now - LONG - (now - _EPOCH) % STEP)


@lru_cache(_PERIODS_KEPT)
def _let_none_go(closing: tuple[Budget, ...], since: datetime) -> bool:
    """Whether the budgets let no node go at any moment of the period that begins with `since`."""
    return all(_lets_none_go(closing, moment) for moment in _moments(closing, since, since + LONG))


def _lets_none_go(closing: Sequence[Budget], moment: datetime) -> bool:
    active = [budget for budget in closing if is_active(budget, moment)]
    return all(any(concerns(budget, reason) for budget in active) for reason in BUDGETED)


def _moments(closing: Sequence[Budget], since: datetime, until: datetime) -> Iterator[datetime]:
    """Yield `since`, then each moment before `until` at which a window opens or closes, at least `STEP` apart."""
    while since < until:
        yield since
        since = max(since + STEP, next_edge(closing, since) or until)
