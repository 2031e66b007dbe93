"""An in-flight claim: a NodeClaim that the plan fills. Each pod narrows its requirements and types; they never widen again."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from core.catalogue.reservations import paid_for
from core.model.pod import Pod
from core.scheduling.capacity.claim_draft import ClaimDraft
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.pods.pod_group import PodGroup, PodSignature
from core.scheduling.primitives.handles import NO_TYPES, RequirementId, TypeMask
from core.scheduling.primitives.resource_vector import Vector


class InFlightClaim(msgspec.Struct, eq=False):
    """One claim of the plan.

    Attributes:
        index: Its position in the order of opening.
        reqs: Number of its current requirements.
        pod_groups: The groups of its pods, in the same order.
        allowed: Types that constraints allow; requirements and room are checked each time.
        used: The requests of its pods.
        charged: Types for which the pool's limits, if any, were charged.
        reservations: The capacity reservations that it holds a place in.
        commitment: Name of the commitment that fully covers it, empty for none.
        min_values: The pool's minValues as lowered by BestEffort.
    """

    index: int
    template: NodeClaimTemplate
    reqs: RequirementId
    allowed: TypeMask
    used: Vector
    pods: list[Pod] = msgspec.field(default_factory=list)
    pod_groups: list[PodGroup] = msgspec.field(default_factory=list)
    charged: TypeMask = NO_TYPES
    reservations: tuple[str, ...] = ()
    commitment: str = ""
    min_values: Mapping[str, int] = msgspec.field(default_factory=dict)
    min_values_relaxed: bool = False

    @property
    def signatures(self) -> list[PodSignature]:
        """The signatures of its pods, in the same order."""
        return [pod_group.signature for pod_group in self.pod_groups]

    @property
    def draft(self) -> ClaimDraft:
        """What may still change about it: its requirements, types and minValues, with its pods' requests."""
        return ClaimDraft(self.template, self.reqs, self.allowed, self.used, self.min_values)

    @property
    def fitting_types(self) -> TypeMask:
        """The types that it may be launched with: constraints and requirements leave them, and they have room for its pods."""
        types = self.template.types
        return types.room.fitting(types.mask(self.reqs) & self.allowed, self.used)

    @property
    def price(self) -> int:
        """Nano-dollars per hour of the cheapest offering that it may be launched with; nearly zero if it is covered."""
        types = self.template.types
        price = types.cheapest(types.mask(self.reqs) & self.allowed, self.used, self.reqs) or 0
        return paid_for(price) if self.commitment else price

    def add_pod(self, pod: Pod, pod_group: PodGroup) -> None:
        """Add a pod; the caller updates `used` and what depends on it."""
        self.pods.append(pod)
        self.pod_groups.append(pod_group)
