"""Reasons for the drift of a NodeClaim."""

from __future__ import annotations

from core.reasons.code import ReasonCode


class DriftReason(ReasonCode):
    """Karpenter's drift reasons; a condition `Drifted` may carry others."""

    NODE_POOL_DRIFTED = ("NodePoolDrifted", "The template of its NodePool has changed.")
    REQUIREMENTS_DRIFTED = ("RequirementsDrifted", "Its labels no longer meet the requirements of its NodePool.")
    INSTANCE_TYPE_NOT_FOUND = ("InstanceTypeNotFound", "Its instance type is no longer offered in its zone.")
    NODE_CLASS_DRIFTED = ("NodeClassDrifted", "A field of its EC2NodeClass has changed.")
    AMI_DRIFT = ("AMIDrift", "A new launch of its instance type would use another image.")
    SECURITY_GROUP_DRIFT = (
        "SecurityGroupDrift",
        "Its security groups at launch differ from those of its EC2NodeClass.",
    )
    CAPACITY_RESERVATION_DRIFT = (
        "CapacityReservationDrift",
        "It was launched into a capacity reservation that its EC2NodeClass no longer selects.",
    )
    PLACEMENT_GROUP_DRIFT = (
        "PlacementGroupDrift",
        "It was launched into another placement group than its EC2NodeClass now selects.",
    )
    SUBNET_DRIFT = ("SubnetDrift", "It was launched into a subnet that its EC2NodeClass no longer selects.")
