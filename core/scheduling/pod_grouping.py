"""Sorts pods into classes, and says what each asks for, step by step."""

from __future__ import annotations

from collections.abc import Iterator

from core import labels
from core.model.pod import Pod, PodSpec
from core.model.snapshot import Snapshot
from core.model.values.label_syntax import requirement_fault
from core.model.values.taints import PREFER_NO_SCHEDULE
from core.scheduling.pods.pod_group import PodGroup, PodSignature, RelaxationStep, TopologyRule
from core.scheduling.pods.pod_signatures import PodSignatures
from core.scheduling.pods.preferences import PodDemands, relaxation_steps, required_alternatives
from core.scheduling.pods.volumes import NO_VOLUMES, VolumeIndex, VolumeNeeds
from core.scheduling.primitives import reasons
from core.scheduling.primitives.requirement_table import IMPOSSIBLE, RequirementTable
from core.scheduling.primitives.resource_vector import Vector
from core.scheduling.topology.topology import Topology
from core.scheduling.topology.topology_group import AFFINITY, SPREAD


class PodGroups:
    """Classes of pods and what they ask for, step by step."""

    def __init__(
        self,
        snapshot: Snapshot,
        signatures: PodSignatures,
        volumes: VolumeIndex,
        topology: Topology,
        table: RequirementTable,
    ) -> None:
        self._signatures = signatures
        self._volumes = volumes
        self._topology = topology
        self._table = table
        self._respect = snapshot.options.preference_policy != "Ignore"
        taints = [t for pool in snapshot.node_pools for t in pool.taints]
        taints += [t for node in snapshot.nodes for t in node.taints]
        self._tolerate_at_last = any(taint.effect == PREFER_NO_SCHEDULE for taint in taints)
        self._known: dict[tuple[PodSignature, Vector, VolumeNeeds], PodGroup] = {}
        self._asked: dict[tuple[PodSignature, VolumeNeeds], tuple[tuple[RelaxationStep, ...], str, str]] = {}
        self._steps_made = 0

    def of(self, pod: Pod) -> PodGroup:
        """The class of a pod that needs a place."""
        alike = self._signatures.of(pod)
        if pod.spec.volumes:
            return self._class(alike.signature, alike.requests, self._volumes.needs(pod))
        if alike.pod_group is None:
            alike.pod_group = self._class(alike.signature, alike.requests, NO_VOLUMES)
        return alike.pod_group

    def _class(self, signature: PodSignature, requests: Vector, needs: VolumeNeeds) -> PodGroup:
        question = (signature, requests, needs)
        known = self._known.get(question)
        if known is None:
            known = PodGroup(len(self._known), signature, requests, needs, *self._steps_or_fault(signature, needs))
            self._known[question] = known
        return known

    def _steps_or_fault(
        self, signature: PodSignature, needs: VolumeNeeds
    ) -> tuple[tuple[RelaxationStep, ...], str, str]:
        """What pods of a shape ask for, or why that is hopeless and in which words; whatever their size."""
        question = (signature, needs)
        known = self._asked.get(question)
        if known is None:
            reason, message = self._fault(signature.spec, needs)
            steps = () if reason else tuple(self._steps(signature, needs))
            known = self._asked[question] = (steps, reason, message)
        return known

    def _fault(self, spec: PodSpec, needs: VolumeNeeds) -> tuple[str, str]:
        """Why no node could help, if so (Karpenter refuses to plan for such pods)."""
        if spec.problem:
            return reasons.INVALID_POD, spec.problem
        if spec.resource_claims:
            return reasons.UNSUPPORTED_RESOURCE_CLAIM, f"it has resource claims: {', '.join(spec.resource_claims)}"
        if any(term.uses_fields for term in spec.required_terms):
            return reasons.UNSUPPORTED_AFFINITY, "its required node affinity uses matchFields"
        alternatives = required_alternatives(spec)
        if not alternatives:
            return reasons.UNSUPPORTED_AFFINITY, "every alternative of its required node affinity is empty"
        for requirement in (r for parts in alternatives for r in parts):
            if requirement.key == labels.NODEPOOL and requirement.operator == "DoesNotExist":
                return reasons.OPTED_OUT, f"it demands that {labels.NODEPOOL} does not exist"
            if labels.is_restricted(requirement.key) and requirement.key not in self._table.well_known:
                return reasons.RESTRICTED_LABEL, f"it selects nodes by {requirement.key}, which is restricted"
        if needs.reason:
            return needs.reason, needs.message
        faults = (requirement_fault(r) for alternative in needs.alternatives for r in alternative.values())
        fault = next(filter(None, faults), "")
        return (reasons.INVALID_POD, f"its volumes: {fault}") if fault else ("", "")

    def _steps(self, signature: PodSignature, needs: VolumeNeeds) -> Iterator[RelaxationStep]:
        steps = relaxation_steps(
            signature.spec, signature.spreads, respect=self._respect, tolerate_at_last=self._tolerate_at_last
        )
        for number, demands in enumerate(steps):
            rules = self._topology.rules(signature, demands)
            zone_rules = tuple(rule for rule in rules if not rule.is_hostname)
            own = {rule.key for rule in zone_rules}
            self._steps_made += 1
            yield RelaxationStep(
                index=self._steps_made,
                number=number,
                demands=demands,
                alternatives=self._asks(signature.spec, demands, needs),
                host_rules=tuple(rule for rule in rules if rule.is_hostname),
                zone_rules=zone_rules,
                keys=tuple(sorted({*own, *signature.domain_keys})),
                is_monotone=all(_is_monotone(rule) for rule in rules),
            )

    def _asks(self, spec: PodSpec, demands: PodDemands, needs: VolumeNeeds) -> tuple[int, ...]:
        required = demands.terms[0].requirements if demands.terms else ()
        preferred = demands.preferred_terms[0].term.requirements if demands.preferred_terms else ()
        own = (*spec.node_selector, *required, *preferred)
        found = (self._table.conjunction((*own, *volume.values())) for volume in needs.alternatives)
        return tuple(dict.fromkeys(number for number in found if number != IMPOSSIBLE))


def _is_monotone(rule: TopologyRule) -> bool:
    return rule.kind != AFFINITY and (rule.kind != SPREAD or rule.is_hostname)
