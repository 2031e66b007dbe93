"""Reasons for the removal of a NodeClaim."""

from __future__ import annotations

from typing import Final

from core.reasons.code import ReasonCode


class TerminationReason(ReasonCode):
    """Code of `commands[].reason` of a disruption plan, of a claim's deletion and of events during its removal."""

    EMPTY = ("Empty", "No pod on the node needs another place.")
    UNDERUTILIZED = ("Underutilized", "Its pods fit elsewhere, or a cheaper node holds them.")
    DRIFTED = ("Drifted", "It no longer matches its NodePool or EC2NodeClass.")
    UNHEALTHY = (
        "Unhealthy",
        "A condition of the node or a status check of EC2 has failed for long; budgets cannot name this reason.",
        "Examine the node that the message names if this happens often.",
    )
    EXPIRED = ("Expired", "It is older than expireAfter.")
    EXPIRED_FORCEFULLY = (
        "ExpiredForcefully",
        "It is older than expireAfter, and its NodePool removes such nodes regardless of budgets and pods.",
        "Remove the annotation `fleetwright.dev/expiry` from the NodePool if budgets should apply.",
    )
    SCHEDULED_CHANGE = (
        "ScheduledChange",
        "AWS will retire or restart the instance in some days; the node is removed within budgets.",
    )
    SCHEDULED_CHANGE_DUE = (
        "ScheduledChangeDue",
        "AWS will retire or restart the instance within hours; the node is removed regardless of budgets.",
        "Read the earlier decisions `ScheduledChangeBlocked` for what blocked its removal.",
    )
    NODE_POOL_DELETED = ("NodePoolDeleted", "Its NodePool was deleted, so its nodes are removed.")
    SCALED_DOWN = ("ScaledDown", "Its NodePool has more nodes than `spec.replicas`.")
    NODE_DELETED = ("NodeDeleted", "The Node was deleted; its pods are evicted normally.")
    NODE_CLAIM_DELETED = ("NodeClaimDeleted", "The NodeClaim was deleted; its pods are evicted normally.")
    INSTANCE_GONE = (
        "InstanceGone",
        "EC2 no longer has the instance.",
        "Find out who terminated it: CloudTrail names the caller.",
    )
    REGISTRATION_TIMEOUT = (
        "RegistrationTimeout",
        "The instance did not join the cluster within 15 minutes.",
        "Check the node role's access entry, subnets, security groups, user data and the instance's console output.",
    )
    INITIALIZATION_TIMEOUT = (
        "InitializationTimeout",
        "The node joined but did not become ready for pods within 15 minutes.",
        "Read the message: the node waits for the removal of a taint, a resource, or the kubelet.",
    )
    SPOT_INTERRUPTED = ("SpotInterrupted", "EC2 reclaims the spot instance within two minutes.")
    RESERVATION_INTERRUPTED = (
        "CapacityReservationInterrupted",
        "The owner of its interruptible capacity reservation reclaims the instance within two minutes.",
    )
    CAPACITY_BLOCK_ENDS = (
        "CapacityBlockEnds",
        "Its capacity block ends soon; EC2 terminates its instances half an hour before the end, UltraServers an hour before.",
        "Extend the block, or allow other capacity in the NodePool for its pods.",
    )
    REBALANCE_RECOMMENDED = (
        "RebalanceRecommended",
        "EC2 reports an elevated risk of interruption for the spot instance.",
        "Set REBALANCE_POLICY to `drain` or `ignore` to choose whether such nodes are drained.",
    )
    INSTANCE_STOPPED = (
        "InstanceStopped",
        "The instance was stopped.",
        "Find out who stopped it: CloudTrail names the caller.",
    )
    INSTANCE_TERMINATED = (
        "InstanceTerminated",
        "The instance was terminated by someone else.",
        "Find out who terminated it: CloudTrail names the caller.",
    )
    START_FAILED = (
        "StartFailed",
        "EC2 ended the instance before its node joined, for a cause that the next one would meet, too.",
        "Condition LaunchDenied of its EC2NodeClass has EC2's code, what to do, and when one launch tries again.",
    )
    INSTANCE_WITHDRAWN = (
        "InstanceWithdrawn",
        "EC2 ended the instance before its node joined, for want of capacity or for a fault of its own.",
        "Nothing: its offering is avoided for a while. More instance types and zones in the NodePool help.",
    )
    REPLACEMENT_UNUSED = (
        "ReplacementUnused",
        "The command that it was launched for was abandoned, and no pod needs it.",
    )
    REPLACEMENT_NOT_READY = (
        "ReplacementNotReady",
        "The command that it was launched for was abandoned because it did not become ready in time.",
        "Find out why it did not join or become ready.",
    )
    UNKNOWN_INSTANCE = (
        "UnknownInstance",
        "An instance with Fleetwright's tag belongs to no claim, and none can be rebuilt for it.",
        "Check that the NodePool and EC2NodeClass that its tags name exist.",
    )
    OTHER = ("Other", "The reason was stored by another version of the functions and is unknown to this one.")

    @classmethod
    def stored(cls, text: str) -> TerminationReason:
        """Return the member that a row of the table names; `OTHER` for a code of another version."""
        return cls.of(text, cls.OTHER)


BUDGETED: Final = (TerminationReason.UNDERUTILIZED, TerminationReason.EMPTY, TerminationReason.DRIFTED)
"""Karpenter's three reasons for voluntary disruption; NodePool budgets are counted for each."""

RECLAIMED: Final = frozenset(
    {
        TerminationReason.SPOT_INTERRUPTED,
        TerminationReason.RESERVATION_INTERRUPTED,
        TerminationReason.CAPACITY_BLOCK_ENDS,
    }
)
"""Reasons with which EC2 takes the instance at an announced time, whatever protects its pods."""
