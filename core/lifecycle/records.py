"""Rows of the table: the stored state of a claim and of a command between two runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Final

import msgspec

from core.labels import CHARGED_TO, DECISION
from core.model.catalogue import Offering
from core.model.node_pool import GROUP_COUNTER
from core.model.plan import Command, Hold, PlannedClaim
from core.model.pod import Pod
from core.model.values.quantity import HOURLY, PPM
from core.pools import charges_of, share_in


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


class PriceChange(msgspec.Struct, frozen=True, array_like=True):
    """From when on a node counts at another price in nano-dollars an hour."""

    at: datetime
    price: int


class Moments(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When things happened to a claim and its pods, besides its phases; None for not yet, or unknown.

    Attributes:
        pods_created_at: When the first of its pods was created.
        pods_marked_at: When kube-scheduler first reported one of them as unschedulable.
        heard_at: When the run that planned it started its listing.
        asked_at: When a run other than the one that planned it last began to ask EC2 for its instance; dropped with the launch.
        unclear_at: The last time at which a request with its token may have launched; dropped with the token.
        renewed_at: When its token was replaced because EC2 was silent to it.
        launched_at: When EC2 answered its launch.
        named_at: When the instance of a shared launch got the claim's name.
        seen_at: When its node was first seen.
        usable_at: When its node was first found ready for its pods, which then had their first turn.
        bound_at: When we last bound a pod to it, or found none to bind.
        opened_at: When its node was opened to all pods.
        unneeded_at: Since when its group does not need its node while that starts, or lacks members while its ready node is
            empty; dropped once it needs it, and when the node becomes ready.
    """

    pods_created_at: datetime | None = None
    pods_marked_at: datetime | None = None
    heard_at: datetime | None = None
    asked_at: datetime | None = None
    unclear_at: datetime | None = None
    renewed_at: datetime | None = None
    launched_at: datetime | None = None
    named_at: datetime | None = None
    seen_at: datetime | None = None
    usable_at: datetime | None = None
    bound_at: datetime | None = None
    opened_at: datetime | None = None
    unneeded_at: datetime | None = None


class EvictionTry(msgspec.Struct, frozen=True, array_like=True):
    """The failed attempts to evict a pod, the code of the last answer, and the time of the next attempt.

    Attributes:
        is_forced: Whether the last attempt was a forced deletion.
    """

    attempts: int
    reason: str
    next_at: datetime
    is_forced: bool = False


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """The removal of a claim: its reason and progress.

    Attributes:
        deadline: When pods are forced off, None for never: terminationGracePeriod after the node was tainted.
        tainted_at: When its node was first seen closed to new pods.
        tries: UID of each pod whose eviction failed → its attempts. About 100 bytes per pod; pods that left are dropped.
        escalation_level: The level of a blocked drain that was reported last (`core.lifecycle.draining`).
        is_final: Whether the removal can no longer be cancelled.
        ends_at: When the instance is expected to end; its pods wait for replacements until shortly before. None: drain at once.
        reclaimed_at: When EC2 takes the instance as it announced; None if it did not, and in rows older than this field.
        replacements: The claims that its pods wait for, as last planned; None while a pod has no place.
        evicted_at: When a pod last left because it was evicted or forced off, None if none has.
        emptied_at: When only volumes were first seen to keep the node; None before, and in rows older than this field.
        tried_at: When the last round of evictions was over; None if none was, and in rows older than this field.
        terminated_at: When EC2 was last asked to terminate the instance.
        held_at: Since when a brake stops the drain, whose clock stands meanwhile; None while none does.
        held_for: How long brakes stopped the drain before, by which its deadline was moved; zero in rows older than this field.
        held_since_progress: The part of it since the last progress, for which the drain is not escalated.
        command: Id of the command that began it for this reason; empty if none did, and in rows older than this field.
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
    held_at: datetime | None = None
    held_for: timedelta = timedelta(0)
    held_since_progress: timedelta = timedelta(0)
    tried_at: datetime | None = None
    emptied_at: datetime | None = None
    reclaimed_at: datetime | None = None
    command: str = ""

    @property
    def begun_at(self) -> datetime:
        """From when terminationGracePeriod counts: not before the request, for a clock that is before it is behind.

        The moment may lie in the future, if it was the clock of the request that was ahead.
        """
        return max(self.tainted_at or self.asked_at, self.asked_at)


class ClaimRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One claim, from the intent to launch it until its instance and node are gone.

    Attributes:
        plan: The planned claim. `pods` and `instance_types` are dropped once they are no longer needed.
        token: Idempotency token of the launch; a new one after each definite refusal.
        shares: How many claims share the launch, and its token (`core.lifecycle.launching`).
        share: The index of this claim's instance in the launch, from zero.
        first: Name of the launch's first claim; empty if the claim shares none, and in rows older than this field.
        offerings: The launch order's offerings, stored so that the same token always means the same request.
        price_factors: Family → the per mille by which its NodePool weighed their prices, if a limit in dollars counts it: the
            bill does not follow them. Empty once it is launched.
        subnets: Zone → the subnet of its launch (`core.lifecycle.launching`); other zones use the first one
            of the EC2NodeClass. Empty in rows older than this field, and once it is launched.
        is_ranked: Whether their prices are the NodePool's own, so that the launch follows their order instead of EC2's prices.
        tries: Codes of the denials that its launch tries again; its node disproves them by joining.
        awaits_pods: Whether its pods were pending when it was requested; those of a replacement run on the leaving node.
            Dropped at the launch.
        command: Id of the command whose replacement it is, empty for none.
        reserved: What it holds of its NodePool's limits; empty once it is leaving.
        limit_groups: Groups of NodePools whose shared limits count it, too, and caps that count all of it.
        counted_since: Cap → since when the meter counts it as it does now; without an entry, since its launch. What it cost the
            cap before is in the meter.
        price_changes: What limits and caps in dollars count of it an hour, from each moment on; before the first, and without
            any, the price of its machine's offering (`core.lifecycle.metering`).
        is_disrupting: Whether it counts as one of its NodePool's leaving nodes, which budgets bound.
        version: Grows by one with each write; zero before the first.
        pods_digest: Digest of the pods seen on its node, by which an arrival or departure is detected.
        nominated: Pods (`namespace/name`) whose status names its node because we wrote it there, until they are bound.
        is_bound: Whether binding has ended for its node; pods that still wait are left to kube-scheduler.
        hold: Until when it is exempt from voluntary disruption because its drain was cancelled; None if it never was.
        cancelled_drains: How often its drain was cancelled; rows name it `given_back`.
        retires_at: When AWS retires or restarts its instance, the earliest announced date; None for no date.
        checked_until: End of the longest chain of checks; shorter chains end when they read it. None: no chain is known.
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
    first: str = ""
    offerings: tuple[Offering, ...] = ()
    price_factors: dict[str, int] = {}
    subnets: dict[str, str] = {}
    is_ranked: bool = False
    tries: tuple[str, ...] = ()
    awaits_pods: bool = False
    command: str = ""
    reserved: dict[str, int] = {}
    limit_groups: tuple[str, ...] = ()
    counted_since: dict[str, datetime] = {}
    price_changes: tuple[PriceChange, ...] = ()
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
    cancelled_drains: int = msgspec.field(default=0, name="given_back")
    retires_at: datetime | None = None
    checked_until: datetime | None = None
    reason: str = ""
    message: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """The labels that its node gets: the machine's, overlaid by the claim's own."""
        return {**(self.machine.labels if self.machine else {}), **self.plan.labels}

    @property
    def decision(self) -> str:
        """Id of the decision in the ledger that launches it, empty where none is kept."""
        return self.plan.annotations.get(DECISION, "")

    @property
    def counters(self) -> tuple[str, ...]:
        """The counters that hold what it reserves: its NodePool's, those of its groups, and those of caps that count it."""
        node_pool = (self.plan.node_pool,) if self.plan.node_pool else ()
        caps = charges_of(self.plan.annotations) if CHARGED_TO in self.plan.annotations else ()
        return node_pool + tuple(GROUP_COUNTER + group for group in dict.fromkeys((*self.limit_groups, *caps)))

    def share_of(self, cap: str) -> int:
        """Return the share of it that a cap counts, in millionths: that of its pods, until the cap counts all nodes."""
        if cap in self.limit_groups:
            return PPM
        return charges_of(self.plan.annotations).get(cap, 0) if CHARGED_TO in self.plan.annotations else 0

    def reserved_in(self, counter: str) -> dict[str, int]:
        """Return what it holds in one of its counters: a cap counts a share."""
        if CHARGED_TO not in self.plan.annotations or not counter.startswith(GROUP_COUNTER):
            return self.reserved
        share = self.share_of(counter.removeprefix(GROUP_COUNTER))
        return self.reserved if share == PPM else share_in(self.reserved, share)

    @property
    def hourly(self) -> int:
        """What limits and caps in dollars count of it an hour, in nano-dollars; at its worst until it is launched."""
        if self.price_changes:
            return self.price_changes[-1].price
        return self.machine.offering.price if self.machine is not None else self.reserved.get(HOURLY, 0)

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
        """Whether it needs no further step: its node works and stays."""
        return self.phase is ClaimPhase.INITIALIZED and self.deletion is None


class CommandRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One disruption command in progress.

    Attributes:
        verify_at: When it is checked on a new snapshot (`core.lifecycle.commands.first_check_at`).
        replacements: Names of the claims launched for it, in the order of `command.replacements`.
        decision: Id of the decision in the ledger, empty where none is kept.
        namespaces: Those whose pods it moves (`core.approval.proposal.moved_namespaces`) as it was decided or approved. Empty
            where no command waits for approval, and in the rows of releases that did not know it.
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
    namespaces: tuple[str, ...] = ()

    @property
    def has_started(self) -> bool:
        """Whether its nodes are being removed, so that no pod may be placed on them."""
        return self.phase is not CommandPhase.VERIFYING


# Detects without a watch when a pod last arrived at a node or left it: by comparing successive lists, and from the audit log.
#
# Each claim's record stores a digest of the pods on its node. If a new list has another digest, a pod arrived or left, and the
# time of the list counts. consolidateAfter therefore starts at most one list late. A pod that arrives and leaves between two
# lists is in no digest; only the audit log reports it. DaemonSets' pods do not count, nor do pods that have finished or are
# being deleted (Karpenter).


ANY_NODE: Final = "*"
"""Key for pods that ended on an unknown node, which may be any."""

_NONE_ENDED: Final[Mapping[str, datetime]] = {}


def with_pod_events(
    records: Sequence[ClaimRecord],
    pods: Iterable[Pod],
    now: datetime,
    ended: Mapping[str, datetime] = _NONE_ENDED,
) -> tuple[ClaimRecord, ...]:
    """Return the records, in order, with the time of the last pod event; an unchanged record is the same object.

    Args:
        records: As stored.
        pods: All pods, at this moment.
        now: The time of the list.
        ended: Node or `ANY_NODE` → when a pod last ended there, if known.
    """
    everywhere = ended.get(ANY_NODE)
    by_node: dict[str, list[str]] = {}
    waiting: set[str] = set()
    for pod in pods:
        if pod.node_name and pod.is_active and not pod.is_daemon:
            by_node.setdefault(pod.node_name, []).append(pod.uid or pod.key)
        elif not pod.node_name:
            waiting.add(pod.key)
    seen = (_observed(record, by_node.get(record.node_name, ()), waiting, now) for record in records)
    return tuple(_with_moments(record, ended.get(record.node_name), everywhere) for record in seen)


def _with_moments(record: ClaimRecord, *moments: datetime | None) -> ClaimRecord:
    """Return the record with the times from the audit log, if they are later than those from lists."""
    since = record.last_pod_event_at or record.initialized_at
    latest = max((moment for moment in moments if moment is not None), default=None)
    if record.phase is not ClaimPhase.INITIALIZED or latest is None or (since is not None and latest <= since):
        return record
    return msgspec.structs.replace(record, last_pod_event_at=latest)


def _observed(record: ClaimRecord, pods: Iterable[str], waiting: Collection[str], now: datetime) -> ClaimRecord:
    if record.phase is not ClaimPhase.INITIALIZED:
        return record
    digest = _digest(pods)
    if digest == record.pods_digest:
        return record
    nominated = tuple(pod for pod in record.nominated if pod in waiting)
    return msgspec.structs.replace(record, pods_digest=digest, last_pod_event_at=now, nominated=nominated)


def _digest(pods: Iterable[str]) -> str:
    """Return a digest of the set; empty for no pods, so that an empty new node needs no write."""
    names = sorted(pods)
    return blake2b("\n".join(names).encode(), digest_size=8).hexdigest() if names else ""
