"""Launches that EC2 is asked about for a changed EC2NodeClass: one on-demand instance from each of its images."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from core import labels
from core.catalogue.node_class import EC2NodeClass
from core.launch.images import image_for
from core.model.catalogue import InstanceType, Offering, cheapest_first
from core.model.launch_order import LaunchOrder

NAME: Final = "fleetwright-validation"
IMAGES_MAX: Final = 4
"""Most images that are asked about; an alias has one for each architecture and kind of accelerator."""

_PLAIN_TYPES: Final = (("m5.large", "amd64"), ("m6g.large", "arm64"))
"""What is asked about before the market was read (Karpenter)."""


def validation_orders(
    node_class: EC2NodeClass, manifest: dict[str, Any], types: Iterable[InstanceType], *, uses_reservations: bool = True
) -> tuple[LaunchOrder, ...]:
    """Return one order for each of the first images that a type boots from, of the cheapest such type.

    Args:
        node_class: The class, resolved.
        manifest: The same as an object.
        types: Types as the class shapes them; none: the market was never read.
        uses_reservations: As of an order.
    """
    chosen: dict[str, InstanceType] = {}
    for instance_type in _by_price(types) or _plain_types(node_class):
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


def _by_price(types: Iterable[InstanceType]) -> list[InstanceType]:
    """Return the types with available on-demand offerings, each with its cheapest; cheapest first."""
    found: list[tuple[Offering, InstanceType]] = []
    for instance_type in types:
        ordered = cheapest_first(
            o for o in instance_type.offerings if o.available and o.capacity_type == labels.ON_DEMAND
        )
        if ordered:
            found.append((ordered[0], msgspec.structs.replace(instance_type, offerings=(ordered[0],))))
    found.sort(key=lambda pair: (pair[0].price, pair[0].key))
    return [instance_type for _, instance_type in found]


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
