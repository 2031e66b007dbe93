"""Maps EC2's reasons for the end of an instance whose node never joined to their meaning for further launches.

CreateFleet has succeeded for such instances: only the start shows whether a key may be used, a snapshot exists or a host works.
The codes are those of `StateReason` (EC2's API reference), which are never codes of launch errors.
"""

from __future__ import annotations

from typing import Final

from core.launch.denials.codes import OTHER, LaunchErrorRule, Remembered
from core.model.values.instance_end import InstanceEnd
from core.reasons.termination import TerminationReason

_CLIENT: Final = "Client."
_SERVER: Final = "Server."

BY_SOMEBODY: Final = ("Client.UserInitiated", "Client.InstanceTerminated")
"""Prefixes of the codes for an instance that a user ended, which says nothing about the next launch."""

RULES: Final = (
    LaunchErrorRule(
        code="Client.InternalError",
        remembered=Remembered.NODE_CLASS,
        advice=(
            "Permit the KMS key of blockDeviceMappings, or of the image's snapshots, to the role of the functions, and for "
            "spot to AWSServiceRoleForEC2Spot; or name another key."
        ),
    ),
    LaunchErrorRule(
        code="Client.InvalidSnapshot",
        remembered=Remembered.NODE_CLASS,
        advice="Correct the snapshot in blockDeviceMappings of the EC2NodeClass, or select an image whose snapshots exist.",
        begins=True,
    ),
    LaunchErrorRule(
        code="Client.VolumeLimitExceeded",
        remembered=Remembered.NODE_CLASS,
        advice="Raise the quota of EBS storage in Service Quotas, delete volumes, or ask for smaller ones.",
    ),
    LaunchErrorRule(
        code="Client.InstanceInitiatedShutdown",
        remembered=Remembered.NODE_CLASS,
        advice="Read the instance's console output: its image or spec.userData shuts it down before its node joins.",
    ),
    LaunchErrorRule(code=_CLIENT, remembered=Remembered.NODE_CLASS, advice=OTHER.advice, begins=True),
    *(
        LaunchErrorRule(
            code=code,
            remembered=Remembered.OFFERINGS,
            advice="Wait, or admit more instance types, zones or capacity types in the NodePool.",
        )
        for code in (
            "Server.InsufficientInstanceCapacity",
            "Server.SpotInstanceShutdown",
            "Server.SpotInstanceTermination",
        )
    ),
    LaunchErrorRule(
        code=_SERVER,
        remembered=Remembered.OFFERINGS,
        advice="Nothing: other offerings are launched. If it persists, ask AWS Support.",
        begins=True,
    ),
)


def rule_of_end(code: str) -> LaunchErrorRule | None:
    """Return the rule for an instance that ended for this reason, None where it says nothing about the next launch."""
    if code.startswith(BY_SOMEBODY):
        return None
    return next((rule for rule in RULES if rule.is_for(code)), None)


def termination_reason(end: InstanceEnd) -> TerminationReason | None:
    """Return why the claim of an instance that ended before its node joined is removed; None where the end explains nothing."""
    rule = rule_of_end(end.code)
    if rule is None:
        return None
    is_capacity = rule.remembered is Remembered.OFFERINGS
    return TerminationReason.INSTANCE_WITHDRAWN if is_capacity else TerminationReason.START_FAILED
