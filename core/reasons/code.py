"""The common base of all codes: a stable text, its meaning, and advice."""

from __future__ import annotations

import re
from abc import abstractmethod
from enum import StrEnum
from typing import ClassVar, Final, Self

import msgspec

from core import labels

PAGE: Final = "docs/reference/reason-codes.md"
"""The page of all reason codes; each code is an anchor."""

_NAMES: Final = ("Karpenter",)
"""Names that are written like the first word of any sentence; others, such as EC2, have more capitals."""


class DocumentedCode(StrEnum):
    """Base of the enumerations. A member equals its code; users read it in plans, logs, events and metrics.

    Attributes:
        meaning: Its meaning, in one sentence.
        advice: What to do about it, in one sentence; empty if there is nothing to do.
    """

    meaning: str
    advice: str

    def __new__(cls, value: str, meaning: str, advice: str = "") -> Self:
        """A member."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.advice = advice
        return member

    @classmethod
    def of(cls, text: str, default: Self | None = None) -> Self:
        """Return the member with this code; `default` if there is none, for instance for a code that another version stored.

        Raises:
            ValueError: If there is none and no default.
        """
        code = next((member for member in cls if member == text), default)
        if code is None:
            raise ValueError(f"{text!r} is not a {cls.__name__}")
        return code

    @property
    def clause(self) -> str:
        """The meaning as the end of a sentence; names such as EC2 keep their capitals."""
        first, _, rest = self.meaning.removesuffix(".").partition(" ")
        is_name = first in _NAMES or not first.istitle()
        return f"{first if is_name else first.lower()} {rest}".rstrip()


class ReasonCode(DocumentedCode):
    """Base of the codes that state a reason."""


# Reasons concerning a NodeClaim, its instance and its node before its removal.


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
    NODE_CLAIM_GONE = (
        "NodeClaimGone",
        "The hand-made NodeClaim was released by another run before its launch, so nothing is launched for it.",
        "Create it again if the node is still wanted.",
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
    EXPIRES_TOO_SOON = (
        "ExpiresTooSoon",
        "A NodePool's expireAfter is shorter than the 10 minutes for which a node works at least; those count.",
        "Raise expireAfter: nodes are replaced all the time.",
    )
    CLOSED_BUT_OCCUPIED = (
        "ClosedButOccupied",
        "Its NodePool is outside its hours, but one of its pods may not be evicted.",
        "Read the message: it says until when the node stays. `podsThatStay` of the Calendar's rule decides that.",
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
    STRAY_NODE = ("StrayNode", "One of our Nodes had no instance any more, and its finalizer was removed.")
    STRAY_TAINT = (
        "StrayTaint",
        "The node had the disrupted taint although nothing disrupts it; the taint was removed.",
    )


# Kinds of decisions.


class DecisionKind(DocumentedCode):
    """Kind of a decision in the functions' answers and logs; metrics count each as `Decisions<Kind>`."""

    LAUNCH = ("launch", "An instance was launched.")
    BIND = ("bind", "A pod is expected on an existing or launching node.")
    UNSCHEDULABLE = ("unschedulable", "A pod has no place.")
    DISRUPT = ("disrupt", "Voluntary disruption of a node was decided, or started.")
    REGISTER = ("register", "A node joined.")
    INITIALIZE = ("initialize", "A node is ready for pods.")
    DRAIN = ("drain", "A pod was evicted or could not be evicted, or a drain makes little progress.")
    TERMINATE = ("terminate", "The removal of a claim begins, or its instance is terminated.")
    INTERRUPT = ("interrupt", "EC2 or AWS Health announced a change of an instance.")
    ADOPT = ("adopt", "An instance was found by its tag.")
    RELABEL = ("relabel", "A node's labels were updated to match its instance.")
    EXPIRE = ("expire", "A claim is removed because of its age.")
    ABANDON = ("abandon", "A command, a drain or a brake was abandoned.")
    FORGET = ("forget", "The record of a claim was deleted, or a stray Node released.")
    REPAIR = ("repair", "A counter was corrected.")
    BRAKE = ("brake", "A NodePool's breaker opened.")
    RELEASE = ("release", "A NodePool's breaker closed.")
    PROPOSE = ("propose", "A command waits for approval.")
    APPROVE = ("approve", "A person approved a command, and it is carried out.")
    OBSERVE = (
        "observe",
        "A launch or command was only recorded: its NodePool or the cluster is only observed.",
    )
    SKIP = ("skip", "An object was left unchanged.")


# A refusal: why a requested object is not returned.


class Refusal(msgspec.Struct, frozen=True):
    """Returned instead of the requested object. Each cause is a type beside its code: it has the names and numbers of the case.

    Attributes:
        words: The sentence of a type, with its fields in braces.
    """

    words: ClassVar[str]

    @property
    @abstractmethod
    def reason(self) -> ReasonCode:
        """The code; a class variable of most types."""

    @property
    def message(self) -> str:
        """The sentence for people, about this case."""
        return self.words.format_map(msgspec.structs.asdict(self))

    def __str__(self) -> str:
        return self.message


class Stated(Refusal, frozen=True):
    """A refusal whose sentence is given, such as an answer of EC2 or a text that was stored."""

    reason: ReasonCode
    message: str


# Reasons why a stored target is continued or replaced.


class TargetReason(ReasonCode):
    """Why a target is followed or planned again."""

    MADE = ("TargetMade", "There was no target, so one was planned.")
    CONTINUED = ("TargetContinued", "The current target still holds and is continued.")
    FINISHED = ("TargetFinished", "All nodes of the previous target are gone or may no longer be disrupted.")
    SAVES_LESS = ("TargetSavesLess", "The rest of the target would save clearly less than planned.")
    OUTGROWN = ("TargetOutgrown", "The nodes that stay have clearly grown or shrunk since the target was planned.")
    TOO_OLD = ("TargetTooOld", "The target was planned more than six hours ago.")
    SETTINGS_CHANGED = ("TargetSettingsChanged", "The price of moves or the feature gate for spot has changed since.")


# Reasons for the removal of a NodeClaim.


class TerminationReason(ReasonCode):
    """Code of `commands[].reason` of a disruption plan, of a claim's deletion and of events during its removal."""

    EMPTY = ("Empty", "No pod on the node needs another place.")
    UNDERUTILIZED = ("Underutilized", "Its pods fit elsewhere, or a cheaper node holds them.")
    DRIFTED = ("Drifted", "It no longer matches its NodePool or EC2NodeClass.")
    UNHEALTHY = (
        "Unhealthy",
        "A condition of the node or a status check of EC2 has failed for long; budgets may name this reason.",
        "Examine the node that the message names if this happens often.",
    )
    EXPIRED = ("Expired", "It is older than expireAfter.")
    EXPIRED_FORCEFULLY = (
        "ExpiredForcefully",
        "It is older than expireAfter, and its NodePool removes such nodes regardless of budgets and pods.",
        "Remove the annotation `fleetwright.dev/expiry` from the NodePool if budgets should apply.",
    )
    OUTSIDE_HOURS = ("OutsideHours", "A Calendar closes its NodePool; the node is removed within budgets.")
    OUTSIDE_HOURS_FORCED = (
        "OutsideHoursForced",
        "A Calendar closes its NodePool, and the time in which budgets and pods could keep the node is over.",
        "Raise `forceAfter` of the Calendar's rule, or leave nodes to their pods with `podsThatStay: Leave`.",
    )
    SCHEDULED_CHANGE = (
        "ScheduledChange",
        "AWS will retire or restart the instance within days; the node is removed within budgets.",
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
    GROUP_GIVEN_BACK = (
        "GroupGivenBack",
        "It was launched for a group that cannot be complete now or no longer needs it, so it is given back while it starts.",
        "Read the group's own reason: `fleetwright explain group/NAME`.",
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
"""Karpenter's three reasons for consolidation and drift."""

NAMED_BY_BUDGETS: Final = (*BUDGETED, TerminationReason.UNHEALTHY)
"""The reasons that a NodePool's budgets can name (Karpenter 1.15); each is counted for itself."""

RECLAIMED: Final = frozenset(
    {
        TerminationReason.SPOT_INTERRUPTED,
        TerminationReason.RESERVATION_INTERRUPTED,
        TerminationReason.CAPACITY_BLOCK_ENDS,
    }
)
"""Reasons with which EC2 takes the instance at an announced time, whatever protects its pods."""

GROUPS_END_FIRST: Final = (TerminationReason.DRIFTED, TerminationReason.EXPIRED)
"""The reasons for which members of groups that start together stay until the deadline of the drain, if it has one."""


# Messages: a line end in one is ours, never that of a name or a value.


_LINE_ENDS: Final = re.compile(r"[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def on_one_line(text: str) -> str:
    r"""Return the text with its line ends escaped as in `\u000a`: a line of others could be a command of a CI system."""
    return _LINE_ENDS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


# Reasons why a node does not change hands between Karpenter and us.


class AdoptionReason(ReasonCode):
    """Why a NodeClaim, a Node or an instance of Karpenter's is not adopted."""

    UNREADABLE = (
        "Unreadable",
        "The NodeClaim cannot be read.",
        "Correct the field that the message names.",
    )
    OTHER_PROVIDER = (
        "OtherProvider",
        "Its nodeClassRef does not name an EC2NodeClass, so another provider launched it.",
    )
    NOT_LAUNCHED = (
        "NotLaunched",
        "No instance was launched for it.",
        "Delete the NodeClaim and remove its finalizer: waiting pods get a node from Fleetwright.",
    )
    BEING_DELETED = (
        "BeingDeleted",
        "Karpenter was removing it, and an object that is being deleted accepts no new finalizer.",
        "Run Karpenter until it is gone, or drain the node, terminate its instance and remove the finalizers.",
    )
    REBOOTING = (
        "Rebooting",
        "Karpenter was rebooting its node, and only Karpenter opens the node to pods again.",
        "Run Karpenter until the reboot is over; or remove the taint karpenter.sh/rebooting and the condition Rebooting.",
    )
    NODE_POOL_NOT_FOUND = (
        "NodePoolNotFound",
        "Its NodePool does not exist or is being deleted, so its node would be drained and terminated.",
        "Create the NodePool, or terminate the node.",
    )
    NODE_CLASS_NOT_FOUND = (
        "NodeClassNotFound",
        "Its EC2NodeClass does not exist or is being deleted.",
        "Create the EC2NodeClass, or terminate the node.",
    )
    INSTANCE_NOT_FOUND = (
        "InstanceNotFound",
        "EC2 has no running instance of this id.",
        "Check the region and the account; if the instance is gone, remove the finalizers of NodeClaim and Node.",
    )
    OTHER_OWNER = (
        "OtherOwner",
        "The instance's tags name another cluster, NodePool or claim.",
        "Correct the tags if they are wrong.",
    )
    NAME_TAKEN = (
        "NameTaken",
        "A Fleetwright claim has this name but another instance.",
        "Report it with the output of `fleetwright status`: names of claims are unique.",
    )
    NOT_JOINED = (
        "NotJoined",
        "Its node did not join within 15 minutes, so it would be terminated right after adoption.",
        "Terminate the instance and delete the NodeClaim, or find out why the node does not join.",
    )
    SEVERAL_NODES = (
        "SeveralNodes",
        "Several Nodes have its provider id.",
        "Delete the obsolete Nodes.",
    )
    NO_NODE_CLAIM = (
        "NoNodeClaim",
        "It has Karpenter's tags or labels but no NodeClaim, so its plan is unknown.",
        "Drain the node if there is one, and terminate the instance.",
    )


class ReleaseReason(ReasonCode):
    """Why a claim of ours is not given to Karpenter."""

    LEAVING = (
        "Leaving",
        "Its node is being removed, and an object that is being deleted accepts no new finalizer.",
        "Run `fleetwright resume`, wait until the node is gone, then pause and release again.",
    )
    LAUNCHING = (
        "Launching",
        "Its instance was launched but is not stored in its claim yet.",
        "Run `fleetwright resume`, wait until the node is ready, then pause and release again.",
    )
    NOT_IN_TABLE = (
        "NotInTable",
        "The instance has Fleetwright's tag, but its claim is not in the table.",
        "Run `fleetwright resume`: `reconcile` rebuilds the claim within minutes; then pause and release again.",
    )
    GONE = (
        "Gone",
        "Its instance or its Node no longer exists.",
        "Run `fleetwright resume`, wait until the claim is gone, then pause and release again.",
    )
    POOL_NOT_FOUND = (
        "NodePoolNotFound",
        "Its NodePool does not exist, so its node will be terminated.",
        "Create the NodePool, or run `fleetwright resume` until the node is gone.",
    )
    OTHER_NODE_CLAIM = (
        "OtherNodeClaim",
        "A NodeClaim of its name belongs to another instance.",
        "Delete that NodeClaim if its instance does not run.",
    )


# Why nothing is launched for a NodeClaim that somebody made by hand.


NAME_TAKEN: Final = Stated(
    ClaimReason.NODE_CLAIM_NAME_TAKEN, "metadata.name: a claim of another NodeClaim has this name"
)


class FieldsInvalid(Refusal, frozen=True):
    """Fields of the object are wrong, each with what is wrong."""

    reason: ClassVar = ClaimReason.NODE_CLAIM_INVALID
    faults: tuple[tuple[str, str], ...]

    @property
    def message(self) -> str:
        """The sentence for people."""
        return "; ".join(f"{field}: {fault}" for field, fault in self.faults)


class FieldsUnknown(Refusal, frozen=True):
    """It has fields that this version would drop."""

    reason: ClassVar = ClaimReason.NODE_CLAIM_INVALID
    fields: tuple[str, ...]

    @property
    def message(self) -> str:
        """The sentence for people."""
        fields = ",".join(self.fields)
        return (
            f"{fields}: this version does not know it; update Fleetwright, or launch without it: annotate the NodeClaim with"
            f" {labels.IGNORED_FIELDS}: {fields}"
        )


class FinalizerForeign(Refusal, frozen=True):
    """Another controller holds the object."""

    reason: ClassVar = ClaimReason.NODE_CLAIM_INVALID
    words: ClassVar = (
        "metadata.finalizers: {finalizer} is another controller's; nothing is launched for an object that it holds"
    )
    finalizer: str


class NodeLabelsInvalid(Refusal, frozen=True):
    """The labels that its node would get are invalid."""

    reason: ClassVar = ClaimReason.NODE_CLAIM_INVALID
    words: ClassVar = "its name, class and labels become labels of its node, and {fault}"
    fault: str


class ClassOfOtherKind(Refusal, frozen=True):
    """It names a class of another provider, or none."""

    reason: ClassVar = ClaimReason.NODE_CLAIM_INVALID
    words: ClassVar = "spec.nodeClassRef.kind: {kind!r} is not EC2NodeClass"
    kind: str


class ClassGone(Refusal, frozen=True):
    """Its EC2NodeClass does not exist, or goes."""

    reason: ClassVar = ClaimReason.NODE_CLASS_NOT_FOUND
    node_class: str
    is_deleted: bool

    @property
    def message(self) -> str:
        """The sentence for people."""
        gone = "is being deleted" if self.is_deleted else "does not exist"
        return f"spec.nodeClassRef.name: EC2NodeClass {self.node_class} {gone}"


class ClassUnready(Refusal, frozen=True):
    """Its EC2NodeClass is not ready; `problem` is what the class says of itself."""

    reason: ClassVar = ClaimReason.NODE_CLASS_NOT_READY
    node_class: str
    problem: str = ""

    @property
    def message(self) -> str:
        """The sentence for people."""
        return f"EC2NodeClass {self.node_class}: {self.problem or 'its condition Ready is not True'}"


class RequirementsUnmet(Refusal, frozen=True):
    """No instance type meets its requirements; `key` is that of one that rules out all, empty if only several do."""

    reason: ClassVar = ClaimReason.INSUFFICIENT_CAPACITY
    key: str

    @property
    def message(self) -> str:
        """The sentence for people."""
        unmet = f"no instance type meets that on {self.key}" if self.key else "no instance type meets them all"
        return f"spec.requirements: {unmet}"


class RequestsTooLarge(Refusal, frozen=True):
    """None of the admitted types has what it requests."""

    reason: ClassVar = ClaimReason.INSUFFICIENT_CAPACITY
    words: ClassVar = (
        "spec.resources.requests: none of the {admitted} instance types that spec.requirements admit has as much"
    )
    admitted: int


class NoneOpen(Refusal, frozen=True):
    """None of the suitable types can be had now."""

    reason: ClassVar = ClaimReason.INSUFFICIENT_CAPACITY
    words: ClassVar = "none of the {suitable} suitable instance types is available now"
    suitable: int


class ZonesFull(Refusal, frozen=True):
    """The subnets of its EC2NodeClass are full in every zone where it could be."""

    reason: ClassVar = ClaimReason.INSUFFICIENT_CAPACITY
    node_class: str
    zones: tuple[str, ...]

    @property
    def message(self) -> str:
        """The sentence for people."""
        takes = f"has the free addresses that its node takes ({', '.join(self.zones)})"
        return f"no subnet of EC2NodeClass {self.node_class} {takes}"


class PricesHaveRisen(Refusal, frozen=True):
    """An instance of it may cost more by now than limits and caps in dollars count for it."""

    reason: ClassVar = ClaimReason.LIMIT_REACHED
    words: ClassVar = (
        "prices have risen since its plan: an instance may cost ${price} an hour, and ${counted} are counted for it"
    )
    price: str
    counted: str


class NoRoomInLimits(Refusal, frozen=True):
    """A limit of its NodePool or group, or a cap, is used up."""

    reason: ClassVar = ClaimReason.LIMIT_REACHED
    words: ClassVar = "the limits of {holder} have no room for it"
    holder: str


class NoLaunch(Refusal, frozen=True):
    """No launch can be made of its plan."""

    reason: ClassVar = ClaimReason.INSUFFICIENT_CAPACITY
    words: ClassVar = "{cause}"
    cause: Refusal


# Why a stored claim is not launched now, or not any more.


NO_CAPACITY: Final = Stated(ClaimReason.LAUNCH_HELD_BACK, "EC2 recently had no capacity for its offerings")
OTHER_RETRIES: Final = Stated(ClaimReason.LAUNCH_HELD_BACK, f"another launch is retrying: {NO_CAPACITY.message}")
GROUP_REFUSED: Final = Stated(
    ClaimReason.LAUNCH_HELD_BACK, "another node of its group, which starts together, cannot be launched"
)
GROUP_CHANGED: Final = Stated(
    ClaimReason.LAUNCH_HELD_BACK, "another node of its group, which starts together, is not launched"
)
ONE_TRIES: Final = Stated(
    ClaimReason.LAUNCH_HELD_BACK,
    "instances of its EC2NodeClass ended while they started: one is launched again first",
)
PODS_ELSEWHERE: Final = Stated(ClaimReason.PODS_PLACED_ELSEWHERE, "none of its pods waits for a node any more")


class DenialsPause(Refusal, frozen=True):
    """EC2 denied launches of its class; `denials` has each with its code and the next attempt."""

    reason: ClassVar = ClaimReason.LAUNCH_HELD_BACK
    denials: tuple[str, ...]

    @property
    def message(self) -> str:
        """The sentence for people."""
        return "; ".join(self.denials)


class DenialIsTried(Refusal, frozen=True):
    """Another claim asks whether EC2 still denies launches of its class."""

    reason: ClassVar = ClaimReason.LAUNCH_HELD_BACK
    words: ClassVar = "another claim is retrying: {denial}"
    denial: str


class OverLimit(Refusal, frozen=True):
    """A limit or cap that counts it is exceeded even without it: rows were lost, or it was lowered."""

    reason: ClassVar = ClaimReason.LIMIT_REACHED
    words: ClassVar = "{holder} is over its limit of {resource} without this claim's instance"
    holder: str
    resource: str
