"""Shares the constraints on claims.

Many claims of a plan share a profile: adding a pod has the same result for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.primitives.handles import NO_CLAIMS, ClaimMask, RequirementId, TypeMask
from core.scheduling.primitives.resource_vector import Vector, within


class ClaimProfile(msgspec.Struct, eq=False):
    """A NodePool, requirements, and the types that limits, ports and volumes allow.

    Attributes:
        index: Its number in this plan.
        mask: The remaining types, regardless of room.
        claims: The claims with this profile.
    """

    index: int
    template: NodeClaimTemplate
    reqs: RequirementId
    allowed: TypeMask
    mask: TypeMask
    claims: ClaimMask = NO_CLAIMS
    _front: Sequence[Vector] | None = None

    def holds(self, total: Vector) -> bool:
        """Whether any of its types has room for the requests."""
        if self._front is None:
            self._front = self.template.types.room.front(self.mask)
        for room in self._front:  # noqa: SIM110 - a generator takes twice as long, and this is the most frequent query
            if within(total, room):
                return True
        return False


class ClaimProfiles:
    """All profiles of one plan."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], ClaimProfile] = {}

    def of(self, template: NodeClaimTemplate, reqs: RequirementId, allowed: TypeMask) -> ClaimProfile:
        """Return the profile with these requirements and types."""
        question = (template.index, reqs, allowed)
        known = self._known.get(question)
        if known is None:
            mask = template.types.mask(reqs) & allowed
            known = self._known[question] = ClaimProfile(len(self._known), template, reqs, allowed, mask)
        return known
