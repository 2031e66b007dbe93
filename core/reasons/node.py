"""Reasons why a node stays."""

from __future__ import annotations

from core.reasons.code import ReasonCode


class NodeReason(ReasonCode):
    """Code of `blocked[].reason` of a disruption plan."""

    DO_NOT_DISRUPT = (
        "DoNotDisrupt",
        "The node or one of its pods has the annotation karpenter.sh/do-not-disrupt.",
        "Remove the annotation when the protected work is done.",
    )
    POD_DISRUPTION_BUDGET = (
        "PodDisruptionBudget",
        "A PodDisruptionBudget does not allow the eviction of one of its pods now.",
        "Give the workload a spare replica, or loosen the budget; a pod may have only one budget.",
    )
    BUDGET = (
        "Budget",
        "The NodePool's disruption budgets allow no further disruption for this reason now.",
        "Wait, or raise spec.disruption.budgets.",
    )
    EVICTION_RATE = (
        "EvictionRate",
        "The hourly limit on evictions of the cluster or its NodePool is reached.",
        "Wait, or raise evictionsPerHour or the annotation fleetwright.dev/evictions-per-hour.",
    )
    CONSOLIDATE_AFTER = (
        "ConsolidateAfter",
        "A pod arrived or left more recently than consolidateAfter, or consolidateAfter is Never.",
        "Wait, or shorten consolidateAfter.",
    )
    POLICY_WHEN_EMPTY = (
        "PolicyWhenEmpty",
        "The NodePool consolidates only empty nodes, and this one has pods.",
        "Set consolidationPolicy to WhenEmptyOrUnderutilized if nodes with pods may be replaced.",
    )
    NO_CHEAPER_OPTION = ("NoCheaperOption", "No cheaper capacity could hold its pods.")
    PODS_UNSCHEDULABLE = (
        "PodsUnschedulable",
        "One of its pods would find no place.",
        "Read the message: it names the pod and the reason.",
    )
    NOT_MANAGED = ("NotManaged", "It has no NodeClaim, so Fleetwright does not manage it.")
    NOT_INITIALIZED = (
        "NotInitialized",
        "It has not joined, or is not ready for its first pods yet.",
        "Wait; if this lasts for 15 minutes, read the node's events.",
    )
    NOMINATED = ("Nominated", "Pods that need a place are expected on it.", "Wait until they are bound.")
    UNREADABLE_NODE = (
        "UnreadableNode",
        "A field of the Node is unreadable, so its state is uncertain.",
        "Correct the field that the message names.",
    )
    UNREADABLE_POD = (
        "UnreadablePod",
        "A field of one of its pods is unreadable, so the pod's requirements are unknown.",
        "Correct the field that the message names.",
    )
    CAPACITY_BUFFER = (
        "CapacityBuffer",
        "It is empty, and a capacity buffer keeps its room free.",
        "Reduce or delete the CapacityBuffer if the room is not needed.",
    )
    PAUSED = (
        "Paused",
        "Disruption of its NodePool is paused: new nodes of the pool do not join.",
        "Find out why new nodes do not join; the pause ends when one does.",
    )
    DELETING = ("Deleting", "It is already being deleted.")
    NODE_POOL_NOT_FOUND = (
        "NodePoolNotFound",
        "Its NodePool does not exist or admits no instance types.",
        "Create the NodePool again, or widen its requirements.",
    )
    NODE_POOL_INVALID = (
        "NodePoolInvalid",
        "Its NodePool is invalid, so its nodes are not disrupted.",
        "Correct the field that the message names.",
    )
    OBSERVED = (
        "Observed",
        "Its NodePool is only observed: decisions about its nodes are recorded but not carried out.",
        "Read the decisions with `fleetwright log`; remove the annotation fleetwright.dev/mode to have them carried out.",
    )
    STATIC_POOL = (
        "StaticPool",
        "Its NodePool keeps a fixed number of nodes; only drift replaces them.",
        "Lower spec.replicas to have fewer nodes.",
    )
    UNKNOWN_INSTANCE_TYPE = (
        "UnknownInstanceType",
        "Its instance type, zone or capacity type is unknown, so its price is unknown.",
        "Check the node's labels, and that the catalogue is for its region.",
    )
    SPOT_TO_SPOT = (
        "SpotToSpot",
        "Spot replaces spot only with the feature gate SpotToSpotConsolidation and enough cheaper instance types.",
        "Turn the gate on, and allow at least fifteen cheaper instance types.",
    )
    BALANCED = (
        "Balanced",
        "Under the policy Balanced the savings do not outweigh the pods that would have to move.",
    )
    DRAIN_BLOCKED = (
        "DrainBlocked",
        "Its last drain was blocked and cancelled, so it is not disrupted for a while.",
        "Read the events of its pods: they say what blocked the drain.",
    )
    TAINT_REMOVED = (
        "TaintRemoved",
        "Its disrupted taint was removed during its last drain, which was cancelled, so it is not disrupted for a while.",
        "Nothing: the node stays. A restored table may also have held a drain that was over.",
    )
    RECENTLY_MOVED = (
        "RecentlyMoved",
        "Disruption recently moved one of its pods, or the last move of its workload saved nothing.",
        "Wait until the time in the message.",
    )
    MANY_UNHEALTHY = (
        "ManyUnhealthy",
        "It is unhealthy, and so are too many nodes of its NodePool for new ones to help.",
        "Look for a common cause, such as the image, the network or a DaemonSet.",
    )
    NO_REPLACEMENT = (
        "NoReplacement",
        "It expired, but the replacements for its pods were not ready in time; it is retried later.",
        "Find out why its pods find no other place: capacity, limits, or a node that does not join.",
    )
    ROLLOUT_CANARY = (
        "RolloutCanary",
        "It has drifted, but waits until pods become ready on the first new node of its NodePool.",
        "Wait; the other nodes follow a few minutes after the first node's pods are ready.",
    )
    ROLLOUT_STOPPED = (
        "RolloutStopped",
        "It has drifted, but earlier replacements of the rollout did not become ready, so it stays for now.",
        "Read the message; a changed NodePool or EC2NodeClass begins a new rollout.",
    )
    LATER_WAVE = (
        "LaterWave",
        "It goes in a later wave, after its replacements or the nodes of earlier waves.",
        "Wait, or raise spec.disruption.budgets so that waves are larger.",
    )
    TARGET_WAITS = (
        "TargetWaits",
        "Nothing new is decided about it while the current target waits for pods that are starting, or for leaving nodes.",
        "Wait until the time in the message, or until the leaving nodes that it names are gone.",
    )
    AWAITS_APPROVAL = (
        "AwaitsApproval",
        "A command that removes it waits for a person's approval.",
        "Run `fleetwright approve ID --cluster NAME`, with `--reject` to reject it.",
    )
    PROPOSAL_REJECTED = (
        "ProposalRejected",
        "A person rejected the command that removes it, so it is not proposed again for a day.",
        "Wait; it may be proposed again then.",
    )
    NOT_TRIED = ("NotTried", "The pass ended before it examined this node; the next pass does.")
