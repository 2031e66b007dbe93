"""Instance types as masks: which remain under requirements, offerings, prices and room."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import accumulate, compress
from operator import itemgetter, or_
from typing import Final, NamedTuple

from core import labels
from core.interpreter import ByIdentity
from core.model.catalogue import InstanceType, Offering
from core.model.pod import HostPort, any_conflict
from core.model.values.quotas import quota_of
from core.model.values.requirements import Requirement, Requirements
from core.scheduling.primitives import (
    NO_TYPES,
    RequirementId,
    RequirementTable,
    ResourceAxis,
    ThresholdIndex,
    TypeMask,
    Vector,
    bits,
    flags_of,
    memo,
    minus,
    pareto,
    positions,
)

# Orders types by price once, and yields any subset in that order without sorting.


class PriceOrder:
    """Types with a price, the cheapest first; ties by position."""

    def __init__(self, prices: Mapping[int, int], length: int) -> None:
        """Sort the types.

        Args:
            prices: Position → price.
            length: How many positions there are, including those without a price.
        """
        self._entries = sorted((price, position) for position, price in prices.items())
        self._positions = [position for _, position in self._entries]
        self._length = length
        self._in_order = itemgetter(
            *self._positions, 0, 0
        )  # two more, since itemgetter returns a tuple only for two or more

    def among(self, mask: TypeMask) -> Iterator[tuple[int, int]]:
        """Return (price, position) of the types in the mask."""
        return compress(self._entries, self._flags(mask))

    def positions_among(self, mask: TypeMask) -> Iterator[int]:
        """Return the positions of the types in the mask."""
        return compress(self._positions, self._flags(mask))

    def _flags(self, mask: TypeMask) -> tuple[int, ...]:
        flags: tuple[int, ...] = self._in_order(flags_of(mask, max(1, self._length)))
        return flags


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
        resources: Names of everything that any of them has.
        sound: Types that have what is reserved of them. The kubelet of the others would not start.
        by_value: Label → value → types that may have it.
        offered: Offering labels → types with an available offering that has them.
        prices: Offering labels → (price, position) of those offerings, cheapest first.
        price_order: Several offering labels → the types with an offering that has any of them, each at its cheapest such
            offering.
        reservations: Reservation id → how many more instances it takes; the minimum if offerings disagree.
    """

    def __init__(self, types: Iterable[InstanceType]) -> None:
        self.types = tuple(sorted(types, key=lambda t: t.name))
        self.names = [instance_type.name for instance_type in self.types]
        self.full = TypeMask((1 << len(self.types)) - 1)
        self.allocatable = [t.allocatable() for t in self.types]
        self.resources: frozenset[str] = frozenset().union(*self.allocatable)
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
        names, columns = self._vectors
        if names != axis.names or not names:
            columns = [axis.vector(amounts) for amounts in self.allocatable]
            self._vectors = axis.names, columns
        return columns

    def below(self, price: int) -> TypeIndex:
        """Return the same types with only the offerings that cost less than `price`."""
        cheap = object.__new__(TypeIndex)
        cheap.types, cheap.names, cheap.full = self.types, self.names, self.full
        cheap.allocatable, cheap.resources, cheap.sound = self.allocatable, self.resources, self.sound
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
    reservation = offering.reservation_labels()
    return (offering.zone, offering.capacity_type, *(reservation.get(key, "") for key in labels.RESERVATION_LABELS))


def _labels(types: Sequence[InstanceType]) -> Mapping[str, dict[str, TypeMask]]:
    index: dict[str, dict[str, TypeMask]] = {}
    for position, instance_type in enumerate(types):
        for key, values in instance_type.labels.items():
            masks = index.setdefault(key, {})
            for value in values:
                masks[value] = masks.get(value, TypeMask(0)) | 1 << position
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
    return memo(partial(_index_price_order, prices, length))


def _index_price_order(
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
    places: dict[str, int] = {}
    for offering in (o for t in types for o in t.offerings if o.available and o.reservation_id):
        fewest = places.get(offering.reservation_id, offering.reservation_capacity)
        places[offering.reservation_id] = min(fewest, offering.reservation_capacity)
    return dict(sorted(places.items()))


# Masks of the instance types that have certain labels.


class LabelMasks:
    """The labels of one NodePool's types, regardless of offerings.

    Attributes:
        mask: Requirement → types that may have its label as required; all types if no type has the label.
    """

    def __init__(self, index: TypeIndex, catalogue_keys: frozenset[str]) -> None:
        self._index = index
        self._catalogue_keys = catalogue_keys
        self.mask: Callable[[Requirement], TypeMask] = memo(partial(_label_mask, index, catalogue_keys))

    def values(self, among: TypeMask, key: str, required: Requirement | None) -> tuple[str, ...]:
        """Return the values of a label that a node of these types may get and the requirement admits; sorted."""
        if key == labels.INSTANCE_TYPE:
            names = (self._index.types[position].name for position in positions(among))
            return tuple(name for name in names if required is None or required.has(name))
        if key in self._catalogue_keys:
            carried = (value for value, types in self._index.by_value.get(key, {}).items() if types & among)
            return tuple(sorted(value for value in carried if required is None or required.has(value)))
        return required.values if required is not None and required.is_finite else ()

    def distinct(self, among: TypeMask, key: str, required: Requirement | None) -> int:
        """Return how many different values of a label these types have together that the requirement admits."""
        if key == labels.INSTANCE_TYPE:
            return among.bit_count()
        carried = (value for value, types in self._index.by_value.get(key, {}).items() if types & among)
        return sum(1 for value in carried if required is None or required.has(value))


def _label_mask(index: TypeIndex, catalogue_keys: frozenset[str], requirement: Requirement) -> TypeMask:
    if requirement.key == labels.INSTANCE_TYPE:
        return TypeMask(bits(i for i, instance_type in enumerate(index.types) if requirement.has(instance_type.name)))
    if requirement.key not in catalogue_keys:
        return index.full
    mask = carriers = TypeMask(0)
    for value, types in index.by_value.get(requirement.key, {}).items():
        carriers |= types
        mask |= types if requirement.has(value) else 0
    return mask | (index.full & ~carriers) if requirement.tolerates_absence else mask


# The offerings of instance types under requirements.


OfferingRequirements = tuple[Requirement | None, ...]
"""The requirement on each of `OFFERING_KEYS`."""


class ReservedOfferings(NamedTuple):
    """The offerings of one capacity reservation.

    Attributes:
        types: The types that it has.
        prices: (price, position) of its offerings, the cheapest first.
        by_labels: The labels of its offerings, each with the types that have such an offering.
    """

    types: TypeMask
    prices: Sequence[tuple[int, int]]
    by_labels: Sequence[tuple[OfferingLabels, TypeMask]]

    def price(self, among: TypeMask) -> int:
        """Return the lowest price of one of these types, of which it has at least one."""
        return next(price for price, position in self.prices if among >> position & 1)

    def values(self, among: TypeMask, keys: Iterable[str]) -> frozenset[tuple[str, str]]:
        """Return (key, value) of these of `OFFERING_KEYS` that its offerings of these types have."""
        places = [(key, OFFERING_KEYS.index(key)) for key in keys]
        offered = [values for values, types in self.by_labels if types & among]
        return frozenset((key, values[place]) for values in offered for key, place in places if values[place])


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
        self._reserved: Callable[[RequirementId], Mapping[str, ReservedOfferings]] = memo(
            partial(_reserved, index, self._met)
        )
        self.cheapest: Callable[[TypeMask, RequirementId], int | None] = memo(
            partial(_cheapest_offering, self._price_order)
        )

    def below(self, price: int) -> TypeOfferings:
        """Return only the offerings that cost less than `price`."""
        return TypeOfferings(self._index.below(price), self._table)

    def mask(self, requirements: Requirements) -> TypeMask:
        """Return types with an available offering in these zones, capacity types and reservations."""
        return self._mask(_of_offerings(requirements))

    def in_price_order(self, among: TypeMask, reqs: RequirementId) -> list[tuple[int, int]]:
        """Return (price, position) of these types, each at its cheapest offering under the requirements; ties by name."""
        return list(self._price_order(reqs).among(among))

    def first_in_price_order(self, among: TypeMask, reqs: RequirementId) -> tuple[int, int]:
        """Return the first of these: the cheapest type; some type has an offering."""
        return next(iter(self._price_order(reqs).among(among)))

    def positions_in_price_order(self, among: TypeMask, reqs: RequirementId) -> Iterator[int]:
        """Return the positions of these types, in that order."""
        return self._price_order(reqs).positions_among(among)

    def zones_and_capacity_types(self, among: TypeMask, reqs: RequirementId) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return zones and capacity types in which any of these types has an offering under the requirements."""
        met = [values for values in self._met(reqs) if self._index.offered[values] & among]
        return tuple(sorted({zone for zone, *_ in met})), tuple(sorted({capacity for _, capacity, *_ in met}))

    def values(self, among: TypeMask, reqs: RequirementId, key: str) -> tuple[str, ...]:
        """Return the values of one of `OFFERING_KEYS` among the offerings of these types under the requirements; sorted."""
        place = OFFERING_KEYS.index(key)
        offered = self._index.offered
        return tuple(sorted({values[place] for values in self._met(reqs) if offered[values] & among} - {""}))

    def of_reservations(self, reqs: RequirementId) -> Mapping[str, ReservedOfferings]:
        """Return reservation id → its offerings under the requirements, in order of id."""
        return self._reserved(reqs)

    def by_labels(self, reqs: RequirementId) -> Iterator[tuple[OfferingLabels, Sequence[tuple[int, int]]]]:
        """Return offering labels that meet the requirements, each with (price, position) of its offerings."""
        return ((values, self._index.prices[values]) for values in self._met(reqs))


def meets(offering: Offering, requirements: Requirements) -> bool:
    """Whether an offering, available or not, meets the requirements."""
    return _meets(offering_labels(offering), _of_offerings(requirements))


def _of_offerings(requirements: Requirements) -> OfferingRequirements:
    return tuple(requirements.get(key) for key in OFFERING_KEYS)


def _mask(index: TypeIndex, required: OfferingRequirements) -> TypeMask:
    mask = TypeMask(0)
    for values, types in index.offered.items():
        mask |= types if _meets(values, required) else 0
    return mask


def _met(index: TypeIndex, table: RequirementTable, reqs: RequirementId) -> tuple[OfferingLabels, ...]:
    required = _of_offerings(table[reqs])
    return tuple(values for values in index.offered if _meets(values, required))


def _reserved(
    index: TypeIndex, met: Callable[[RequirementId], tuple[OfferingLabels, ...]], reqs: RequirementId
) -> Mapping[str, ReservedOfferings]:
    place = OFFERING_KEYS.index(labels.RESERVATION_ID)
    by_labels: dict[str, list[tuple[OfferingLabels, TypeMask]]] = {}
    for values in met(reqs):
        if values[place]:
            by_labels.setdefault(values[place], []).append((values, index.offered[values]))
    reservations: dict[str, ReservedOfferings] = {}
    for identity in sorted(by_labels):
        prices = sorted(entry for values, _ in by_labels[identity] for entry in index.prices[values])
        types = reduce(or_, (types for _, types in by_labels[identity]), NO_TYPES)
        reservations[identity] = ReservedOfferings(TypeMask(types), prices, by_labels[identity])
    return reservations


def _price_order(
    index: TypeIndex, met: Callable[[RequirementId], tuple[OfferingLabels, ...]], reqs: RequirementId
) -> PriceOrder:
    return index.price_order(met(reqs))


def _cheapest_offering(
    price_order: Callable[[RequirementId], PriceOrder], among: TypeMask, reqs: RequirementId
) -> int | None:
    first = next(price_order(reqs).among(among), None)
    return None if first is None else first[0]


def _meets(values: OfferingLabels, required: OfferingRequirements) -> bool:
    for value, requirement in zip(values, required, strict=True):
        if requirement is not None and not (requirement.has(value) if value else requirement.tolerates_absence):
            return False
    return True


# Room of instance types for pods: resources, host ports and volumes, less DaemonSet pods.


DaemonLoad = tuple[TypeMask, Vector, tuple[HostPort, ...]]
"""Types, and the requests and host ports of the DaemonSets' pods that each of them carries."""


class TypeRoom:
    """The room of each type for pods, regardless of price.

    Attributes:
        vectors: [position], what pods may request.
        front: A set of types → the Pareto-maximal vectors among them: requests that fit any type fit one of these.
        capacities: Resource → each type's capacity before overhead, for limits.
        port_mask: Host ports → types whose DaemonSet pods leave them free.
        attach_mask: Number of volumes → types that can attach that many; those with an unknown limit can.
    """

    def __init__(
        self,
        types: Sequence[InstanceType],
        vectors: Sequence[Vector],
        overhead: Sequence[Vector],
        daemon_ports: Sequence[tuple[HostPort, ...]],
    ) -> None:
        """Create the room of some types.

        Args:
            types: The types, in order of name.
            vectors: [position], what pods may request.
            overhead: [position], the requests of DaemonSet pods, already subtracted.
            daemon_ports: [position], the host ports of DaemonSet pods.
        """
        self._types = types
        self._types_by_overhead: Callable[[], Mapping[Vector, TypeMask]] = memo(partial(_by_overhead, overhead))
        self.vectors = vectors
        self._by_resource = [ThresholdIndex(column) for column in zip(*self.vectors, strict=True)]
        self.front: Callable[[TypeMask], tuple[Vector, ...]] = memo(partial(_front, self.vectors))
        self.capacities: Callable[[str], ThresholdIndex] = memo(partial(_capacities, types))
        self.port_mask: Callable[[tuple[HostPort, ...]], TypeMask] = memo(partial(_port_mask, daemon_ports))
        self.attach_mask: Callable[[int], TypeMask] = memo(partial(_attach_mask, types))

    def fits(self, among: TypeMask, total: Vector) -> bool:
        """Whether any of these types has room for `total`."""
        return self.fitting(among, total) != NO_TYPES

    def fitting(self, among: TypeMask, total: Vector) -> TypeMask:
        """Return those of these types that have room for `total`."""
        if among == NO_TYPES:
            return NO_TYPES  # a NodePool without types has no column of any resource
        for column, amount in zip(self._by_resource, total, strict=True):
            among &= column.at_least(amount)
        return among

    def less(self, loads: Iterable[DaemonLoad]) -> TypeRoom:
        """Return the room less the requests and host ports of DaemonSet pods."""
        nothing = tuple(0 for _ in self._by_resource)
        overhead = [nothing] * len(self._types)
        ports: list[tuple[HostPort, ...]] = [()] * len(self._types)
        for carriers, requests, taken in loads:
            for position in positions(carriers):
                overhead[position], ports[position] = requests, taken
        rooms = [minus(room, taken) for room, taken in zip(self.vectors, overhead, strict=True)]
        return TypeRoom(self._types, rooms, overhead, ports)

    def least_overhead(self, among: TypeMask) -> Vector:
        """Return the smallest requests of DaemonSet pods on any of these types."""
        rows = [overhead for overhead, types in self._types_by_overhead().items() if types & among]
        return tuple(map(min, zip(*rows, strict=True))) if rows else tuple(0 for _ in self._by_resource)


def _front(vectors: Sequence[Vector], among: TypeMask) -> tuple[Vector, ...]:
    return pareto(vectors[position] for position in positions(among))


def _by_overhead(overhead: Sequence[Vector]) -> Mapping[Vector, TypeMask]:
    by_overhead: dict[Vector, TypeMask] = {}
    for position, requests in enumerate(overhead):
        by_overhead[requests] = TypeMask(by_overhead.get(requests, NO_TYPES) | 1 << position)
    return by_overhead


def _capacities(types: Sequence[InstanceType], resource: str) -> ThresholdIndex:
    return ThresholdIndex([instance_type.capacity.get(resource, 0) for instance_type in types])


def _port_mask(daemon_ports: Sequence[tuple[HostPort, ...]], ports: tuple[HostPort, ...]) -> TypeMask:
    is_taken = {taken: any_conflict(ports, taken) for taken in dict.fromkeys(daemon_ports)}  # few differ
    return TypeMask(bits(i for i, taken in enumerate(daemon_ports) if not is_taken[taken]))


def _attach_mask(types: Sequence[InstanceType], volumes: int) -> TypeMask:
    limits = (instance_type.attach_limit for instance_type in types)
    return TypeMask(bits(i for i, limit in enumerate(limits) if limit is None or limit >= volumes))


# The instance types of one NodePool as bit positions: a set of types is an integer, and all results are cached.


class TypeFilter:
    """The types that meet requirements; its attributes have their labels, offerings and room.

    Types are in order of name; bit i stands for `types[i]`. A type without an available offering has no bit in `mask`.

    Attributes:
        full: All types.
        sound: Those that have what is reserved of them.
        labels: Their labels.
        offerings: Their available offerings.
        room: Their room for pods.
        mask: Requirements → types that meet them and have an available offering that does.
        values: The values of a label that a node of some types may get under requirements; sorted.
        cheapest: A set of types, requests and requirements → the lowest price of those of the types that have room for the
            requests, in nano-dollars per hour; None if there is none.
        quota_members: Capacity type → code of each of EC2's vCPU quotas → types that count in it.
        less: Loads of DaemonSet pods → the same types with the room that these leave. NodePools with equal loads share the
            result: a room's columns are sorted and its fronts found once, not for each of a hundred NodePools.
    """

    def __init__(
        self, index: TypeIndex, labels: LabelMasks, offerings: TypeOfferings, room: TypeRoom, table: RequirementTable
    ) -> None:
        self.types: tuple[InstanceType, ...] = index.types
        self.full: TypeMask = index.full
        self.sound: TypeMask = index.sound
        self.labels = labels
        self.offerings = offerings
        self.room = room
        self.table = table
        self._index = index
        self.mask: Callable[[RequirementId], TypeMask] = memo(partial(_filter_mask, index, labels, offerings, table))
        self.values: Callable[[TypeMask, RequirementId, str], tuple[str, ...]] = memo(
            partial(_values, labels, offerings, table)
        )
        self.cheapest: Callable[[TypeMask, Vector, RequirementId], int | None] = memo(
            partial(_cheapest, offerings, room)
        )
        self.quota_members: Callable[[str], Mapping[str, TypeMask]] = memo(partial(_quota_members, index.names))
        self.less: Callable[[tuple[DaemonLoad, ...]], TypeFilter] = memo(
            partial(_less, index, labels, offerings, room, table)
        )

    @classmethod
    def of(
        cls, index: TypeIndex, catalogue_keys: frozenset[str], table: RequirementTable, axis: ResourceAxis
    ) -> TypeFilter:
        """Return the types of an index with all their room.

        Args:
            index: The types.
            catalogue_keys: Labels that any instance type has.
            table: The numbers of requirements.
            axis: The relevant resources.
        """
        allocatable = index.vectors(axis)
        nothing = [axis.zero] * len(allocatable)
        room = TypeRoom(index.types, allocatable, nothing, [()] * len(allocatable))
        return cls(index, LabelMasks(index, catalogue_keys), TypeOfferings(index, table), room, table)

    def empty_rooms(self, axis: ResourceAxis) -> Sequence[Vector]:
        """Return [position], what all pods of a node may request together, DaemonSets' included."""
        return self._index.vectors(axis)

    def below(self, price: int) -> TypeFilter:
        """Return the same types with only the offerings that cost less than `price`.

        Everything independent of offerings is shared.
        """
        return TypeFilter(self._index, self.labels, self.offerings.below(price), self.room, self.table)

    def names(self, among: TypeMask) -> tuple[str, ...]:
        """Return the names of these types, in order."""
        return tuple(compress(self._index.names, flags_of(among, len(self.types))))

    def names_in_price_order(self, among: TypeMask, reqs: RequirementId) -> tuple[str, ...]:
        """Return the names of these types, the cheapest under the requirements first; ties by name."""
        return tuple(map(self._index.names.__getitem__, self.offerings.positions_in_price_order(among, reqs)))

    def distinct(self, among: TypeMask, key: str, reqs: RequirementId) -> int:
        """Return how many different values of a label these types leave under the requirements, for minValues (Karpenter).

        What the pods, their volumes and their spreads exclude does not count.
        """
        if key in OFFERING_KEYS:
            return len(self.offerings.values(among, reqs, key))
        return self.labels.distinct(among, key, self.table[reqs].get(key))


def _less(
    index: TypeIndex,
    labels: LabelMasks,
    offerings: TypeOfferings,
    room: TypeRoom,
    table: RequirementTable,
    loads: tuple[DaemonLoad, ...],
) -> TypeFilter:
    return TypeFilter(index, labels, offerings, room.less(loads), table)


def _filter_mask(
    index: TypeIndex, labels: LabelMasks, offerings: TypeOfferings, table: RequirementTable, reqs: RequirementId
) -> TypeMask:
    requirements = table[reqs]
    mask = index.sound & offerings.mask(requirements)
    for key in table.needed(reqs):
        mask &= labels.mask(Requirement(key))
    for key, requirement in requirements.items():
        if key not in OFFERING_KEYS:
            mask &= labels.mask(requirement)
    return mask


def _values(
    labels: LabelMasks,
    offerings: TypeOfferings,
    table: RequirementTable,
    among: TypeMask,
    reqs: RequirementId,
    key: str,
) -> tuple[str, ...]:
    if key in OFFERING_KEYS:
        return offerings.values(among, reqs, key)
    return labels.values(among, key, table[reqs].get(key))


def _cheapest(
    offerings: TypeOfferings, room: TypeRoom, among: TypeMask, total: Vector, reqs: RequirementId
) -> int | None:
    return offerings.cheapest(room.fitting(among, total), reqs)


def _quota_members(names: Sequence[str], capacity_type: str) -> Mapping[str, TypeMask]:
    members: dict[str, TypeMask] = {}
    for position, name in enumerate(names):
        code = quota_of(name).code(capacity_type)
        members[code] = TypeMask(members.get(code, TypeMask(0)) | 1 << position)
    return dict(sorted(members.items()))


# minValues: a claim must leave EC2 enough different instance types to choose from.


def unmet(types: TypeFilter, mask: TypeMask, wanted: Mapping[str, int], reqs: RequirementId) -> dict[str, int]:
    """Return label key → how many distinct values the types have, for each key that has fewer than required."""
    counts = {key: types.distinct(mask, key, reqs) for key in sorted(wanted)}
    return {key: count for key, count in counts.items() if count < wanted[key]}


def cut(types: TypeFilter, mask: TypeMask, reqs: RequirementId, wanted: Mapping[str, int], most: int) -> TypeMask:
    """Return the cheapest `most` of the types in a set; more expensive ones are included where minValues needs them."""
    if mask.bit_count() <= most:
        return mask
    ordered = [position for _, position in types.offerings.in_price_order(mask, reqs)]
    chosen = first_of_each(types, ordered, wanted, reqs)
    for position in ordered:
        if len(chosen) >= most:
            break
        chosen.add(position)
    return TypeMask(bits(chosen))


def first_of_each(types: TypeFilter, ordered: list[int], wanted: Mapping[str, int], reqs: RequirementId) -> set[int]:
    """Return the first types in this order with as many values as required, or with all values if there are fewer."""
    chosen: set[int] = set()
    mask = TypeMask(0)
    for key in sorted(wanted):
        for position in ordered:
            if types.distinct(mask, key, reqs) >= wanted[key]:
                break
            if types.distinct(TypeMask(mask | 1 << position), key, reqs) > types.distinct(mask, key, reqs):
                mask |= 1 << position
                chosen.add(position)
    return chosen
