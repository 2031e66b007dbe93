"""Sorts pods into groups of equal ones, and computes each group's relaxation steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import count

from core.model.pod import Pod, PodSpec
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirements
from core.model.values.taints import PREFER_NO_SCHEDULE
from core.scheduling.constraints.constraint import Constraint
from core.scheduling.pods.pod_group import PodGroup, PodSignature, RelaxationStep, TopologyRule
from core.scheduling.pods.pod_signatures import PodSignatures
from core.scheduling.pods.preferences import PodDemands, relaxation_steps
from core.scheduling.pods.unsupported_pods import why_unsupported
from core.scheduling.pods.volumes import NO_VOLUMES, VolumeIndex, VolumeNeeds
from core.scheduling.primitives.handles import PodGroupId, RequirementId, StepId
from core.scheduling.primitives.memo import memo
from core.scheduling.primitives.requirement_table import IMPOSSIBLE, RequirementTable
from core.scheduling.primitives.resource_vector import Vector
from core.scheduling.topology.topology import Topology
from core.scheduling.topology.topology_group import AFFINITY, SPREAD

Steps = tuple[tuple[RelaxationStep, ...], str, str, bool]
"""Relaxation steps of pods; a reason code and a message if no node could help; whether no constraint concerns the pods."""


class PodGroups:
    """The groups of the pods that need a place."""

    def __init__(
        self,
        snapshot: Snapshot,
        signatures: PodSignatures,
        volumes: VolumeIndex,
        topology: Topology,
        table: RequirementTable,
        constraints: Sequence[type[Constraint]],
    ) -> None:
        self._signatures = signatures
        self._volumes = volumes
        self._pins: Mapping[str, Requirements] = {}
        builder = _StepBuilder(snapshot, topology, table, constraints)
        steps: Callable[[PodSignature, VolumeNeeds], Steps] = memo(builder.steps)
        self._group: Callable[[PodSignature, Vector, VolumeNeeds], PodGroup] = memo(partial(_group, count(), steps))

    def pinned(self, pins: Mapping[str, Requirements]) -> PodGroups:
        """Return the same groups with additional node requirements for some pods, by key.

        Unlike a node selector, a pin does not change which nodes the pods' spreads consider.
        """
        pinned = copy(self)
        pinned._pins = pins  # noqa: SLF001 - a copy of our own kind
        return pinned

    def of(self, pod: Pod) -> PodGroup:
        """Return the group of a pod that needs a place."""
        sized = self._signatures.of(pod)
        pin = self._pins.get(pod.key) if self._pins else None
        if pin is not None:
            return self._group(sized.signature, sized.requests, self._volumes.needs(pod).restricted_to(pin))
        if pod.spec.volumes:
            return self._group(sized.signature, sized.requests, self._volumes.needs(pod))
        if sized.group is None:
            sized.group = self._group(sized.signature, sized.requests, NO_VOLUMES)
        return sized.group


def _group(
    numbers: Iterator[int],
    steps: Callable[[PodSignature, VolumeNeeds], Steps],
    signature: PodSignature,
    requests: Vector,
    needs: VolumeNeeds,
) -> PodGroup:
    return PodGroup(PodGroupId(next(numbers)), signature, requests, needs, *steps(signature, needs))


class _StepBuilder:
    """Builds the relaxation steps of pods, regardless of requests; each step has a unique number."""

    def __init__(
        self,
        snapshot: Snapshot,
        topology: Topology,
        table: RequirementTable,
        constraints: Sequence[type[Constraint]],
    ) -> None:
        self._constraints = constraints
        self._topology = topology
        self._table = table
        self._respects_preferences = snapshot.options.preference_policy != "Ignore"
        taints = [t for pool in snapshot.node_pools for t in pool.taints]
        taints += [t for node in snapshot.nodes for t in node.taints]
        self._tolerates_at_last = any(taint.effect == PREFER_NO_SCHEDULE for taint in taints)
        self._numbers = count(1)

    def steps(self, signature: PodSignature, needs: VolumeNeeds) -> Steps:
        """Return the relaxation steps of a signature's pods."""
        reason, message = why_unsupported(signature.spec, needs, self._table.well_known)
        is_plain = not any(constraint.concerns(signature, needs) for constraint in self._constraints)
        return () if reason else tuple(self._built(signature, needs)), reason, message, is_plain

    def _built(self, signature: PodSignature, needs: VolumeNeeds) -> Iterator[RelaxationStep]:
        steps = relaxation_steps(
            signature.spec,
            signature.spreads,
            respect=self._respects_preferences,
            tolerate_at_last=self._tolerates_at_last,
        )
        for number, demands in enumerate(steps):
            rules = self._topology.rules(signature, demands)
            zone_rules = tuple(rule for rule in rules if not rule.is_hostname)
            own = {rule.key for rule in zone_rules}
            yield RelaxationStep(
                index=StepId(next(self._numbers)),
                number=number,
                demands=demands,
                alternatives=self._alternatives(signature.spec, demands, needs),
                host_rules=tuple(rule for rule in rules if rule.is_hostname),
                zone_rules=zone_rules,
                keys=tuple(sorted({*own, *signature.domain_keys})),
                is_monotone=all(_is_monotone(rule) for rule in rules),
            )

    def _alternatives(self, spec: PodSpec, demands: PodDemands, needs: VolumeNeeds) -> tuple[RequirementId, ...]:
        required = demands.terms[0].requirements if demands.terms else ()
        preferred = demands.preferred_terms[0].term.requirements if demands.preferred_terms else ()
        own = (*spec.node_selector, *required, *preferred)
        found = (self._table.conjunction((*own, *volume.values())) for volume in needs.alternatives)
        return tuple(dict.fromkeys(number for number in found if number != IMPOSSIBLE))


def _is_monotone(rule: TopologyRule) -> bool:
    """Whether placing pods never makes the rule easier to meet.

    It does for affinities, which need a matching pod, and for spreads over shared domains, whose skew falls when the emptiest
    domain gets a pod. A spread along hostnames is monotone: its emptiest domain is always an empty node.
    """
    return rule.kind != AFFINITY and (rule.kind != SPREAD or rule.is_hostname)
