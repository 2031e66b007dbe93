"""Keeps pods that consolidation moves in their shared domains, such as zones, if rules count them there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from core import labels
from core.model.plan import PlannedClaim
from core.model.values.requirements import Requirement, Requirements
from core.scheduling.pods import PodGroup
from core.scheduling.topology.domains import DomainCounts
from core.scheduling.topology.groups import Topology


class DomainPins:
    """The pins of one snapshot: with them, counts per domain do not depend on which nodes have gone, or in which order.

    A pod is not pinned to a domain where its own spread has too many pods, as after a scale-in: it could not return there
    (docs/engineering/handbook/topology.md).
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._counts = DomainCounts(topology)

    def of(self, pod_group: PodGroup, domains: Mapping[str, str]) -> Requirements | None:
        """Return the requirements that keep a pod in its domains, None if it may leave them all.

        One that may leave a domain is released from it.

        Args:
            pod_group: The pod's group.
            domains: Topology key along which rules count the pod → the domain of its node.
        """
        held = [
            Requirement.one_of(key, here) for key, here in domains.items() if not self._may_leave(pod_group, key, here)
        ]
        return Requirements(held) if held else None

    def _may_leave(self, pod_group: PodGroup, key: str, here: str) -> bool:
        """Whether the pod's own spread has too many pods in the domain, and no other rule along the key counts the pod."""
        rules = [rule for step in pod_group.steps[-1:] for rule in step.zone_rules if rule.key == key]
        overfull = {rule.group for rule in rules if self._counts.is_overfull(rule, here, pod_group.signature)}
        groups = self._topology.groups
        return bool(overfull) and all(
            number in overfull or groups[number].key != key or not self._topology.is_hard(number)
            for number in pod_group.signature.selected_by
        )


def launched_domains(claim: PlannedClaim, keys: Iterable[str]) -> Requirements:
    """Return the requirements of a new node along these topology keys."""
    launched = launched_labels(claim)
    return Requirements(launched[key] for key in keys if key in launched)


def launched_labels(claim: PlannedClaim) -> Requirements:
    """Return label → the values that a new node may get."""
    launched = {**Requirements.from_labels(claim.labels), **Requirements(claim.requirements)}
    if claim.zones:
        launched[labels.ZONE] = Requirement.one_of(labels.ZONE, *claim.zones)
    if claim.capacity_types:
        launched[labels.CAPACITY_TYPE] = Requirement.one_of(labels.CAPACITY_TYPE, *claim.capacity_types)
    return Requirements(launched.values())
