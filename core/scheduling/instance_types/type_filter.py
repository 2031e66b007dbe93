"""The instance types of one NodePool as bit positions: a set of types is an integer, and all results are cached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import compress

from core.model.catalogue import InstanceType
from core.model.pod import HostPort
from core.model.values.requirements import Requirement
from core.model.values.vcpu_quotas import quota_of
from core.scheduling.instance_types.label_masks import LabelMasks
from core.scheduling.instance_types.type_index import OFFERING_KEYS, TypeIndex
from core.scheduling.instance_types.type_offerings import TypeOfferings
from core.scheduling.instance_types.type_room import TypeRoom
from core.scheduling.primitives.bit_set import flags_of
from core.scheduling.primitives.handles import RequirementId, TypeMask
from core.scheduling.primitives.memo import memo
from core.scheduling.primitives.requirement_table import RequirementTable
from core.scheduling.primitives.resource_vector import ResourceAxis, Vector


class TypeFilter:
    """The types that meet requirements; its attributes have their labels, offerings and room.

    Types are in order of name; bit i stands for `types[i]`. A type without an available offering has no bit in `mask`.

    Attributes:
        full: All types.
        labels: Their labels.
        offerings: Their available offerings.
        room: Their room for pods.
        mask: Requirements → types that meet them and have an available offering that does.
        values: The values of a label that a node of some types may get under requirements; sorted.
        cheapest: A set of types, requests and requirements → the lowest price of those of the types that have room for the
            requests, in nano-dollars per hour; None if there is none.
        quota_members: Capacity type → code of each of EC2's vCPU quotas → types that count in it.
    """

    def __init__(
        self, index: TypeIndex, labels: LabelMasks, offerings: TypeOfferings, room: TypeRoom, table: RequirementTable
    ) -> None:
        self.types: tuple[InstanceType, ...] = index.types
        self.full: TypeMask = index.full
        self.labels = labels
        self.offerings = offerings
        self.room = room
        self.table = table
        self._index = index
        self.mask: Callable[[RequirementId], TypeMask] = memo(partial(_mask, index, labels, offerings, table))
        self.values: Callable[[TypeMask, RequirementId, str], tuple[str, ...]] = memo(
            partial(_values, labels, offerings, table)
        )
        self.cheapest: Callable[[TypeMask, Vector, RequirementId], int | None] = memo(
            partial(_cheapest, offerings, room)
        )
        self.quota_members: Callable[[str], Mapping[str, TypeMask]] = memo(partial(_quota_members, index.names))

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

    def below(self, price: int) -> TypeFilter:
        """Return the same types with only the offerings that cost less than `price`.

        Everything independent of offerings is shared.
        """
        return TypeFilter(self._index, self.labels, self.offerings.below(price), self.room, self.table)

    def with_overhead(self, overhead: Sequence[Vector], daemon_ports: Sequence[tuple[HostPort, ...]]) -> TypeFilter:
        """Return the same types, less these requests and host ports of DaemonSet pods on each."""
        room = self.room.with_overhead(overhead, daemon_ports)
        return TypeFilter(self._index, self.labels, self.offerings, room, self.table)

    def names(self, among: TypeMask) -> tuple[str, ...]:
        """Return the names of these types, in order."""
        return tuple(compress(self._index.names, flags_of(among, len(self.types))))

    def names_in_price_order(self, among: TypeMask, reqs: RequirementId) -> tuple[str, ...]:
        """Return the names of these types, the cheapest under the requirements first; ties by name."""
        return tuple(map(self._index.names.__getitem__, self.offerings.positions_in_price_order(among, reqs)))

    def distinct(self, among: TypeMask, key: str) -> int:
        """Return how many different values of a label these types have together, for minValues."""
        return (self.offerings if key in OFFERING_KEYS else self.labels).distinct(among, key)


def _mask(
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
