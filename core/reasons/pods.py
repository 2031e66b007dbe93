"""Reasons why a pod stays without a place, or is not bound."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import ClassVar, Final

from core import labels
from core.reasons.code import ReasonCode, Refusal, Stated

# Reasons why a pod is not bound to the node that was launched for it, and is left to kube-scheduler or to a later turn.


class BindingReason(ReasonCode):
    """Why our functions do not bind a pod."""

    LEFT_TO_SCHEDULER = (
        "LeftToScheduler",
        "The pod has a volume, a device, a scheduling gate, a pod group or another scheduler, so it is left to the scheduler.",
    )
    UNTOLERATED_TAINT = ("UntoleratedTaint", "The pod does not tolerate a taint of the node.")
    NODE_AFFINITY = ("NodeAffinity", "The pod's node selector or node affinity does not admit the node.")
    NO_ROOM = ("NoRoom", "The node has too little of a resource left: other pods were bound first.")
    HOST_PORT_TAKEN = ("HostPortTaken", "A pod on the node already uses the host port.")
    TOPOLOGY_SPREAD = ("TopologySpread", "The pod's topology spread waits for pods on other nodes.")
    POD_AFFINITY = ("PodAffinity", "The pod waits for the pods that its affinity selects.")
    POD_ANTI_AFFINITY = ("PodAntiAffinity", "The pod's anti-affinity, or that of a running pod, excludes the node.")
    OUTRANKED = ("Outranked", "A waiting pod of higher priority would fit on the node.")
    SMALLER_THAN_PLANNED = (
        "SmallerThanPlanned",
        "The node has less capacity than planned, so kube-scheduler chooses its pods.",
        "Compare the node's allocatable with its NodeClaim; the kubelet's reservations may be larger than assumed.",
    )
    BINDING_REFUSED = (
        "BindingRefused",
        "The API server refused several bindings, so the claim's other pods are left to kube-scheduler.",
        "Read the message: the cause is a webhook, or a missing permission (create on pods/binding).",
    )
    HELD_TOO_LONG = ("HeldTooLong", "The pod could not be bound in time, so the node is opened without it.")


# Reasons why a pod stays on a draining node.


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


# Which PodDisruptionBudgets keep a pod.


class SparesNone(Refusal, frozen=True):
    """The budget's maxUnavailable never spares one of so many pods."""

    reason: ClassVar = EvictionReason.POD_DISRUPTION_BUDGET
    max_unavailable: str
    pods: int

    @property
    def message(self) -> str:
        """The sentence for people."""
        return f"maxUnavailable {self.max_unavailable} spares none of {self.pods} pod{'s' * (self.pods > 1)}"


class WantsAll(Refusal, frozen=True):
    """The budget's minAvailable wants all of so many pods."""

    reason: ClassVar = EvictionReason.POD_DISRUPTION_BUDGET
    min_available: str
    wanted: int
    pods: int

    @property
    def message(self) -> str:
        """The sentence for people."""
        return f"minAvailable {self.min_available} wants {self.wanted} of {self.pods} pod{'s' * (self.pods > 1)}"


class NeverEvicted(Refusal, frozen=True):
    """The pod's only budget never lets it go, whatever runs elsewhere."""

    reason: ClassVar = EvictionReason.POD_DISRUPTION_BUDGET
    words: ClassVar = "PodDisruptionBudget {budget} never lets pod {pod} be evicted: {why}"
    pod: str
    budget: str
    why: Refusal


class GuardedTwice(Refusal, frozen=True):
    """Several budgets select the pod, so the eviction API always refuses; `budgets`: their names."""

    reason: ClassVar = EvictionReason.SEVERAL_BUDGETS
    words: ClassVar = "PodDisruptionBudgets {budgets} all select pod {pod}, so it cannot be evicted at all"
    pod: str
    budgets: str


class NotEvictedNow(Refusal, frozen=True):
    """The pod's budget does not let it go before another pod runs again."""

    reason: ClassVar = EvictionReason.POD_DISRUPTION_BUDGET
    words: ClassVar = "PodDisruptionBudget {budget} does not let pod {pod} be evicted now"
    pod: str
    budget: str


# Reasons why a pod has no place.


class PodReason(ReasonCode):
    """Code of `unschedulable[].reason`, in the order of `diagnosis`: later codes mean that the pod came nearer to a place."""

    NO_NODE_POOL = (
        "NoNodePool",
        "No NodePool may launch nodes for pods: there is none, or none is ready, dynamic and valid.",
        "Create a NodePool, or read the conditions of those that exist.",
    )
    INVALID_POD = (
        "InvalidPod",
        "A field of the pod is unreadable, or selects nodes by an impossible label; the message names the field.",
        "Correct the field in the pod's template.",
    )
    TOO_COMPLEX = (
        "TooComplex",
        "The pod has more rules or resources than a plan takes, or groups of its namespace have too many members to come.",
        "Write fewer of them: the bounds are in docs/explanation/failure-model.md.",
    )
    SET_ASIDE = (
        "SetAside",
        "The pod causes an error in our code, so it is left out of every plan; the others are not affected.",
        "Report it with the pod's manifest: it is a defect. The log has the traceback.",
    )
    GROUP_NOT_FOUND = (
        "GroupNotFound",
        "The pod names a group whose object does not exist, or cannot be read, so nobody knows how many start together.",
        "Create the PodGroup or Workload, or apply this release's ClusterRoles so that it can be read.",
    )
    GROUP_INVALID = (
        "GroupInvalid",
        "The pod's group has contradictory settings; the message names them.",
        "Correct the annotation, priority or scheduler that the message names.",
    )
    GROUP_MINIMUM_TOO_HIGH = (
        "GroupMinimumTooHigh",
        "The pod's group starts with more members than it ever has.",
        "Lower the minimum, or raise the number of pods of its owner.",
    )
    GROUP_SPELLINGS_DIFFER = (
        "GroupSpellingsDiffer",
        "The pod's group is written in two ways that state different minimums, or its members state different ones.",
        "Remove one of them, or make both state the same number.",
    )
    GROUP_DOMAINS_DIFFER = (
        "GroupDomainsDiffer",
        "Members of the pod's group name different topology keys, or run in different domains of one.",
        "Give all members the same topology annotation, or restart those that run elsewhere.",
    )
    ONLY_ROOM_THERE = (
        "OnlyRoomThere",
        "A ProvisioningRequest asks only for room on nodes that are there, and none has room for this pod.",
        "Use class best-effort-atomic-scale-up.autoscaling.x-k8s.io if nodes may be bought.",
    )
    OPTED_OUT = (
        "OptedOut",
        "The pod requires nodes without the label karpenter.sh/nodepool, which no NodePool launches.",
        "Nothing, if another system launches nodes for it; otherwise remove that term from its node affinity.",
    )
    RESTRICTED_LABEL = (
        "RestrictedLabel",
        "The pod selects nodes by a restricted label, which users may neither set nor select.",
        "Select by a well-known label or one of your own.",
    )
    UNSUPPORTED_AFFINITY = (
        "UnsupportedAffinity",
        "Every alternative of the required node affinity names nodes that exist (matchFields) or is empty.",
        "Write the affinity with matchExpressions.",
    )
    UNSUPPORTED_RESOURCE_CLAIM = (
        "UnsupportedResourceClaim",
        "The pod has resource claims (DRA), which are not supported.",
        "Run it on existing nodes, or request an extended resource of a device plugin.",
    )
    VOLUME_CLAIM_MISSING = (
        "VolumeClaimMissing",
        "A PersistentVolumeClaim that the pod uses does not exist.",
        "Create the claim in the pod's namespace.",
    )
    VOLUME_CLAIM_LOST = (
        "VolumeClaimLost",
        "A PersistentVolumeClaim that the pod uses has lost its volume.",
        "Restore the volume, or replace the claim.",
    )
    VOLUME_CLAIM_TERMINATING = (
        "VolumeClaimTerminating",
        "A PersistentVolumeClaim or volume that the pod uses is being deleted.",
        "Wait for the deletion to end, then create it again.",
    )
    VOLUME_CLAIM_UNBOUND = (
        "VolumeClaimUnbound",
        "A PersistentVolumeClaim of the pod is unbound and has to be bound first.",
        "Check the provisioner of its StorageClass; with volumeBindingMode WaitForFirstConsumer it need not be bound first.",
    )
    VOLUME_IN_USE = (
        "VolumeInUse",
        "A claim of the pod is ReadWriteOncePod, and another pod uses it, maybe one that is still terminating.",
        "Wait for the other pod to end, or use another access mode.",
    )
    VOLUME_MISSING = (
        "VolumeMissing",
        "A claim is bound to a PersistentVolume that does not exist.",
        "Restore the volume, or replace the claim.",
    )
    STORAGE_CLASS_MISSING = (
        "StorageClassMissing",
        "A claim names a StorageClass that does not exist, or names none and there is no default.",
        "Create the StorageClass, or make one the default.",
    )
    VOLUMES_DISAGREE = (
        "VolumesDisagree",
        "No node can attach all volumes of the pod: they are in different places.",
        "Move the volumes to one zone.",
    )
    TAINT_NOT_TOLERATED = (
        "TaintNotTolerated",
        "Every NodePool that could run the pod has a taint that the pod does not tolerate.",
        "Add a toleration to the pod, or a NodePool without the taint.",
    )
    REQUIREMENT_NOT_MET = (
        "RequirementNotMet",
        "No NodePool has instance types with the labels that the pod requires.",
        "Loosen the pod's node selector or affinity, or the requirements of a NodePool.",
    )
    NO_OFFERING_FITS = (
        "NoOfferingFits",
        "No instance type that the pod may use is large enough for it and the DaemonSets' pods.",
        "Lower the pod's requests, or allow larger instance types in a NodePool.",
    )
    NO_OFFERING_AVAILABLE = (
        "NoOfferingAvailable",
        "Suitable instance types exist, but none of their offerings is available where the pod may run.",
        "Wait a few minutes: refused offerings are retried. More zones, types or capacity types help sooner.",
    )
    LAUNCH_DENIED = (
        "LaunchDenied",
        "EC2 denies launches from the EC2NodeClass: a permission, a quota, or something that the class names.",
        "Follow the advice in the message, or in condition LaunchDenied of the NodePool and EC2NodeClass.",
    )
    HOST_PORT_TAKEN = (
        "HostPortTaken",
        "A DaemonSet's pod uses the host port on every node that could be launched.",
        "Give the pod or the DaemonSet another host port.",
    )
    ATTACH_LIMIT = (
        "AttachLimit",
        "No instance type can attach as many volumes as the pod has.",
        "Spread the volumes over more pods, or allow instance types that attach more.",
    )
    OUTSIDE_HOURS = (
        "OutsideHours",
        "A new node could run the pod, but a Calendar closes the NodePool; the message has the time of its opening.",
        "Wait until the NodePool opens, or add a rule with `closed: false`; `fleetwright calendar` shows its hours.",
    )
    HELD_BACK = (
        "HeldBack",
        "The pod says that it may wait, and there is neither room nor a cheap node for it yet; the message says until when.",
        "Nothing: a node is bought in time for its deadline. Remove fleetwright.dev/start-before to start it at once.",
    )
    LIMIT_REACHED = (
        "LimitReached",
        "A new node could run the pod, but the limits of the NodePool or of its group have no room for one.",
        "Raise spec.limits of the NodePool, or the group's fleetwright.dev/shared-limits, or wait until other nodes are gone.",
    )
    BUDGET_EXHAUSTED = (
        "BudgetExhausted",
        "A new node could run the pod, but a limit in dollars an hour or a Calendar's cap has no room for what it may take.",
        "Raise the limit or cap that the message names, or wait until other nodes are gone.",
    )
    QUOTA_REACHED = (
        "QuotaReached",
        "A new node could run the pod, but a vCPU quota of EC2 has no room for one; the message has its code.",
        "Request an increase in Service Quotas, or allow another capacity type or other families in the NodePool.",
    )
    NO_FREE_ADDRESS = (
        "NoFreeAddress",
        "A new node could run the pod, but no subnet of the EC2NodeClass has a free address where the pod may run.",
        "Free addresses in the subnets that the message names, or let subnetSelectorTerms find further subnets.",
    )
    DEADLINE_REACHED = (
        "DeadlineReached",
        "The run had no time for the pod; the next one begins with it.",
        "Nothing, if it gets a node within minutes; otherwise look for pods with very many rules in its namespace.",
    )
    MIN_VALUES_NOT_MET = (
        "MinValuesNotMet",
        "Too few instance types remain to meet the minValues of the NodePool.",
        "Lower minValues, or allow more instance types in the NodePool.",
    )
    TOPOLOGY_SPREAD = (
        "TopologySpread",
        "Every possible place would violate a topology spread constraint.",
        "Allow more zones in a NodePool, or raise maxSkew.",
    )
    POD_AFFINITY = (
        "PodAffinity",
        "No possible place is near the pods that its affinity requires.",
        "Check that those pods run, and where; a zone without capacity for this pod cannot be chosen.",
    )
    POD_ANTI_AFFINITY = (
        "PodAntiAffinity",
        "Every possible place is near pods that its anti-affinity excludes.",
        "Allow more zones in a NodePool, or make the anti-affinity preferred instead of required.",
    )
    GROUP_INCOMPLETE = (
        "GroupIncomplete",
        "Fewer members of the pod's group than must start together can have a place, so nothing is bought for any of them.",
        "Read what the message says of the member without a place, or wait for members that have not been created yet.",
    )


# Reasons of the conditions of a ProvisioningRequest. Those that the Cluster Autoscaler has too are its words.


class RequestReason(ReasonCode):
    """`reason` of a condition of a ProvisioningRequest."""

    ACCEPTED = ("Accepted", "Fleetwright answers this request.")
    CAPACITY_FOUND = ("CapacityIsFound", "Nodes that run have room for all its pods, which is booked for ten minutes.")
    CAPACITY_PROVISIONED = (
        "CapacityIsProvisioned",
        "Nodes were bought for it and are ready; their label is in its provisioningClassDetails.",
    )
    NODES_STARTING = ("NodesStarting", "All its pods have a place, and some of the nodes are not ready yet.")
    CAPACITY_NOT_FOUND = (
        "CapacityIsNotFound",
        "Not all its pods can have a place now, so nothing is bought for any; it is tried again until it expires.",
        "Read what the message says of the pod without a place.",
    )
    EXPIRED = (
        "Expired",
        "Its room was not there within ValidUntilSeconds, or within seven days.",
        "Raise ValidUntilSeconds, or allow more instance types and zones in the NodePools.",
    )
    BOOKING_EXPIRED = (
        "CapacityReservationTimeExpired",
        "Ten minutes have passed since its room was there; what its pods do not use is no longer kept.",
    )
    ROOM_USED = ("CapacityIsUsed", "All its pods have had their nodes, so that no room is kept for it any longer.")
    TEMPLATE_NOT_FOUND = (
        "PodTemplateNotFound",
        "A PodTemplate that it names does not exist in its namespace, or makes no pods.",
        "Create the PodTemplate, or correct what the message names.",
    )
    INVALID = (
        "RequestInvalid",
        "A field of it cannot be understood; the message names the field.",
        "Delete it and create it again without the mistake: its spec never changes.",
    )
    UNKNOWN_CLASS = (
        "UnknownProvisioningClass",
        "Its class is one of Fleetwright's domain that this release does not have.",
        "Use capacity-block.fleetwright.dev, or a class of autoscaling.x-k8s.io.",
    )
    TOO_MANY_PLACES = (
        "TooManyPlaces",
        "It asks for more than the 10,000 places that the requests of a namespace may have, or older ones leave too few.",
        "Ask for fewer pods in one request, or wait for the older ones; another namespace has a bound of its own.",
    )
    BLOCK_NOT_FOUND = (
        "CapacityBlockNotFound",
        "No EC2NodeClass selects the capacity block or reservation that it names, or it has ended.",
        "Correct CapacityReservationID, or add the reservation to capacityReservationSelectorTerms.",
    )
    BLOCK_NOT_BEGUN = (
        "CapacityBlockNotBegun",
        "Its capacity block has not begun; its nodes are launched from the start on.",
    )
    BLOCK_TOO_SHORT = (
        "CapacityBlockTooShort",
        "Nodes leave its capacity block before its pods could run, or have run for maxRunDurationSeconds.",
        "Book a longer block, or extend it; a shorter maxRunDurationSeconds may do, too.",
    )
    BLOCK_TOO_SMALL = (
        "CapacityBlockTooSmall",
        "Its pods do not fit on as many nodes as its capacity block can ever hold.",
        "Book a larger block, or ask for fewer or smaller pods.",
    )
    BLOCK_ENDED = (
        "CapacityBlockEnded",
        "Nodes have left its capacity block, which has ended, and pods of it still wait.",
        "Book another block, and start the workload again: Kueue does not retry it by itself.",
    )
    NODES_LOST = (
        "NodesLost",
        "All nodes that were bought for it are gone while its pods need them, and others are looked for.",
    )
    NODES_REPLACED = ("NodesReplaced", "Other nodes took the place of those that were lost.")
    CAPACITY_GONE = (
        "CapacityGone",
        "All nodes that were bought for it are gone, and no other could be bought for ten minutes.",
        "Start the workload again once there is capacity: Kueue does not retry it by itself.",
    )


RANK: Final[Mapping[str, int]] = MappingProxyType({code: rank for rank, code in enumerate(PodReason)})
"""Code → how near the pod came to a place."""


# Why a NodePool launches nothing for pods: each completes a sentence about it.


BEING_DELETED: Final = Stated(PodReason.NO_NODE_POOL, "is being deleted")
ONLY_OBSERVED: Final = Stated(PodReason.NO_NODE_POOL, f"is only observed: its annotation {labels.MODE} says so")
IS_STATIC: Final = Stated(
    PodReason.NO_NODE_POOL, "is static: it keeps a fixed number of nodes and launches none for pods"
)
NOT_READY: Final = Stated(PodReason.NO_NODE_POOL, "is not ready")
ZONES_UNKNOWN: Final = Stated(
    PodReason.NO_NODE_POOL,
    f"demands {labels.ZONE_ID}, but no EC2NodeClass's subnets and no node tell which zone that is: use {labels.ZONE}",
)


class PoolInvalid(Refusal, frozen=True):
    """A field of the NodePool is invalid."""

    reason: ClassVar = PodReason.NO_NODE_POOL
    words: ClassVar = "is invalid: {problem}"
    problem: str


class PoolLabelsInvalid(Refusal, frozen=True):
    """The labels that its nodes would get are invalid."""

    reason: ClassVar = PodReason.NO_NODE_POOL
    words: ClassVar = "is invalid: its name, class and labels become labels of its nodes, and {fault}"
    fault: str


class PoolClosed(Refusal, frozen=True):
    """A Calendar's rule closes the NodePool, until a time or for good."""

    reason: ClassVar = PodReason.OUTSIDE_HOURS
    rule: str
    until: datetime | None

    @property
    def message(self) -> str:
        """The sentence for people."""
        if self.until is None:
            return f"is outside its hours by rule {self.rule}, which has no end"
        return f"is outside its hours until {self.until:%Y-%m-%dT%H:%M:%SZ}, by rule {self.rule}"


class PoolContradicts(Refusal, frozen=True):
    """The NodePool's own requirements exclude every value of a label."""

    reason: ClassVar = PodReason.NO_NODE_POOL
    words: ClassVar = "has contradictory requirements: they allow no value of {key}"
    key: str


class ClassInvalid(Refusal, frozen=True):
    """A field of the NodePool's EC2NodeClass is invalid."""

    reason: ClassVar = PodReason.NO_NODE_POOL
    words: ClassVar = "uses EC2NodeClass {node_class}, which is invalid: {problem}"
    node_class: str
    problem: str


class ClassBeingDeleted(Refusal, frozen=True):
    """The NodePool's EC2NodeClass goes."""

    reason: ClassVar = PodReason.NO_NODE_POOL
    words: ClassVar = "uses EC2NodeClass {node_class}, which is being deleted"
    node_class: str


class ClassNotReady(Refusal, frozen=True):
    """The NodePool's EC2NodeClass is not ready."""

    reason: ClassVar = PodReason.NO_NODE_POOL
    words: ClassVar = "uses EC2NodeClass {node_class}, which is not ready"
    node_class: str
