"""The remaining budgets of one disruption pass: NodePools', PodDisruptionBudgets, evictions per hour, and shrinking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from core.disruption.budget_openings import budget_explanation
from core.disruption.budgets import Remaining, RemainingBudgets, counted_nodes, going_nodes, remaining
from core.disruption.candidate import Candidate
from core.disruption.move_history import CLUSTER, ceilings_of, recently
from core.disruption.shrink_limit import ShrinkLimit
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode
from core.pod_disruption_budgets import DisruptionBudgets, RemainingEvictions
from core.pods import reschedulable
from core.reasons.code import NAMED_BY_BUDGETS, Refusal, Stated, TerminationReason
from core.reasons.nodes import BudgetShared, EvictionRateReached, NodeReason

# Ceilings on how many pods commands evict in an hour: of the cluster (a setting), and of a NodePool (an annotation).


class EvictionRate:
    """How many more pods may be evicted in this hour. Without budgets there is no ceiling: the times of waves are unknown.

    Pods count once the drain of their node begins or a command is about to drain it.
    """

    def __init__(self, ceilings: Mapping[str, int], evicted: Mapping[str, int]) -> None:
        self._ceilings = ceilings
        self._evicted = Counter(evicted)

    @classmethod
    def of(cls, snapshot: Snapshot, states: Iterable[StateNode]) -> EvictionRate:
        """Return what recent evictions of the snapshot leave."""
        ceilings = {} if snapshot.options.ignore_budgets else dict(ceilings_of(snapshot))
        if not ceilings:
            return cls({}, {})
        evicted: Counter[str] = Counter()
        for node in recently(snapshot.evicted_nodes, snapshot.now).values():
            evicted.update({node.node_pool: node.pods, CLUSTER: node.pods})
        for state in states:
            name = state.claim.name if state.claim is not None else ""
            if name in snapshot.marked_for_deletion and name not in snapshot.evicted_nodes:
                pods = len(reschedulable(state.pods))
                evicted.update({state.node_pool: pods, CLUSTER: pods})
        return cls(ceilings, evicted)

    def copy(self) -> EvictionRate:
        """Return an independent counter with the same remainders."""
        return EvictionRate(self._ceilings, self._evicted)

    def allows(self, candidates: Iterable[Candidate]) -> bool:
        """Whether the pods of all these nodes may be evicted now."""
        return not self.objection(candidates)

    def objection(self, candidates: Iterable[Candidate]) -> Refusal | None:
        """Return which ceiling keeps these nodes, and how many evictions it counts; None if none does."""
        if not self._ceilings:
            return None
        wanted: Counter[str] = Counter()
        for candidate in candidates:
            wanted.update({candidate.pool.name: len(candidate.pods), CLUSTER: len(candidate.pods)})
        for name, ceiling in sorted(self._ceilings.items()):
            if wanted[name] and self._evicted[name] + wanted[name] > ceiling:
                return EvictionRateReached(name, wanted[name], ceiling, self._evicted[name])
        return None

    def take(self, candidate: Candidate) -> None:
        """Count the pods of a node that goes."""
        pods = len(candidate.pods)
        self._evicted.update({candidate.pool.name: pods, CLUSTER: pods})


# Reserves budgets tentatively during the search for commands that run together.


class BudgetReservation:
    """The remaining NodePool budgets, PodDisruptionBudgets, ceilings on evictions per hour, and limits on shrinking."""

    def __init__(
        self, budgets_left: RemainingBudgets, evictions: RemainingEvictions, rate: EvictionRate, shrink: ShrinkLimit
    ) -> None:
        self._budgets_left = budgets_left
        self._evictions = evictions
        self._rate = rate
        self._shrink = shrink

    def allows(self, candidate: Candidate, reason: str) -> bool:
        """Whether the candidate may go in addition to those already taken."""
        pods = candidate.state.pods
        has_place = self._budgets_left.allows(candidate.pool.name, reason) and self._evictions.allows_together([pods])
        return has_place and self._rate.allows([candidate]) and self._shrink.allows([candidate])

    def take(self, candidate: Candidate, reason: str, *, shares_evictions: bool = False) -> bool:
        """Take the candidate's share of the budgets if there is room, and return whether there was.

        `shares_evictions`: whether the next candidate goes in the same command.
        """
        if not self.allows(candidate, reason):
            return False
        self._budgets_left.take(candidate.pool.name)
        if not shares_evictions:
            self._evictions.take(candidate.state.pods)
        self._rate.take(candidate)
        self._shrink.take(candidate)
        return True


class PassBudgets:
    """The remaining budgets: they start with what the snapshot allows, and commands of the pass reduce them.

    Attributes:
        remaining: How many nodes may go, before any command.
        node_counts: NodePool → how many nodes its budgets apply to, before any command.
        pod_budgets: The PodDisruptionBudgets.
    """

    def __init__(self, snapshot: Snapshot, states: Sequence[StateNode], pod_budgets: DisruptionBudgets) -> None:
        self._snapshot = snapshot
        self.remaining: Remaining = remaining(snapshot, states)
        self.node_counts: dict[str, int] = counted_nodes(snapshot, states)
        self.pod_budgets = pod_budgets
        self._budgets_left = RemainingBudgets(self.remaining, ignored=snapshot.options.ignore_budgets)
        self._evictions = RemainingEvictions(self.pod_budgets)
        self._rate = EvictionRate.of(snapshot, states)
        self._shrink = ShrinkLimit.of(snapshot, states)
        self._going: dict[str, dict[str, list[str]]] = {
            reason: going_nodes(snapshot, states, reason) for reason in NAMED_BY_BUDGETS
        }
        self._objections: dict[tuple[str, str, int], Refusal] = {}
        self._leaving_pods = tuple(pod for s in states if s.is_marked_for_deletion(snapshot) for pod in s.pods)

    def allow(self, candidates: Collection[Candidate], reason: str) -> bool:
        """Whether all budgets let all of these go together, after the commands already found."""
        for pool in sorted({c.pool.name for c in candidates}):
            if not self._budgets_left.allows(pool, reason, sum(c.pool.name == pool for c in candidates)):
                return False
        is_slow = self._rate.allows(candidates) and self._shrink.allows(candidates)
        return is_slow and self.evictions_allowed(candidates)

    def within(self, candidates: Iterable[Candidate], reason: str) -> list[Candidate]:
        """Return the candidates, in order, that all budgets let go together."""
        reservation = self.reservation()
        return [candidate for candidate in candidates if reservation.take(candidate, reason)]

    def within_one_command(self, candidates: Iterable[Candidate], reason: str) -> list[Candidate]:
        """Return the candidates, in order, that may go together in one command.

        Each alone must be allowed by the PodDisruptionBudgets beside the commands decided so far (Karpenter). The nodes of one
        command may share a budget that lets fewer pods go: their drains evict these one after another, as a single node's do.
        """
        reservation = self.reservation()
        return [candidate for candidate in candidates if reservation.take(candidate, reason, shares_evictions=True)]

    def reservation(self) -> BudgetReservation:
        """Return all budgets after the commands decided so far, for tentative reservations."""
        return BudgetReservation(
            self._budgets_left.copy(), self._evictions.copy(), self._rate.copy(), self._shrink.copy()
        )

    def left(self, pool: str, reason: str) -> int | None:
        """Return how many more nodes of the pool may go for the reason, None for any number."""
        return self._budgets_left.left(pool, reason)

    def has_place(self, candidate: Candidate, reason: str) -> bool:
        """Whether the NodePool's budgets let it go."""
        return self._budgets_left.allows(candidate.pool.name, reason)

    def objection(self, candidate: Candidate, reason: str) -> Refusal | None:
        """Return why the NodePool's budgets keep the node, with the nodes that use them up; None if they let it go."""
        if self.has_place(candidate, reason):
            return None
        pool = candidate.pool
        going = self._going[reason].get(pool.name, [])
        key = pool.name, reason, len(going)
        if key not in self._objections:  # cached: hundreds of nodes share the text, and each evaluation reads windows
            nodes = self.node_counts.get(pool.name, 0)
            message = budget_explanation(pool, nodes, reason, going, self._snapshot.now)
            self._objections[key] = Stated(NodeReason.BUDGET, message)
        return self._objections[key]

    def refusal(self, candidate: Candidate, reason: str) -> Refusal | None:
        """Return which budget or command of this pass keeps the node; None if none does."""
        return (
            self.objection(candidate, reason)
            or self._eviction_objection(candidate)
            or self._rate.objection([candidate])
            or self._shrink.objection([candidate])
        )

    def _eviction_objection(self, candidate: Candidate) -> Refusal | None:
        if self.evictions_allowed([candidate]):
            return None
        return BudgetShared(candidate.name)

    def evictions_allowed(self, candidates: Iterable[Candidate]) -> bool:
        """Whether the PodDisruptionBudgets let all of these go together."""
        return self._evictions.allows_together(c.state.pods for c in candidates)

    def rounds(self, candidates: Iterable[Candidate]) -> int:
        """Return in how many rounds these nodes' pods can be evicted, in turn with those of nodes that leave already."""
        return self.pod_budgets.rounds((pod for c in candidates for pod in c.state.pods), self._leaving_pods)

    def rate_left(self) -> EvictionRate:
        """Return the ceilings on evictions per hour after the commands decided so far."""
        return self._rate.copy()

    def shrink_left(self) -> ShrinkLimit:
        """Return the limits on shrinking after the commands decided so far."""
        return self._shrink.copy()

    def evictions_left(self, *, is_first: bool = True) -> RemainingEvictions:
        """Return the PodDisruptionBudgets now, or for a later wave, in which all pods that moved before run again."""
        return self._evictions.copy() if is_first else RemainingEvictions(self.pod_budgets)

    def repair_objection(self, candidate: Candidate) -> Refusal | None:
        """Return why the NodePool's budgets keep an unhealthy node; None if they let it go (Karpenter).

        Its pods do not keep it, since its drain is bounded. A node that never initialized runs nothing, and needs no budget.
        """
        return self.objection(candidate, TerminationReason.UNHEALTHY) if candidate.state.is_initialized else None

    def take(self, candidate: Candidate, reason: str) -> None:
        """Count a leaving node, Ready or not (Karpenter).

        One that is repaired counts already for every reason but Unhealthy if it is not Ready, and for none if it never
        initialized.
        """
        is_ready = candidate.state.node is not None and candidate.state.node.is_ready
        is_away = reason == TerminationReason.UNHEALTHY and not is_ready
        if candidate.state.is_initialized:
            reasons = (TerminationReason.UNHEALTHY,) if is_away else NAMED_BY_BUDGETS
            self._budgets_left.take(candidate.pool.name, reasons)
            for counted in reasons:
                self._going[counted].setdefault(candidate.pool.name, []).append(candidate.name)
        self._evictions.take(candidate.state.pods)
        self._rate.take(candidate)
        if reason != TerminationReason.UNHEALTHY:  # its capacity is gone already
            self._shrink.take(candidate)
