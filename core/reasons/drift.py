"""Reasons for the drift of a NodeClaim."""

from __future__ import annotations

from core.reasons.code import ReasonCode


class DriftReason(ReasonCode):
    """Karpenter's drift reasons; a condition `Drifted` may carry others."""

    NODE_POOL_DRIFTED = ("NodePoolDrifted", "The template of its NodePool has changed.")
    REQUIREMENTS_DRIFTED = ("RequirementsDrifted", "Its labels no longer meet the requirements of its NodePool.")
    INSTANCE_TYPE_NOT_FOUND = ("InstanceTypeNotFound", "Its instance type is no longer offered in its zone.")
    NODE_CLASS_DRIFTED = ("NodeClassDrifted", "A field of its EC2NodeClass has changed.")
    AMI_DRIFT = ("AMIDrift", "Another image is chosen for its instance type today.")
    SECURITY_GROUP_DRIFT = ("SecurityGroupDrift", "It was launched with other security groups than the class selects.")
    CAPACITY_RESERVATION_DRIFT = (
        "CapacityReservationDrift",
        "It was launched into a capacity reservation that the class no longer selects.",
    )
    PLACEMENT_GROUP_DRIFT = (
        "PlacementGroupDrift",
        "It was launched into another placement group than the class selects today.",
    )
    SUBNET_DRIFT = ("SubnetDrift", "It was launched into a subnet that the class no longer selects.")
