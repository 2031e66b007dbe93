"""Reasons concerning a NodeClaim, its instance and its node before its removal."""

from __future__ import annotations

from core.reasons.code import ReasonCode


class ClaimReason(ReasonCode):
    """Reason codes of a claim or its node."""

    LAUNCHED = ("Launched", "Its instance was launched.")
    OBSERVED = ("LaunchObserved", "It would be launched; its NodePool, or the cluster, is only observed.")
    FOUND_BY_TAG = ("FoundByTag", "The instance of a launch whose answer was lost was found by its tag.")
    REBUILT = ("Rebuilt", "Its row was lost and is rebuilt from its instance and node.")
    NODE_JOINED = ("NodeJoined", "Its node joined and got its labels, taints and finalizer.")
    NODE_READY = ("NodeReady", "Its node is ready for pods.")
    FITS_EXISTING = ("FitsExisting", "The pod is expected on a node that exists or is on its way.")
    INSUFFICIENT_CAPACITY = (
        "InsufficientCapacity",
        "EC2 has none of the offerings now; its pods are planned again without them.",
        "More instance types, zones or capacity types in the NodePool help.",
    )
    LAUNCH_DENIED = (
        "LaunchDenied",
        "EC2 does not permit the launch, or the request names something that does not exist.",
        "The message has EC2's code: a permission, a quota, an image, a subnet.",
    )
    LAUNCH_HELD_BACK = (
        "LaunchHeldBack",
        "EC2 recently denied or had no capacity for its offerings, so it is not requested again; its pods are planned again.",
        "Condition LaunchDenied of its EC2NodeClass has EC2's code, and when one launch asks again.",
    )
    LAUNCH_FAILED = ("LaunchFailed", "EC2's answer to the launch is not known; it is tried again with the same token.")
    LAUNCH_TIMEOUT = ("LaunchTimeout", "It could not be launched in 5 minutes; its pods are planned again.")
    LIMIT_REACHED = (
        "LimitReached",
        "The limits of its NodePool no longer have room for it.",
        "Raise spec.limits of the NodePool.",
    )
    NODE_CLASS_NOT_FOUND = ("NodeClassNotFound", "Its EC2NodeClass is gone.", "Create the EC2NodeClass again.")
    NODE_CLASS_NOT_READY = (
        "NodeClassNotReady",
        "Its EC2NodeClass is not ready, so the NodeClaim that was made by hand waits.",
        "Condition Ready of the EC2NodeClass says why; the launch follows when it is True.",
    )
    NODE_CLAIM_INVALID = (
        "NodeClaimValidationFailed",
        "The NodeClaim that was made by hand cannot be launched as it is written.",
        "The message names field and rule. A NodeClaim cannot be changed: delete it and make another.",
    )
    NODE_CLAIM_NAME_TAKEN = (
        "NodeClaimNameTaken",
        "A claim of the table has the name of the NodeClaim that was made by hand, so nothing is launched for it.",
        "Delete it and make another with another name.",
    )
    PODS_PLACED_ELSEWHERE = (
        "PodsPlacedElsewhere",
        "None of its pods waits for a node any more, so it is not launched.",
    )
    REPLACEMENTS_NOT_NOTED = (
        "ReplacementsNotNoted",
        "What its pods wait for could not be noted, as the claim was changed meanwhile; the next plan notes it.",
    )
    FAILED_CONSISTENCY_CHECK = (
        "FailedConsistencyCheck",
        "The node has less of a requested resource than was launched (Karpenter).",
        "Pods may wait for capacity that the node does not have: replace the node, or look at its kubelet's reservations.",
    )
    INITIALIZATION_TIMEOUT = (
        "InitializationTimeout",
        "The node joined and is not ready for pods after 15 minutes; its pods are planned elsewhere.",
        "The message says what it waits for: a taint, a resource, the kubelet.",
    )
    MANY_INSTANCES_GONE = (
        "ManyInstancesGone",
        "EC2 no longer knows the instances of so many claims that only a few of them are removed in a round.",
        "Check that region, account and permissions are right.",
    )
    EXPIRED_BUT_BLOCKED = (
        "ExpiredButBlocked",
        "It is older than expireAfter, and a pod can never leave it.",
        "Read the message; terminationGracePeriod bounds how long a pod may object.",
    )
    SCHEDULED_CHANGE_BLOCKED = (
        "ScheduledChangeBlocked",
        "AWS will retire or restart its instance, and a pod can never leave it.",
        "Move the pod before the date; six hours before it the node is removed in any case.",
    )
    UNHEALTHY_BUT_BLOCKED = (
        "UnhealthyButBlocked",
        "Its instance fails EC2's status check, and a pod, an annotation or a budget keeps it.",
        "Read the message.",
    )
    AWAITING_FINALIZERS = (
        "AwaitingFinalizers",
        "The deleted Node waits for finalizers of other controllers.",
        "Find the controller that owns the finalizer that the message names.",
    )
    NODE_HELD_BY_FINALIZERS = (
        "NodeHeldByFinalizers",
        "The instance is gone; the Node stays until other controllers remove their finalizers.",
        "Find the controller that owns the finalizer that the message names.",
    )
    RESERVATION_ENDED = (
        "ReservationEnded",
        "Its capacity reservation has ended; the instance runs on and is on-demand now (Karpenter).",
    )
    STRAY_NODE = ("StrayNode", "A Node of ours stands for nothing any more, and its finalizer was taken off.")
    STRAY_TAINT = ("StrayTaint", "The node carried the disrupted taint although nothing disrupts it; it was taken off.")
