"""The rules along hostnames, as amounts and caps on one new node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.scheduling.optimization.items.packing_item import Amounts
from core.scheduling.pods.pod_group import PodGroup, RelaxationStep
from core.scheduling.topology.topology_group import AFFINITY, ANTI_AFFINITY, SPREAD, TopologyGroup


class HostRules:
    """What hostname groups count of each class of pods, and what they allow."""

    def __init__(self, groups: Sequence[TopologyGroup]) -> None:
        self._groups = groups
        self._adds: dict[int, Amounts] = {}
        self._caps: dict[tuple[int, int], Amounts] = {}
        self._followed: dict[int, frozenset[int]] = {}

    def adds(self, pod_group: PodGroup) -> Amounts:
        """The groups of spreads and anti-affinities that count a pod of the class."""
        signature = pod_group.signature
        known = self._adds.get(signature.index)
        if known is None:
            known = self._adds[signature.index] = tuple(
                (number, 1) for number in signature.selected_by if self._counts(self._groups[number])
            )
        return known

    def caps(self, pod_group: PodGroup, step: RelaxationStep) -> Amounts:
        """How many pods each group may count on the node of such a pod, itself included.

        Along hostnames a spread's minimum is zero, for a new node is always possible.
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
        """The affinity groups of which such a pod must, or would rather, have company on its node."""
        known = self._followed.get(pod_group.index)
        if known is None:
            rules = (rule for step in pod_group.steps[:1] for rule in step.host_rules)
            known = self._followed[pod_group.index] = frozenset(r.group for r in rules if r.kind == AFFINITY)
        return known

    def _counts(self, group: TopologyGroup) -> bool:
        return group.is_hostname and group.kind in (SPREAD, ANTI_AFFINITY)


def merged(amounts: Iterable[tuple[Amounts, Amounts]]) -> tuple[Amounts, Amounts]:
    """What several pods add, and what they allow together.

    Pods that already are together in larger number than their rules allow came in an order in which each was allowed.
    """
    adds: dict[int, int] = {}
    caps: dict[int, int] = {}
    for more, allowed in amounts:
        for number, amount in more:
            adds[number] = adds.get(number, 0) + amount
        for number, cap in allowed:
            caps[number] = min(cap, caps.get(number, cap))
    borne = ((number, max(cap, adds.get(number, 0))) for number, cap in caps.items())
    return tuple(sorted(adds.items())), tuple(sorted(borne))
