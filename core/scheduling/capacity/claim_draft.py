"""A claim draft: a possible next state of a claim, before it is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.instance_types.min_values import unmet
from core.scheduling.primitives.handles import RequirementId, TypeMask
from core.scheduling.primitives.requirement_table import IMPOSSIBLE
from core.scheduling.primitives.resource_vector import Vector

_NOT_FOR_SALE: Final = 1 << 62
"""Higher than every price: prices in nano-dollars fit 62 bits."""


class ClaimDraft(msgspec.Struct, frozen=True):
    """Requirements, the types that constraints leave, and the requests of all its pods.

    Attributes:
        min_values: Label key → how many distinct values the remaining types must have.
    """

    template: NodeClaimTemplate
    reqs: RequirementId
    allowed: TypeMask
    total: Vector
    min_values: Mapping[str, int] = {}

    @property
    def mask(self) -> TypeMask:
        """The remaining types, regardless of room."""
        return self.template.types.mask(self.reqs) & self.allowed

    @property
    def is_possible(self) -> bool:
        """Whether any remaining type has room."""
        return self.reqs != IMPOSSIBLE and self.template.types.room.fits(self.mask, self.total)

    @property
    def fitting_types(self) -> TypeMask:
        """The remaining types that have room."""
        return self.template.types.room.fitting(self.mask, self.total)

    @property
    def price(self) -> int:
        """The lowest price among the remaining types, higher than every price if there are none."""
        found = self.template.types.offerings.cheapest(self.mask, self.reqs) if self.reqs != IMPOSSIBLE else None
        return _NOT_FOR_SALE if found is None else found

    def narrowed(self, reqs: RequirementId) -> ClaimDraft:
        """Return the draft with other requirements."""
        return ClaimDraft(self.template, reqs, self.allowed, self.total, self.min_values)

    def restricted_to(self, allowed: TypeMask) -> ClaimDraft:
        """Return the draft with these types only."""
        return ClaimDraft(self.template, self.reqs, allowed, self.total, self.min_values)

    def with_min_values(self, min_values: Mapping[str, int]) -> ClaimDraft:
        """Return the draft with minValues."""
        return ClaimDraft(self.template, self.reqs, self.allowed, self.total, min_values)

    def without_min_values(self) -> ClaimDraft:
        """Return the draft without minValues."""
        return ClaimDraft(self.template, self.reqs, self.allowed, self.total)

    def missing_values(self) -> dict[str, int]:
        """Return label key → number of remaining distinct values, for each key with too few for minValues."""
        return unmet(self.template.types, self.fitting_types, self.min_values) if self.min_values else {}
