"""Reasons why a node stays."""

from __future__ import annotations

from core.reasons.code import ReasonCode


class NodeReason(ReasonCode):
    """Code of `blocked[].reason` of a disruption plan."""

    DO_NOT_DISRUPT = (
        "DoNotDisrupt",
        "The node or one of its pods carries karpenter.sh/do-not-disrupt.",
        "Remove the annotation when the work that it protects is done.",
    )
    POD_DISRUPTION_BUDGET = (
        "PodDisruptionBudget",
        "A PodDisruptionBudget does not let one of its pods be evicted now.",
        "Give the workload a replica to spare, or loosen the budget; one budget a pod.",
    )
    BUDGET = (
        "Budget",
        "The NodePool's disruption budgets allow no more nodes to go now for this reason.",
        "Wait, or raise spec.disruption.budgets.",
    )
    EVICTION_RATE = (
        "EvictionRate",
        "The ceiling on evictions an hour is reached, of the cluster or of its NodePool.",
        "Wait, or raise evictionsPerHour or the annotation fleetwright.dev/evictions-per-hour.",
    )
    CONSOLIDATE_AFTER = (
        "ConsolidateAfter",
        "The time since the last pod came or went is shorter than consolidateAfter, or that is Never.",
        "Wait, or shorten consolidateAfter.",
    )
    POLICY_WHEN_EMPTY = (
        "PolicyWhenEmpty",
        "The NodePool consolidates empty nodes only, and pods run here.",
        "Choose WhenEmptyOrUnderutilized if nodes with pods may be replaced.",
    )
    NO_CHEAPER_OPTION = ("NoCheaperOption", "Nothing cheaper could hold its pods.")
    PODS_UNSCHEDULABLE = (
        "PodsUnschedulable",
        "One of its pods would find no place.",
        "Read the message: it names the pod and why nothing holds it.",
    )
    NOT_MANAGED = ("NotManaged", "No NodeClaim stands behind it, so it is not ours.")
    NOT_INITIALIZED = (
        "NotInitialized",
        "It has not joined or is not yet ready for its first pods.",
        "Wait; if it stays so for 15 minutes, read the node's events.",
    )
    NOMINATED = ("Nominated", "Pods that need a place are expected on it.", "Wait until they are bound.")
    UNREADABLE_NODE = (
        "UnreadableNode",
        "A field of the Node cannot be read, so nothing is known for certain of what runs there.",
        "Correct the field that the message names.",
    )
    UNREADABLE_POD = (
        "UnreadablePod",
        "A field of one of its pods cannot be read, so what it needs elsewhere is not known.",
        "Correct the field that the message names.",
    )
    CAPACITY_BUFFER = (
        "CapacityBuffer",
        "It is empty, and a capacity buffer keeps its room free.",
        "Shrink or delete the CapacityBuffer if the room is not wanted.",
    )
    PAUSED = (
        "Paused",
        "Disruption of its NodePool is paused: new nodes of the pool do not join.",
        "Find out why new nodes do not join; the pause ends when one does.",
    )
    DELETING = ("Deleting", "It is being deleted already.")
    NODE_POOL_NOT_FOUND = (
        "NodePoolNotFound",
        "Its NodePool does not exist, or has no instance types to choose from.",
        "Create the NodePool again, or widen its requirements.",
    )
    NODE_POOL_INVALID = (
        "NodePoolInvalid",
        "Its NodePool is invalid, so its nodes are left alone.",
        "Correct the field that the message names.",
    )
    OBSERVED = (
        "Observed",
        "Its NodePool is only observed: what would happen to its nodes is recorded and not done.",
        "`fleetwright log` shows what would be done; remove the annotation fleetwright.dev/mode to let it happen.",
    )
    STATIC_POOL = (
        "StaticPool",
        "Its NodePool keeps a fixed number of nodes; only drift replaces them.",
        "Change spec.replicas to have fewer nodes.",
    )
    UNKNOWN_INSTANCE_TYPE = (
        "UnknownInstanceType",
        "Its instance type, zone or capacity type is unknown, so it has no price to beat.",
        "Check the node's labels and that the catalogue is of its region.",
    )
    SPOT_TO_SPOT = (
        "SpotToSpot",
        "A spot node is replaced by another only with the gate SpotToSpotConsolidation and enough cheaper types.",
        "Turn the gate on, and admit at least fifteen instance types.",
    )
    BALANCED = (
        "Balanced",
        "Under the policy Balanced the savings do not outweigh the pods that would have to move.",
    )
    DRAIN_BLOCKED = (
        "DrainBlocked",
        "Its last drain came no further and was given back, so it is left alone for a while.",
        "Read the events of its pods: they say what kept them.",
    )
    RECENTLY_MOVED = (
        "RecentlyMoved",
        "Disruption moved one of its pods a while ago, or the last move of its workload saved nothing.",
        "Wait; the message says until when.",
    )
    MANY_UNHEALTHY = (
        "ManyUnhealthy",
        "It is unhealthy, and so are too many nodes of its NodePool for new ones to help.",
        "Look for a common cause: image, network, a DaemonSet.",
    )
    NO_REPLACEMENT = (
        "NoReplacement",
        "It expired, and what its pods need elsewhere was not ready in time; it is tried again later.",
        "Read why its pods find no other place: capacity, limits, or a node that does not join.",
    )
    ROLLOUT_CANARY = (
        "RolloutCanary",
        "It has drifted, and the first new node of its NodePool has to show that pods become ready there.",
        "Wait; a few minutes after the first node's pods are ready the others follow.",
    )
    ROLLOUT_STOPPED = (
        "RolloutStopped",
        "It has drifted, and what replaces such nodes did not become ready, so it stays for now.",
        "Read the message; a NodePool or EC2NodeClass that asks for something else begins a new rollout.",
    )
    LATER_WAVE = (
        "LaterWave",
        "It goes in a later wave, after its replacements or the nodes of earlier waves.",
        "Wait, or raise spec.disruption.budgets so that waves are larger.",
    )
    AWAITS_APPROVAL = (
        "AwaitsApproval",
        "A command that removes it waits for a person's approval.",
        "`fleetwright approve ID --cluster NAME`, or `--reject`.",
    )
    PROPOSAL_REJECTED = (
        "ProposalRejected",
        "A person rejected the command that removes it, so it is left alone for a day.",
        "Wait; it may be proposed again then.",
    )
    NOT_TRIED = ("NotTried", "The round ended before this node's turn came; the next one looks at it.")
