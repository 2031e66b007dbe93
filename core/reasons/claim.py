"""Reasons concerning a NodeClaim, its instance and its node before its removal."""

from __future__ import annotations

from core.reasons.code import ReasonCode


class ClaimReason(ReasonCode):
    """Reason codes of a claim or its node."""

    LAUNCHED = ("Launched", "Its instance was launched.")
    OBSERVED = ("LaunchObserved", "It would be launched, but its NodePool or the cluster is only observed.")
    FOUND_BY_TAG = ("FoundByTag", "The response to its launch was lost; its instance was found by its tag.")
    REBUILT = ("Rebuilt", "Its row was lost and was rebuilt from its instance and node.")
    NODE_JOINED = ("NodeJoined", "Its node joined, and its labels, taints and finalizer were set.")
    NODE_READY = ("NodeReady", "Its node is ready for pods.")
    FITS_EXISTING = ("FitsExisting", "The pod is expected on an existing or launching node.")
    INSUFFICIENT_CAPACITY = (
        "InsufficientCapacity",
        "EC2 has no capacity for any of its offerings now; its pods are planned again without them.",
        "Allow more instance types, zones or capacity types in the NodePool.",
    )
    LAUNCH_DENIED = (
        "LaunchDenied",
        "EC2 denied the launch, or the request names something that does not exist.",
        "Read EC2's error code in the message: it names a permission, a quota, an image or a subnet.",
    )
    LAUNCH_HELD_BACK = (
        "LaunchHeldBack",
        "EC2 recently denied or had no capacity for its offerings, so it is not requested again; its pods are planned again.",
        "Read condition LaunchDenied of its EC2NodeClass: it has EC2's error code and the time of the next attempt.",
    )
    LAUNCH_FAILED = (
        "LaunchFailed",
        "EC2's response to the launch is unknown; the launch is retried with the same token.",
    )
    LAUNCH_TIMEOUT = ("LaunchTimeout", "It could not be launched within 5 minutes; its pods are planned again.")
    LIMIT_REACHED = (
        "LimitReached",
        "The limits of its NodePool no longer have room for it.",
        "Raise spec.limits of the NodePool.",
    )
    NODE_CLASS_NOT_FOUND = ("NodeClassNotFound", "Its EC2NodeClass is gone.", "Create the EC2NodeClass again.")
    NODE_CLASS_NOT_READY = (
        "NodeClassNotReady",
        "Its EC2NodeClass is not ready, so the hand-made NodeClaim waits.",
        "Read condition Ready of the EC2NodeClass; the launch follows when it is True.",
    )
    NODE_CLAIM_INVALID = (
        "NodeClaimValidationFailed",
        "The hand-made NodeClaim is invalid and cannot be launched.",
        "Delete it and create a corrected one: the message names the field, and a NodeClaim cannot be changed.",
    )
    NODE_CLAIM_NAME_TAKEN = (
        "NodeClaimNameTaken",
        "An existing claim has the name of the hand-made NodeClaim, so nothing is launched for it.",
        "Delete it and create one with another name.",
    )
    PODS_PLACED_ELSEWHERE = (
        "PodsPlacedElsewhere",
        "None of its pods waits for a node any more, so it is not launched.",
    )
    REPLACEMENTS_NOT_NOTED = (
        "ReplacementsNotNoted",
        "The replacements of its pods could not be stored because the claim changed concurrently; the next plan stores them.",
    )
    FAILED_CONSISTENCY_CHECK = (
        "FailedConsistencyCheck",
        "The node has less of a requested resource than planned (Karpenter).",
        "Replace the node or check its kubelet's reservations: pods may wait for capacity that it does not have.",
    )
    INITIALIZATION_TIMEOUT = (
        "InitializationTimeout",
        "The node joined but is not ready for pods after 15 minutes; its pods are planned elsewhere.",
        "Read the message: the node waits for the removal of a taint, a resource, or the kubelet.",
    )
    MANY_INSTANCES_GONE = (
        "ManyInstancesGone",
        "EC2 no longer has the instances of many claims at once, so only a few of them are removed per round.",
        "Check the region, the account and the permissions.",
    )
    EXPIRED_BUT_BLOCKED = (
        "ExpiredButBlocked",
        "It is older than expireAfter, but one of its pods can never be evicted.",
        "Read the message, or set terminationGracePeriod, which bounds how long a pod can block the drain.",
    )
    SCHEDULED_CHANGE_BLOCKED = (
        "ScheduledChangeBlocked",
        "AWS will retire or restart its instance, but one of its pods can never be evicted.",
        "Move the pod before the date; six hours before it the node is removed in any case.",
    )
    UNHEALTHY_BUT_BLOCKED = (
        "UnhealthyButBlocked",
        "Its instance fails EC2's status check, but a pod, an annotation or a budget blocks its removal.",
        "Read the message.",
    )
    AWAITING_FINALIZERS = (
        "AwaitingFinalizers",
        "The deleted Node waits for finalizers of other controllers.",
        "Find the controller of the finalizer in the message.",
    )
    NODE_HELD_BY_FINALIZERS = (
        "NodeHeldByFinalizers",
        "The instance is gone; the Node stays until other controllers remove their finalizers.",
        "Find the controller of the finalizer in the message.",
    )
    RESERVATION_ENDED = (
        "ReservationEnded",
        "Its capacity reservation has ended; the instance keeps running as on-demand (Karpenter).",
    )
    STRAY_NODE = ("StrayNode", "A Node of ours had no instance any more, and its finalizer was removed.")
    STRAY_TAINT = (
        "StrayTaint",
        "The node had the disrupted taint although nothing disrupts it; the taint was removed.",
    )
