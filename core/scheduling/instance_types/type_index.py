"""Indexes a list of instance types independently of pods, once for each list."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from operator import or_
from typing import Final

from core import labels
from core.identity_cache import ByIdentity
from core.model.catalogue import InstanceType, Offering
from core.scheduling.instance_types.price_order import PriceOrder
from core.scheduling.primitives.bit_set import bits
from core.scheduling.primitives.handles import TypeMask
from core.scheduling.primitives.memo import memo
from core.scheduling.primitives.resource_vector import ResourceAxis, Vector

OfferingLabels = tuple[str, ...]
"""Values of the labels that a node gets from its offering, in the order of `OFFERING_KEYS`; empty for a label that it does not
get."""

"""Labels that a node gets from its reservation."""

OFFERING_KEYS: Final = (labels.ZONE, labels.CAPACITY_TYPE, *labels.RESERVATION_LABELS)
"""Labels that a node gets from its offering."""

LISTS_REMEMBERED: Final = 16


class TypeIndex:
    """Types in order of name; bit i stands for `types[i]`.

    Attributes:
        full: All types.
        names: Their names, by position.
        sound: Types without negative allocatable resources.
        by_value: Label → value → types that may have it.
        offered: Offering labels → types with an available offering that has them.
        prices: Offering labels → (price, position) of those offerings, cheapest first.
        price_order: Several offering labels → the types with an offering that has any of them, each at its cheapest such
            offering.
        reservations: Reservation id → how many more instances it takes; the minimum if offerings disagree.
    """

    def __init__(self, types: Iterable[InstanceType]) -> None:
        self.types = tuple(sorted(types, key=lambda t: t.name))
        self.names = [one.name for one in self.types]
        self.full = TypeMask((1 << len(self.types)) - 1)
        self.allocatable = [t.allocatable() for t in self.types]
        self.sound = TypeMask(
            bits(i for i, amounts in enumerate(self.allocatable) if all(a >= 0 for a in amounts.values()))
        )
        self.by_value = _labels(self.types)
        self.prices = _prices(self.types)
        self.price_order = _price_orders(self.prices, len(self.types))
        self._cheapest_first = _growing(self.prices)
        self.offered = {values: masks[-1] for values, masks in self._cheapest_first.items()}
        self.reservations = _reservations(self.types)
        self._vectors: tuple[tuple[str, ...], Sequence[Vector]] = (), ()

    def vectors(self, axis: ResourceAxis) -> Sequence[Vector]:
        """Return [position], what pods may request along the axis; the last result is kept, since most snapshots agree."""
        names, found = self._vectors
        if names != axis.names or not names:
            found = [axis.vector(amounts) for amounts in self.allocatable]
            self._vectors = axis.names, found
        return found

    def below(self, price: int) -> TypeIndex:
        """Return the same types with only the offerings that cost less than `price`."""
        cheap = object.__new__(TypeIndex)
        cheap.types, cheap.names, cheap.full = self.types, self.names, self.full
        cheap.allocatable, cheap.sound = self.allocatable, self.sound
        cheap.by_value, cheap.reservations = self.by_value, self.reservations
        cheap._vectors = self._vectors
        counts = {values: bisect_left(entries, (price,)) for values, entries in self.prices.items()}
        cheap.prices = {values: self.prices[values][:count] for values, count in counts.items() if count}
        cheap.offered = {values: self._cheapest_first[values][count] for values, count in counts.items() if count}
        cheap.price_order = _price_orders(cheap.prices, len(self.types))
        cheap._cheapest_first = self._cheapest_first
        return cheap


index_of: Final = ByIdentity(TypeIndex, size=LISTS_REMEMBERED)
"""Returns the cached index of a tuple of types."""


def offering_labels(offering: Offering) -> OfferingLabels:
    """Return the values of `OFFERING_KEYS` on a node that is launched from the offering."""
    if not offering.reservation_id:
        return (offering.zone, offering.capacity_type, "", "", "")
    own = offering.reservation_labels()
    return (offering.zone, offering.capacity_type, *(own.get(key, "") for key in labels.RESERVATION_LABELS))


def _labels(types: Sequence[InstanceType]) -> Mapping[str, dict[str, TypeMask]]:
    index: dict[str, dict[str, TypeMask]] = {}
    for position, instance_type in enumerate(types):
        for key, values in instance_type.labels.items():
            known = index.setdefault(key, {})
            for value in values:
                known[value] = known.get(value, TypeMask(0)) | 1 << position
    return index


def _prices(types: Sequence[InstanceType]) -> dict[OfferingLabels, list[tuple[int, int]]]:
    index: dict[OfferingLabels, list[tuple[int, int]]] = {}
    for position, instance_type in enumerate(types):
        for offering in instance_type.offerings:
            if offering.available:
                index.setdefault(offering_labels(offering), []).append((offering.price, position))
    return {values: sorted(index[values]) for values in sorted(index)}


def _price_orders(
    prices: Mapping[OfferingLabels, Sequence[tuple[int, int]]], length: int
) -> Callable[[tuple[OfferingLabels, ...]], PriceOrder]:
    return memo(partial(_price_order, prices, length))


def _price_order(
    prices: Mapping[OfferingLabels, Sequence[tuple[int, int]]], length: int, wanted: tuple[OfferingLabels, ...]
) -> PriceOrder:
    cheapest: dict[int, int] = {}
    for values in wanted:
        for price, position in prices[values]:
            cheapest[position] = min(price, cheapest.get(position, price))
    return PriceOrder(cheapest, length)


def _growing(prices: Mapping[OfferingLabels, Sequence[tuple[int, int]]]) -> dict[OfferingLabels, list[TypeMask]]:
    """Return offering labels → the sets of the cheapest zero, one, two, … types."""
    # Prefix sums with `or` in place of `+`: the types below a price are the entry at the number of cheaper offerings.
    return {
        values: list(accumulate((TypeMask(1 << position) for _, position in entries), or_, initial=TypeMask(0)))
        for values, entries in prices.items()
    }


def _reservations(types: Sequence[InstanceType]) -> dict[str, int]:
    found: dict[str, int] = {}
    for offering in (o for t in types for o in t.offerings if o.available and o.reservation_id):
        known = found.get(offering.reservation_id, offering.reservation_capacity)
        found[offering.reservation_id] = min(known, offering.reservation_capacity)
    return dict(sorted(found.items()))
