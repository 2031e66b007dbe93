"""Recounts the pods of a changed plan, to check that every rule along shared domains has the counts of the greedy plan."""

from __future__ import annotations

from core.scheduling.capacity.claim_profile import ClaimProfile, ClaimProfiles
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.solution import Solution
from core.scheduling.pods.pod_group import PodSignature
from core.scheduling.primitives.handles import TopologyGroupId
from core.scheduling.topology.domain_counts import DomainCounts


def recounted(context: SchedulingContext, solution: Solution) -> DomainCounts:
    """Return the counts of every topology group, without the pods that the plan takes from nodes that it removes.

    Counts do not depend on a claim's types, so claims with equal requirements share a profile.
    """
    domain_counts = solution.state.domain_counts.at_start()
    for pod, position in solution.bound:
        domain_counts.record_on_node(context.pod_groups.of(pod).signature, position)
    profiles = ClaimProfiles()
    placed: dict[tuple[PodSignature, ClaimProfile], list[int]] = {}
    for number, claim in enumerate(solution.claims):
        profile = profiles.of(claim.template, claim.reqs, claim.template.mask)
        for pod_group in claim.pod_groups:
            placed.setdefault((pod_group.signature, profile), []).append(number)
    for (signature, profile), claims in placed.items():
        domain_counts.record_on_claims(signature, profile, claims)
    return domain_counts


def keeps_counts(context: SchedulingContext, *, before: DomainCounts, after: DomainCounts) -> bool:
    """Whether every required group along shared domains has as many pods in each domain as before."""
    topology = context.topology
    numbers = (TopologyGroupId(n) for n, group in enumerate(topology.groups) if not group.is_hostname)
    required = (number for number in numbers if topology.is_hard(number))
    return all(_occupied(before, number) == _occupied(after, number) for number in required)


def _occupied(domain_counts: DomainCounts, number: TopologyGroupId) -> dict[str, int]:
    return {domain: count for domain, count in domain_counts.of(number).items() if count}
