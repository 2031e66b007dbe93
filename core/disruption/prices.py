"""Prices a planned claim, and selects those of its instance types that cost less than a bound."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from core import labels
from core.model.catalogue import InstanceType, Offering, paid_for
from core.model.plan import PlannedClaim
from core.model.snapshot import BEST_EFFORT, Snapshot
from core.model.values.requirements import Requirement, Requirements
from core.pools import pool_types

_OF_OFFERINGS: Final = (
    labels.ZONE,
    labels.RESERVATION_ID,
    labels.RESERVATION_TYPE,
    labels.RESERVATION_INTERRUPTIBLE,
)
"""Labels other than the capacity type that differ between the offerings of a type."""


class ReplacementOptions(msgspec.Struct, frozen=True):
    """The instance types of a planned claim, cheapest first, with the offerings that can be launched."""

    claim: PlannedClaim
    types: tuple[tuple[InstanceType, tuple[Offering, ...]], ...]

    @classmethod
    def of(cls, claim: PlannedClaim, snapshot: Snapshot) -> ReplacementOptions:
        """Look up the claim's types among those of its NodePool."""
        types = pool_types(snapshot).by_name(claim.node_pool, claim.node_class.name)
        instance_types = (types[name] for name in claim.instance_types if name in types)
        return cls(claim, ()).with_types(map(_paid_for, instance_types) if claim.commitment else instance_types)

    @property
    def price(self) -> int:
        """Nano-dollars per hour of the cheapest offering."""
        return min(offering.price for _, offerings in self.types for offering in offerings)

    def with_types(self, types: Iterable[InstanceType]) -> ReplacementOptions:
        """Return the same claim with those of these types that can be launched, in price order."""
        admitted = _AdmittedOfferings(self.claim)
        pairs = [(t, tuple(filter(admitted, t.offerings))) for t in types]
        kept = [pair for pair in pairs if pair[1]]
        kept.sort(key=lambda pair: (min(o.price for o in pair[1]), pair[0].name))
        return ReplacementOptions(self.claim, tuple(kept))

    def below(self, price: int) -> ReplacementOptions:
        """Keep only the types whose most expensive launch is below `price`; minValues may then fail, see `missing_values`."""
        return ReplacementOptions(self.claim, tuple(pair for pair in self.types if worst_price(pair[1]) < price))

    def restricted_to(self, capacity_type: str) -> ReplacementOptions:
        """Keep only offerings of this capacity type; none if the claim does not admit it."""
        kept = tuple(admitted for admitted in self.claim.capacity_types if admitted == capacity_type)
        claim = msgspec.structs.replace(self.claim, capacity_types=kept)
        return ReplacementOptions(claim, ()).with_types(t for t, _ in self.types)

    def first(self, count: int) -> ReplacementOptions:
        """Keep only the cheapest `count` types."""
        return ReplacementOptions(self.claim, self.types[:count])

    def missing_values(self) -> str:
        """Return the first label whose minValues the types no longer meet, empty if all are met."""
        for requirement in self.claim.requirements:
            if requirement.min_values is not None and self._needed(requirement, requirement.min_values) is None:
                return requirement.key
        return ""

    def can_launch(self, min_values_policy: str) -> bool:
        """Whether there is a type, and minValues are met or need not be (Karpenter refuses such a claim at its launch)."""
        return bool(self.types) and (min_values_policy == BEST_EFFORT or not self.missing_values())

    def needed_for_min_values(self) -> int:
        """Return how many of the cheapest types it takes to meet all minValues; 0 if there are none."""
        with_minimum = [r for r in self.claim.requirements if r.min_values is not None]
        return max((self._needed(r, r.min_values or 0) or len(self.types) for r in with_minimum), default=0)

    def planned(self) -> PlannedClaim:
        """Return the claim narrowed to these types, and to the zones and capacity types in which they are available."""
        offerings = [offering for _, offers in self.types for offering in offers]
        names = tuple(t.name for t, _ in self.types)
        capacity_types = tuple(sorted({o.capacity_type for o in offerings}))
        narrowed = [
            Requirement(r.key, False, tuple(sorted(names)), min_values=r.min_values)
            if r.key == labels.INSTANCE_TYPE and r.is_finite
            else Requirement(r.key, False, capacity_types, min_values=r.min_values)
            if r.key == labels.CAPACITY_TYPE
            else r
            for r in self.claim.requirements
        ]
        return msgspec.structs.replace(
            self.claim,
            instance_types=names,
            zones=tuple(sorted({o.zone for o in offerings})),
            capacity_types=capacity_types,
            requirements=tuple(narrowed),
            price=self.price,
        )

    def _needed(self, requirement: Requirement, minimum: int) -> int | None:
        seen: set[str] = set()
        for count, (instance_type, offerings) in enumerate(self.types, start=1):
            values = {
                labels.ZONE: [offering.zone for offering in offerings],
                labels.CAPACITY_TYPE: [offering.capacity_type for offering in offerings],
            }.get(requirement.key, instance_type.requirements().of(requirement.key).values)
            seen.update(value for value in values if requirement.has(value))
            if len(seen) >= minimum:
                return count
        return None


def _paid_for(instance_type: InstanceType) -> InstanceType:
    """Return the type at the prices of a claim that a commitment covers."""
    offerings = tuple(
        msgspec.structs.replace(offering, price=paid_for(offering.price)) for offering in instance_type.offerings
    )
    return msgspec.structs.replace(instance_type, offerings=offerings)


class _AdmittedOfferings:
    """Tells which available offerings a claim admits. Hundreds of types share a dozen sets of labels; each is checked once."""

    def __init__(self, claim: PlannedClaim) -> None:
        self._claim = claim
        self._asked = Requirements(r for r in claim.requirements if r.key in _OF_OFFERINGS)
        self._known: dict[tuple[str, ...], bool] = {}

    def __call__(self, offering: Offering) -> bool:
        if not offering.available:
            return False
        place = (offering.zone, offering.capacity_type, *offering.reservation_labels().values())
        admitted = self._known.get(place)
        if admitted is None:
            admitted = self._known[place] = self._admits(offering)
        return admitted

    def _admits(self, offering: Offering) -> bool:
        return (
            offering.zone in self._claim.zones
            and offering.capacity_type in self._claim.capacity_types
            and self._asked.compatible(offering.requirements(), allow_undefined=labels.WELL_KNOWN)
        )


def worst_price(offerings: Iterable[Offering]) -> int:
    """Return the highest price of the capacity type that a launch tries first: reserved, spot, then on-demand."""
    listed = tuple(offerings)
    for capacity_type in labels.CAPACITY_TYPES:
        prices = [o.price for o in listed if o.capacity_type == capacity_type]
        if prices:
            return max(prices)
    return 0
