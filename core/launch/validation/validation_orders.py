"""The launches to validate for a changed EC2NodeClass: one instance from each of its images.

Only types that its NodePools may launch are validated (Karpenter): an organization's policy may forbid other types, which says
nothing about the class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from core import labels
from core.catalogue.node_class import EC2NodeClass
from core.launch.images import image_for
from core.model.catalogue import InstanceType, Offering, OfferingKey
from core.model.launch_order import LaunchOrder
from core.model.node_pool import NodePool
from core.pools.admitted_types import admitted_types
from core.pools.pool_template import template_requirements

NAME: Final = "fleetwright-validation"
IMAGES_MAX: Final = 4
"""The most images that are validated; an alias has one for each architecture and kind of accelerator."""

_ASKED: Final = (labels.ON_DEMAND, labels.SPOT)
"""Capacity types to validate, in this order. A reservation is bound to one type and says nothing about others."""

_PLAIN_TYPES: Final = (("m5.large", "amd64"), ("m6g.large", "arm64"))
"""The types to validate before the market was read (Karpenter)."""


def validation_orders(
    node_class: EC2NodeClass,
    manifest: dict[str, Any],
    types: Iterable[InstanceType],
    node_pools: Iterable[NodePool] = (),
    *,
    uses_reservations: bool = True,
) -> tuple[LaunchOrder, ...]:
    """Return one order for each of the first images that a type boots from, of the cheapest such type.

    On-demand comes first; spot is used only if the NodePools admit nothing else.

    Args:
        node_class: The class, resolved.
        manifest: The same as an object.
        types: The instance types of the class; empty if the market was never read.
        node_pools: NodePools of the class. If none of them admits a type, all types count.
        uses_reservations: As of an order.
    """
    chosen: dict[str, InstanceType] = {}
    every = tuple(types)
    for instance_type in _by_price(_admitted(every, node_pools)) or _by_price(every) or _plain_types(node_class):
        ami = image_for(instance_type, node_class)
        if ami is not None:
            chosen.setdefault(ami.id, instance_type)
    asked = [image for image in dict.fromkeys(ami.id for ami in node_class.status.amis) if image in chosen][:IMAGES_MAX]
    return tuple(_order(chosen[image], manifest, uses_reservations=uses_reservations) for image in asked)


def _order(instance_type: InstanceType, manifest: dict[str, Any], *, uses_reservations: bool) -> LaunchOrder:
    return LaunchOrder(
        claim=NAME,
        node_pool="",
        token=NAME,
        offerings=instance_type.offerings,
        node_class=manifest,
        node_labels={},
        taints=(),
        tags={},
        instance_types=(instance_type,),
        uses_reservations=uses_reservations,
    )


def _admitted(types: tuple[InstanceType, ...], node_pools: Iterable[NodePool]) -> Iterator[InstanceType]:
    """Yield the types that each NodePool admits, with the offerings that it admits."""
    keys = frozenset(key for instance_type in types for key in instance_type.labels)
    for pool in node_pools:
        asked = template_requirements(pool)
        # Hundreds of types have offerings in the same few places.
        is_admitted: dict[tuple[str, str, str], bool] = {}
        for found in admitted_types(types, asked, keys):
            for offering in found.offerings:
                place = _place(offering)
                if place not in is_admitted:
                    is_admitted[place] = offering.requirements().conflict(asked) is None
            offerings = tuple(offering for offering in found.offerings if is_admitted[_place(offering)])
            yield msgspec.structs.replace(found, offerings=offerings)


def _place(offering: Offering) -> tuple[str, str, str]:
    """Return the attributes that determine an offering's labels."""
    return offering.zone, offering.capacity_type, offering.reservation_id


def _by_price(types: Iterable[InstanceType]) -> list[InstanceType]:
    """Return the types with available offerings, each with one: on-demand before spot, cheapest first."""
    found: list[tuple[tuple[int, int, OfferingKey], InstanceType]] = []
    for instance_type in types:
        offerings = [o for o in instance_type.offerings if o.available and o.capacity_type in _ASKED]
        best = min(offerings, key=_rank, default=None)
        if best is not None:
            found.append((_rank(best), msgspec.structs.replace(instance_type, offerings=(best,))))
    found.sort(key=lambda pair: pair[0])
    return [instance_type for _, instance_type in found]


def _rank(offering: Offering) -> tuple[int, int, OfferingKey]:
    return _ASKED.index(offering.capacity_type), offering.price, offering.key


def _plain_types(node_class: EC2NodeClass) -> list[InstanceType]:
    zones = sorted({subnet.zone for subnet in node_class.status.subnets})[:1]
    return [
        InstanceType(
            name=name,
            labels={labels.ARCH: (arch,), labels.OS: ("linux", "windows")},
            capacity={},
            offerings=tuple(Offering(name, zone, labels.ON_DEMAND, 0) for zone in zones),
        )
        for name, arch in _PLAIN_TYPES
    ]
