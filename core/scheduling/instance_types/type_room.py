"""Room of instance types for pods: resources, host ports and volumes, less DaemonSet pods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from core.model.catalogue import InstanceType
from core.model.pod import HostPort
from core.scheduling.primitives.bit_set import bits, positions
from core.scheduling.primitives.handles import NO_TYPES, TypeMask
from core.scheduling.primitives.host_ports import conflict
from core.scheduling.primitives.memo import memo
from core.scheduling.primitives.resource_vector import Vector, minus, pareto
from core.scheduling.primitives.threshold_index import ThresholdIndex


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

    def with_overhead(self, overhead: Sequence[Vector], daemon_ports: Sequence[tuple[HostPort, ...]]) -> TypeRoom:
        """Return the room less these requests and host ports of DaemonSet pods on each type."""
        left = [minus(room, taken) for room, taken in zip(self.vectors, overhead, strict=True)]
        return TypeRoom(self._types, left, overhead, daemon_ports)

    def least_overhead(self, among: TypeMask) -> Vector:
        """Return the smallest requests of DaemonSet pods on any of these types."""
        rows = [overhead for overhead, types in self._types_by_overhead().items() if types & among]
        return tuple(map(min, zip(*rows, strict=True))) if rows else tuple(0 for _ in self._by_resource)


def _front(vectors: Sequence[Vector], among: TypeMask) -> tuple[Vector, ...]:
    return pareto(vectors[position] for position in positions(among))


def _by_overhead(overhead: Sequence[Vector]) -> Mapping[Vector, TypeMask]:
    found: dict[Vector, TypeMask] = {}
    for position, requests in enumerate(overhead):
        found[requests] = TypeMask(found.get(requests, NO_TYPES) | 1 << position)
    return found


def _capacities(types: Sequence[InstanceType], resource: str) -> ThresholdIndex:
    return ThresholdIndex([one.capacity.get(resource, 0) for one in types])


def _port_mask(daemon_ports: Sequence[tuple[HostPort, ...]], ports: tuple[HostPort, ...]) -> TypeMask:
    return TypeMask(bits(i for i, taken in enumerate(daemon_ports) if not conflict(ports, taken)))


def _attach_mask(types: Sequence[InstanceType], volumes: int) -> TypeMask:
    limits = (one.attach_limit for one in types)
    return TypeMask(bits(i for i, limit in enumerate(limits) if limit is None or limit >= volumes))
