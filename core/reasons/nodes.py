"""Reasons why a node stays."""

from __future__ import annotations

from core.reasons.code import ReasonCode

# Reasons why a pod stays on a draining node, and results of the drain.


class EvictionReason(ReasonCode):
    """Why a pod was not evicted."""

    POD_DISRUPTION_BUDGET = (
        "PodDisruptionBudget",
        "A PodDisruptionBudget allows no eviction of its workload's pods.",
        "Give the workload a spare replica, or loosen the budget.",
    )
    SEVERAL_BUDGETS = (
        "SeveralPodDisruptionBudgets",
        "More than one PodDisruptionBudget selects it, which Kubernetes' eviction API refuses.",
        "Keep only one budget that selects the pod.",
    )
    THROTTLED = ("Throttled", "The API server is overloaded.")
    WEBHOOK_FAILED = (
        "WebhookFailed",
        "An admission webhook fails or refuses the request.",
        "Repair the webhook that the message names, or exempt evictions from it.",
    )
    SERVER_ERROR = ("ServerError", "The API server returned an error.")
    NO_REPLY = ("NoReply", "The API server does not answer.")
    DENIED = (
        "Denied",
        "The API server denied the request.",
        "Compare the permissions of the function's Kubernetes group with docs/reference/permissions.md.",
    )


class HeldPodReason(ReasonCode):
    """Why a pod that must leave has not been evicted, or has not gone yet."""

    DO_NOT_DISRUPT = (
        "DoNotDisrupt",
        "The pod has the annotation karpenter.sh/do-not-disrupt.",
        "Remove the annotation when the protected work is done.",
    )
    TERMINATING = ("Terminating", "The pod is being deleted but has not ended yet.")
    NOT_ASKED = ("NotAsked", "Pods of an earlier tier have to leave first.")


class DrainReason(ReasonCode):
    """Results of a drain."""

    SLOW = ("DrainSlow", "No pod has left the node for 5 minutes; the events of its pods say why.")
    BLOCKED = (
        "DrainBlocked",
        "No pod has left the node for 15 minutes.",
        "Read the message: it names the pod or volume that blocks the drain.",
    )
    LASTING = (
        "DrainLasting",
        "No pod has left the node for an hour; the drain is cancelled if the node may stay.",
        "Read the message: it names the pod or volume that blocks the drain.",
    )
    ALARMING = (
        "DrainAlarming",
        "No pod has left the node for a day, and the node must be removed.",
        "Move or delete the pod that the message names, or detach the volume.",
    )
    NO_ROOM_TO_GIVE_BACK = (
        "LimitReached",
        "The drain cannot be cancelled: the NodePool is gone or invalid, or its limits have no room for the node.",
    )
    DEADLINE_REACHED = (
        "TerminationGracePeriodElapsed",
        "The node's terminationGracePeriod has elapsed, so the pod was deleted regardless of budgets.",
    )
    SURGE_RESTART = (
        "SurgeRestart",
        "The pod's Deployment is restarted, so that its new pod starts on another node first.",
    )
    SURGE_REFUSED = (
        "SurgeRefused",
        "The pod's Deployment is not restarted, although its owner allows it; the message says why.",
        "Use the strategy RollingUpdate with maxSurge 1 and maxUnavailable 0.",
    )
    SURGE_DENIED = (
        "SurgeDenied",
        "The API server denied the restart of the pod's Deployment.",
        "Compare the permissions of the function's Kubernetes group with docs/reference/permissions.md.",
    )
    SURGE_FAILED = ("SurgeFailed", "The pod's Deployment could not be restarted; the restart is retried.")


# Reasons for the drift of a NodeClaim.


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


class NodeReason(ReasonCode):
    """Code of `blocked[].reason` of a disruption plan."""

    DO_NOT_DISRUPT = (
        "DoNotDisrupt",
        "The node or one of its pods has the annotation karpenter.sh/do-not-disrupt.",
        "Remove the annotation when the protected work is done.",
    )
    DO_NOT_REPAIR = (
        "DoNotRepair",
        "It is unhealthy, and it or its NodeClaim has the annotation karpenter.sh/do-not-repair.",
        "Remove the annotation when the cause is found; drift and consolidation do not read it.",
    )
    REBOOTING = (
        "Rebooting",
        "Karpenter is rebooting the node; its room comes back, and nothing disrupts it until then.",
        "Wait until the condition Rebooting of its NodeClaim is no longer True.",
    )
    GROUP_RUNS = (
        "GroupRuns",
        "One of its pods belongs to a running group that started together, and all of it would have to start again.",
        "Nothing, if the group ends by itself; fleetwright.dev/group-disruption: single lets members move one by one.",
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
    SHRINKING = (
        "NodePoolShrinking",
        "Its NodePool would lose more of its vCPUs within an hour than shrinkPercent allows.",
        "Wait, or raise shrinkPercent; with mode: approve, approve the command.",
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
        "It is empty, and a capacity buffer, or a member that a group has still to get, keeps its room free.",
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
    ROLLOUT_SETTLING = (
        "RolloutSettling",
        "It has drifted, but its NodePool or EC2NodeClass changed a moment ago, or again and again: it waits.",
        "Wait; if it changes again and again, let one tool alone write it: the event on the NodePool names the writers.",
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
