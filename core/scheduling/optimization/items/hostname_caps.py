"""Topology rules along hostnames, as amounts and caps on one new node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.scheduling.optimization.items.packing_item import Amounts
from core.scheduling.pods.pod_group import PodGroup, RelaxationStep
from core.scheduling.topology.topology_group import AFFINITY, ANTI_AFFINITY, SPREAD, TopologyGroup


class HostnameCaps:
    """What hostname groups count of each pod group, and what they allow."""

    def __init__(self, groups: Sequence[TopologyGroup]) -> None:
        self._groups = groups
        self._counted: dict[int, Amounts] = {}
        self._caps: dict[tuple[int, int], Amounts] = {}
        self._followed: dict[int, frozenset[int]] = {}

    def counted(self, pod_group: PodGroup) -> Amounts:
        """The groups of spreads and anti-affinities that count such a pod, each with the amount one."""
        signature = pod_group.signature
        known = self._counted.get(signature.index)
        if known is None:
            known = self._counted[signature.index] = tuple(
                (number, 1) for number in signature.selected_by if self._has_cap(self._groups[number])
            )
        return known

    def caps(self, pod_group: PodGroup, step: RelaxationStep) -> Amounts:
        """How many pods each group may count on the node of such a pod, itself included.

        A spread allows its maxSkew: along hostnames the minimum over domains is zero, for a new node is always possible.
        """
        question = (pod_group.index, step.number)
        known = self._caps.get(question)
        if known is None:
            found: dict[int, int] = {}
            for rule in step.host_rules:
                if rule.kind in (SPREAD, ANTI_AFFINITY):
                    group = self._groups[rule.group]
                    cap = group.max_skew if rule.kind == SPREAD else int(rule.selects_self)
                    found[rule.group] = min(cap, found.get(rule.group, cap))
            known = self._caps[question] = tuple(sorted(found.items()))
        return known

    def followed(self, pod_group: PodGroup) -> frozenset[int]:
        """The affinity groups whose pods such a pod must have, or prefers to have, on its node."""
        known = self._followed.get(pod_group.index)
        if known is None:
            rules = (rule for step in pod_group.steps[:1] for rule in step.host_rules)
            known = self._followed[pod_group.index] = frozenset(r.group for r in rules if r.kind == AFFINITY)
        return known

    def _has_cap(self, group: TopologyGroup) -> bool:
        return group.is_hostname and group.kind in (SPREAD, ANTI_AFFINITY)


def merged(rules: Iterable[tuple[Amounts, Amounts]]) -> tuple[Amounts, Amounts]:
    """What groups count of several pods together, and the caps of all of them; from (counted, caps) of each.

    Pods that share a node already may be more than one of their caps: they were bound in an order in which each was allowed.
    Their cap is then their number.
    """
    counted: dict[int, int] = {}
    caps: dict[int, int] = {}
    for more, allowed in rules:
        for number, amount in more:
            counted[number] = counted.get(number, 0) + amount
        for number, cap in allowed:
            caps[number] = min(cap, caps.get(number, cap))
    raised = ((number, max(cap, counted.get(number, 0))) for number, cap in caps.items())
    return tuple(sorted(counted.items())), tuple(sorted(raised))
