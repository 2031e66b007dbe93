"""Checks that a pod on a node keeps every topology skew within its bound (kube-scheduler, PodTopologySpread)."""

from __future__ import annotations

from collections import Counter

from core.lifecycle.binding.node_fit import selects, tolerates
from core.lifecycle.binding.placed_pods import PlacedPods
from core.lifecycle.binding.pod_selection import spread_selection
from core.model.node import Node
from core.model.pod import DO_NOT_SCHEDULE, HONOR, Pod, TopologySpread


def keeps_skew(pod: Pod, node: Node, placed: PlacedPods) -> bool:
    """Whether all DoNotSchedule constraints of the pod hold with it on the node."""
    rules = [rule for rule in pod.spec.spreads if rule.when_unsatisfiable == DO_NOT_SCHEDULE]
    keys = tuple(rule.topology_key for rule in rules)
    if any(key not in node.labels for key in keys):
        return False
    return all(_holds(pod, node, placed, rule, keys) for rule in rules)


def _holds(pod: Pod, node: Node, placed: PlacedPods, rule: TopologySpread, keys: tuple[str, ...]) -> bool:
    selection = spread_selection(pod, rule)
    domain_of = placed.remembered((id(pod.spec), rule), lambda: _domains(pod, placed, rule, keys))
    domains = Counter(dict.fromkeys(domain_of.values(), 0))
    for name, count in placed.counted(selection).items():
        if name in domain_of:
            domains[domain_of[name]] += count
    least = min(domains.values(), default=0) if len(domains) >= (rule.min_domains or 1) else 0
    own = int(selection.selects(pod))
    return domains[node.labels[rule.topology_key]] + own - least <= rule.max_skew


def _domains(pod: Pod, placed: PlacedPods, rule: TopologySpread, keys: tuple[str, ...]) -> dict[str, str]:
    """Return the domain of each node that the constraint counts."""
    return {
        node.name: node.labels[rule.topology_key]
        for node in placed.nodes.values()
        if all(key in node.labels for key in keys) and _takes_part(pod, node, rule)
    }


def _takes_part(pod: Pod, node: Node, rule: TopologySpread) -> bool:
    if rule.node_affinity_policy == HONOR and not selects(pod, node):
        return False
    return rule.node_taints_policy != HONOR or tolerates(pod, node)
