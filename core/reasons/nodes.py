"""Reasons why a node stays."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Final

from core import labels
from core.reasons.code import ReasonCode, Refusal, Stated

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
    PODS_LEAVE = (
        "PodsLeave",
        "Pods of its NodePool leave at this time of most such weekdays, so for now consolidation removes empty nodes only.",
        "Wait until the time in the message; `forecast: shadow` keeps no node for that.",
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
        "It would go, but its NodePool, EC2NodeClass, Calendar or CapacityBuffer changed a moment ago, or again and again.",
        "Wait; if it changes again and again, let one tool alone write it: the event on the object names the writers.",
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


# What keeps a node: its own state, its pods, and its NodePool.


class BeingDeleted(Refusal, frozen=True):
    """The node, its claim or a command of it is on the way out."""

    reason: ClassVar = NodeReason.DELETING
    words: ClassVar = "node {node} is being deleted already"
    node: str


class Unmanaged(Refusal, frozen=True):
    """The node has no NodeClaim."""

    reason: ClassVar = NodeReason.NOT_MANAGED
    words: ClassVar = "node {node} has no NodeClaim"
    node: str


class NotJoined(Refusal, frozen=True):
    """The NodeClaim has no node yet."""

    reason: ClassVar = NodeReason.NOT_INITIALIZED
    words: ClassVar = "the node of NodeClaim {claim} has not joined yet"
    claim: str


class Uninitialized(Refusal, frozen=True):
    """The node has joined, but is not ready for its first pods."""

    reason: ClassVar = NodeReason.NOT_INITIALIZED
    words: ClassVar = "node {node} is not initialized yet"
    node: str


class NodeReboots(Refusal, frozen=True):
    """Karpenter reboots the node."""

    reason: ClassVar = NodeReason.REBOOTING
    words: ClassVar = "Karpenter is rebooting node {node}"
    node: str


class PodExpected(Refusal, frozen=True):
    """A pod without a node is expected on the node; `expected` names it."""

    reason: ClassVar = NodeReason.NOMINATED
    words: ClassVar = "{expected} is expected on node {node}"
    node: str
    expected: str


class NodeNotToDisrupt(Refusal, frozen=True):
    """The node has the annotation do-not-disrupt, with an end or without."""

    reason: ClassVar = NodeReason.DO_NOT_DISRUPT
    node: str
    until: datetime | None = None

    @property
    def message(self) -> str:
        """The sentence for people."""
        until = f" until {self.until:%Y-%m-%dT%H:%M:%SZ}" if self.until is not None else ""
        return f"node {self.node} has {labels.DO_NOT_DISRUPT}{until}"


class PodNotToDisrupt(Refusal, frozen=True):
    """A pod of the node has the annotation do-not-disrupt."""

    reason: ClassVar = NodeReason.DO_NOT_DISRUPT
    words: ClassVar = f"pod {{pod}} has {labels.DO_NOT_DISRUPT}"
    pod: str


class NotToRepair(Refusal, frozen=True):
    """The node or its claim has the annotation do-not-repair."""

    reason: ClassVar = NodeReason.DO_NOT_REPAIR
    words: ClassVar = f"node {{node}} has {labels.DO_NOT_REPAIR}"
    node: str


class PodOfRunningGroup(Refusal, frozen=True):
    """A pod of the node belongs to a group that would have to start again."""

    reason: ClassVar = NodeReason.GROUP_RUNS
    words: ClassVar = "pod {pod} belongs to group {group}, which runs"
    pod: str
    group: str


class BudgetKeepsPod(Refusal, frozen=True):
    """A PodDisruptionBudget keeps a pod of the node."""

    reason: ClassVar = NodeReason.POD_DISRUPTION_BUDGET
    words: ClassVar = "{why}"
    why: Refusal


class NodeUnreadable(Refusal, frozen=True):
    """A field of the Node cannot be read."""

    reason: ClassVar = NodeReason.UNREADABLE_NODE
    words: ClassVar = "node {node}: {problem}"
    node: str
    problem: str


class PodUnreadable(Refusal, frozen=True):
    """A field of one of the node's pods cannot be read."""

    reason: ClassVar = NodeReason.UNREADABLE_POD
    words: ClassVar = "pod {pod}: {problem}"
    pod: str
    problem: str


class NodePoolMissing(Refusal, frozen=True):
    """The NodePool that the node's label names does not exist."""

    reason: ClassVar = NodeReason.NODE_POOL_NOT_FOUND
    words: ClassVar = "NodePool {node_pool} of node {node} does not exist"
    node_pool: str
    node: str


class NodePoolObserved(Refusal, frozen=True):
    """The NodePool is only observed."""

    reason: ClassVar = NodeReason.OBSERVED
    words: ClassVar = f"NodePool {{node_pool}} is only observed: its annotation {labels.MODE} says so"
    node_pool: str


class NodePoolInvalid(Refusal, frozen=True):
    """A field of the NodePool is invalid."""

    reason: ClassVar = NodeReason.NODE_POOL_INVALID
    words: ClassVar = "NodePool {node_pool} is invalid: {problem}"
    node_pool: str
    problem: str


class NodePoolWithoutTypes(Refusal, frozen=True):
    """The catalogue has no type for the NodePool."""

    reason: ClassVar = NodeReason.NODE_POOL_NOT_FOUND
    words: ClassVar = "NodePool {node_pool} has no instance types to choose from"
    node_pool: str


# What keeps a node from consolidation.


class KeepsReplicas(Refusal, frozen=True):
    """The NodePool keeps a fixed number of nodes."""

    reason: ClassVar = NodeReason.STATIC_POOL
    words: ClassVar = "NodePool {node_pool} keeps {replicas} nodes, regardless of their use"
    node_pool: str
    replicas: int | None


class NeverConsolidated(Refusal, frozen=True):
    """The NodePool's consolidateAfter is Never."""

    reason: ClassVar = NodeReason.CONSOLIDATE_AFTER
    words: ClassVar = "consolidateAfter of NodePool {node_pool} is Never"
    node_pool: str


class ConsolidatedLater(Refusal, frozen=True):
    """The NodePool's consolidateAfter is not over for the node."""

    reason: ClassVar = NodeReason.CONSOLIDATE_AFTER
    words: ClassVar = "consolidateAfter of NodePool {node_pool} is over at {at:%Y-%m-%dT%H:%M:%SZ}"
    node_pool: str
    at: datetime


class ConsolidatedWhenEmpty(Refusal, frozen=True):
    """The NodePool's policy is WhenEmpty, and the node has a pod."""

    reason: ClassVar = NodeReason.POLICY_WHEN_EMPTY
    words: ClassVar = "NodePool {node_pool} consolidates empty nodes only, and pod {pod} runs on node {node}"
    node_pool: str
    pod: str
    node: str


class PodsLeave(Refusal, frozen=True):
    """The forecast expects pods of the NodePool to leave, and the node has pods."""

    reason: ClassVar = NodeReason.PODS_LEAVE
    words: ClassVar = (
        "by forecast, pods of NodePool {node_pool} leave at this time; "
        "until {until:%Y-%m-%dT%H:%M:%SZ} consolidation removes empty nodes only"
    )
    node_pool: str
    until: datetime


class RoomKept(Refusal, frozen=True):
    """The empty node's room is for a capacity buffer or a member of a group."""

    reason: ClassVar = NodeReason.CAPACITY_BUFFER
    words: ClassVar = "a capacity buffer, or a member that a group awaits, uses the room of node {node}"
    node: str


class MovedRecently(Refusal, frozen=True):
    """A pod of the node was moved, and stays for a while."""

    reason: ClassVar = NodeReason.RECENTLY_MOVED
    words: ClassVar = "pod {pod} was moved a while ago and stays until {until:%Y-%m-%dT%H:%M:%SZ}"
    pod: str
    until: datetime


class MovedInVain(Refusal, frozen=True):
    """The last move of a pod's workload saved nothing."""

    reason: ClassVar = NodeReason.RECENTLY_MOVED
    words: ClassVar = (
        "pod {pod} stays until {until:%Y-%m-%dT%H:%M:%SZ}: "
        "when pods of {workload} were moved last, new nodes were launched for them"
    )
    pod: str
    until: datetime
    workload: str


class PriceUnknown(Refusal, frozen=True):
    """The node's type, zone or capacity type is not in the catalogue."""

    reason: ClassVar = NodeReason.UNKNOWN_INSTANCE_TYPE
    words: ClassVar = (
        "node {node} (instance type {instance_type}) has no known type, zone and capacity type, so its price is unknown"
    )
    node: str
    instance_type: str


class SavingsBelowMoves(Refusal, frozen=True):
    """Under policy Balanced, the savings of a command of Karpenter's methods do not outweigh its moves."""

    reason: ClassVar = NodeReason.BALANCED
    words: ClassVar = (
        "the savings are too small for the pods that NodePool {node_pool} (policy Balanced) would have to move"
    )
    node_pool: str


class DeletionBelowMoves(Refusal, frozen=True):
    """Under policy Balanced, even the deletion of the node saves too little."""

    reason: ClassVar = NodeReason.BALANCED
    words: ClassVar = "even deleting it saves too little for NodePool {node_pool} (Balanced)"
    node_pool: str


class TargetBelowMoves(Refusal, frozen=True):
    """Under policy Balanced, the savings of a command of the target do not outweigh its moves."""

    reason: ClassVar = NodeReason.BALANCED
    words: ClassVar = "the policy Balanced of NodePool {node_pool} asks for more saving per moved pod"
    node_pool: str


class PodUnplaced(Refusal, frozen=True):
    """A pod of a leaving node finds no place; `why` is the scheduler's sentence, empty if it was not asked."""

    reason: ClassVar = NodeReason.PODS_UNSCHEDULABLE
    pod: str
    why: str = ""

    @property
    def message(self) -> str:
        """The sentence for people."""
        return f"pod {self.pod} would find no place{self.why and ': '}{self.why}"


class PodOnUninitialized(Refusal, frozen=True):
    """A pod of a leaving node fits only on a node that may never become ready."""

    reason: ClassVar = NodeReason.PODS_UNSCHEDULABLE
    words: ClassVar = "pod {pod} would have to wait for a node that is not initialized"
    pod: str


DISPLACES_PENDING: Final = Stated(NodeReason.NO_CHEAPER_OPTION, "pending pods would then need a new node instead")
NO_CHEAPER_TYPE: Final = Stated(NodeReason.NO_CHEAPER_OPTION, "no cheaper instance type could hold its pods")
NO_SPOT_FOR_SPOT: Final = Stated(
    NodeReason.SPOT_TO_SPOT, "a spot node is replaced by another only with the feature gate SpotToSpotConsolidation"
)


class SeveralNodesNeeded(Refusal, frozen=True):
    """The pods need more than one new node."""

    reason: ClassVar = NodeReason.NO_CHEAPER_OPTION
    words: ClassVar = "its pods would need {count} new nodes"
    count: int


class MinValuesUnmet(Refusal, frozen=True):
    """The cheaper types have too few values of labels with minValues."""

    reason: ClassVar = NodeReason.NO_CHEAPER_OPTION
    words: ClassVar = "too few cheaper instance types for minValues of {keys}"
    keys: str


class TooFewSpotTypes(Refusal, frozen=True):
    """A lone spot node has too few cheaper types."""

    reason: ClassVar = NodeReason.SPOT_TO_SPOT
    words: ClassVar = "{needed} cheaper spot instance types are needed, there are {types}"
    needed: int
    types: int


class NotTried(Refusal, frozen=True):
    """The pass ended before the node's turn."""

    reason: ClassVar = NodeReason.NOT_TRIED
    words: ClassVar = "the pass ended before node {node} was examined"
    node: str


# What keeps a node of a target, apart from budgets.


NO_SLOTS: Final = Stated(
    NodeReason.PODS_UNSCHEDULABLE, "the places for its pods are not open yet: pods of spot nodes have no others"
)
SLOT_DENIED: Final = Stated(
    NodeReason.PODS_UNSCHEDULABLE,
    "a rule denies one of its pods its place: once the pods of other nodes have moved there, or until they have",
)
SLOT_CHANGED: Final = Stated(
    NodeReason.CONSOLIDATE_AFTER, "consolidateAfter is not over for a node to which its pods would go"
)
NO_LIMITS: Final = Stated(
    NodeReason.PODS_UNSCHEDULABLE, "limits of NodePools leave no room for new nodes while this one is there"
)
TOO_DEAR: Final = Stated(
    NodeReason.NO_CHEAPER_OPTION, "the new nodes for its pods may become as expensive as what they replace"
)
NO_SAVING: Final = Stated(NodeReason.NO_CHEAPER_OPTION, "what it saves by itself is too little for new nodes")
TOGETHER_ONLY: Final = Stated(
    NodeReason.BUDGET, "it saves only together with more nodes than budgets let go at one time"
)
NEEDS_SPOT_GATE: Final = Stated(
    NodeReason.SPOT_TO_SPOT, "its pods would need a new spot node, and the feature gate SpotToSpotConsolidation is off"
)


class PlaceLost(Refusal, frozen=True):
    """The pods of earlier commands could take the place of one of its pods."""

    reason: ClassVar = NodeReason.PODS_UNSCHEDULABLE
    words: ClassVar = "kube-scheduler would place the pods that move before so that none is left for {pod}"
    pod: str


class TargetAwaitsPods(Refusal, frozen=True):
    """No other target is made while moved pods start; PodDisruptionBudgets keep `node` and `others` more meanwhile."""

    reason: ClassVar = NodeReason.TARGET_WAITS
    node: str
    others: int
    until: datetime

    @property
    def message(self) -> str:
        """The sentence for people."""
        names = f"{self.node} and {self.others} more" if self.others else self.node
        return (
            f"no other target is made until {self.until:%Y-%m-%dT%H:%M:%SZ}: "
            f"PodDisruptionBudgets keep {names} while pods that were moved start"
        )


class TargetAwaitsBudgets(Refusal, frozen=True):
    """No other target is made while budgets keep the nodes of this one."""

    reason: ClassVar = NodeReason.TARGET_WAITS
    words: ClassVar = "nothing is decided about it while the current target waits: {budgets}"
    budgets: Refusal | str


class GoesLater(Refusal, frozen=True):
    """The target drains the node in a later wave; `why` says what keeps it out of this one, budgets aside."""

    reason: ClassVar = NodeReason.LATER_WAVE
    node: str
    why: Refusal | None = None

    @property
    def message(self) -> str:
        """The sentence for people."""
        return f"node {self.node} goes in a later wave" + (f": {self.why}" if self.why is not None else "")


class NoCheaperPlace(Refusal, frozen=True):
    """Every other place of its pods costs at least as much; `moves`: what moving them costs, in nano-dollars per hour."""

    reason: ClassVar = NodeReason.NO_CHEAPER_OPTION
    pods: int
    moves: int

    @property
    def message(self) -> str:
        """The sentence for people."""
        pods = "pod" if self.pods == 1 else f"{self.pods} pods"
        moves = f", with ${self.moves / 10**9:.4f} an hour for the moves" if self.moves else ""
        return f"no place for its {pods} costs less than the node itself{moves}"


# What keeps a node that budgets and rates bound.


class EvictionRateReached(Refusal, frozen=True):
    """The pods would exceed the hourly evictions of a NodePool, or of the cluster if `node_pool` is empty."""

    reason: ClassVar = NodeReason.EVICTION_RATE
    node_pool: str
    pods: int
    allowed: int
    used: int

    @property
    def message(self) -> str:
        """The sentence for people."""
        where = f"NodePool {self.node_pool}" if self.node_pool else "the cluster"
        return (
            f"{self.pods} pods to evict: {where} allows {self.allowed} evictions an hour, "
            f"and {self.used} of them are used up"
        )


class BudgetShared(Refusal, frozen=True):
    """Pods of nodes that go in this pass use up a PodDisruptionBudget of its pods."""

    reason: ClassVar = NodeReason.POD_DISRUPTION_BUDGET
    words: ClassVar = "pods of node {node} share a PodDisruptionBudget with those of nodes that go in this pass"
    node: str


# What keeps an unhealthy or drifted node that something replaces at any cost.


class ManyUnhealthy(Refusal, frozen=True):
    """Too many nodes of the NodePool are unhealthy."""

    reason: ClassVar = NodeReason.MANY_UNHEALTHY
    words: ClassVar = "too many nodes of NodePool {node_pool} are unhealthy for a replacement to help"
    node_pool: str


class NoTypeToLaunch(Refusal, frozen=True):
    """The static NodePool has no type for a replacement."""

    reason: ClassVar = NodeReason.STATIC_POOL
    words: ClassVar = "NodePool {node_pool} has no instance type to launch"
    node_pool: str


class ShrinksFirst(Refusal, frozen=True):
    """The static NodePool has more nodes than replicas."""

    reason: ClassVar = NodeReason.STATIC_POOL
    words: ClassVar = "NodePool {node_pool} has {nodes} nodes and wants {replicas}: it shrinks first"
    node_pool: str
    nodes: int
    replicas: int | None


class AwaitsReplacement(Refusal, frozen=True):
    """Another node of the static NodePool goes before its replacement."""

    reason: ClassVar = NodeReason.STATIC_POOL
    words: ClassVar = "a node goes before its replacement comes; NodePool {node_pool} waits for that"
    node_pool: str


class NoRoomForReplacement(Refusal, frozen=True):
    """The static NodePool's limits.nodes is reached."""

    reason: ClassVar = NodeReason.STATIC_POOL
    words: ClassVar = "limits.nodes of NodePool {node_pool} leaves no room for a replacement"
    node_pool: str
