"""Limits how many volumes a node can attach."""

from __future__ import annotations

from typing import Final

from core.model.storage import EBS_DRIVER
from core.reasons.pod import PodReason
from core.scheduling.capacity.existing_node import Attachments, ExistingNode
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.constraints.constraint import Constraint, PlanStart
from core.scheduling.pods.pod_group import PodGroup, PodSignature
from core.scheduling.pods.volumes import NO_VOLUMES, VolumeNeeds
from core.scheduling.primitives.bit_set import positions
from core.scheduling.primitives.handles import TypeMask

_NONE: Final[Attachments] = frozenset()


class AttachLimits(Constraint):
    """Counts volumes by CSI driver: on existing nodes by their CSINodes, on new ones EBS volumes by instance type.

    A volume that several pods of a node use is attached once.
    """

    label = "attachments"
    reason = PodReason.ATTACH_LIMIT

    def __init__(self, start: PlanStart) -> None:
        self._on_nodes: dict[int, Attachments] = {}
        self._on_claims: dict[int, Attachments] = {}

    @classmethod
    def concerns(cls, signature: PodSignature, volumes: VolumeNeeds) -> bool:
        """Whether the pods attach any volumes."""
        return bool(volumes.attachments)

    @classmethod
    def may_move(cls, pods: PodGroup) -> bool:
        """Only pods without volumes may move: a volume's zone decides the pod's, whether or not it is attached."""
        return pods.volumes == NO_VOLUMES

    def admits(self, node: ExistingNode, pods: PodGroup) -> bool:
        """Whether the limits of the pods' own drivers hold; a driver without a stated limit has none (kube-scheduler)."""
        attached = node.attached | self._on_nodes.get(node.index, _NONE) | set(pods.volumes.attachments)
        for driver in sorted({driver for driver, _ in pods.volumes.attachments}):
            limit = node.attach_limits.get(driver)
            if limit is not None and sum(1 for owner, _ in attached if owner == driver) > limit:
                return False
        return True

    def reserve_on_node(self, node: ExistingNode, pods: PodGroup) -> None:
        """Attach the volumes."""
        self._on_nodes[node.index] = self._on_nodes.get(node.index, _NONE).union(pods.volumes.attachments)

    def types(self, claim: InFlightClaim, pods: PodGroup) -> TypeMask:
        """Types that can attach the volumes of the claim's pods and these."""
        attached = self._on_claims.get(claim.index, _NONE).union(pods.volumes.attachments)
        return claim.template.types.room.attach_mask(sum(1 for driver, _ in attached if driver == EBS_DRIVER))

    def nearest_miss(self, template: NodeClaimTemplate, mask: TypeMask, pods: PodGroup) -> str:
        """Return the type that can attach most."""
        types = [template.types.types[position] for position in positions(mask)]
        limits = [(found.attach_limit, found.name) for found in types if found.attach_limit is not None]
        if not limits:
            return ""
        volumes = sum(1 for driver, _ in pods.volumes.attachments if driver == EBS_DRIVER)
        most = max(limit for limit, _ in limits)
        name = min(name for limit, name in limits if limit == most)
        return f"the pod has {volumes} EBS volumes, and {name} attaches {most}"

    def reserve_on_claim(self, claim: InFlightClaim, pods: PodGroup) -> None:
        """Attach the volumes."""
        self._on_claims[claim.index] = self._on_claims.get(claim.index, _NONE).union(pods.volumes.attachments)
