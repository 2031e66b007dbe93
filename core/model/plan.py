"""Results of decisions: where pods go, what is launched, which nodes go."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.pod import GroupSource
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint
from core.reasons.runs import GroupLeaves

# A NodeClaim: one request for one node, from the decision to its removal.


LAUNCHED: Final = "Launched"
REGISTERED: Final = "Registered"
INITIALIZED: Final = "Initialized"
CONSOLIDATABLE: Final = "Consolidatable"
DRIFTED: Final = "Drifted"
INSTANCE_TERMINATING: Final = "InstanceTerminating"
REBOOTING: Final = "Rebooting"
DISRUPTION_REASON: Final = "DisruptionReason"

READY: Final = "Ready"


class ObjectRef(msgspec.Struct, frozen=True, order=True):
    """A reference to a cluster-scoped object by group, kind and name."""

    group: str
    kind: str
    name: str


class Condition(msgspec.Struct, frozen=True, order=True):
    """A status condition; `status` is True, False or Unknown."""

    status: str
    reason: str = ""
    message: str = ""
    changed_at: datetime | None = None


class Hold(msgspec.Struct, frozen=True):
    """Exempts a node from voluntary disruption for a while, because its drain was cancelled.

    `reason` is a code of `blocked[]`.
    """

    until: datetime
    reason: str
    message: str


class NodeClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One claim. `name` identifies it; `provider_id` is empty until its instance exists.

    Attributes:
        resources: The requests that it was launched for, of pods and DaemonSets.
        expire_after: Age at which it is replaced, None for never.
        termination_grace_period: How long draining may take before pods are forced off, None for no limit.
        last_pod_event_at: When a pod last arrived or left; consolidateAfter counts from then.
        hold: Why and until when it is exempt from voluntary disruption, None if it is not.
        ends_at: When EC2 takes its instance, whatever protects its pods; None if that is not announced.
        unneeded_at: Since when each look saw members missing of the group that it was launched for; None while none are.
        lets_groups_end: Whether it leaves in such a way that members of groups that start together stay until the end of their
            group, or of its termination_grace_period.
    """

    name: str
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    resources: dict[str, int] = {}
    node_class: ObjectRef | None = None
    expire_after: timedelta | None = None
    termination_grace_period: timedelta | None = None
    created_at: datetime | None = None
    deleted_at: datetime | None = None
    provider_id: str = ""
    node_name: str = ""
    image_id: str = ""
    subnet_id: str = ""
    security_groups: tuple[str, ...] = ()
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    conditions: dict[str, Condition] = {}
    last_pod_event_at: datetime | None = None
    hold: Hold | None = None
    ends_at: datetime | None = None
    unneeded_at: datetime | None = None
    lets_groups_end: bool = False

    @property
    def node_pool(self) -> str:
        """Name of its NodePool, empty for a claim without one."""
        return self.labels.get(labels.NODEPOOL, "")

    @property
    def idle_since(self) -> datetime | None:
        """The moment from which consolidateAfter counts: a pod last arrived or left, or else it was initialized."""
        initialized = self.conditions.get(INITIALIZED)
        started = initialized.changed_at if initialized is not None else None
        return self.last_pod_event_at or started or self.created_at

    def is_true(self, condition: str) -> bool:
        """Whether the named condition is True."""
        state = self.conditions.get(condition)
        return state is not None and state.status == "True"


class PlannedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A node to launch.

    Attributes:
        name: Unique in the plan and, in a live cluster, made unique when it is stored: `<pool>-<n>`.
        instance_types: All suitable types, cheapest first, ties by name.
        resources: The pods' requests plus DaemonSet overhead.
        pods: Keys of the pods it is for, in order.
        buffer_pods: Keys of the virtual pods it is for, which represent the room of capacity buffers.
        price: Nano-dollars per hour of the cheapest launchable offering.
        min_values_relaxed: BestEffort lowered a minValues to get here.
    """

    name: str
    node_pool: str
    node_class: ObjectRef
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    instance_types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = ()
    resources: dict[str, int] = {}
    pods: tuple[str, ...] = ()
    buffer_pods: tuple[str, ...] = ()
    price: int = 0
    expire_after: timedelta | None = None
    termination_grace_period: timedelta | None = None
    min_values_relaxed: bool = False

    @property
    def commitment(self) -> str:
        """Name of the commitment that covers it, empty for none."""
        return self.annotations.get(labels.COMMITMENT, "")

    @property
    def made_by_hand(self) -> str:
        """UID of the hand-made NodeClaim that it is launched for; empty for a claim of our own."""
        return self.annotations.get(labels.MADE_BY_HAND, "")


class Binding(msgspec.Struct, frozen=True, order=True):
    """A pod expected on existing or launching capacity; `node` is a node's name, or a claim's before its node joins."""

    pod: str
    node: str


class Unschedulable(msgspec.Struct, frozen=True, order=True):
    """A pod that no NodePool can place: `reason` one of `core.reasons.pods`, `message` for people; empty unless asked for."""

    pod: str
    reason: str
    message: str


class BufferRoom(msgspec.Struct, frozen=True, order=True):
    """How many of a capacity buffer's pods (`buffer`: `namespace/name`) have room on existing nodes, on new ones, nowhere."""

    buffer: str
    on_existing: int = 0
    on_new: int = 0
    without_room: int = 0


class PlannedGroup(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """A group of pods that start together, in a plan.

    Attributes:
        name: `namespace/name`.
        source: Where it is written, such as PodGroup or JobSet.
        members: How many pods it has once all exist.
        placed: How many of them run, or have a place in the plan.
        ready: How many have their place on a node that is ready; asked of groups whose pods come later.
        domain: Topology key → the value that all of them share.
        hourly: Nano-dollars per hour of the new nodes that have a member.
        reason, message: Why nothing is bought for it; empty if it is complete.
    """

    name: str
    source: str
    members: int
    minimum: int
    placed: int
    ready: int = 0
    domain: dict[str, str] = {}
    hourly: int = 0
    reason: str = ""
    message: str = ""

    @property
    def identity(self) -> str:
        """What tells it from every other group: objects of different kinds may share a name."""
        return f"{self.source}/{self.name}"

    @property
    def awaits_nodes(self) -> bool:
        """Whether its pods come once all their places are on ready nodes, and some are not yet."""
        return self.source == GroupSource.PROVISIONING_REQUEST and not self.reason and self.ready < self.members


class Cost(msgspec.Struct, frozen=True):
    """Nano-dollars per hour of the new nodes, and a proven lower bound where one was computed."""

    hourly: int = 0
    lower_bound: int | None = None


class WaitingPod(msgspec.Struct, frozen=True, order=True):
    """A pod that may wait, and for which a node would be bought now if it might not.

    Attributes:
        pod: Its key.
        deadline: When it must have a node.
        launch_at: From when one is bought at any price.
        takes_spot: Whether spot nodes may be bought before.
        at_once: What it would cost at once, in nano-dollars an hour: its share of the node that the plan had for it.
        cost: What it costs as planned: its share of a spot node, or zero while it waits.
    """

    pod: str
    deadline: datetime
    launch_at: datetime
    takes_spot: bool
    at_once: int
    cost: int = 0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Where every pending pod goes. Each is in exactly one of `claims[].pods`, `bindings`, `unschedulable`.

    Attributes:
        buffers: The room of each capacity buffer.
        groups: The groups with pods that wait.
        waiting: Pods that may wait and have no node, or a spot node, instead of a new one at any price.
    """

    now: datetime
    claims: tuple[PlannedClaim, ...] = ()
    bindings: tuple[Binding, ...] = ()
    unschedulable: tuple[Unschedulable, ...] = ()
    buffers: tuple[BufferRoom, ...] = ()
    groups: tuple[PlannedGroup, ...] = ()
    waiting: tuple[WaitingPod, ...] = ()
    cost: Cost = Cost()


class Move(msgspec.Struct, frozen=True, order=True):
    """A pod's new place: an existing node or a replacement's name."""

    pod: str
    to: str


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that go together, and the replacements that must exist first.

    Attributes:
        reason: Empty, Drifted or Underutilized.
        method: emptiness, drift, single, multi or repack, among others.
        nodes, claims: Names of the nodes and of their claims, in the same order.
        savings: Nano-dollars per hour; below zero where a replacement for drift costs more.
        wave: From one: commands of a wave start together, after those of the previous wave are complete.
        awaits: Node → the replacements, by their planned names, that must be ready before it is drained; a node that is not
            named waits for all.
        groups: The groups that start together of which members are on the nodes, by name.
    """

    reason: str
    method: str
    nodes: tuple[str, ...]
    claims: tuple[str, ...]
    replacements: tuple[PlannedClaim, ...] = ()
    moves: tuple[Move, ...] = ()
    savings: int = 0
    wave: int = 1
    awaits: dict[str, tuple[str, ...]] = {}
    groups: tuple[GroupLeaves, ...] = ()


class Blocked(msgspec.Struct, frozen=True, order=True):
    """A node that may not go now, and why: `reason` one of `core.reasons`.

    Attributes:
        savings: Nano-dollars per hour that its later removal saves, if a target plans it; zero otherwise.
    """

    node: str
    reason: str
    message: str
    savings: int = 0


class DisruptionCost(msgspec.Struct, frozen=True):
    """Nano-dollars per hour of all our nodes before and after the commands."""

    before: int = 0
    after: int = 0
    lower_bound: int | None = None


class StoredDrain(msgspec.Struct, frozen=True, array_like=True):
    """A node that a target drains.

    Attributes:
        price: Nano-dollars per hour.
        worth: The price less the cost of its pods elsewhere; nodes are drained in this order.
    """

    node: str
    price: int
    worth: int


class StoredSlots(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Places for pods of one kind on one existing node; `kind` is a short digest."""

    kind: str
    node: str
    pods: int


class StoredNewNode(msgspec.Struct, frozen=True, kw_only=True):
    """A new node that is not launched yet.

    Attributes:
        name: Its name in the plan that decided it.
        pods: Kind → how many of its pods go there, in the order of kinds.
        price: Nano-dollars per hour when it was decided; 0 in rows older than this field.
    """

    name: str
    pods: dict[str, int]
    price: int = 0


class StoredTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes still to be drained, and the places for their pods.

    It names no pods: pods of a kind are interchangeable, and moved pods get new names.

    Attributes:
        made_at: When it was decided.
        settings: Digest of the settings that decide: the price of moves, the spot gate, the NodePools' settings for moves.
        drains: The nodes still to be drained.
        kept_price: Nano-dollars per hour of the candidates that stay.
        kept_by_pool: The same by NodePool; empty in rows older than this field.
        drained_price: Nano-dollars per hour of `drains`.
        new_price: Nano-dollars per hour of `new_nodes`.
        slots: Places on existing nodes.
        new_nodes: The nodes still to be launched.
    """

    made_at: datetime
    settings: str
    drains: tuple[StoredDrain, ...]
    kept_price: int
    drained_price: int
    new_price: int
    slots: tuple[StoredSlots, ...] = msgspec.field(default=(), name="seats")
    """Stored rows and ledgers have the name `seats`."""
    new_nodes: tuple[StoredNewNode, ...] = ()
    kept_by_pool: dict[str, int] = {}

    @property
    def saving(self) -> int:
        """Nano-dollars per hour that the rest of the target saves."""
        return self.drained_price - self.new_price


class DisruptionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes go, in the order in which commands are carried out; together they respect the budgets at `now`.

    Attributes:
        budgets: Pool → reason → how many more nodes may go now, None for unlimited.
        target: The target to store for the next pass; the commands of method `repack` are its next wave.
        target_reason: Why the previous target was continued or replaced (`core.reasons.code`), empty if there was none to
            decide about.
        parts: In how many parts the cluster was planned (`core.disruption.decision`).
        undivided: Why a cluster that is to be divided was planned as a whole, else empty.
    """

    now: datetime
    commands: tuple[Command, ...] = ()
    blocked: tuple[Blocked, ...] = ()
    budgets: dict[str, dict[str, int | None]] = {}
    cost: DisruptionCost = DisruptionCost()
    target: StoredTarget | None = None
    target_reason: str = ""
    parts: int = 1
    undivided: str = ""


# The complete launch order of one claim: the controller creates it, and the EC2 request is rendered from it.


class LaunchOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One instance to launch for one claim, or several for claims of one shape.

    Attributes:
        claim: The claim's name; the launch's name if several claims share it.
        count: How many instances to launch; EC2 may launch fewer.
        minimum: How many must be launched if any is; more than one only for offerings in one zone.
        token: Idempotency token: sending the same order twice gives the same instances.
        offerings: Where it may be launched, as selected for the claim (`core.launch.selection`), cheapest first.
        node_class: The complete EC2NodeClass manifest.
        node_labels, taints: What the kubelet registers the node with (taints as `key=value:Effect`).
        tags: Tags of the instance, besides those of its NodePool and class.
        instance_types: The types in `offerings`, as sized for this class: they decide the image and the pods per node. An
            offering whose type is missing here is not tried.
        requests: The planned requests; requests for EFA or Enclaves change how the instance is launched.
        is_ranked: Whether the prices are the NodePool's own (overlays, price factors), so that EC2 follows their order instead
            of its own.
        subnets: Zone → the subnet to launch into; in other zones it is the first one of the class that is not avoided.
        avoided_subnets: Ids of subnets that recently had no free addresses.
        uses_reservations: Whether a launch outside of capacity reservations must avoid all of them.
        unclear_at: When a request with its token last had no clear answer; None for never.
        is_renewed: Whether its token replaces one to which EC2 was silent.
        partition: The partition of the class' placement group, 0 where EC2 chooses.
        tenancy: `default` for hardware that is shared with other accounts, or `dedicated`.
    """

    claim: str
    node_pool: str
    token: str
    offerings: tuple[Offering, ...]
    node_class: dict[str, Any]
    node_labels: dict[str, str]
    taints: tuple[str, ...]
    tags: dict[str, str]
    count: int = 1
    minimum: int = 1
    instance_types: tuple[InstanceType, ...] = ()
    requests: dict[str, int] = {}
    is_ranked: bool = False
    subnets: dict[str, str] = {}
    avoided_subnets: tuple[str, ...] = ()
    tenancy: str = "default"
    partition: int = 0
    uses_reservations: bool = True
    unclear_at: datetime | None = None
    is_renewed: bool = False
