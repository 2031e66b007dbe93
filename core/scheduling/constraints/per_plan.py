"""Constraints of a plan as a whole: claims that one pod uses alone, and domains that must stay without nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from core.model.values.requirements import Requirement, Requirements
from core.reasons.pods import PodReason
from core.scheduling.constraints.constraint import Constraint, PlanStart
from core.scheduling.existing_node import ExistingNode
from core.scheduling.new_node import ClaimDraft, InFlightClaim, NodeClaimTemplate
from core.scheduling.pods import PodGroup, PodSignature
from core.scheduling.primitives import IMPOSSIBLE, RequirementId, TopologyGroupId
from core.scheduling.volume_binding import VolumeNeeds

# ReadWriteOncePod claims: one pod at a time uses one, on whichever node.


class ExclusiveClaims(Constraint):
    """Gives each ReadWriteOncePod claim to the first pod that gets a place (kube-scheduler, volumerestrictions).

    A pod that would come first but has no place leaves it to the next. Where a pod on a node uses the claim, `VolumeNeeds` says
    so.
    """

    label = "ReadWriteOncePod claims"
    reason = PodReason.VOLUME_IN_USE

    def __init__(self, start: PlanStart) -> None:
        self._start = start
        self._users: set[str] = set()

    def copy(self) -> ExclusiveClaims:
        """Return an independent copy of the claims in use."""
        other = ExclusiveClaims(self._start)
        other._users = set(self._users)
        return other

    @classmethod
    def concerns(cls, signature: PodSignature, volumes: VolumeNeeds) -> bool:
        """Whether the pods use such a claim."""
        return bool(volumes.exclusive)

    def exhausted(self, pods: PodGroup) -> str:
        """Return which claim another pod of the plan uses; empty if all are free."""
        taken = next((name for name in pods.volumes.exclusive if name in self._users), "")
        claim = f"PersistentVolumeClaim {taken}"
        return f"{claim} is ReadWriteOncePod, and another pod that gets a node uses it" if taken else ""

    def reserve_on_node(self, node: ExistingNode, pods: PodGroup) -> None:
        """Record the pod's claims as used."""
        self._users.update(pods.volumes.exclusive)

    def reserve_on_claim(self, claim: InFlightClaim, pods: PodGroup) -> None:
        """Record the pod's claims as used."""
        self._users.update(pods.volumes.exclusive)


# Domains without nodes, on which places of a spread depend.


class VacantDomain(NamedTuple):
    """A domain without nodes; a placed pod's spread would not admit its place if a node came there.

    Attributes:
        value: None stands for any further node, where each node is a domain.
    """

    group: TopologyGroupId
    key: str
    value: str | None


CountsNewNode = Callable[[TopologyGroupId, RequirementId, NodeClaimTemplate], bool]
"""Whether a new node with these requirements might count for a topology group."""


class VacantDomains(Constraint):
    """Keeps new nodes out of domains whose absence has let a pod have its place.

    For kube-scheduler, a domain exists once any node is there. A pod that was placed because its spread counts no pod of such a
    domain would be refused after a node for other pods had come up there.
    """

    label = "domains that spreads need without nodes"
    reason = PodReason.TOPOLOGY_SPREAD

    def __init__(self, start: PlanStart) -> None:
        self._start = start
        self._table = start.table
        self._vacant: tuple[VacantDomain, ...] = ()
        self._counts: CountsNewNode = lambda *_: False

    def copy(self) -> VacantDomains:
        """Return an independent copy of the domains."""
        other = VacantDomains(self._start)
        other._vacant, other._counts = self._vacant, self._counts
        return other

    def keep(self, domains: Iterable[VacantDomain], counts: CountsNewNode) -> bool:
        """Keep these domains without nodes, too, and return whether that restricts new claims further."""
        before, self._counts = self._vacant, counts
        self._vacant = tuple(dict.fromkeys((*before, *domains)))
        return self._vacant != before

    def narrowed(self, draft: ClaimDraft) -> ClaimDraft:
        """Return the draft outside the domains."""
        if not self._vacant:
            return draft
        barred: dict[str, list[str]] = {}
        for group, key, value in self._vacant:
            there = draft if value is None else draft.narrowed(self._table.with_value(draft.reqs, key, value))
            if not there.is_possible or not self._counts(group, there.reqs, draft.template):
                continue
            if value is None:
                return draft.narrowed(IMPOSSIBLE)
            barred.setdefault(key, []).append(value)
        if not barred:
            return draft
        outside = Requirements(Requirement(key, True, tuple(sorted(barred[key]))) for key in sorted(barred))
        return draft.narrowed(self._table.narrowed(draft.reqs, asked=self._table.intern(outside)))

    def shortage(self, draft: ClaimDraft) -> tuple[str, str]:
        """Report the domains."""
        names = sorted({f"{domain.key} {domain.value or 'of a further node'}" for domain in self._vacant})
        return self.reason, f"a new node in {' or '.join(names)} would break the spread of pods that have their place"

    def replace(self, replaced: Sequence[InFlightClaim], found: Sequence[InFlightClaim]) -> bool:
        """Whether none of the claims found by repacking may enter a domain."""
        return not self._vacant or all(self.narrowed(draft) is draft for draft in (claim.draft for claim in found))
