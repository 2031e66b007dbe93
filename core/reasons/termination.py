"""Reasons for the removal of a NodeClaim."""

from __future__ import annotations

from typing import Final

from core.reasons.code import ReasonCode


class TerminationReason(ReasonCode):
    """Code of `commands[].reason` of a disruption plan, of a claim's deletion and of events during its removal."""

    EMPTY = ("Empty", "No pod on the node would miss it.")
    UNDERUTILIZED = ("Underutilized", "Its pods fit elsewhere, or a cheaper node holds them.")
    DRIFTED = ("Drifted", "It no longer matches its NodePool or EC2NodeClass.")
    UNHEALTHY = (
        "Unhealthy",
        "A condition of the node or a status check of EC2 has been bad for long; budgets cannot name this reason.",
        "Look at the node that the message names if it happens often.",
    )
    EXPIRED = ("Expired", "It is older than expireAfter.")
    EXPIRED_FORCEFULLY = (
        "ExpiredForcefully",
        "It is older than expireAfter, and its NodePool lets such nodes go whatever budgets and pods say.",
        "Take the annotation `fleetwright.dev/expiry` off the NodePool if budgets are to count.",
    )
    SCHEDULED_CHANGE = (
        "ScheduledChange",
        "AWS retires or restarts the instance on a date days ahead; the node is removed within budgets.",
    )
    SCHEDULED_CHANGE_DUE = (
        "ScheduledChangeDue",
        "AWS retires or restarts the instance within hours; the node is removed regardless of budgets.",
        "Read what kept it before: `ScheduledChangeBlocked`.",
    )
    NODE_POOL_DELETED = ("NodePoolDeleted", "Its NodePool is gone, and its nodes go with it.")
    SCALED_DOWN = ("ScaledDown", "Its NodePool has more nodes than `spec.replicas` asks for.")
    NODE_DELETED = ("NodeDeleted", "The Node was deleted; its pods are evicted like others.")
    NODE_CLAIM_DELETED = ("NodeClaimDeleted", "The NodeClaim was deleted; its pods are evicted like others.")
    INSTANCE_GONE = (
        "InstanceGone",
        "EC2 no longer has the instance.",
        "Find out who terminated it: CloudTrail names the caller.",
    )
    REGISTRATION_TIMEOUT = (
        "RegistrationTimeout",
        "The instance did not join the cluster in 15 minutes.",
        "Check the node role's access entry, subnets, security groups, user data and the instance's console output.",
    )
    INITIALIZATION_TIMEOUT = (
        "InitializationTimeout",
        "The node joined and did not become ready for pods in 15 minutes.",
        "The message says what it waits for: a taint, a resource, the kubelet.",
    )
    SPOT_INTERRUPTED = ("SpotInterrupted", "EC2 takes the spot instance back within two minutes.")
    RESERVATION_INTERRUPTED = (
        "CapacityReservationInterrupted",
        "The owner of its interruptible capacity reservation takes the instance back within two minutes.",
    )
    CAPACITY_BLOCK_ENDS = (
        "CapacityBlockEnds",
        "Its capacity block ends within 40 minutes; EC2 terminates its instances half an hour before the end.",
        "Extend the block, or let the NodePool admit other capacity, so that the pods have somewhere to go.",
    )
    REBALANCE_RECOMMENDED = (
        "RebalanceRecommended",
        "EC2 says that the spot instance is at an elevated risk of interruption.",
        "REBALANCE_POLICY says whether nodes go for this.",
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
    REPLACEMENT_UNUSED = (
        "ReplacementUnused",
        "The command that it was launched for was given up, and no pod needs it.",
    )
    REPLACEMENT_NOT_READY = (
        "ReplacementNotReady",
        "The command that it was launched for was given up because it did not become ready in time.",
        "Read why it did not join or become ready.",
    )
    UNKNOWN_INSTANCE = (
        "UnknownInstance",
        "An instance with our tag belongs to no claim, and none can be rebuilt for it.",
        "Check that the NodePool and EC2NodeClass that its tags name exist.",
    )
    OTHER = ("Other", "Another version of the functions stored a reason that this one does not know.")

    @classmethod
    def stored(cls, text: str) -> TerminationReason:
        """Return the member that a row of the table names; `OTHER` for a code of another version."""
        return cls.of(text, cls.OTHER)


BUDGETED: Final = (TerminationReason.UNDERUTILIZED, TerminationReason.EMPTY, TerminationReason.DRIFTED)
"""Karpenter's three reasons for voluntary disruption; NodePool budgets are counted for each."""
