"""Describes an EC2 instance as a claim's machine: the labels and shape that follow from type, zone and capacity type."""

from __future__ import annotations

import msgspec

from adapters.ports import Instance
from core import labels
from core.catalogue.capacity import EFA
from core.launch.placement import tenancy
from core.lifecycle.records import Machine
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.plan import PlannedClaim


def machine_of(instance: Instance, plan: PlannedClaim, catalogue: Catalogue) -> Machine:
    """Describe `instance`. For a type that is not in the catalogue, shape and labels come from what the node reports."""
    types = catalogue.types_for(plan.node_class.name)
    found = next((known for known in types if known.name == instance.instance_type), None)
    offering = offering_of(instance, found)
    own = {
        labels.INSTANCE_TYPE: instance.instance_type,
        labels.ZONE: instance.zone,
        labels.CAPACITY_TYPE: instance.capacity_type,
        labels.TENANCY: tenancy(plan.requirements),
        **offering.reservation_labels(),
        **_placement_labels(instance),
    }
    return Machine(
        instance_id=instance.instance_id,
        provider_id=instance.provider_id,
        offering=offering,
        image_id=instance.image_id,
        subnet_id=instance.subnet_id,
        security_groups=instance.security_groups,
        labels=(_unknown_partition(found) | _type_labels(found, plan) if found else {}) | own,
        capacity=_attached(found.capacity, instance) if found else {},
        allocatable=_attached(found.allocatable(), instance) if found else {},
    )


def offering_of(instance: Instance, found: InstanceType | None) -> Offering:
    """Return the offering of the instance, with the price of its type if known."""
    return Offering(
        instance_type=instance.instance_type,
        zone=instance.zone,
        capacity_type=instance.capacity_type,
        price=_price(found, instance) if found else 0,
        reservation_id=instance.reservation_id,
        reservation_type=instance.reservation_type,
        interruptible=instance.interruptible,
    )


def with_partition(machine: Machine, instance: Instance) -> Machine:
    """Return the machine with the placement group and the partition that EC2 chose for the instance."""
    return msgspec.structs.replace(machine, labels={**machine.labels, **_placement_labels(instance)})


def lacks_partition(machine: Machine) -> bool:
    """Whether the machine is in a partition that EC2 has not reported yet."""
    return machine.labels.get(labels.PLACEMENT_GROUP_PARTITION) == ""


def _unknown_partition(found: InstanceType) -> dict[str, str]:
    return {labels.PLACEMENT_GROUP_PARTITION: ""} if labels.PLACEMENT_GROUP_PARTITION in found.labels else {}


def _placement_labels(instance: Instance) -> dict[str, str]:
    """Return the instance's own placement labels; others follow from the type's labels and the claim's requirements."""
    partition = str(instance.partition) if instance.partition else ""
    found = {labels.PLACEMENT_GROUP_ID: instance.placement_group, labels.PLACEMENT_GROUP_PARTITION: partition}
    return {key: value for key, value in found.items() if value}


def _attached(resources: dict[str, int], instance: Instance) -> dict[str, int]:
    """Remove EFA if no such interface was launched, although the type supports it (Karpenter)."""
    return {name: amount for name, amount in resources.items() if name != EFA or instance.efa_interfaces}


def _type_labels(found: InstanceType, plan: PlannedClaim) -> dict[str, str]:
    """Return labels with one value unchanged; of several values, the one that the claim's requirements leave (Karpenter)."""
    allowed = {requirement.key: requirement for requirement in plan.requirements}
    chosen: dict[str, str] = {}
    for key, values in sorted(found.labels.items()):
        left = [value for value in values if key not in allowed or allowed[key].has(value)]
        if len(left) == 1:
            chosen[key] = left[0]
    return chosen


def _price(found: InstanceType, instance: Instance) -> int:
    where = (instance.zone, instance.capacity_type, instance.reservation_id)
    return next((o.price for o in found.offerings if (o.zone, o.capacity_type, o.reservation_id) == where), 0)
