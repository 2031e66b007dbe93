"""The offerings of instance types under requirements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from core.model.catalogue import Offering
from core.model.values.requirements import Requirement, Requirements
from core.scheduling.instance_types.price_order import PriceOrder
from core.scheduling.instance_types.type_index import OFFERING_KEYS, OfferingLabels, TypeIndex, offering_labels
from core.scheduling.primitives.handles import RequirementId, TypeMask
from core.scheduling.primitives.memo import memo
from core.scheduling.primitives.requirement_table import RequirementTable

OfferingRequirements = tuple[Requirement | None, ...]
"""The requirement on each of `OFFERING_KEYS`."""


class TypeOfferings:
    """The available offerings of one NodePool's types.

    Attributes:
        reservations: Reservation id → how many more instances it takes; the minimum if offerings disagree.
        cheapest: A set of types and requirements → the lowest price in nano-dollars per hour; None without an offering.
    """

    def __init__(self, index: TypeIndex, table: RequirementTable) -> None:
        self._index = index
        self._table = table
        self.reservations: Mapping[str, int] = index.reservations
        self._mask: Callable[[OfferingRequirements], TypeMask] = memo(partial(_mask, index))
        self._met: Callable[[RequirementId], tuple[OfferingLabels, ...]] = memo(partial(_met, index, table))
        self._price_order: Callable[[RequirementId], PriceOrder] = memo(partial(_price_order, index, self._met))
        self.cheapest: Callable[[TypeMask, RequirementId], int | None] = memo(partial(_cheapest, self._price_order))

    def below(self, price: int) -> TypeOfferings:
        """Return only the offerings that cost less than `price`."""
        return TypeOfferings(self._index.below(price), self._table)

    def mask(self, requirements: Requirements) -> TypeMask:
        """Return types with an available offering in these zones, capacity types and reservations."""
        return self._mask(_of_offerings(requirements))

    def in_price_order(self, among: TypeMask, reqs: RequirementId) -> list[tuple[int, int]]:
        """Return (price, position) of these types, each at its cheapest offering under the requirements; ties by name."""
        return list(self._price_order(reqs).among(among))

    def positions_in_price_order(self, among: TypeMask, reqs: RequirementId) -> Iterator[int]:
        """Return the positions of these types, in that order."""
        return self._price_order(reqs).positions_among(among)

    def zones_and_capacity_types(self, among: TypeMask, reqs: RequirementId) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return zones and capacity types in which any of these types has an offering under the requirements."""
        found = [values for values in self._met(reqs) if self._index.offered[values] & among]
        return tuple(sorted({zone for zone, *_ in found})), tuple(sorted({capacity for _, capacity, *_ in found}))

    def values(self, among: TypeMask, reqs: RequirementId, key: str) -> tuple[str, ...]:
        """Return the values of one of `OFFERING_KEYS` among the offerings of these types under the requirements; sorted."""
        place = OFFERING_KEYS.index(key)
        offered = self._index.offered
        return tuple(sorted({values[place] for values in self._met(reqs) if offered[values] & among} - {""}))

    def distinct(self, among: TypeMask, key: str) -> int:
        """Return how many different values of one of `OFFERING_KEYS` the offerings of these types have."""
        place = OFFERING_KEYS.index(key)
        return len({values[place] for values, types in self._index.offered.items() if types & among} - {""})

    def by_labels(self, reqs: RequirementId) -> Iterator[tuple[OfferingLabels, Sequence[tuple[int, int]]]]:
        """Return offering labels that meet the requirements, each with (price, position) of its offerings."""
        return ((values, self._index.prices[values]) for values in self._met(reqs))


def meets(offering: Offering, requirements: Requirements) -> bool:
    """Whether an offering, available or not, meets the requirements."""
    return _meets(offering_labels(offering), _of_offerings(requirements))


def _of_offerings(requirements: Requirements) -> OfferingRequirements:
    return tuple(requirements.get(key) for key in OFFERING_KEYS)


def _mask(index: TypeIndex, required: OfferingRequirements) -> TypeMask:
    found = TypeMask(0)
    for values, types in index.offered.items():
        found |= types if _meets(values, required) else 0
    return found


def _met(index: TypeIndex, table: RequirementTable, reqs: RequirementId) -> tuple[OfferingLabels, ...]:
    required = _of_offerings(table[reqs])
    return tuple(values for values in index.offered if _meets(values, required))


def _price_order(
    index: TypeIndex, met: Callable[[RequirementId], tuple[OfferingLabels, ...]], reqs: RequirementId
) -> PriceOrder:
    return index.price_order(met(reqs))


def _cheapest(price_order: Callable[[RequirementId], PriceOrder], among: TypeMask, reqs: RequirementId) -> int | None:
    first = next(price_order(reqs).among(among), None)
    return None if first is None else first[0]


def _meets(values: OfferingLabels, required: OfferingRequirements) -> bool:
    for value, one in zip(values, required, strict=True):
        if one is not None and not (one.has(value) if value else one.tolerates_absence):
            return False
    return True
