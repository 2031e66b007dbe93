"""Finds the rules along shared topology domains that affect the pods of one signature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.guided_steps import DOMAINS_MAX, RoundRobinPods
from core.scheduling.pods.pod_group import PodGroup
from core.scheduling.topology.topology_group import AFFINITY, SPREAD


class TopologyConflicts(NamedTuple):
    """Waiting signatures that may keep pods of one signature from a place, by topology key.

    Attributes:
        values: The values that any node has or may get.
        repelled: Signatures that anti-affinity, their own or the pods', keeps out of the pods' domains.
        followed: Signatures that an affinity or a spread of the pods counts, so that their domains decide the pods'.
    """

    values: Mapping[str, tuple[str, ...]]
    repelled: Mapping[str, tuple[int, ...]]
    followed: Mapping[str, tuple[int, ...]]

    @property
    def signatures(self) -> tuple[int, ...]:
        """Return all of them, the repelled ones first."""
        sides = (self.repelled, self.followed)
        return tuple(dict.fromkeys(one for side in sides for found in side.values() for one in found))

    def round_robin(self) -> frozenset[RoundRobinPods]:
        """Return all followed signatures, which are to be in every domain."""
        return frozenset((one, key, self.values[key]) for key, found in self.followed.items() for one in found)


def conflicts_of(context: SchedulingContext, pod_group: PodGroup, waiting: frozenset[int]) -> TopologyConflicts:
    """Return the conflicts of a group's pods with the waiting signatures."""
    topology, signature = context.topology, pod_group.signature
    repelled: dict[str, dict[int, None]] = {}
    followed: dict[str, dict[int, None]] = {}
    rules = dict.fromkeys(rule for step in pod_group.steps for rule in step.zone_rules)
    for rule in rules:
        counted = [s.index for s in topology.counted(rule.group) if s.index in waiting and s is not signature]
        side = followed if rule.kind in (AFFINITY, SPREAD) else repelled
        side.setdefault(rule.key, {}).update(dict.fromkeys(counted))
    values = {key: _values(context, key) for key in sorted({rule.key for rule in rules})}
    sides = ({key: tuple(found) for key, found in side.items() if found} for side in (repelled, followed))
    return TopologyConflicts(values, *sides)


def _values(context: SchedulingContext, key: str) -> tuple[str, ...]:
    """Return the first few values of a label, sorted, that existing nodes have or NodePools offer."""
    found = {value for value in context.node_index.domains(key) if value is not None}
    for template in context.templates:
        found.update(template.types.values(template.mask, template.offered, key))
    return tuple(sorted(found))[:DOMAINS_MAX]
