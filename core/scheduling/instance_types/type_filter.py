"""The instance types of one NodePool as bit positions: sets of types are integers, and every answer is remembered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from itertools import compress

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.pod import HostPort
from core.model.values.requirements import Requirement, Requirements
from core.scheduling.instance_types.price_order import PriceOrder
from core.scheduling.instance_types.type_index import Market, TypeIndex, bits, flags_of, market_of
from core.scheduling.primitives.host_ports import conflict
from core.scheduling.primitives.requirement_table import RequirementTable
from core.scheduling.primitives.resource_vector import ResourceAxis, Vector, minus, pareto, within
from core.scheduling.primitives.threshold_index import ThresholdIndex

OFFERING_KEYS = (labels.ZONE, labels.CAPACITY_TYPE, labels.RESERVATION_ID)


class TypeFilter:
    """Which types are left under given requirements, resources, ports and volumes.

    Types are in order of name; bit i stands for `types[i]`. A type without an available offering has no bit in any answer.

    Attributes:
        full: All types.
        room: What pods may request on each type once its DaemonSets' pods are there.
    """

    def __init__(
        self, index: TypeIndex, catalogue_keys: frozenset[str], table: RequirementTable, axis: ResourceAxis
    ) -> None:
        self._index = index
        self._catalogue_keys = catalogue_keys
        self.types: tuple[InstanceType, ...] = index.types
        self._names = [one.name for one in self.types]
        self.full = (1 << len(self.types)) - 1
        self.table = table
        self._axis = axis
        self.room: list[Vector] = [axis.vector(amounts) for amounts in index.allocatable]
        self.overhead: list[Vector] = [axis.zero] * len(self.types)
        self.daemon_ports: list[tuple[HostPort, ...]] = [()] * len(self.types)
        self._masks: dict[int, int] = {}
        self._label_masks: dict[Requirement, int] = {}
        self._market_masks: dict[tuple[Requirement | None, ...], int] = {}
        self._by_room: list[ThresholdIndex] = []
        self._by_capacity: dict[str, ThresholdIndex] = {}
        self._met_markets: dict[int, tuple[Market, ...]] = {}
        self._priced: dict[int, PriceOrder] = {}
        self._fronts: dict[int, tuple[Vector, ...]] = {}
        self._cheapest: dict[tuple[int, int], int | None] = {}
        self._values: dict[tuple[int, int, str], tuple[str, ...]] = {}
        self._port_masks: dict[tuple[HostPort, ...], int] = {}
        self._attach_masks: dict[int, int] = {}

    def below(self, price: int) -> TypeFilter:
        """The same types, DaemonSets included, with only the offerings that cost less than `price`.

        What was found out about sizes and labels is shared; what depends on offerings is not.
        """
        cheap: TypeFilter = copy(self)
        cheap._index = self._index.below(price)
        cheap._masks, cheap._market_masks, cheap._met_markets = {}, {}, {}
        cheap._priced, cheap._cheapest, cheap._values = {}, {}, {}
        return cheap

    def reserve(self, overhead: Sequence[Vector], ports: Sequence[tuple[HostPort, ...]]) -> None:
        """Set aside what the DaemonSets' pods take on each type. Once, before anything is asked about room."""
        self.overhead = list(overhead)
        self.daemon_ports = list(ports)
        self.room = [minus(room, taken) for room, taken in zip(self.room, overhead, strict=True)]

    def mask(self, number: int) -> int:
        """Types that meet the requirements and have an available offering that does."""
        known = self._masks.get(number)
        if known is None:
            known = self._masks[number] = self._mask(self.table[number], self.table.needed(number))
        return known

    def label_mask(self, requirement: Requirement) -> int:
        """Types that may carry a label value as required; all where types know nothing of the label."""
        known = self._label_masks.get(requirement)
        if known is None:
            known = self._label_masks[requirement] = self._label_mask(requirement)
        return known

    def market_mask(self, requirements: Requirements) -> int:
        """Types with an available offering in these zones, capacity types and reservations."""
        key = tuple(requirements.get(k) for k in OFFERING_KEYS)
        known = self._market_masks.get(key)
        if known is None:
            known = 0
            for market, mask in self._index.markets.items():
                known |= mask if _market_meets(market, requirements) else 0
            self._market_masks[key] = known
        return known

    def front(self, mask: int) -> tuple[Vector, ...]:
        """The rooms of these types that none of the others exceeds: what fits any type fits one of these."""
        known = self._fronts.get(mask)
        if known is None:
            known = self._fronts[mask] = pareto(self.room[i] for i in positions(mask))
        return known

    def fits(self, mask: int, total: Vector) -> bool:
        """Whether any of these types has room for `total`."""
        return any(within(total, room) for room in self.front(mask))

    def survivors(self, mask: int, total: Vector) -> int:
        """Those of these types that have room for `total`."""
        if not self._by_room and self.types:
            self._by_room.extend(ThresholdIndex(column) for column in zip(*self.room, strict=True))
        for column, amount in zip(self._by_room, total, strict=True):
            mask &= column.at_least(amount)
        return mask

    def capacities(self, resource: str) -> ThresholdIndex:
        """What each type has of a resource before anything is set aside, for limits."""
        known = self._by_capacity.get(resource)
        if known is None:
            known = self._by_capacity[resource] = ThresholdIndex([t.capacity.get(resource, 0) for t in self.types])
        return known

    def port_mask(self, ports: tuple[HostPort, ...]) -> int:
        """Types whose DaemonSets' pods leave these host ports free."""
        if not ports:
            return self.full
        known = self._port_masks.get(ports)
        if known is None:
            known = bits(i for i, taken in enumerate(self.daemon_ports) if not conflict(ports, taken))
            self._port_masks[ports] = known
        return known

    def attach_mask(self, volumes: int) -> int:
        """Types that can attach so many volumes; those with an unknown limit can."""
        known = self._attach_masks.get(volumes)
        if known is None:
            limits = (t.attach_limit for t in self.types)
            known = bits(i for i, limit in enumerate(limits) if limit is None or limit >= volumes)
            self._attach_masks[volumes] = known
        return known

    def names(self, mask: int) -> tuple[str, ...]:
        """The names of these types, in order."""
        return tuple(compress(self._names, flags_of(mask, len(self.types))))

    def least_overhead(self, mask: int) -> Vector:
        """What the DaemonSets' pods take on any of these types at the least."""
        rows = set(compress(self.overhead, flags_of(mask, len(self.types))))
        return tuple(map(min, zip(*rows, strict=True))) if rows else self._axis.zero

    def values(self, mask: int, number: int, key: str) -> tuple[str, ...]:
        """The values of a label that a node of these types may get under the requirements; sorted."""
        question = (mask, number, key)
        known = self._values.get(question)
        if known is None:
            known = self._values[question] = self._values_of(mask, number, key)
        return known

    def _values_of(self, mask: int, number: int, key: str) -> tuple[str, ...]:
        if key in OFFERING_KEYS:
            place = OFFERING_KEYS.index(key)
            return tuple(
                sorted({market[place] for market in self._met(number) if self._index.markets[market] & mask} - {""})
            )
        required = self.table[number].get(key)
        if key == labels.INSTANCE_TYPE:
            return tuple(
                self.types[i].name for i in positions(mask) if required is None or required.has(self.types[i].name)
            )
        if key in self._catalogue_keys:
            carried = ((v, types) for v, types in self._index.by_value.get(key, {}).items() if types & mask)
            return tuple(sorted(v for v, _ in carried if required is None or required.has(v)))
        return required.values if required is not None and required.is_finite else ()

    def distinct(self, mask: int, key: str) -> int:
        """How many values of a label these types have between them, for minValues."""
        if key == labels.INSTANCE_TYPE:
            return mask.bit_count()
        if key in OFFERING_KEYS:
            place = OFFERING_KEYS.index(key)
            return len({market[place] for market, types in self._index.markets.items() if types & mask} - {""})
        return sum(1 for types in self._index.by_value.get(key, {}).values() if types & mask)

    def cheapest(self, mask: int, number: int) -> int | None:
        """The lowest price among these types under the requirements, in nano-dollars per hour."""
        key = (mask, number)
        if key not in self._cheapest:
            first = next(self._all_in_price_order(number).among(mask), None)
            self._cheapest[key] = None if first is None else first[0]
        return self._cheapest[key]

    def in_price_order(self, mask: int, number: int) -> list[tuple[int, int]]:
        """(price, position) of these types, each at its cheapest offering under the requirements; ties by name."""
        return list(self._all_in_price_order(number).among(mask))

    def names_in_price_order(self, mask: int, number: int) -> tuple[str, ...]:
        """The names of these types, in that order."""
        return tuple(map(self._names.__getitem__, self._all_in_price_order(number).positions_among(mask)))

    def markets(self, mask: int, number: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Zones and capacity types in which any of these types is on offer under the requirements."""
        open_ones = [market for market in self._met(number) if self._index.markets[market] & mask]
        return tuple(sorted({zone for zone, _, _ in open_ones})), tuple(sorted({kind for _, kind, _ in open_ones}))

    def priced_markets(self, number: int) -> Iterator[tuple[Market, Sequence[tuple[int, int]]]]:
        """Markets that meet the requirements, each with (price, position) of what is on offer there."""
        return ((market, self._index.prices[market]) for market in self._met(number))

    def meets(self, offering: Offering, requirements: Requirements) -> bool:
        """Whether an offering, available or not, is what the requirements ask for."""
        return _market_meets(market_of(offering), requirements)

    def reservations(self) -> Mapping[str, int]:
        """Reservation id → how many more instances it takes; the least where offerings disagree."""
        return self._index.reservations

    def _met(self, number: int) -> tuple[Market, ...]:
        known = self._met_markets.get(number)
        if known is None:
            requirements = self.table[number]
            known = self._met_markets[number] = tuple(m for m in self._index.markets if _market_meets(m, requirements))
        return known

    def _all_in_price_order(self, number: int) -> PriceOrder:
        known = self._priced.get(number)
        if known is None:
            cheapest: dict[int, int] = {}
            for market in self._met(number):
                for price, position in self._index.prices[market]:
                    cheapest[position] = min(price, cheapest.get(position, price))
            known = self._priced[number] = PriceOrder(cheapest, len(self.types))
        return known

    def _mask(self, requirements: Requirements, needed: frozenset[str]) -> int:
        mask = self._index.sound & self.market_mask(requirements)
        for key in needed:
            mask &= self.label_mask(Requirement(key))
        for key, requirement in requirements.items():
            if key not in OFFERING_KEYS:
                mask &= self.label_mask(requirement)
        return mask

    def _label_mask(self, requirement: Requirement) -> int:
        if requirement.key == labels.INSTANCE_TYPE:
            return bits(i for i, t in enumerate(self.types) if requirement.has(t.name))
        if requirement.key not in self._catalogue_keys:
            return self.full
        mask = carriers = 0
        for value, types in self._index.by_value.get(requirement.key, {}).items():
            carriers |= types
            mask |= types if requirement.has(value) else 0
        return mask | (self.full & ~carriers) if requirement.tolerates_absence else mask


def positions(mask: int) -> Iterator[int]:
    """The set bits, lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _market_meets(market: Market, requirements: Requirements) -> bool:
    for key, value in zip(OFFERING_KEYS, market, strict=True):
        required = requirements.get(key)
        if required is not None and not (required.has(value) if value else required.tolerates_absence):
            return False
    return True
