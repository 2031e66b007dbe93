"""Prices of running nodes by their labels."""

from __future__ import annotations

from collections.abc import Mapping

from core import labels
from core.model.catalogue import InstanceType


def type_of(node_labels: Mapping[str, str], types: Mapping[str, InstanceType]) -> InstanceType | None:
    """Return the instance type that the labels name, None if it is not among the types."""
    return types.get(node_labels.get(labels.INSTANCE_TYPE, ""))


def node_price(node_labels: Mapping[str, str], instance_type: InstanceType | None) -> int:
    """Return a running node's price in nano-dollars per hour: that of its offering; 0 if unknown."""
    place = (node_labels.get(labels.ZONE), node_labels.get(labels.CAPACITY_TYPE))
    offered = instance_type.offerings if instance_type is not None else ()
    return min((o.price for o in offered if (o.zone, o.capacity_type) == place), default=0)
