"""Finds the nodes that can take one pod now, the best of them, and why others cannot."""

from __future__ import annotations

from collections import Counter
from typing import Final

from core.api.objects import JsonObject
from simulator.cluster.node_fit import UNSCHEDULABLE_TAINT, intolerable_taint, selects_node, tolerates
from simulator.cluster.objects import key_of, spec_of
from simulator.cluster.scheduling.cluster_state import ClusterState, NodeRoom
from simulator.cluster.scheduling.nominations import nominated_node
from simulator.cluster.scheduling.pod_class import PodClass
from simulator.cluster.scheduling.topology import AffinityRules, SpreadRules, domains_of
from simulator.cluster.scheduling.volume_rules import VolumeRules
from simulator.cluster.selectors import matches_node_term
from simulator.cluster.store import Store

_SCORED: Final = ("cpu", "memory")
_FULL_SCORE: Final = 100


class Placement:
    """One attempt to place one pod."""

    def __init__(self, store: Store, state: ClusterState, pod_class: PodClass, pod: JsonObject) -> None:
        self._state = state
        self._class = pod_class
        self._key = key_of(pod)
        self._nominated = nominated_node(pod)
        self._spread = SpreadRules(state, pod_class) if pod_class.spread else None
        affinity = AffinityRules(state, pod_class)
        self._affinity = None if affinity.is_open else affinity
        self._volumes = VolumeRules(store, pod) if pod_class.has_volumes else None

    def best(self) -> NodeRoom | None:
        """Return the node that the scheduler chooses, None if no node can take the pod."""
        if self._volumes is not None and self._volumes.problem:
            return None
        expected = self.nominated()
        if expected is not None:
            return expected
        open_rooms = [room for room in self._state.admitting(self._class) if not self._closed_by(room)]
        return min(open_rooms, key=self._rank, default=None)

    def nominated(self) -> NodeRoom | None:
        """The node that the pod is nominated for, None if there is none or it is closed."""
        if not self._nominated or (self._volumes is not None and self._volumes.problem):
            return None
        rooms = [room for room in self._state.admitting(self._class) if room.name == self._nominated]
        return next((room for room in rooms if not self._closed_by(room)), None)

    def explain(self) -> str:
        """Return why no node can take the pod, in the scheduler's words."""
        if self._volumes is not None and self._volumes.problem:
            return f"0/{len(self._state.nodes)} nodes are available: {self._volumes.problem}."
        reasons = Counter(self._why_not(self._state.nodes[name]) for name in sorted(self._state.nodes))
        counted = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        return f"0/{len(self._state.nodes)} nodes are available: {counted or 'no nodes available to schedule pods'}."

    def why_not(self, node: str) -> str:
        """Return why the node cannot take the pod, empty if it can."""
        if self._volumes is not None and self._volumes.problem:
            return self._volumes.problem
        return self._why_not(self._state.nodes[node])

    def _closed_by(self, room: NodeRoom) -> str:
        """Return why a node that suits otherwise cannot take the pod, empty if it can."""
        reserved = self._state.nominations.reserved(room.name, self._key, self._class)
        scarce = room.lacks(self._class, reserved)
        if scarce:
            return "Too many pods" if scarce == "pods" else f"Insufficient {scarce}"
        if self._class.ports and not room.has_free_ports(self._class):
            return "node(s) didn't have free ports for the requested pod ports"
        if self._volumes is not None and (problem := self._volumes.why_not(room)):
            return problem
        if self._spread is not None and not self._spread.admit(room):
            return "node(s) didn't match pod topology spread constraints"
        return self._affinity.why_not(room) if self._affinity is not None else ""

    def _why_not(self, room: NodeRoom) -> str:
        taint = intolerable_taint(self._class.spec, room.node, ("NoSchedule", "NoExecute"))
        if taint is UNSCHEDULABLE_TAINT:
            return "node(s) were unschedulable"
        if taint is not None:
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
        if not selects_node(self._class.spec, room.node):
            return "node(s) didn't match Pod's node affinity/selector"
        return self._closed_by(room)

    def _rank(self, room: NodeRoom) -> tuple[int, int, int, int, str]:
        """Preferences of taints, nodes and pods first, then soft spread, then the emptiest node, then the name."""
        return (
            _unwanted_taints(self._class, room) if room.has_preference else 0,
            -self._preference(room) if self._class.has_preferences else 0,
            self._spread_counts(room) if self._class.soft_spread else 0,
            -_emptiness(self._class, room),
            room.name,
        )

    def _preference(self, room: NodeRoom) -> int:
        affinity = (self._class.spec.get("affinity") or {}).get("nodeAffinity") or {}
        total = 0
        for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            if matches_node_term(term["preference"], room.node):
                total += int(term["weight"])
        for weight, term in self._class.preferred:
            counts = self._state.counts.on_nodes((term,), with_leaving=True)
            domains = domains_of(self._state, term.topology_key, counts)
            total += weight * domains.get(room.labels.get(term.topology_key, ""), 0)
        return total

    def _spread_counts(self, room: NodeRoom) -> int:
        total = 0
        for spread in self._class.soft_spread:
            counts = self._state.counts.on_nodes((spread.term,), with_leaving=False)
            domains = domains_of(self._state, spread.term.topology_key, counts)
            total += domains.get(room.labels.get(spread.term.topology_key, ""), 0)
        return total


def _unwanted_taints(pod_class: PodClass, room: NodeRoom) -> int:
    tolerations = pod_class.spec.get("tolerations") or ()
    taints = [t for t in spec_of(room.node).get("taints") or () if t["effect"] == "PreferNoSchedule"]
    return sum(not any(tolerates(toleration, taint) for toleration in tolerations) for taint in taints)


def _emptiness(pod_class: PodClass, room: NodeRoom) -> int:
    """The share of CPU and memory that stays free, in percent added up (kube-scheduler, LeastAllocated)."""
    total = 0
    for name in _SCORED:
        offered = room.allocatable.get(name, 0)
        if offered:
            free = offered - room.used.get(name, 0) - pod_class.requests.get(name, 0)
            total += free * _FULL_SCORE // offered
    return total
