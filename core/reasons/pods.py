"""Reasons why a pod stays without a place, or is not bound."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

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
        "The pod is left out of every plan: a field is unreadable, or it causes an error in our code. Others are planned.",
        "Correct the field that the message names. If it names none, report the pod's manifest: it is a defect.",
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


# Why no new node can help a pod.


NO_ALTERNATIVE: Final = Stated(
    PodReason.UNSUPPORTED_AFFINITY, "every alternative of its required node affinity is empty"
)
NAMES_NODES: Final = Stated(
    PodReason.UNSUPPORTED_AFFINITY, "its required node affinity names existing nodes (matchFields)"
)
ROOM_THERE: Final = Stated(PodReason.ONLY_ROOM_THERE, "its ProvisioningRequest asks for room on nodes that are there")
WANTS_NO_POOL: Final = Stated(PodReason.OPTED_OUT, f"it demands that {labels.NODEPOOL} does not exist")
RESERVATIONS_FULL: Final = Stated(PodReason.NO_OFFERING_AVAILABLE, "all suitable capacity reservations are full")


class HasResourceClaims(Refusal, frozen=True):
    """It asks for devices by ResourceClaims."""

    reason: ClassVar = PodReason.UNSUPPORTED_RESOURCE_CLAIM
    claims: tuple[str, ...]

    @property
    def message(self) -> str:
        """The sentence for people."""
        return f"it has resource claims: {', '.join(self.claims)}"


class LabelRestricted(Refusal, frozen=True):
    """It demands a label that no new node may have."""

    reason: ClassVar = PodReason.RESTRICTED_LABEL
    words: ClassVar = "it selects nodes by {key}, which is restricted"
    key: str


class VolumesInvalid(Refusal, frozen=True):
    """A requirement of its volumes is invalid."""

    reason: ClassVar = PodReason.INVALID_POD
    words: ClassVar = "its volumes: {fault}"
    fault: str


class VolumeCause(Enum):
    """What keeps the pods of a PersistentVolumeClaim from every node: the code, and the words."""

    CLAIM_MISSING = (PodReason.VOLUME_CLAIM_MISSING, "PersistentVolumeClaim {claim} does not exist")
    CLAIM_GOES = (PodReason.VOLUME_CLAIM_TERMINATING, "PersistentVolumeClaim {claim} is being deleted")
    CLAIM_LOST = (PodReason.VOLUME_CLAIM_LOST, "PersistentVolumeClaim {claim} lost its volume")
    USED_BY = (PodReason.VOLUME_IN_USE, "PersistentVolumeClaim {claim} is ReadWriteOncePod, and pod {other} uses it")
    USED_IN_PLAN = (
        PodReason.VOLUME_IN_USE,
        "PersistentVolumeClaim {claim} is ReadWriteOncePod, and another pod that gets a node uses it",
    )
    EXCLUDES_OTHERS = (PodReason.VOLUMES_DISAGREE, "claim {claim} excludes the volumes before it")
    VOLUME_MISSING = (
        PodReason.VOLUME_MISSING,
        "PersistentVolumeClaim {claim} is bound to {other}, which does not exist",
    )
    VOLUME_GOES = (
        PodReason.VOLUME_CLAIM_TERMINATING,
        "volume {other} of PersistentVolumeClaim {claim} is being deleted",
    )
    BINDS = (
        PodReason.VOLUME_CLAIM_UNBOUND,
        "PersistentVolumeClaim {claim} names {other}, but binding has not completed",
    )
    NO_CLASS = (
        PodReason.STORAGE_CLASS_MISSING,
        "PersistentVolumeClaim {claim} names no StorageClass and there is no default StorageClass",
    )
    CLASS_MISSING = (
        PodReason.STORAGE_CLASS_MISSING,
        "StorageClass {other} of PersistentVolumeClaim {claim} does not exist",
    )
    MADE_BY_HAND = (
        PodReason.VOLUME_CLAIM_UNBOUND,
        "PersistentVolumeClaim {claim} waits for a volume that is made by hand",
    )
    BINDS_AT_ONCE = (
        PodReason.VOLUME_CLAIM_UNBOUND,
        "PersistentVolumeClaim {claim} binds at once ({other}), which has not happened yet",
    )
    NO_FREE_VOLUME = (
        PodReason.VOLUME_CLAIM_UNBOUND,
        "PersistentVolumeClaim {claim}: no free volume of StorageClass {other} fits, and none is made",
    )


class VolumeUnusable(Refusal, frozen=True):
    """A claim of the pod has no volume, or none that it may use; `other` is the pod, volume or class that the words name."""

    cause: VolumeCause
    claim: str
    other: str = ""

    @property
    def reason(self) -> PodReason:
        """The code of the cause."""
        return self.cause.value[0]

    @property
    def message(self) -> str:
        """The sentence for people."""
        return self.cause.value[1].format_map({"claim": self.claim, "other": self.other})


# Why a NodePool opens no node for a pod, although instance types would suit.


class SubnetsFull(Refusal, frozen=True):
    """The subnets of its EC2NodeClass are full: zone → their ids."""

    reason: ClassVar = PodReason.NO_FREE_ADDRESS
    node_class: str
    zones: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def message(self) -> str:
        """The sentence for people."""
        named = "; ".join(f"{zone}: {', '.join(subnets)}" for zone, subnets in self.zones)
        return f"no subnet of EC2NodeClass {self.node_class} has the free addresses that its node takes ({named})"


class QuotaSpent(NamedTuple):
    """A vCPU quota of EC2, in words with its code, the vCPUs that it leaves, and those of the smallest suitable type."""

    quota: str
    left: int
    least: int


class QuotasSpent(Refusal, frozen=True):
    """EC2's quotas leave no room for the smallest suitable type."""

    reason: ClassVar = PodReason.QUOTA_REACHED
    quotas: tuple[QuotaSpent, ...]

    @property
    def message(self) -> str:
        """The sentence for people."""
        return "; ".join(
            f"EC2's {quota}, leaves {vcpus_left} vCPUs and the smallest suitable instance type has {least}"
            for quota, vcpus_left, least in self.quotas
        )


class AmountSpent(Refusal, frozen=True, kw_only=True):
    """What nodes may cost an hour is used up, or a cap on another resource. Amounts are as people read them.

    Attributes:
        owner: Whose limit it is, in words.
        unit: That of the amounts; empty for another resource than dollars.
        left: How much it leaves of `whole`.
        spent: What a cap has spent of its period, in words; empty for other limits.
        price: What the cheapest suitable type may cost, or the smallest one takes.
        lacking: How much more than is left that is.
    """

    reason: ClassVar = PodReason.BUDGET_EXHAUSTED
    owner: str
    resource: str
    unit: str = "$"
    left: str
    whole: str
    spent: str = ""
    price: str
    lacking: str

    @property
    def message(self) -> str:
        """The sentence for people."""
        unit, spent = self.unit, f" ({self.spent})" if self.spent else ""
        least, freed = "the cheapest suitable type may cost", f"that cost ${self.lacking} an hour"
        if not unit:
            least, freed = "the smallest suitable type takes", f"with {self.lacking} {self.resource}"
        return (
            f"{self.owner} limit {self.resource} leaves {unit}{self.left} of {unit}{self.whole}{spent}, "
            f"and {least} {unit}{self.price}: a node comes once others {freed} have left, or the limit is raised"
        )


class LimitsSpent(Refusal, frozen=True):
    """Its limits leave too little: name of the resource, amount, and words for who else shares the limit."""

    reason: ClassVar = PodReason.LIMIT_REACHED
    left: tuple[tuple[str, str, str], ...]

    @property
    def message(self) -> str:
        """The sentence for people."""
        listed = ", ".join(f"{name} {amount}{group}" for name, amount, group in self.left)
        return f"its limits leave {listed}, too little for another node"


class SpreadsBroken(Refusal, frozen=True):
    """A node in any of these domains, keys and values, would break a spread of pods that have their place. None: a new one."""

    reason: ClassVar = PodReason.TOPOLOGY_SPREAD
    domains: tuple[tuple[str, str | None], ...]

    @property
    def message(self) -> str:
        """The sentence for people."""
        names = sorted({f"{key} {value or 'of a further node'}" for key, value in self.domains})
        return f"a new node in {' or '.join(names)} would break the spread of pods that have their place"


class KeyLacking(Refusal, frozen=True):
    """Its nodes lack the label along which a rule between pods counts."""

    words: ClassVar = "its nodes do not have {key}, the topologyKey of the pod's {kind}"
    reason: PodReason
    key: str
    kind: str


class NobodySelected(Refusal, frozen=True):
    """No pod is there that an affinity selects."""

    reason: ClassVar = PodReason.POD_AFFINITY
    words: ClassVar = "no pod that has or gets a node matches the pod's affinity: {selected}"
    selected: str


class SpreadBehind(NamedTuple):
    """Domains with the fewest pods that the NodePool cannot fill, who makes them count, and the rule's maxSkew."""

    domains: tuple[str, ...]
    owners: str
    max_skew: int


class FewDomains(NamedTuple):
    """How many domains a spread's minDomains asks for, and how many there are."""

    wanted: int
    there: int


class DomainsRefused(Refusal, frozen=True, kw_only=True):
    """No domain satisfies a rule between pods.

    Attributes:
        counts: Domain → how many pods count there; None along hostnames.
        lack: What keeps a spread from going on, where that is known.
    """

    reason: PodReason
    key: str
    kind: str
    is_affinity: bool
    counts: tuple[tuple[str, int], ...] | None
    lack: SpreadBehind | FewDomains | None = None

    @property
    def message(self) -> str:
        """The sentence for people."""
        return f"no {self.key} satisfies the pod's {self.kind} ({self._state()}){self._lacking()}"

    def _state(self) -> str:
        if self.counts is None:
            return "a new node has none of the pods that it must be near" if self.is_affinity else "on any node"
        return f"pods now: {', '.join(f'{domain}: {count}' for domain, count in self.counts) or 'none'}"

    def _lacking(self) -> str:
        match self.lack:
            case FewDomains(wanted, there):
                return f"; minDomains asks for {wanted} values of {self.key}, and NodePools and nodes have {there}"
            case SpreadBehind(domains, owners, skew):
                count = "counts" if len(domains) == 1 else "count"
                return (
                    f"; {', '.join(domains)} must fill up first (maxSkew {skew}) and {count} because of {owners}; "
                    f"this NodePool cannot: demand the values of {self.key} that may be used in the pod's node affinity, "
                    f"set nodeTaintsPolicy: Honor, or keep {owners} out of it"
                )
        return ""


# Why a launch of a claim would be refused before EC2 is asked.


class NoneAvailable(Refusal, frozen=True):
    """No type of the claim has an offering that is open."""

    reason: ClassVar = PodReason.NO_OFFERING_AVAILABLE
    words: ClassVar = "none of the {types} instance types of the claim has an offering that is available"
    types: int


class MinValuesBeyond(Refusal, frozen=True):
    """minValues take more types than EC2 is asked for: label → how many values."""

    reason: ClassVar = PodReason.MIN_VALUES_NOT_MET
    demanded: tuple[tuple[str, int], ...]
    needed: int
    most: int

    @property
    def message(self) -> str:
        """The sentence for people."""
        listed = ", ".join(f"{count} of {key}" for key, count in self.demanded)
        return f"minValues demand {listed}, which takes {self.needed} instance types; EC2 is asked for {self.most}"
