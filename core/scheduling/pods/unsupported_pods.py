"""Recognizes pods that no node could help: Karpenter refuses to plan for them."""

from __future__ import annotations

from core import labels
from core.model.pod import PodSpec
from core.model.values.label_syntax import requirement_fault
from core.reasons.pod import PodReason
from core.scheduling.pods.preferences import required_alternatives
from core.scheduling.pods.volumes import VolumeNeeds


def why_unsupported(spec: PodSpec, needs: VolumeNeeds, well_known: frozenset[str]) -> tuple[str, str]:
    """Return code and text, both empty for a pod that can be planned for.

    Args:
        spec: The pod.
        needs: The requirements of its volumes.
        well_known: Labels that every cloud node gets automatically.
    """
    if spec.problem:
        return PodReason.INVALID_POD, spec.problem
    if spec.resource_claims:
        return PodReason.UNSUPPORTED_RESOURCE_CLAIM, f"it has resource claims: {', '.join(spec.resource_claims)}"
    if any(term.uses_fields for term in spec.required_terms):
        return PodReason.UNSUPPORTED_AFFINITY, "its required node affinity uses matchFields"
    alternatives = required_alternatives(spec)
    if not alternatives:
        return PodReason.UNSUPPORTED_AFFINITY, "every alternative of its required node affinity is empty"
    for requirement in (r for alternative in alternatives for r in alternative):
        if requirement.key == labels.NODEPOOL and requirement.operator == "DoesNotExist":
            return PodReason.OPTED_OUT, f"it demands that {labels.NODEPOOL} does not exist"
        if labels.is_restricted(requirement.key) and requirement.key not in well_known:
            return PodReason.RESTRICTED_LABEL, f"it selects nodes by {requirement.key}, which is restricted"
    if needs.reason:
        return needs.reason, needs.message
    faults = (requirement_fault(r) for alternative in needs.alternatives for r in alternative.values())
    fault = next(filter(None, faults), "")
    return (PodReason.INVALID_POD, f"its volumes: {fault}") if fault else ("", "")
