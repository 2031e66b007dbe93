"""Rows of the table: the stored state of a claim and of a command between two runs."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from core.model.catalogue import Offering
from core.model.node_claim import Hold
from core.model.plan import Command, PlannedClaim


class ClaimPhase(StrEnum):
    """The phase of a claim. Removal is not a phase: `ClaimRecord.deletion` may be set in any of them."""

    REQUESTED = "requested"
    LAUNCHED = "launched"
    REGISTERED = "registered"
    INITIALIZED = "initialized"


class CommandPhase(StrEnum):
    """The phase of a command; a finished or failed command has no record."""

    VERIFYING = "verifying"
    STARTING = "starting"
    REPLACING = "replacing"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The instance launched for a claim.

    Attributes:
        labels: The labels that follow from its type, zone and capacity type; the claim's own labels are not included.
        subnet_id: The subnet in which it was launched; empty in rows older than this field.
        security_groups: The ids of its security groups at launch; empty in rows older than this field.
    """

    instance_id: str
    provider_id: str
    offering: Offering
    image_id: str = ""
    subnet_id: str = ""
    security_groups: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}


class Moments(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When things happened to a claim and its pods, besides its phases; None for not yet, or unknown.

    Attributes:
        pods_created_at: When the first of its pods was created.
        pods_marked_at: When kube-scheduler first said of one of them that it fits nowhere.
        heard_at: When the run that planned it started to list.
        launched_at: When EC2's answer to its launch came.
        seen_at: When its node was first seen.
        usable_at: When its node was first found ready for its pods, which then had their first turn.
        bound_at: When we last bound a pod to it, or found that there is none to be bound.
        opened_at: When its node was opened to all pods.
    """

    pods_created_at: datetime | None = None
    pods_marked_at: datetime | None = None
    heard_at: datetime | None = None
    launched_at: datetime | None = None
    seen_at: datetime | None = None
    usable_at: datetime | None = None
    bound_at: datetime | None = None
    opened_at: datetime | None = None


class EvictionTry(msgspec.Struct, frozen=True, array_like=True):
    """How often the eviction of a pod failed, the code of the last answer, and when it is tried again.

    Attributes:
        is_forced: Whether the last try was its deletion by force.
    """

    attempts: int
    reason: str
    next_at: datetime
    is_forced: bool = False


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """The removal of a claim: why, and what has been done so far.

    Attributes:
        deadline: When pods are forced off, None for never: terminationGracePeriod after the node was tainted.
        tainted_at: When its node was first seen closed to new pods.
        tries: UID of each pod whose eviction failed → its tries. About 100 bytes a pod; pods that left are dropped.
        escalation_level: The level of a blocked drain that was reported last (`core.lifecycle.draining.escalation`).
        is_final: The node cannot be given back any more.
        ends_at: When AWS takes the instance away; its pods wait for replacements until shortly before. None: drain at once.
        replacements: The claims that its pods wait for, as last planned; None as long as one of them has no place.
        evicted_at: When a pod last left because it was evicted or forced off, None while none has.
        terminated_at: When EC2 was last asked to terminate the instance.
    """

    reason: str
    message: str = ""
    asked_at: datetime
    deadline: datetime | None = None
    tainted_at: datetime | None = None
    terminated_at: datetime | None = None
    tries: dict[str, EvictionTry] = {}
    evicted_at: datetime | None = None
    escalation_level: int = 0
    is_final: bool = False
    ends_at: datetime | None = None
    replacements: tuple[str, ...] | None = None


class ClaimRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One claim, from the intent to launch it until its instance and node are gone.

    Attributes:
        plan: What was asked for. `pods` and `instance_types` are kept only until they have served.
        token: Idempotency token of the launch; a new one after each definite refusal.
        shares: How many claims share the launch, and its token (`core.lifecycle.launching.shared_launch`).
        share: Which of its instances is this claim's, from zero.
        offerings: The launch order's places, stored so that the same token always means the same request.
        is_ranked: Their prices are the NodePool's own, so the launch follows their order instead of EC2's prices.
        awaits_pods: Its pods waited for a node when it was requested; those of a replacement run on the node that goes.
            Kept only until the launch.
        command: Id of the command whose replacement it is, empty for none.
        reserved: What it holds of its NodePool's limits; empty once it is leaving.
        is_disrupting: Whether it holds a place in the count of its NodePool's leaving nodes, which budgets bound.
        version: Grows by one with each write; zero before the first.
        pods_digest: Digest of the pods seen on its node, to notice that one came or left.
        nominated: Pods (`namespace/name`) whose status names its node because we wrote it there, until they are bound.
        is_bound: Whether binding has ended for its node; pods that still wait are left to kube-scheduler.
        hold: Until when it is exempt from voluntary disruption because its drain was given back; None where it never was.
        given_back: How often that happened.
        retires_at: When AWS retires or restarts its instance, the earliest announced date; None for no date.
        checked_until: End of the chain of checks that lasts longest; shorter ones end when they find it. None: none is known.
        reason, message: The last thing that went wrong, for people.
    """

    name: str
    plan: PlannedClaim
    token: str
    requested_at: datetime
    phase_since: datetime
    phase: ClaimPhase = ClaimPhase.REQUESTED
    version: int = 0
    attempts: int = 0
    shares: int = 1
    share: int = 0
    offerings: tuple[Offering, ...] = ()
    is_ranked: bool = False
    awaits_pods: bool = False
    command: str = ""
    reserved: dict[str, int] = {}
    is_disrupting: bool = False
    machine: Machine | None = None
    node_name: str = ""
    initialized_at: datetime | None = None
    last_pod_event_at: datetime | None = None
    pods_digest: str = ""
    nominated: tuple[str, ...] = ()
    moments: Moments = Moments()
    is_bound: bool = False
    deletion: Deletion | None = None
    hold: Hold | None = None
    given_back: int = 0
    retires_at: datetime | None = None
    checked_until: datetime | None = None
    reason: str = ""
    message: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """The labels that its node gets: the machine's, overlaid by the claim's own."""
        return {**(self.machine.labels if self.machine else {}), **self.plan.labels}

    @property
    def instance_id(self) -> str:
        """The instance's id, empty before there is one."""
        return self.machine.instance_id if self.machine else ""

    @property
    def provider_id(self) -> str:
        """The instance's id as a kubelet reports it, empty before there is one."""
        return self.machine.provider_id if self.machine else ""

    @property
    def is_registered(self) -> bool:
        """Whether its node has joined and carries the claim's labels and taints."""
        return self.phase in (ClaimPhase.REGISTERED, ClaimPhase.INITIALIZED)

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do for it: its node works and stays."""
        return self.phase is ClaimPhase.INITIALIZED and self.deletion is None


class CommandRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One disruption command in progress.

    Attributes:
        verify_at: When it is checked on a new snapshot (`core.lifecycle.commands.first_check_at`).
        replacements: Names of the claims launched for it, in the order of `command.replacements`.
        decision: Id of the decision in the ledger, empty where none is kept.
    """

    id: str
    command: Command
    created_at: datetime
    verify_at: datetime
    phase: CommandPhase = CommandPhase.VERIFYING
    phase_since: datetime
    version: int = 0
    replacements: tuple[str, ...] = ()
    decision: str = ""

    @property
    def has_started(self) -> bool:
        """Whether its nodes are being removed, so that nothing may be placed on them."""
        return self.phase is not CommandPhase.VERIFYING
