"""Applies the limits of NodePools.

Limits are never exceeded: each new claim is charged its largest type until it is launched.
"""

from __future__ import annotations

from msgspec.structs import replace

from core.model.values import quantity
from core.reasons.pod import PodReason
from core.scheduling.capacity.claim_draft import ClaimDraft
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.constraints.constraint import Constraint, PlanStart
from core.scheduling.primitives.handles import TypeMask


class NodePoolLimits(Constraint):
    """The remaining NodePool limits of the plan.

    Attributes:
        remaining: [template], the rest of its NodePool's limits.
    """

    def __init__(self, start: PlanStart) -> None:
        self.remaining = [limits.copy() for limits in start.limits]
        self._start = start

    def copy(self) -> NodePoolLimits:
        """Return an independent copy of the remaining limits."""
        return NodePoolLimits(replace(self._start, limits=self.remaining))

    def launchable(self, template: NodeClaimTemplate, among: TypeMask) -> TypeMask:
        """Return types that fit the remaining limits."""
        limits = self.remaining[template.index]
        return limits.mask(template.types, among) if limits.left else among

    def open(self, claim: InFlightClaim) -> None:
        """Charge the limits for the largest type that the claim may become."""
        limits, types = self.remaining[claim.template.index], claim.template.types
        if limits.left:
            claim.charged = claim.fitting_types
            limits.charge(types, claim.charged)

    def shortage(self, draft: ClaimDraft) -> tuple[str, str]:
        """Report the remaining limits."""
        left = self.remaining[draft.template.index].left
        spent = ", ".join(f"{name} {quantity.render(max(0, amount), name)}" for name, amount in left.items())
        return PodReason.LIMIT_REACHED, f"its limits leave {spent}, too little for another node"

    def may_replace(self, claim: InFlightClaim, *, pods_wait: bool) -> bool:
        """Not if pods wait for a NodePool with limits: the greedy plan decides which pods get its last room."""
        return not (pods_wait and self.remaining[claim.template.index].left)
