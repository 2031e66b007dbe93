"""Topology spread and pod (anti-)affinity: which domains cannot take a pod now."""

from __future__ import annotations

from collections.abc import Mapping

from simulator.cluster.node_fit import HARD_EFFECTS, intolerable_taint, selects_node
from simulator.cluster.scheduling.cluster_state import ClusterState, NodeRoom
from simulator.cluster.scheduling.pod_class import PodClass, Spread, Term


class SpreadRules:
    """The hard spread constraints of one pod, with the counts of this moment."""

    def __init__(self, state: ClusterState, pod_class: PodClass) -> None:
        keys = [spread.term.topology_key for spread in pod_class.spread]
        self._rules = [_limit(state, pod_class, spread, keys) for spread in pod_class.spread]

    def admit(self, room: NodeRoom) -> bool:
        """Whether the pod on this node keeps every skew within its bound."""
        for key, counts, most in self._rules:
            domain = room.labels.get(key)
            if domain is None or counts.get(domain, 0) > most:
                return False
        return True


class AffinityRules:
    """The required pod affinity and anti-affinity between one pod and those that run, both ways."""

    def __init__(self, state: ClusterState, pod_class: PodClass) -> None:
        counts = state.counts
        self._closed = [
            (term.topology_key, domains_of(state, term.topology_key, counts.on_nodes((term,), with_leaving=True)))
            for term in pod_class.anti_affinity
        ]
        self._repelled = [
            (term.topology_key, domains_of(state, term.topology_key, nodes))
            for term, nodes in counts.repelling(pod_class)
        ]
        terms = pod_class.affinity
        nodes = counts.on_nodes(terms, with_leaving=True) if terms else {}
        self._open = [(term.topology_key, domains_of(state, term.topology_key, nodes)) for term in terms]
        # The first pod of a group that wants to be with its own kind may go anywhere (Kubernetes, InterPodAffinity).
        nobody_yet = bool(terms) and not any(domains for _, domains in self._open)
        self._is_first = nobody_yet and all(counts.selects(term, pod_class) for term in terms)

    @property
    def is_open(self) -> bool:
        """Return whether no rule excludes any node."""
        return not (self._open or self._closed or self._repelled)

    def why_not(self, room: NodeRoom) -> str:
        """Return the rule that excludes the node, empty for none."""
        for key, domains in self._open:
            domain = room.labels.get(key)
            if domain is None or (domain not in domains and not self._is_first):
                return "node(s) didn't match pod affinity rules"
        if any(room.labels.get(key) in domains for key, domains in self._closed):
            return "node(s) didn't match pod anti-affinity rules"
        if any(room.labels.get(key) in domains for key, domains in self._repelled):
            return "node(s) didn't satisfy existing pods anti-affinity rules"
        return ""


def domains_of(state: ClusterState, key: str, nodes: Mapping[str, int]) -> dict[str, int]:
    """Counts by node added up by domain; nodes that are gone or lack the label are left out."""
    totals: dict[str, int] = {}
    for name, count in nodes.items():
        room = state.nodes.get(name)
        domain = room.labels.get(key) if room else None
        if domain is not None:
            totals[domain] = totals.get(domain, 0) + count
    return totals


def _limit(
    state: ClusterState, pod_class: PodClass, spread: Spread, keys: list[str]
) -> tuple[str, dict[str, int], int]:
    """The key, the pods in each domain that counts, and the most that a domain may hold already."""
    key = spread.term.topology_key
    on_nodes = state.counts.on_nodes((spread.term,), with_leaving=False)
    totals: dict[str, int] = {}
    for name in sorted(state.nodes):
        room = state.nodes[name]
        if all(k in room.labels for k in keys) and _counts(pod_class, spread, room):
            totals[room.labels[key]] = totals.get(room.labels[key], 0) + on_nodes.get(name, 0)
    least = min(totals.values(), default=0) if len(totals) >= spread.min_domains else 0
    itself = int(_selects_itself(state, spread.term, pod_class))
    return key, totals, least + spread.max_skew - itself


def _counts(pod_class: PodClass, spread: Spread, room: NodeRoom) -> bool:
    """Whether the node's domain takes part, by the constraint's node policies."""
    if spread.honors_affinity and not selects_node(pod_class.spec, room.node):
        return False
    return not (spread.honors_taints and intolerable_taint(pod_class.spec, room.node, HARD_EFFECTS))


def _selects_itself(state: ClusterState, term: Term, pod_class: PodClass) -> bool:
    return state.counts.selects(term, pod_class)
