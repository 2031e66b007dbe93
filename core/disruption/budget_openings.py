"""Checks, by NodePools and claims alone, whether budgets let any node go now, and when that may change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

import msgspec

from core.disruption.budgets import allowed, concerns, is_active, limit, next_edge, unreadable
from core.model.node_pool import Budget, NodePool
from core.reasons.code import BUDGETED

# Explains why a NodePool's budgets keep a node: how many nodes may go, which nodes use the budgets up, and until when.


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


OPENINGS_MAX: Final = 64
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
    openings = []
    for pool in sorted(pools, key=lambda pool: pool.name):
        if pool.name in nodes:
            opening = _next_opening(pool, nodes[pool.name].present, reasons, now)
            if opening is not None:
                openings.append(opening - (pool.disruption.consolidate_after or timedelta(0)) - AHEAD)
    return min(openings, default=None)


def _may_go(pool: NodePool, nodes: PoolNodes, reasons: Collection[str], now: datetime) -> bool:
    tops = [allowed(pool, nodes.present, reason, now) for reason in sorted(reasons)]
    return any(top is None or top > nodes.going for top in tops)


def _next_opening(pool: NodePool, present: int, reasons: Collection[str], now: datetime) -> datetime | None:
    """Return the first window edge at which a node may go if no other node is leaving by then."""
    moment = now
    for _ in range(OPENINGS_MAX):
        edge = next_edge(pool.disruption.budgets, moment)
        if edge is None or _may_go(pool, PoolNodes(present, 0), reasons, edge):
            return edge
        moment = edge
    return moment


# Finds NodePools whose budgets have let no node go for so long that they may have been forgotten.


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
