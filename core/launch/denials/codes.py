"""Maps EC2's launch error codes to what is remembered about them; one table covers codes in `Errors` and raised ones."""

from __future__ import annotations

from typing import Final

import msgspec

from core.reasons.code import DocumentedCode


class Remembered(DocumentedCode):
    """The scope that launches avoid after a failure."""

    OFFERINGS = (
        "Offerings",
        (
            "The offerings, 3 to 48 minutes for all clusters of the account and region, then until one launch has tried "
            "them; of dedicated hardware or a placement group for the EC2NodeClass."
        ),
    )
    SUBNET = (
        "Subnet",
        "The subnet, for all NodePools: as long as an offering. Its zone is closed only while every subnet there is refused.",
    )
    QUOTA = ("Quota", "Everything of the EC2NodeClass that shares the vCPU quota and the capacity type.")
    CAPACITY_TYPE = ("CapacityType", "Everything of the EC2NodeClass in this capacity type.")
    REQUEST = (
        "Request",
        "Capacity types, zones and instance types that were asked for; after four denials in a row the EC2NodeClass.",
    )
    NODE_CLASS = ("NodeClass", "The EC2NodeClass.")


OF_CAPACITY: Final = (Remembered.OFFERINGS, Remembered.SUBNET, Remembered.QUOTA, Remembered.CAPACITY_TYPE)
"""Scopes of refusals for which another offering may succeed."""


class LaunchErrorRule(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of one code, or of every code with a prefix.

    Attributes:
        code: EC2's error code.
        begins: Whether `code` is a prefix: longer codes that begin with it match, too.
        advice: What a person can do, in one sentence.
    """

    code: str
    remembered: Remembered
    advice: str
    begins: bool = False

    def is_for(self, code: str) -> bool:
        """Whether the rule applies to this code."""
        return code.startswith(self.code) if self.begins else code == self.code


_MORE_OFFERINGS: Final = "Wait, or allow more instance types, zones or capacity types in the NodePool."
_RESERVATION: Final = "Wait, or enlarge the capacity reservation; pods get other capacity if the NodePool allows it."
_PERMISSION: Final = (
    "Permit the action that the message names in the functions' role, or remove the policy that denies it."
)
_IMAGE: Final = "Correct amiSelectorTerms of the EC2NodeClass, or share the image with this account."
_NETWORK: Final = (
    "Correct the selector terms of the EC2NodeClass: what they selected is gone or is not in this account."
)
_TEMPLATE: Final = "Nothing: launch templates are created again. If it persists, find out who deletes them."
_SUPPORT: Final = "Ask AWS Support: the account may not launch this now."

RULES: Final = (
    *(
        LaunchErrorRule(code=code, remembered=Remembered.OFFERINGS, advice=_MORE_OFFERINGS)
        for code in (
            "InsufficientInstanceCapacity",
            "InsufficientHostCapacity",
            "InsufficientReservedInstanceCapacity",
            "InsufficientCapacity",
            "UnfulfillableCapacity",
            "Unsupported",
            "SpotMaxPriceTooLow",
        )
    ),
    *(
        LaunchErrorRule(code=code, remembered=Remembered.OFFERINGS, advice=_RESERVATION, begins=code.endswith("."))
        for code in (
            "ReservationCapacityExceeded",
            "CapacityReservationExpired",
            "InvalidCapacityReservationId.",
            "InvalidCapacityReservationState",
        )
    ),
    LaunchErrorRule(
        code="InsufficientFreeAddressesInSubnet",
        remembered=Remembered.SUBNET,
        advice="Free addresses in the subnet, or let subnetSelectorTerms find further subnets.",
    ),
    LaunchErrorRule(
        code="InsufficientCidrBlocks",
        remembered=Remembered.SUBNET,
        advice="Reserve prefixes in the subnet (a CIDR reservation), or let subnetSelectorTerms find further subnets.",
    ),
    LaunchErrorRule(
        code="VcpuLimitExceeded",
        remembered=Remembered.QUOTA,
        advice="Raise the vCPU quota in Service Quotas, or lower the NodePool's limits.",
    ),
    LaunchErrorRule(
        code="MaxSpotInstanceCountExceeded",
        remembered=Remembered.QUOTA,
        advice="Raise the spot vCPU quota in Service Quotas, or allow on-demand in the NodePool.",
    ),
    LaunchErrorRule(
        code="InstanceLimitExceeded",
        remembered=Remembered.QUOTA,
        advice="Raise the quota of running instances in Service Quotas.",
    ),
    LaunchErrorRule(
        code="AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        remembered=Remembered.CAPACITY_TYPE,
        advice="Create the role once: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
    ),
    *(
        LaunchErrorRule(code=code, remembered=Remembered.NODE_CLASS, advice=_PERMISSION, begins=True)
        for code in ("UnauthorizedOperation", "AccessDenied", "AuthFailure")
    ),
    *(
        LaunchErrorRule(code=code, remembered=Remembered.NODE_CLASS, advice=_TEMPLATE, begins=True)
        for code in ("InvalidLaunchTemplateId.", "InvalidLaunchTemplateName.")
    ),
    *(
        LaunchErrorRule(code=code, remembered=Remembered.NODE_CLASS, advice=_SUPPORT)
        for code in ("PendingVerification", "OptInRequired", "Blocked")
    ),
    *(
        LaunchErrorRule(
            code=code,
            remembered=Remembered.NODE_CLASS,
            advice="Raise this quota in Service Quotas, or delete what uses it up.",
        )
        for code in (
            "MaxFleetCountExceeded",
            "MaxIOPSLimitExceeded",
            "NetworkInterfaceLimitExceeded",
            "TagLimitExceeded",
            "VolumeLimitExceeded",
            "VersionLimitExceeded",
        )
    ),
    LaunchErrorRule(code="InvalidAMIID.", remembered=Remembered.REQUEST, advice=_IMAGE, begins=True),
    *(
        LaunchErrorRule(code=code, remembered=Remembered.REQUEST, advice=_NETWORK, begins=True)
        for code in ("InvalidSubnet", "InvalidGroup", "InvalidSecurityGroup", "InvalidPlacementGroup.")
    ),
    LaunchErrorRule(
        code="NoImageOrSubnet",
        remembered=Remembered.REQUEST,
        advice="Correct amiSelectorTerms and subnetSelectorTerms: they must serve the NodePool's types and zones.",
    ),
    LaunchErrorRule(
        code="NotRendered",
        remembered=Remembered.REQUEST,
        advice="Correct the field that the message names.",
    ),
    LaunchErrorRule(
        code="InvalidSnapshot.",
        remembered=Remembered.REQUEST,
        advice="Correct the snapshot in blockDeviceMappings of the EC2NodeClass.",
        begins=True,
    ),
    *(
        LaunchErrorRule(
            code=code,
            remembered=Remembered.REQUEST,
            advice="Correct blockDeviceMappings of the EC2NodeClass, or allow instance types that support it.",
        )
        for code in ("InvalidBlockDeviceMapping", "EncryptedVolumesNotSupported")
    ),
    LaunchErrorRule(
        code="TagPolicyViolation",
        remembered=Remembered.NODE_CLASS,
        advice="Correct spec.tags of the EC2NodeClass: a tag policy of the organization refuses one of the tags.",
    ),
    LaunchErrorRule(
        code="UnsupportedOperation",
        remembered=Remembered.REQUEST,
        advice="Correct the field of the EC2NodeClass that the message names, or allow other instance types.",
    ),
    LaunchErrorRule(
        code="InvalidUserData.",
        remembered=Remembered.REQUEST,
        advice="Shorten spec.userData of the EC2NodeClass: EC2 takes 16 KB with what the functions add.",
        begins=True,
    ),
    LaunchErrorRule(
        code="InsufficientVolumeCapacity",
        remembered=Remembered.REQUEST,
        advice="Wait, or use another volume type in blockDeviceMappings of the EC2NodeClass.",
    ),
    LaunchErrorRule(
        code="InvalidParameter",
        remembered=Remembered.REQUEST,
        advice="Correct the field of the EC2NodeClass that the message names.",
        begins=True,
    ),
    LaunchErrorRule(
        code="InvalidFleetConfiguration",
        remembered=Remembered.REQUEST,
        advice="Correct the field of the EC2NodeClass that the message names.",
    ),
)

OTHER: Final = LaunchErrorRule(
    code="",
    remembered=Remembered.REQUEST,
    advice="Read EC2's message; correct the EC2NodeClass or the account.",
    begins=True,
)
"""The rule for every code that is not in the table and that a retry does not resolve."""

NOT_RENDERED: Final = "NotRendered"
"""Our own code: the request cannot be rendered, so EC2 is not called."""

NO_IMAGE_OR_SUBNET: Final = "NoImageOrSubnet"
"""Our own code: no instance type of the request has an image for it and a subnet in its zone, so EC2 is not called."""


def rule_of(code: str) -> LaunchErrorRule:
    """Return the first rule that applies to a code."""
    return next((rule for rule in RULES if rule.is_for(code)), OTHER)
