"""Ceilings on how many pods commands evict in an hour: of the cluster (a setting), and of a NodePool (an annotation)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from core.disruption.budgets.recent_evictions import CLUSTER, ceilings_of, recently
from core.disruption.candidates.candidate import Candidate
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode
from core.pods.disposition import reschedulable


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

    def objection(self, candidates: Iterable[Candidate]) -> str:
        """Return which ceiling keeps these nodes, and how many evictions it counts; empty if none does."""
        if not self._ceilings:
            return ""
        wanted: Counter[str] = Counter()
        for candidate in candidates:
            wanted.update({candidate.pool.name: len(candidate.pods), CLUSTER: len(candidate.pods)})
        for name, ceiling in sorted(self._ceilings.items()):
            if wanted[name] and self._evicted[name] + wanted[name] > ceiling:
                where = f"NodePool {name}" if name else "the cluster"
                return (
                    f"{wanted[name]} pods to evict: {where} allows {ceiling} evictions an hour, "
                    f"and {self._evicted[name]} of them are used up"
                )
        return ""

    def take(self, candidate: Candidate) -> None:
        """Count the pods of a node that goes."""
        pods = len(candidate.pods)
        self._evicted.update({candidate.pool.name: pods, CLUSTER: pods})
