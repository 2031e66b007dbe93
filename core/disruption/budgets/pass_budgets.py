"""The remaining budgets of one disruption pass: NodePools' budgets, PodDisruptionBudgets, and evictions per hour."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from core.disruption.budgets.budget_explanation import budget_explanation
from core.disruption.budgets.budget_reservation import BudgetReservation
from core.disruption.budgets.eviction_rate import EvictionRate
from core.disruption.budgets.node_pool_budgets import (
    Remaining,
    RemainingBudgets,
    counted_nodes,
    going_nodes,
    places,
    remaining,
)
from core.disruption.candidates.candidate import Candidate
from core.disruption.conditions.node_health import HealthCheck
from core.model.plan import Command
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode
from core.pods.disruption_budgets import DisruptionBudgets, RemainingEvictions
from core.reasons.termination import TerminationReason


class PassBudgets:
    """The remaining budgets: they start with what the snapshot allows, and commands of the pass reduce them.

    Attributes:
        remaining: How many nodes may go, before any command.
        node_counts: NodePool → how many nodes its budgets apply to, before any command.
        pod_budgets: The PodDisruptionBudgets.
    """

    def __init__(self, snapshot: Snapshot, states: Sequence[StateNode], pod_budgets: DisruptionBudgets) -> None:
        self._snapshot = snapshot
        self._states = states
        self.remaining: Remaining = remaining(snapshot, states)
        self.node_counts: dict[str, int] = counted_nodes(snapshot, states)
        self.pod_budgets = pod_budgets
        self._budgets_left = RemainingBudgets(self.remaining, ignored=snapshot.options.ignore_budgets)
        self._evictions = RemainingEvictions(self.pod_budgets)
        self._rate = EvictionRate.of(snapshot, states)
        self._going = going_nodes(snapshot, states)
        self._objections: dict[tuple[str, str, int], str] = {}

    def allow(self, candidates: Collection[Candidate], reason: str) -> bool:
        """Whether all budgets let all of these go together, after the commands already found."""
        for pool in sorted({c.pool.name for c in candidates}):
            if not self._budgets_left.allows(pool, reason, sum(c.pool.name == pool for c in candidates)):
                return False
        return self.evictions_allowed(candidates) and self._rate.allows(candidates)

    def within(self, candidates: Iterable[Candidate], reason: str) -> list[Candidate]:
        """Return the candidates, in order, that all budgets let go together."""
        left = self.reservation()
        return [candidate for candidate in candidates if left.take(candidate, reason)]

    def reservation(self) -> BudgetReservation:
        """Return all budgets after the commands decided so far, for tentative reservations."""
        return BudgetReservation(self._budgets_left.copy(), self._evictions.copy(), self._rate.copy())

    def left(self, pool: str, reason: str) -> int | None:
        """Return how many more nodes of the pool may go for the reason, None for any number."""
        return self._budgets_left.left(pool, reason)

    def has_place(self, candidate: Candidate, reason: str) -> bool:
        """Whether the NodePool's budgets let it go."""
        return self._budgets_left.allows(candidate.pool.name, reason)

    def objection(self, candidate: Candidate, reason: str) -> str:
        """Return why the NodePool's budgets keep the node, with the nodes that use them up; empty if they let it go."""
        if self.has_place(candidate, reason):
            return ""
        pool = candidate.pool
        going = self._going.get(pool.name, [])
        key = pool.name, reason, len(going)
        if key not in self._objections:  # cached: hundreds of nodes share the text, and each evaluation reads windows
            nodes = self.node_counts.get(pool.name, 0)
            self._objections[key] = budget_explanation(pool, nodes, reason, going, self._snapshot.now)
        return self._objections[key]

    def evictions_allowed(self, candidates: Iterable[Candidate]) -> bool:
        """Whether the PodDisruptionBudgets let all of these go together."""
        return self._evictions.allows_together(c.state.pods for c in candidates)

    def rate_objection(self, candidate: Candidate) -> str:
        """Return which ceiling on evictions per hour keeps the node, empty if none does."""
        return self._rate.objection([candidate])

    def rate_left(self) -> EvictionRate:
        """Return the ceilings on evictions per hour after the commands decided so far."""
        return self._rate.copy()

    def evictions_left(self, *, is_first: bool = True) -> RemainingEvictions:
        """Return the PodDisruptionBudgets now, or for a later wave, in which all pods that moved before run again."""
        return self._evictions.copy() if is_first else RemainingEvictions(self.pod_budgets)

    def allow_repair(self, candidate: Candidate, commands: Iterable[Command]) -> bool:
        """Whether pods, NodePool budgets and PodDisruptionBudgets let an unhealthy node go in addition to these commands.

        Other nodes that must be replaced and are not leaving yet do not block it: each would wait for the others.
        """
        pool, snapshot, states = candidate.pool.name, self._snapshot, self._states
        waiting = HealthCheck(states, snapshot.now).due(s for s in states if not s.is_marked_for_deletion(snapshot))
        bound = places(snapshot, states, [TerminationReason.UNHEALTHY], waiting | {candidate.claim.name}).get(pool)
        pools = {state.name: state.node_pool for state in states}
        gone = sum(pools.get(node) == pool for command in commands for node in command.nodes)
        return not candidate.protected and (bound is None or gone < bound) and self.evictions_allowed([candidate])

    def take(self, candidate: Candidate, reason: str) -> None:
        """Count a leaving node, Ready or not (Karpenter); one that is repaired has its place already (ADR 34)."""
        is_ready = candidate.state.node is not None and candidate.state.node.is_ready
        if is_ready or reason != TerminationReason.UNHEALTHY:
            self._budgets_left.take(candidate.pool.name)
            self._going.setdefault(candidate.pool.name, []).append(candidate.name)
        self._evictions.take(candidate.state.pods)
        self._rate.take(candidate)
