"""The complete input of a decision, at one moment."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue
from core.model.node_pool import Calendar, NodeClass, NodePool, RolloutGate
from core.model.plan import NodeClaim, StoredTarget
from core.model.pod import (
    DO_NOT_SCHEDULE,
    GroupObject,
    LabelSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    StorageClass,
    TopologySpread,
    VolumeAttachment,
)
from core.model.values.commitment import Commitment
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint, is_protected
from core.reasons.code import Refusal
from core.reasons.nodes import MovedInVain, MovedRecently

# Karpenter's feature gates, and the parser of `FEATURE_GATES` that functions and command line share.


VARIABLE: Final = "FEATURE_GATES"
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")
"""The values that Go's `strconv.ParseBool` accepts, with which Karpenter reads its gates."""


class FeatureGates(msgspec.Struct, frozen=True):
    """Karpenter's feature gates, with Karpenter's defaults except where stated.

    Attributes:
        node_repair: Nodes that are unhealthy for long are replaced, within the budgets.
        reserved_capacity: Offerings of capacity reservations are used.
        spot_to_spot_consolidation: A spot node may be replaced by a cheaper spot node.
        node_overlay: NodeOverlays change prices and capacity.
        static_capacity: NodePools with replicas keep that many nodes. Without it, their nodes are neither added nor removed.
        capacity_buffer: CapacityBuffers keep room free for virtual pods in every plan.
        terminate_first_drift: A drifted node is removed before its replacement comes where only its own place can hold the
            replacement. On here, off in Karpenter: otherwise, the node stays drifted.
        terminate_first_repair: The same for an unhealthy node.
        pod_deletion_cost_management: ReplicaSets remove first the pods of nodes that are drained next (`steerScaleIn`), so the
            deletion costs of pods say nothing of evictions.
    """

    node_repair: bool = False
    reserved_capacity: bool = True
    spot_to_spot_consolidation: bool = False
    node_overlay: bool = False
    static_capacity: bool = False
    capacity_buffer: bool = False
    terminate_first_drift: bool = True
    terminate_first_repair: bool = False
    pod_deletion_cost_management: bool = False


GATES: Final = {
    "NodeRepair": "node_repair",
    "ReservedCapacity": "reserved_capacity",
    "SpotToSpotConsolidation": "spot_to_spot_consolidation",
    "NodeOverlay": "node_overlay",
    "StaticCapacity": "static_capacity",
    "CapacityBuffer": "capacity_buffer",
    "TerminateFirstDrift": "terminate_first_drift",
    "TerminateFirstRepair": "terminate_first_repair",
    "PodDeletionCostManagement": "pod_deletion_cost_management",
}
"""Karpenter's name of a feature gate → our field of it."""


class GivenGates(msgspec.Struct, frozen=True):
    """The content of `FEATURE_GATES`; `unknown` are names that this release does not have, in order."""

    gates: FeatureGates
    unknown: tuple[str, ...] = ()


def parse_feature_gates(text: str) -> GivenGates:
    """Read `Name=true,Other=false`; spaces around names and values do not matter (Karpenter).

    Raises:
        InvalidInputError: If an entry is not a name and a boolean.
    """
    values: dict[str, bool] = {}
    unknown: list[str] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (part.strip() for part in entry.partition("="))
        if value not in (*_TRUE, *_FALSE):
            raise InvalidInputError(f"{entry!r} is not of the form Name=true or Name=false", field=VARIABLE)
        if name in GATES:
            values[GATES[name]] = value in _TRUE
        else:
            unknown.append(name)
    return GivenGates(FeatureGates(**values), tuple(unknown))


# What disruption moved recently: drained nodes, and workloads that consolidation therefore does not move again yet.


DWELL: Final = timedelta(minutes=15)
"""How long consolidation does not move a moved pod again."""


class EvictedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that a command drains or has drained.

    Attributes:
        pods: How many pods need a new place because of the drain.
        at: When the drain began.
        cpu: Its millicores; 0 in rows older than this field.
        created_at: When its claim was created; None in rows older than this field.
    """

    node_pool: str
    pods: int
    at: datetime
    cpu: int = 0
    created_at: datetime | None = None


class MovedWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """One workload (`namespace/Kind/name` of the object that creates its pods).

    Attributes:
        moving_since: When its pods were first moved in the recent series of moves; pods that started earlier were not moved.
        moved_at: When its pods were last moved.
        unpaid_moves: How often in a row nodes had to be launched for pods that consolidation had moved.
        held_until: Until when consolidation moves none of its pods, None without unpaid moves.
    """

    name: str
    moving_since: datetime
    moved_at: datetime
    unpaid_moves: int = msgspec.field(default=0, name="regrets")  # rows and ledgers have this name
    held_until: datetime | None = None

    @property
    def settles_at(self) -> datetime:
        """When none of its pods counts as moved any more, unless more are moved before."""
        return self.moved_at + DWELL

    def keeps(self, pod: Pod, now: datetime) -> Refusal | None:
        """Return why consolidation must not move a pod of the workload now, None if it may."""
        if self.held_until is not None and now < self.held_until:
            return MovedInVain(pod.key, self.held_until, self.name)
        started = pod.started_at or pod.created_at
        if started is not None and started >= self.moving_since and now < self.settles_at:
            return MovedRecently(pod.key, self.settles_at)
        return None


# The properties of a Kubernetes Node that decisions read.


ACCELERATED_HARDWARE: Final = "AcceleratedHardwareReady"
"""The condition of the EKS node monitoring agent whose reason decides how long repair waits."""


class NodeCondition(msgspec.Struct, frozen=True):
    """One entry of a node's `status.conditions`: its status, and since when; `reason` only of accelerators."""

    type: str
    status: str
    changed_at: datetime | None = None
    reason: str = ""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node, managed by us or not.

    Attributes:
        is_ready: Condition Ready is True.
        ready_changed_at: When that condition last changed, None where unknown.
        conditions: All of them, by type.
        finalizers: Its finalizers: a deleted node exists until all are removed.
        unreadable: Field and problem if it cannot be read as a whole; its free room is then unknown.
        attach_limits: CSI driver → how many volumes it may attach (CSINode), only for drivers that state a limit.
    """

    name: str
    uid: str = ""
    provider_id: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    created_at: datetime | None = None
    deleted_at: datetime | None = None
    finalizers: tuple[str, ...] = ()
    is_ready: bool = False
    ready_changed_at: datetime | None = None
    conditions: tuple[NodeCondition, ...] = ()
    attach_limits: dict[str, int] = {}
    unreadable: str = ""

    def blocks_disruption(self, now: datetime) -> bool:
        """Whether its `karpenter.sh/do-not-disrupt` annotation is in force: "true", or a duration since it was created."""
        return is_protected(self.annotations.get(labels.DO_NOT_DISRUPT), self.created_at, now)


# NodeOverlay: prices and capacities by which users correct the catalogue.


class NodeOverlay(msgspec.Struct, frozen=True, kw_only=True):
    """One overlay. `price` is absolute in nano-dollars; `price_adjustment` is a signed amount or percentage as written."""

    name: str
    requirements: tuple[Requirement, ...] = ()
    price: int | None = None
    price_adjustment: str | None = None
    capacity: dict[str, int] = {}
    weight: int = 0


VIRTUAL_PRIORITY: Final = -(2**31)
"""The priority of a buffer's virtual pods (Karpenter)."""


class CapacityBuffer(msgspec.Struct, frozen=True, kw_only=True):
    """Room to keep free: how many pods of which shape. Its references are resolved before the snapshot.

    Attributes:
        taken: For how many of its pods, the first by number, others came that use the room.
        requested: Names of its pods whose launch is in progress, so that they are not planned again.
        calendar: The rule of a Calendar that keeps the room, empty for a CapacityBuffer of the cluster.
    """

    namespace: str
    name: str
    uid: str = ""
    pods: int
    labels: dict[str, str] = {}
    spec: PodSpec
    taken: int = 0
    requested: tuple[str, ...] = ()
    calendar: str = ""


class RequestedPods(msgspec.Struct, frozen=True, kw_only=True):
    """Equal pods of a ProvisioningRequest, made of a PodTemplate; `pods` is how many."""

    pods: int
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    spec: PodSpec


class ProvisioningRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Room that pods to come ask for, all of it or none (`core.provisioning_requests`).

    Attributes:
        provisioning_class: `spec.provisioningClassName`.
        valid_until: When it fails if its room is not there.
        fails_at_once: Whether it fails at the first plan that has no room for it (parameter `noRetry`).
        reservation: Id of the capacity reservation or block in which its room has to be; empty for room anywhere.
        runs_for: How long its pods run at most; zero if it does not say.
        provisioned_at: When its condition Provisioned became True.
        has_own_nodes: Whether its room is on nodes that were bought for it, by its `provisioningClassDetails`.
        lost_at: Since when its nodes are gone, by its condition CapacityRevoked, which is Unknown since then.
        is_expired: Whether BookingExpired is True: it holds its room no longer.
        is_failed: Whether Failed or CapacityRevoked is True: nothing changes it any more.
        reason, message: Why no room is looked for; empty if nothing prevents it.
    """

    namespace: str
    name: str
    uid: str = ""
    created_at: datetime | None = None
    provisioning_class: str
    pod_sets: tuple[RequestedPods, ...] = ()
    valid_until: datetime | None = None
    fails_at_once: bool = False
    reservation: str = ""
    runs_for: timedelta = timedelta(0)
    provisioned_at: datetime | None = None
    has_own_nodes: bool = False
    lost_at: datetime | None = None
    is_expired: bool = False
    is_failed: bool = False
    reason: str = ""
    message: str = ""


# PodDisruptionBudgets and the other objects that rules refer to.


ALWAYS_ALLOW = "AlwaysAllow"


class PodDisruptionBudget(msgspec.Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget.

    Attributes:
        min_available, max_unavailable: As written, a number or a percentage; at most one is set.
        disruptions_allowed: The value in its status, None if it has no status yet or one of an earlier generation.
        expected_pods: The number of expected pods in its status, None likewise.
        current_healthy, desired_healthy: How many ready pods it counts and wants by its status, None likewise.
    """

    namespace: str
    name: str
    selector: LabelSelector | None = None
    min_available: str | None = None
    max_unavailable: str | None = None
    disruptions_allowed: int | None = None
    expected_pods: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    unhealthy_pod_eviction_policy: str = ""

    def selects(self, pod: Pod) -> bool:
        """Whether the budget selects the pod, which is of the same namespace."""
        same = pod.namespace == self.namespace
        return same and self.selector is not None and self.selector.matches(pod.labels)


class DaemonSet(msgspec.Struct, frozen=True, kw_only=True):
    """A DaemonSet: the pod that every matching node gets. Limits already count as requests if there are none."""

    namespace: str
    name: str
    labels: dict[str, str] = {}
    spec: PodSpec


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """A namespace and its labels, for namespace selectors."""

    name: str
    labels: dict[str, str] = {}


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A Service with a selector, for default topology spread."""

    namespace: str
    name: str
    selector: dict[str, str] = {}


class WorkloadSelector(msgspec.Struct, frozen=True, kw_only=True):
    """A ReplicaSet, StatefulSet, ReplicationController or Deployment: the selector of its pods, and its replicas."""

    namespace: str
    kind: str
    name: str
    selector: LabelSelector | None = None
    replicas: int | None = None


RESPECT: Final = "Respect"
IGNORE: Final = "Ignore"
STRICT: Final = "Strict"
BEST_EFFORT: Final = "BestEffort"
LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
THOROUGH_MOVES: Final = "thorough"
BALANCED_MOVES: Final = "balanced"
GENTLE_MOVES: Final = "gentle"

TARGET_AGE_MAX: Final = timedelta(hours=6)
"""The maximum age of a stored target; after that, prices and pods have changed a little everywhere."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a decision by the operator.

    Attributes:
        requires_unschedulable_mark: Plan only for pods that the scheduler has reported as unschedulable. On in a live cluster,
            where the scheduler may be about to bind other pods; off for manifests on a command line.
        default_spreads: The cluster's default topology spread constraints, for pods that have none.
        scoring: The scoring strategy of kube-scheduler's NodeResourcesFit.
        improve_iterations: Bound on the optimiser's steps; None leaves the bound to the caller's clock.
        moves: How much moving pods counts against savings: thorough (nothing), balanced or gentle.
        evictions_per_hour: How many pods commands may evict in any hour, None for any number.
        shrink_percent: What share of a NodePool's vCPUs commands may remove in any hour, None for any.
        part_nodes: The most nodes that consolidation plans together, as far as NodePools share no pods
            (`core.disruption.decision`); None for all.
        ranks_by_own_prices: Whether the catalogue's prices rank types differently from EC2's list, so that launches follow the
            catalogue.
        dedicated_ppm: How much more nodes on dedicated hardware cost than the catalogue says, in millionths.
        commitments: Usage that is paid for in advance, for this cluster; by name.
        move_price: The price of a move in nano-dollars per hour, which overrides `moves`; None for no override.
        seed: Seeds every random draw.
    """

    preference_policy: str = RESPECT
    min_values_policy: str = STRICT
    feature_gates: FeatureGates = FeatureGates()
    default_spreads: tuple[TopologySpread, ...] = ()
    scoring: str = LEAST_ALLOCATED
    requires_unschedulable_mark: bool = False
    karpenter_moves_only: bool = False
    ignore_budgets: bool = False
    improve_iterations: int | None = None
    moves: str = BALANCED_MOVES
    move_price: int | None = None
    evictions_per_hour: int | None = None
    shrink_percent: int | None = None
    part_nodes: int | None = None
    ranks_by_own_prices: bool = False
    dedicated_ppm: int = 0
    commitments: tuple[Commitment, ...] = ()
    seed: int = 0

    @property
    def requires_default_spreads(self) -> bool:
        """Whether a default topology spread constraint must hold, for pods without constraints of their own."""
        return any(default.when_unsatisfiable == DO_NOT_SCHEDULE for default in self.default_spreads)


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """What a cap spent in one of its periods, in nano-dollars.

    Attributes:
        since: When the period began.
        at: The time of the sum.
        spent: The sum.
        hourly: What the nodes that it counts cost an hour at that time, those under way included.
    """

    cap: str
    period: str
    since: datetime
    at: datetime
    spent: int
    hourly: int


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster and its market at one moment. The order of the tuples has no meaning: decisions sort.

    Attributes:
        marked_for_deletion: Names of claims that a command is removing; their pods need a new place, and their nodes offer
            none.
        calendars: Calendars as written; what they say now is in the NodePools already.
        spending: What their caps have spent of days and months; NodePools' caps follow it already.
        paused_pools: NodePool → why none of its nodes may currently be disrupted.
        nominated_until: Node or claim name → until when pods are expected on it, so that it is not a candidate.
        rollouts: NodePool → which of its drifted nodes may go; pools that only budgets limit are missing.
        stored_target: The current target of the fleet, stored by the previous pass.
        evicted_nodes: NodeClaim → evictions by commands from its node in the last hour.
        vcpu_quotas: Code of an EC2 quota → vCPUs that this cluster may run in total: the quota less the usage of others in the
            account. Missing quotas are unknown and limit nothing.
        subnet_addresses: Id of a subnet with few free addresses → how many are left beside launches in flight.
        moved_workloads: Workload (`Pod.workload`) → its recent moves; settled ones are missing.
        requested_members: Keys of members of groups that do not exist yet and whose launch is in progress.
    """

    now: datetime
    cluster: str = ""
    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    node_claims: tuple[NodeClaim, ...] = ()
    node_pools: tuple[NodePool, ...] = ()
    calendars: tuple[Calendar, ...] = ()
    spending: tuple[Spending, ...] = ()
    node_classes: tuple[NodeClass, ...] = ()
    overlays: tuple[NodeOverlay, ...] = ()
    buffers: tuple[CapacityBuffer, ...] = ()
    provisioning_requests: tuple[ProvisioningRequest, ...] = ()
    group_objects: tuple[GroupObject, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    volume_claims: tuple[PersistentVolumeClaim, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    attachments: tuple[VolumeAttachment, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    services: tuple[Service, ...] = ()
    workload_selectors: tuple[WorkloadSelector, ...] = ()
    catalogue: Catalogue = Catalogue()
    vcpu_quotas: dict[str, int] = {}
    subnet_addresses: dict[str, int] = {}
    marked_for_deletion: tuple[str, ...] = ()
    paused_pools: dict[str, str] = {}
    nominated_until: dict[str, datetime] = {}
    moved_workloads: dict[str, MovedWorkload] = {}
    evicted_nodes: dict[str, EvictedNode] = {}
    rollouts: dict[str, RolloutGate] = {}
    requested_members: tuple[str, ...] = ()
    stored_target: StoredTarget | None = None
    options: Options = Options()

    @property
    def drained_later(self) -> frozenset[str]:
        """Names of the nodes that the stored target has yet to drain; none if it is too old, or under Karpenter's policy."""
        target = self.stored_target
        if target is None or self.now - target.made_at > TARGET_AGE_MAX or self.options.karpenter_moves_only:
            return frozenset()
        return frozenset(drain.node for drain in target.drains)
