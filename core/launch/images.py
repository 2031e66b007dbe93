"""Selects the image that an instance type boots from."""

from __future__ import annotations

from core.catalogue.node_class import Ami, EC2NodeClass
from core.model.catalogue import InstanceType
from core.model.values.requirements import Requirement, Requirements


def image_for(instance_type: InstanceType, node_class: EC2NodeClass) -> Ami | None:
    """Return the first resolved image whose requirements the type meets, None where there is none (Karpenter)."""
    carried = Requirements(Requirement.one_of(key, *values) for key, values in instance_type.labels.items())
    for ami in node_class.status.amis:
        asked = Requirements(Requirement.of(r.key, r.operator, r.values) for r in ami.requirements)
        if carried.compatible(asked):
            return ami
    return None
