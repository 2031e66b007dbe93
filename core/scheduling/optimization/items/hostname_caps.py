"""Expresses topology rules along hostnames as counts and caps on one new node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from core.scheduling.optimization.items.packing_item import Amounts
from core.scheduling.pods.pod_group import PodGroup, PodSignature, RelaxationStep
from core.scheduling.primitives.handles import TopologyGroupId
from core.scheduling.primitives.memo import memo
from core.scheduling.topology.topology_group import AFFINITY, ANTI_AFFINITY, SPREAD, TopologyGroup


class HostnameCaps:
    """How hostname groups count pods, and how many they allow on a node.

    Attributes:
        counted: Pod signature → the groups of spreads and anti-affinities that count such a pod, each with the amount one.
        caps: Relaxation step → how many pods each group may count on the node of such a pod, itself included.
        followed: Pod group → the affinity groups whose pods must or should be on the node of such a pod.
    """

    def __init__(self, groups: Sequence[TopologyGroup]) -> None:
        self.counted: Callable[[PodSignature], Amounts] = memo(partial(_counted, groups))
        self.caps: Callable[[RelaxationStep], Amounts] = memo(partial(_caps, groups))
        self.followed: Callable[[PodGroup], frozenset[TopologyGroupId]] = memo(_followed)


def _counted(groups: Sequence[TopologyGroup], signature: PodSignature) -> Amounts:
    has_cap = (SPREAD, ANTI_AFFINITY)
    numbers = (n for n in signature.selected_by if groups[n].is_hostname and groups[n].kind in has_cap)
    return tuple((number, 1) for number in numbers)


def _caps(groups: Sequence[TopologyGroup], step: RelaxationStep) -> Amounts:
    """Return the caps of a step.

    A spread allows its maxSkew: along hostnames the minimum is zero, since a new node is possible.
    """
    found: dict[TopologyGroupId, int] = {}
    for rule in step.host_rules:
        if rule.kind in (SPREAD, ANTI_AFFINITY):
            cap = groups[rule.group].max_skew if rule.kind == SPREAD else int(rule.selects_self)
            found[rule.group] = min(cap, found.get(rule.group, cap))
    return tuple(sorted(found.items()))


def _followed(pod_group: PodGroup) -> frozenset[TopologyGroupId]:
    rules = (rule for step in pod_group.steps[:1] for rule in step.host_rules)
    return frozenset(rule.group for rule in rules if rule.kind == AFFINITY)


def merged(rules: Iterable[tuple[Amounts, Amounts]]) -> tuple[Amounts, Amounts]:
    """Merge (counted, caps) of several pods: the sum of the counts, and all caps.

    Pods that already share a node may exceed one of their caps if each was allowed when it was bound. Their cap is then their
    number.
    """
    counted: dict[TopologyGroupId, int] = {}
    caps: dict[TopologyGroupId, int] = {}
    for more, allowed in rules:
        for number, amount in more:
            counted[number] = counted.get(number, 0) + amount
        for number, cap in allowed:
            caps[number] = min(cap, caps.get(number, cap))
    raised = ((number, max(cap, counted.get(number, 0))) for number, cap in caps.items())
    return tuple(sorted(counted.items())), tuple(sorted(raised))
