"""Computes how many claims the NodePools' budgets let leave together, by the windows of the moment when a claim begins to go.

A round of `reconcile` lasts minutes. If a window opens during the round, the budget bounds every removal that begins after it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from adapters.observation.observer import ClusterState
from adapters.ports import Clock
from core.disruption.budget_openings import budget_explanation
from core.disruption.budgets import counted_nodes, going_nodes, next_edge, places
from core.model.state_node import state_nodes

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


class BudgetPlaces:
    """The bounds of one reason for the counters of leaving claims, from one observation.

    See docs/engineering/handbook/draining.md.

    Args:
        view: The observation.
        reason: Why the claims leave.
        clock: Says when budgets are read.
        together: Names of claims that leave together: one that is not Ready does not use up the others' budget.
    """

    def __init__(self, view: ClusterState, reason: str, clock: Clock, *, together: Collection[str] = ()) -> None:
        self._snapshot = view.snapshot
        self._states = state_nodes(view.snapshot)
        self._holding = {claim.name for claim in view.claims.values() if claim.is_disrupting}.union(together)
        self._reason = reason
        self._clock = clock
        self._bounds: Mapping[str, int] = {}
        self._valid_until = _LONG_AGO

    def now(self) -> Mapping[str, int]:
        """Return NodePool → how many of its claims may hold a place now; NodePools without any limit are missing."""
        moment = self._clock.now()
        if moment >= self._valid_until:
            snapshot = msgspec.structs.replace(self._snapshot, now=moment)
            self._bounds = places(snapshot, self._states, [self._reason], self._holding)
            budgets = (budget for pool in snapshot.node_pools for budget in pool.disruption.budgets)
            self._valid_until = next_edge(budgets, moment) or _NEVER
        return self._bounds

    def explanation(self, pool: str) -> str:
        """Return why a NodePool's budgets let no further claim leave: what they allow, who uses it, when more may leave."""
        node_pool = next(known for known in self._snapshot.node_pools if known.name == pool)
        nodes = counted_nodes(self._snapshot, self._states).get(pool, 0)
        going = going_nodes(self._snapshot, self._states, self._reason).get(pool, [])
        return budget_explanation(node_pool, nodes, self._reason, going, self._clock.now())
