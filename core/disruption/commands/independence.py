"""Checks whether commands that were found separately can run together."""

from __future__ import annotations

from collections.abc import Iterable

from core import labels
from core.disruption.candidates.candidate import Candidate
from core.model.plan import Command, PlannedClaim
from core.model.pod import LabelSelector, Pod
from core.model.snapshot import Snapshot
from core.pools.pool_types import pool_types
from core.scheduling.pods.default_topology_spread import DefaultSpreads

Labels = frozenset[tuple[str, str]]


class Independence:
    """The commands found so far. In doubt, two commands count as dependent."""

    def __init__(self, snapshot: Snapshot, defaults: DefaultSpreads) -> None:
        """Begin without commands; `defaults` are the default spreads of the snapshot's cluster."""
        self._snapshot = snapshot
        self._spreads = defaults
        self._limits = {pool.name: pool.limits for pool in snapshot.node_pools}
        self._going: set[str] = set()
        self._filled: set[str] = set()
        self._selectors: set[LabelSelector] = set()
        self._labels: set[Labels] = set()
        self._scarce: set[str] = set()

    def takes(self, command: Command, candidate: Candidate) -> bool:
        """Take the command that replaces the candidate if it is independent of those already taken; return whether it is.

        Independent commands move no pods to the same node, and none to a node that goes. No rule over several nodes connects
        the pods that they move. At most one command may need more of a NodePool's limits than it frees, at most one a place in
        a reservation, and at most one the unused amount of a commitment.
        """
        targets = {move.to for move in command.moves}
        selectors = _selectors(candidate.pods, self._spreads)
        names = {frozenset(pod.labels.items()) for pod in candidate.pods}
        scarce = {key for claim in command.replacements for key in self._scarce_for(claim, command, candidate)}
        meets = (
            candidate.name in self._filled
            or not targets.isdisjoint(self._filled | self._going)
            or not scarce.isdisjoint(self._scarce)
            or _bears(selectors, self._labels)
            or _bears(self._selectors, names)
        )
        if meets:
            return False
        self._going.add(candidate.name)
        self._filled |= targets
        self._selectors |= selectors
        self._labels |= names
        self._scarce |= scarce
        return True

    def _scarce_for(self, claim: PlannedClaim, command: Command, candidate: Candidate) -> Iterable[str]:
        """Return the scarce resources that a replacement needs, each of which only one command may use."""
        if labels.RESERVED in claim.capacity_types:
            yield labels.RESERVED
        if claim.commitment:
            yield labels.COMMITMENT
        limits = self._limits.get(claim.node_pool, {})
        freed = candidate.state.node.capacity if candidate.state.node is not None else {}
        is_alike = len(command.replacements) == 1 and claim.node_pool == candidate.pool.name
        types = {t.name: t for t in pool_types(self._snapshot).of(claim.node_pool)} if limits else {}
        grows = any(
            types[name].capacity.get(resource, 0) > freed.get(resource, 0)
            for name in claim.instance_types
            if name in types
            for resource in limits
            if resource != "nodes"
        )
        if limits and (grows or not is_alike):
            yield f"limits of {claim.node_pool}"


def _selectors(pods: Iterable[Pod], spreads: DefaultSpreads) -> set[LabelSelector]:
    """Return the selectors of the rules over zones and other shared domains. Rules within a node do not matter here."""
    found: set[LabelSelector] = set()
    for pod in pods:
        rules = [(r.topology_key, r.selector) for r in spreads.required_of(pod)]
        rules += [(term.topology_key, term.selector) for term in (*pod.spec.affinity, *pod.spec.anti_affinity)]
        found |= {selector for key, selector in rules if selector is not None and key != labels.HOSTNAME}
    return found


def _bears(selectors: Iterable[LabelSelector], names: Iterable[Labels]) -> bool:
    return any(selector.matches(dict(found)) for selector in selectors for found in names)
