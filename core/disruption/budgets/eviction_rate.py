"""Ceilings on how many pods commands evict in an hour: of the cluster (a setting), and of a NodePool (an annotation)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from core.disruption.candidates.candidate import Candidate
from core.model.moved_workload import EvictedNode
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode
from core.pods.disposition import reschedulable

PERIOD: Final = timedelta(hours=1)

CLUSTER: Final = ""
"""Stands for the whole cluster among names of NodePools."""


class EvictionRate:
    """How many more pods may be evicted in this hour. With budgets ignored there is no ceiling: when waves come is not known.

    Pods count from the moment at which the drain of their node begins, and those of nodes that commands are about to drain
    count already.
    """

    def __init__(self, ceilings: Mapping[str, int], evicted: Mapping[str, int]) -> None:
        self._ceilings = ceilings
        self._evicted = Counter(evicted)

    @classmethod
    def of(cls, snapshot: Snapshot, states: Iterable[StateNode]) -> EvictionRate:
        """Return what the snapshot leaves."""
        ceilings = {} if snapshot.options.ignore_budgets else dict(_ceilings(snapshot))
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
        """Return an independent counter that starts from what this one has left."""
        return EvictionRate(self._ceilings, self._evicted)

    def allows(self, candidates: Iterable[Candidate]) -> bool:
        """Whether the pods of all these nodes may be evicted now."""
        return not self.objection(candidates)

    def objection(self, candidates: Iterable[Candidate]) -> str:
        """Return which ceiling keeps these nodes, and what it has let through; empty for none."""
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


def recently(nodes: Mapping[str, EvictedNode], now: datetime) -> dict[str, EvictedNode]:
    """Return the nodes that were drained within the last hour, by claim."""
    return {name: node for name, node in sorted(nodes.items()) if now - node.at < PERIOD}


def next_relief(snapshot: Snapshot) -> Iterator[datetime]:
    """Yield the moments at which evictions stop counting; none where nothing limits them."""
    if any(True for _ in _ceilings(snapshot)):
        yield from (node.at + PERIOD for _, node in sorted(snapshot.evicted_nodes.items()))


def _ceilings(snapshot: Snapshot) -> Iterator[tuple[str, int]]:
    if snapshot.options.evictions_per_hour is not None:
        yield CLUSTER, snapshot.options.evictions_per_hour
    for pool in snapshot.node_pools:
        if pool.evictions_per_hour is not None:
            yield pool.name, pool.evictions_per_hour
