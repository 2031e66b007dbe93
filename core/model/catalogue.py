"""Instance types and their offerings."""

from __future__ import annotations

from collections.abc import Container, Iterable
from datetime import timedelta
from typing import Final

import msgspec

from core import labels
from core.interpreter import ByIdentity
from core.model.values import quantity
from core.model.values.requirements import Requirement, Requirements

PRICE_SHARE: Final = 10_000_000
"""The on-demand price divided by this is the price of a prepaid place (Karpenter): smaller machines stay cheaper than larger
ones."""

SERVES_LEAST: Final = timedelta(minutes=10)
"""A capacity block takes a new node only if the node can stay at least this long: its pods run only after several minutes."""


def paid_for(price: int) -> int:
    """Return the price at which prepaid capacity counts, for its on-demand price."""
    return max(1, price // PRICE_SHARE) if price else 0


class OfferingKey(msgspec.Struct, frozen=True, order=True):
    """Identifies an offering without its price: one pool of EC2 capacity."""

    instance_type: str
    zone: str
    capacity_type: str
    reservation_id: str = ""


class Offering(msgspec.Struct, frozen=True, omit_defaults=True):
    """One way to get an instance type.

    Attributes:
        price: Nano-dollars per hour.
        available: False while it is known to be out of capacity; such an offering still prices running nodes.
        reservation_id: The capacity reservation, for capacity type `reserved`.
        reservation_capacity: How many more instances the reservation takes.
        reservation_type: `default` or `capacity-block`; empty if unknown.
        interruptible: Whether the reservation's owner may take the instance back at short notice.
    """

    instance_type: str
    zone: str
    capacity_type: str
    price: int
    available: bool = True
    reservation_id: str = ""
    reservation_capacity: int = 0
    reservation_type: str = ""
    interruptible: bool = False

    @property
    def key(self) -> OfferingKey:
        """Its identity, under which refusals are remembered."""
        return OfferingKey(self.instance_type, self.zone, self.capacity_type, self.reservation_id)

    def reservation_labels(self) -> dict[str, str]:
        """The labels that name the reservation; none for other capacity."""
        if not self.reservation_id:
            return {}
        kind = {labels.RESERVATION_TYPE: self.reservation_type} if self.reservation_type else {}
        interruptible = {labels.RESERVATION_INTERRUPTIBLE: str(self.interruptible).lower()} if kind else {}
        return {labels.RESERVATION_ID: self.reservation_id, **kind, **interruptible}

    def requirements(self) -> Requirements:
        """The labels that a node gets from this offering."""
        demands = [
            Requirement.one_of(labels.ZONE, self.zone),
            Requirement.one_of(labels.CAPACITY_TYPE, self.capacity_type),
        ]
        if self.reservation_id:
            demands += [Requirement.one_of(key, value) for key, value in sorted(self.reservation_labels().items())]
        return Requirements(demands)


def cheapest_first(offerings: Iterable[Offering]) -> list[Offering]:
    """Sort offerings by price, ties by key: the order is total."""
    return sorted(offerings, key=lambda offering: (offering.price, offering.key))


class InstanceType(msgspec.Struct, frozen=True, kw_only=True):
    """An EC2 instance type as one EC2NodeClass sizes it.

    Attributes:
        labels: Every label besides name, zone and capacity type, with the values that it may take (`kubernetes.io/os` may
            have several).
        overhead: What the system, the kubelet and the eviction threshold reserve.
        attach_limit: How many volumes it can attach, None if unknown.
    """

    name: str
    labels: dict[str, tuple[str, ...]]
    capacity: dict[str, int]
    overhead: dict[str, int] = {}
    offerings: tuple[Offering, ...] = ()
    attach_limit: int | None = None

    def allocatable(self) -> dict[str, int]:
        """What pods may request: capacity less overhead, memory also less huge pages, which take no more than there is.

        It is negative where more is reserved than there is: the kubelet of such a node does not start.
        """
        amounts = quantity.subtract(self.capacity, self.overhead)
        amounts = {name: amounts.get(name, 0) for name in self.capacity}
        huge = sum(amount for name, amount in self.capacity.items() if name.startswith("hugepages-"))
        if huge and amounts.get("memory", 0) > 0:
            amounts["memory"] = max(0, amounts["memory"] - huge)
        return amounts

    def requirements(self, among: Container[str] | None = None) -> Requirements:
        """Its labels, name, zones and capacity types as one conjunction; zones and capacity types of available offerings.

        `among`: the keys of its own labels to include, for callers that read no others.
        """
        demands = [
            Requirement.one_of(key, *values)
            for key, values in self.labels.items()
            if among is None or labels.normalized(key) in among
        ]
        demands.append(Requirement.one_of(labels.INSTANCE_TYPE, self.name))
        usable = [offering for offering in self.offerings if offering.available]
        demands.append(Requirement.one_of(labels.ZONE, *(o.zone for o in usable)))
        demands.append(Requirement.one_of(labels.CAPACITY_TYPE, *(o.capacity_type for o in usable)))
        return Requirements(demands)


class Catalogue(msgspec.Struct, frozen=True):
    """All instance types, and the label keys that they make well known.

    Attributes:
        default: Types for every node class without its own; by name.
        by_node_class: Types as one EC2NodeClass sizes them (kubelet settings, subnets), by class name.
    """

    default: tuple[InstanceType, ...] = ()
    by_node_class: dict[str, tuple[InstanceType, ...]] = {}

    def types_for(self, node_class: str) -> tuple[InstanceType, ...]:
        """Return the types that a NodePool of this class may launch."""
        return self.by_node_class.get(node_class, self.default)

    def label_keys(self) -> frozenset[str]:
        """Labels that any type has: well known like zone or arch, so pods may select them although no NodePool names them.

        Labels of placement groups are included although few classes have one: nothing else gives a node such a label.
        """
        every = (self.default, *self.by_node_class.values())
        return _OF_PLACEMENT.union(*(_label_keys(types) for types in every))


_OF_PLACEMENT: Final = frozenset({labels.PLACEMENT_GROUP_ID, labels.PLACEMENT_GROUP_PARTITION})


def _keys_of(types: tuple[InstanceType, ...]) -> frozenset[str]:
    return frozenset(key for instance_type in types for key in instance_type.labels)


_label_keys: Final = ByIdentity(_keys_of, size=16)
