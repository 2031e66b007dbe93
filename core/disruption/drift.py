"""Finds claims that no longer match their NodePool and EC2NodeClass, and why (Karpenter's drift reasons).

Prices, weight, limits, replicas and the disruption policy do not cause drift.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from core import labels
from core.model import plan
from core.model.catalogue import InstanceType
from core.model.node_pool import NodeClass, NodePool
from core.model.plan import NodeClaim
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirements, requirements_of_labels
from core.reasons.nodes import DriftReason

TYPE_CHECK_AGE: Final = timedelta(hours=1)
"""The type of a younger claim is not looked up: a catalogue may lag behind a launch."""


class DriftCheck:
    """Checks each claim of one snapshot. Without `knows_types` it never reports a missing type."""

    def __init__(self, snapshot: Snapshot, *, knows_types: bool = True) -> None:
        self._knows_types = knows_types
        self._now = snapshot.now
        self._catalogue = snapshot.catalogue
        self._classes = {node_class.name: node_class for node_class in snapshot.node_classes}
        self._types: dict[str, dict[str, InstanceType]] = {}
        self._demands: dict[str, Requirements] = {}
        self._images: dict[tuple[str, str], str] = {}

    def reason(self, claim: NodeClaim, pool: NodePool) -> str:
        """Return why the claim has drifted from its pool, empty if it has not.

        A condition Drifted on the claim is trusted without a check.
        """
        condition = claim.conditions.get(plan.DRIFTED)
        if condition is not None and condition.status == "True":
            return condition.reason or plan.DRIFTED
        if not claim.is_true(plan.LAUNCHED):
            return ""
        keys = (labels.NODEPOOL_HASH, labels.NODEPOOL_HASH_VERSION)
        if _hash_differs(claim.annotations, pool.own_annotations, keys):
            return DriftReason.NODE_POOL_DRIFTED
        if not requirements_of_labels(claim.labels).compatible(self._demands_of(pool)):
            return DriftReason.REQUIREMENTS_DRIFTED
        instance_type = self._types_of(pool.node_class.name).get(claim.labels.get(labels.INSTANCE_TYPE, ""))
        old_enough = claim.created_at is not None and self._now - claim.created_at > TYPE_CHECK_AGE
        if self._knows_types and old_enough and not _is_offered(instance_type, claim):
            return DriftReason.INSTANCE_TYPE_NOT_FOUND
        return self._class_reason(claim, pool, instance_type)

    def deselected(self, claim: NodeClaim, pool: NodePool) -> tuple[str, ...]:
        """Return the claim's subnet and reservation, as far as they are drift: the EC2NodeClass no longer names them."""
        node_class = self._classes.get((claim.node_class or pool.node_class).name)
        if node_class is None or not claim.is_true(plan.LAUNCHED):
            return ()
        subnet = claim.subnet_id if _is_outside_subnets(node_class, claim) else ""
        reservation = claim.labels.get(labels.RESERVATION_ID, "") if _reservation_reason(node_class, claim) else ""
        return tuple(filter(None, (subnet, reservation)))

    def _types_of(self, node_class: str) -> dict[str, InstanceType]:
        """Return the types of a class by name."""
        if node_class not in self._types:
            self._types[node_class] = {
                instance_type.name: instance_type for instance_type in self._catalogue.types_for(node_class)
            }
        return self._types[node_class]

    def _demands_of(self, pool: NodePool) -> Requirements:
        if pool.name not in self._demands:
            self._demands[pool.name] = Requirements(pool.written_requirements)
        return self._demands[pool.name]

    def _image_of(self, node_class: NodeClass, claim: NodeClaim, instance_type: InstanceType | None) -> str:
        """Return the image for the claim; claims of one type share it."""
        if instance_type is None:
            return _image_for(node_class, claim, None)
        key = node_class.name, instance_type.name
        if key not in self._images:
            self._images[key] = _image_for(node_class, claim, instance_type)
        return self._images[key]

    def _class_reason(self, claim: NodeClaim, pool: NodePool, instance_type: InstanceType | None) -> str:
        reference = claim.node_class or pool.node_class
        node_class = self._classes.get(reference.name)
        if node_class is None:
            return ""
        keys = (labels.NODECLASS_HASH, labels.NODECLASS_HASH_VERSION)
        if _hash_differs(claim.annotations, node_class.own_annotations, keys):
            return DriftReason.NODE_CLASS_DRIFTED
        wanted = self._image_of(node_class, claim, instance_type)
        if wanted and claim.image_id and claim.image_id != wanted:
            return DriftReason.AMI_DRIFT
        return (
            _network_reason(node_class, claim)
            or _reservation_reason(node_class, claim)
            or _placement_reason(node_class, claim)
        )


def _network_reason(node_class: NodeClass, claim: NodeClaim) -> str:
    """Compare subnet and security groups. An unknown value on either side is not drift."""
    groups = frozenset(node_class.security_groups)
    if groups and claim.security_groups and groups != frozenset(claim.security_groups):
        return DriftReason.SECURITY_GROUP_DRIFT
    return DriftReason.SUBNET_DRIFT if _is_outside_subnets(node_class, claim) else ""


def _is_outside_subnets(node_class: NodeClass, claim: NodeClaim) -> bool:
    subnets = [subnet for subnet, _ in node_class.subnets]
    return bool(subnets and claim.subnet_id) and claim.subnet_id not in subnets


def _reservation_reason(node_class: NodeClass, claim: NodeClaim) -> str:
    """Compare reservations. Once a reservation has ended, its claims lose the label and have not drifted (Karpenter)."""
    reservation = claim.labels.get(labels.RESERVATION_ID, "")
    if node_class.reservations is None or not reservation or reservation in node_class.reservations:
        return ""
    return DriftReason.CAPACITY_RESERVATION_DRIFT


def _placement_reason(node_class: NodeClass, claim: NodeClaim) -> str:
    """Compare placement groups. An unknown one on either side is not drift; a changed selector changes the hash."""
    group = claim.labels.get(labels.PLACEMENT_GROUP_ID, "")
    if not node_class.placement_group or not group or group == node_class.placement_group:
        return ""
    return DriftReason.PLACEMENT_GROUP_DRIFT


def _hash_differs(ours: Mapping[str, str], theirs: Mapping[str, str], keys: tuple[str, str]) -> bool:
    """Whether both carry a hash of the same version and the hashes differ. Hashes of different versions cannot be compared."""
    value, version = keys
    if any(key not in side for key in keys for side in (ours, theirs)):
        return False
    return ours[version] == theirs[version] and ours[value] != theirs[value]


def _is_offered(instance_type: InstanceType | None, claim: NodeClaim) -> bool:
    """Whether the claim's type has an offering, available or not, in its zone and capacity type.

    A reserved node may have fallen back to on-demand, so an offering of either capacity type is enough.
    """
    if instance_type is None:
        return False
    zone, capacity_type = claim.labels.get(labels.ZONE), claim.labels.get(labels.CAPACITY_TYPE)
    accepted = (labels.RESERVED, labels.ON_DEMAND) if capacity_type == labels.RESERVED else (capacity_type,)
    return any(
        zone in (None, offering.zone) and (capacity_type is None or offering.capacity_type in accepted)
        for offering in instance_type.offerings
    )


def _image_for(node_class: NodeClass, claim: NodeClaim, instance_type: InstanceType | None) -> str:
    """Return the image that a launch would use for the claim's type today: the first whose requirements it meets.

    A label that the type lacks does not match, as at launch (`core.launch.request`). Otherwise, a node would be replaced again
    and again if the newest image were a variant for accelerators, which it can never get.
    """
    shape = Requirements.from_labels(claim.labels)
    if instance_type is not None:
        shape = instance_type.requirements().without(labels.ZONE, labels.CAPACITY_TYPE)
    for image, requirements in node_class.amis:
        if shape.compatible(Requirements(requirements)):
            return image
    return ""
