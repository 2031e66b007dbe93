"""Our catalogue in the format of Karpenter's kwok provider: the same types, offerings, prices and allocatable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from core import labels
from core.api.objects import JsonObject
from core.model.catalogue import InstanceType, Offering
from core.model.values.requirements import Requirements

NANO: Final = 1_000_000_000
KEPT_BY_KWOK: Final = {"cpu": 100, "memory": 10 * 1024 * 1024}
"""What its kwok provider takes off every type's resources (milli-CPU, bytes); added here, so that our allocatable is left."""


def instance_types(types: Iterable[InstanceType], pool: Requirements) -> list[JsonObject]:
    """The types that a NodePool of these requirements may launch, as its `INSTANCE_TYPES_FILE_PATH` holds them.

    The format has no labels but architecture, system, zone and capacity type. So the NodePool's requirements on other
    labels decide here which types there are, and are left out of the NodePool that Karpenter gets.
    """
    return [_instance_type(one) for one in types if one.requirements().compatible(pool)]


def _instance_type(one: InstanceType) -> JsonObject:
    return {
        "name": one.name,
        "architecture": one.labels[labels.ARCH][0],
        "operatingSystems": list(one.labels[labels.OS]),
        "resources": _resources(one.allocatable()),
        "offerings": [_offering(offering) for offering in one.offerings if offering.available],
    }


def _resources(allocatable: dict[str, int]) -> dict[str, str]:
    whole = {name: amount + KEPT_BY_KWOK.get(name, 0) for name, amount in allocatable.items()}
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in sorted(whole.items())}


def _offering(offering: Offering) -> JsonObject:
    return {
        "Price": offering.price / NANO,
        "Available": True,
        "Requirements": [
            _one_of(labels.CAPACITY_TYPE, [offering.capacity_type]),
            _one_of(labels.ZONE, [offering.zone]),
        ],
    }


def _one_of(key: str, values: Sequence[str]) -> JsonObject:
    return {"key": key, "operator": "In", "values": list(values)}


class Prices:
    """Prices nodes by the labels that both sides' nodes have."""

    def __init__(self, types: Iterable[InstanceType]) -> None:
        self._prices = {(one.name, o.zone, o.capacity_type): o.price for one in types for o in one.offerings}

    def per_hour(self, nodes: Iterable[JsonObject]) -> int:
        """Nano-dollars per hour of all these nodes together; a node without a place yet counts as nothing."""
        keys = (node["metadata"]["labels"] for node in nodes)
        return sum(
            self._prices[found[labels.INSTANCE_TYPE], found[labels.ZONE], found[labels.CAPACITY_TYPE]]
            for found in keys
            if labels.ZONE in found and labels.CAPACITY_TYPE in found
        )
