"""What earlier commands did: moves, rollouts and their pace, and which moves are not repeated for a while.

Records whether commands that moved pods saved money, and which moves are not repeated for a while.

See docs/engineering/handbook/moves.md.

A plan says where pods go, but kube-scheduler binds their successors where it likes. If a node is then launched for a pod whose
planned place was taken, the command saved nothing, and repeating it would save nothing again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

import msgspec

from core import labels
from core.disruption.drift import DriftCheck
from core.model import plan
from core.model.node_pool import NodePool, RolloutGate
from core.model.plan import Command, NodeClaim
from core.model.pod import Pod
from core.model.snapshot import EvictedNode, MovedWorkload, Snapshot
from core.reasons.code import Refusal, TerminationReason
from core.reasons.nodes import NodeReason

# Counts the evictions of the last hour by ceiling, and says when they stop counting.
#
# Separate from `eviction_rate`, which imports candidates: functions that decide nothing load this module at each cold start.


PERIOD: Final = timedelta(hours=1)

CLUSTER: Final = ""
"""Stands for the whole cluster among names of NodePools."""


def recently(nodes: Mapping[str, EvictedNode], now: datetime) -> dict[str, EvictedNode]:
    """Return the nodes that were drained within the last hour, by claim."""
    return {name: node for name, node in sorted(nodes.items()) if now - node.at < PERIOD}


def next_relief(snapshot: Snapshot) -> Iterator[datetime]:
    """Yield the moments at which evictions and removed capacity stop counting; none where nothing limits them."""
    if snapshot.options.shrink_percent is not None or any(True for _ in ceilings_of(snapshot)):
        yield from (node.at + PERIOD for _, node in sorted(snapshot.evicted_nodes.items()))


def ceilings_of(snapshot: Snapshot) -> Iterator[tuple[str, int]]:
    """Yield the ceilings: a NodePool, or `CLUSTER`, and how many pods may be evicted there in an hour."""
    if snapshot.options.evictions_per_hour is not None:
        yield CLUSTER, snapshot.options.evictions_per_hour
    for pool in snapshot.node_pools:
        if pool.evictions_per_hour is not None:
            yield pool.name, pool.evictions_per_hour


# Rollouts: drift replaces one node of a NodePool first, and the others once pods on the new node are ready
# (docs/engineering/handbook/drift.md).
#
# A rollout begins when nodes have drifted from what their NodePool now specifies. Its first replacement is the canary. Pods
# that do not become ready on new nodes, replacements that never join, and those that drift again stop the rollout for a time
# that doubles with each failure. A changed specification starts a new rollout once it has stood still for two minutes, and with
# each further change within an hour for longer: what two tools fight over is not followed, and a change that is soon taken back
# replaces nothing.


READY_WITHIN: Final = timedelta(minutes=5)
"""How long a pod on a new node may take to become ready: images are pulled, and volumes attached."""

ROLLOUT_WATCHED_FOR: Final = timedelta(minutes=2)
"""How long the canary's pods, or its node if it has none, must have been ready before other nodes follow."""

CHANGE_SETTLES_AFTER: Final = timedelta(minutes=2)
"""How long a specification must stand still that changed for the first time within `PERIOD`: two rounds of `disrupt`."""

FIRST_SETTLING: Final = timedelta(minutes=4)
LONGEST_SETTLING: Final = timedelta(minutes=30)
"""How long a specification must stand still that changed twice within `PERIOD`; doubles with each change, up to the longest."""

CHANGES_KEPT: Final = 10

HOURS: Final = "hours/"
REPLICAS: Final = "replicas/"
PRESENCE: Final = "presence/"
WARM: Final = "warm/"
BUFFER: Final = "buffer/"
"""Begin the keys of what makes nodes leave besides their specification, in the place of a rollout's NodePool: the rules that
close it, its number of nodes, whether it exists, the room that it keeps warm, and a CapacityBuffer. No NodePool can have such
a name."""

_CHANGING: Final = {
    HOURS: "when NodePool {} is closed",
    REPLICAS: "the number of nodes of NodePool {}",
    PRESENCE: "whether NodePool {} exists",
    WARM: "the room that calendars keep warm in NodePool {}",
    BUFFER: "what CapacityBuffer {} keeps free",
}

CONFIRMED_EVERY: Final = timedelta(days=1)
"""How old a row becomes that still holds before it is written again: rows expire some days after they were written."""

FIRST_STOP: Final = timedelta(minutes=30)
LONGEST_STOP: Final = timedelta(hours=24)
"""The most that the stop of a failed rollout, `FIRST_STOP`, doubles to."""


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """The stored state of a NodePool's last rollout.

    Attributes:
        target: Digest of the specification that nodes are replaced by, see `target_of`.
        deselected: Subnets and reservations whose nodes drift because the EC2NodeClass no longer names them.
        is_proven: Whether pods are ready on a new node; from then on only budgets limit how many nodes go.
        stopped_until: When it resumes after the last failure, None if nothing failed.
        message: The last failure.
        changed_at: When the specification changed within the hour before the change that began this rollout.
        drifted_again: Replacements that have drifted themselves since the last stop, and when they were launched.
        confirmed_at: When the row was last written although nothing had changed.

    Rows with a key that begins with `HOURS` or another kind of change use the target and the times alone.
    """

    node_pool: str
    target: str
    deselected: tuple[str, ...] = ()
    started_at: datetime
    is_proven: bool = False
    failures: int = 0
    stopped_until: datetime | None = None
    message: str = ""
    changed_at: tuple[datetime, ...] = ()
    drifted_again: dict[str, datetime] = {}
    confirmed_at: datetime | None = None

    @property
    def settles_at(self) -> datetime:
        """When the specification has stood still for long enough, if it does not change again."""
        before = len(self.changed_at)
        if not before:
            return self.started_at + CHANGE_SETTLES_AFTER
        return self.started_at + min(LONGEST_SETTLING, FIRST_SETTLING * (1 << (before - 1)))

    def is_settling(self, now: datetime) -> bool:
        """Whether the specification changes too often to be followed now."""
        return now < self.settles_at

    def followed_to(self, target: str, deselected: tuple[str, ...], now: datetime) -> Rollout:
        """Return the rollout of what is specified now: this one, or a new one if that differs.

        A row of a release with another form of digest takes the target over, with its failures, stop and proof: a stopped
        rollout does not start again because of an upgrade. Nodes that are gone change nothing; only without any deselected one
        are these forgotten, so that the same selection made again is a change.
        """
        if self.target.partition(":")[0] != _TARGET_FORM:
            return msgspec.structs.replace(self, target=target, deselected=deselected)
        if self.target == target and set(deselected) <= set(self.deselected):
            return self if deselected else msgspec.structs.replace(self, deselected=())
        return self.changed_to(target, deselected, now)

    def changed_to(self, target: str, deselected: tuple[str, ...], now: datetime) -> Rollout:
        """Return the rollout of a specification that has just replaced this one's."""
        recent = [at for at in (*self.changed_at, self.started_at) if now - at < PERIOD]
        return Rollout(
            node_pool=self.node_pool,
            target=target,
            deselected=deselected,
            started_at=now,
            changed_at=tuple(recent[-CHANGES_KEPT:]),
        )

    def kept(self, now: datetime) -> Rollout:
        """Return the row to store while it holds: once a day another one, so that it does not expire."""
        is_old = now - (self.confirmed_at or self.started_at) >= CONFIRMED_EVERY
        return msgspec.structs.replace(self, confirmed_at=now) if is_old else self

    def is_stopped(self, now: datetime) -> bool:
        """Whether no node with pods may go for drift."""
        return self.stopped_until is not None and now < self.stopped_until

    def after_failure(self, message: str, now: datetime) -> Rollout:
        """Return the rollout after one more failure; a failure during a stop is a late report of the same cause."""
        if self.is_stopped(now):
            return self
        stop = min(LONGEST_STOP, FIRST_STOP * 2 ** min(self.failures, 10))
        return msgspec.structs.replace(
            self,
            is_proven=False,
            failures=self.failures + 1,
            stopped_until=now + stop,
            message=message,
            drifted_again={},
        )


def said_now(before: Rollout | None, key: str, text: str, now: datetime) -> Rollout:
    """Return the row of what is said now besides the specification: the one before, or a new one if that differs.

    A row of a release with another form of text takes this one over: an upgrade is no change.
    """
    target = f"{_SAID_FORM}:{text}"
    if before is None:
        return Rollout(node_pool=key, target=target, started_at=now)
    if before.target.partition(":")[0] != _SAID_FORM:
        return msgspec.structs.replace(before, target=target)
    return before if before.target == target else before.changed_to(target, (), now)


class PoolRollout(msgspec.Struct, frozen=True):
    """A rollout to store, and its limit on drifted nodes; None for no limit."""

    rollout: Rollout
    gate: RolloutGate | None


def rollouts(snapshot: Snapshot, stored: Mapping[str, Rollout]) -> dict[str, PoolRollout]:
    """Return pool → its rollout, for every pool with drifted nodes or a specification that changed back, by name."""
    drift, pods = DriftCheck(snapshot), _pods_by_node(snapshot)
    claims: dict[str, list[NodeClaim]] = {}
    for claim in snapshot.node_claims:
        claims.setdefault(claim.labels.get(labels.NODEPOOL, ""), []).append(claim)
    by_pool: dict[str, PoolRollout] = {}
    for pool in sorted(snapshot.node_pools, key=lambda pool: pool.name):
        pool_claims = claims.get(pool.name, ())
        drifted = {claim.name for claim in pool_claims if drift.reason(claim, pool)}
        before = stored.get(pool.name)
        if not drifted and before is None:
            continue
        target = target_of(pool, snapshot)
        deselected = tuple(sorted({part for claim in pool_claims for part in drift.deselected(claim, pool)}))
        if before is None:
            before = Rollout(node_pool=pool.name, target=target, deselected=deselected, started_at=snapshot.now)
        else:
            before = before.followed_to(target, deselected, snapshot.now)
        if before != stored.get(pool.name):
            by_pool[pool.name] = PoolRollout(before, None)
        if drifted:
            by_pool[pool.name] = _advanced(before.kept(snapshot.now), pool_claims, drifted, pods, snapshot)
    return by_pool


_TARGET_FORM: Final = "2"
"""Begins each target; change it with what `target_of` digests, or every rollout starts again with the next release."""

_SAID_FORM: Final = "said1"
"""The same for what `said_now` stores; change it with the texts of the sweeps."""


def target_of(pool: NodePool, snapshot: Snapshot) -> str:
    """Return a digest of what a new node of the pool is, as far as drift compares it.

    The hashes leave out requirements and selectors (`core.disruption.drift`), so these count by their meaning. One more subnet
    or reservation is no drift, and a deselected one is drift of its nodes alone (`Rollout.deselected`).
    """
    node_class = next(
        (candidate for candidate in snapshot.node_classes if candidate.name == pool.node_class.name), None
    )
    requirements = [msgspec.structs.replace(wanted, min_values=None) for wanted in pool.written_requirements]
    parts: list[object] = [
        pool.own_annotations.get(labels.NODEPOOL_HASH, ""),
        sorted(requirements, key=msgspec.json.encode),
    ]
    if node_class is not None:
        parts += [
            node_class.own_annotations.get(labels.NODECLASS_HASH, ""),
            [image for image, _ in node_class.amis],
            sorted(node_class.security_groups),
            node_class.placement_group,
        ]
    digest = blake2b(msgspec.json.encode(parts), digest_size=8).hexdigest()
    return f"{_TARGET_FORM}:{digest}"


def _advanced(
    before: Rollout,
    pool_claims: Sequence[NodeClaim],
    drifted: Iterable[str],
    pods: Mapping[str, Sequence[Pod]],
    snapshot: Snapshot,
) -> PoolRollout:
    now, old = snapshot.now, set(drifted)
    new = [
        claim
        for claim in pool_claims
        if claim.name not in old and claim.created_at is not None and claim.created_at >= before.started_at
    ]
    unready, again = _unready(new, pods, now), _drifted_again(before, pool_claims, old, now)
    before = msgspec.structs.replace(before, drifted_again=again)
    if again and (before.failures or len(again) >= DRIFTED_AGAIN_MAX or _drifts_before_ready(again, pool_claims)):
        names = ", ".join(sorted(again)[:DRIFTED_AGAIN_MAX])
        rollout = before.after_failure(f"launched for what is specified now, and drifted again: {names}", now)
    elif unready:
        rollout = before.after_failure(f"pod {unready} is not ready on a new node", now)
    elif _has_settled(new, pods, now):
        rollout = msgspec.structs.replace(before, is_proven=True, failures=0, stopped_until=None, message="")
    else:
        rollout = before
    is_going = any(
        c.deleted_at is not None or c.name in snapshot.marked_for_deletion for c in pool_claims if c.name in old
    )
    is_awaited = is_going or (bool(new) and not rollout.failures)
    return PoolRollout(rollout, _gate(rollout, now, allowed=0 if is_awaited else 1))


def _gate(rollout: Rollout, now: datetime, *, allowed: int) -> RolloutGate | None:
    if rollout.is_stopped(now):
        text = (
            f"the rollout of NodePool {rollout.node_pool} is stopped until {rollout.stopped_until:%Y-%m-%dT%H:%M:%SZ}: "
            f"{rollout.message}"
        )
        return RolloutGate(0, text, is_stopped=True)
    if rollout.is_settling(now):
        return RolloutGate(0, settling_message(rollout), is_settling=True, until=rollout.settles_at)
    if rollout.is_proven:
        return None
    text = f"the rollout of NodePool {rollout.node_pool} waits until the pods of its first new node are ready"
    return RolloutGate(allowed, text)


def settling_message(rollout: Rollout) -> str:
    """Return why the specification is not followed now, and until when, as the end of a sentence."""
    times = len(rollout.changed_at) + 1
    kind, _, name = rollout.node_pool.partition("/")
    subject = _CHANGING[f"{kind}/"].format(name) if name else f"what NodePool {kind} specifies"
    change = "has changed" if times == 1 else f"changed {times} times within an hour"
    return (
        f"{subject} {change}: it is followed from {rollout.settles_at:%Y-%m-%dT%H:%M:%SZ} on, unless it changes again"
    )


def gate_reason(gate: RolloutGate) -> NodeReason:
    """Return why a rollout keeps a node."""
    if gate.is_settling:
        return NodeReason.ROLLOUT_SETTLING
    return NodeReason.ROLLOUT_STOPPED if gate.is_stopped else NodeReason.ROLLOUT_CANARY


DRIFTED_AGAIN_MAX: Final = 2
"""How many replacements drift themselves before the rollout stops: one may have been changed by hand."""


def _drifted_again(
    rollout: Rollout, pool_claims: Iterable[NodeClaim], drifted: Collection[str], now: datetime
) -> dict[str, datetime]:
    """Return the recent replacements that have drifted themselves, also those that are gone: others would drift without end.

    Something changes new nodes, as a tool that attaches a security group to each instance, or no type has what the NodePool
    requires. Each stop that has ended lets one more node try.
    """
    since = max(rollout.settles_at, rollout.stopped_until or rollout.settles_at, now - PERIOD)
    seen = {c.name: c.created_at for c in pool_claims if c.name in drifted and c.created_at is not None}
    return {name: at for name, at in sorted({**rollout.drifted_again, **seen}.items()) if at > since}


def _drifts_before_ready(again: Collection[str], pool_claims: Iterable[NodeClaim]) -> bool:
    """Whether one of these has drifted before it was ready for pods: nobody changed it by hand."""
    return any(claim.name in again and not claim.is_true(plan.INITIALIZED) for claim in pool_claims)


def _unready(new: Iterable[NodeClaim], pods: Mapping[str, Sequence[Pod]], now: datetime) -> str:
    """Return a pod that should be ready on a new node by now, empty if none.

    Workloads that are unready elsewhere do not count.
    """
    names = {claim.node_name for claim in new if claim.node_name}
    late = {name: [pod for pod in node_pods if _is_late(pod, now)] for name, node_pods in pods.items()}
    elsewhere = {pod.workload for name, late_pods in late.items() if name not in names for pod in late_pods}
    return next((pod.key for name in sorted(names) for pod in late.get(name, ()) if pod.workload not in elsewhere), "")


def _is_late(pod: Pod, now: datetime) -> bool:
    since = pod.started_at or pod.created_at
    return pod.is_ready is False and since is not None and now - since >= READY_WITHIN


def _has_settled(new: Iterable[NodeClaim], pods: Mapping[str, Sequence[Pod]], now: datetime) -> bool:
    """Whether some new node and its pods have been ready for `WATCHED_FOR`."""
    for claim in new:
        initialized = claim.conditions.get(plan.INITIALIZED)
        since = initialized.changed_at if initialized is not None and initialized.status == "True" else None
        moments = [since, *(pod.started_at or pod.created_at for pod in pods.get(claim.node_name, ()))]
        is_ready = all(pod.is_ready is not False for pod in pods.get(claim.node_name, ()))
        if since is not None and is_ready and now - max(filter(None, moments)) >= ROLLOUT_WATCHED_FOR:
            return True
    return False


def _pods_by_node(snapshot: Snapshot) -> dict[str, list[Pod]]:
    """Return the pods that serve a workload, by node."""
    by_node: dict[str, list[Pod]] = {}
    for pod in sorted(snapshot.pods, key=lambda pod: pod.key):
        if pod.node_name and pod.is_active and not pod.is_daemon and not pod.is_static:
            by_node.setdefault(pod.node_name, []).append(pod)
    return by_node


WATCHED_FOR: Final = timedelta(minutes=10)
"""How long after the removal of a command's nodes launches are attributed to it: its pods are evicted and bound meanwhile."""

PAYS_FROM: Final = 2
"""A command did not pay if the nodes launched since cost at least 1/`PAYS_FROM` of its saving."""

FIRST_HOLD: Final = timedelta(hours=1)
LONGEST_HOLD: Final = timedelta(hours=24)
"""The longest time for which workloads are not moved after a command that did not pay; it doubles with each in a row."""

FORGOTTEN_AFTER: Final = timedelta(days=3)
"""How long the length of a hold is remembered after its end."""

FIRST_PAUSE: Final = timedelta(minutes=2)
LONGEST_PAUSE: Final = timedelta(minutes=30)
"""The longest time for which a command that failed validation is not decided again; it doubles with each failure in a row."""

FAILURE_FORGOTTEN_AFTER: Final = timedelta(hours=1)


class CommandOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A consolidation that was carried out.

    Attributes:
        workloads: The workloads whose pods it moved.
        savings: Nano-dollars per hour, as decided.
        carried_out_at: When the removal of its nodes began.
        spent: Nano-dollars per hour of the nodes that were launched since for what it moved.
    """

    command: str
    workloads: tuple[str, ...]
    savings: int
    carried_out_at: datetime
    spent: int = 0

    @property
    def did_not_pay(self) -> bool:
        """Whether it did not pay."""
        return self.spent > 0 and self.spent * PAYS_FROM >= self.savings


class FailedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command that failed validation. `key` identifies its method and its nodes."""

    key: str
    failures: int
    until: datetime


class MoveHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The records by workload name, command id, key, NodePool and NodeClaim; or those of them that must be written."""

    workloads: dict[str, MovedWorkload] = {}
    outcomes: dict[str, CommandOutcome] = {}
    failures: dict[str, FailedCommand] = {}
    rollouts: dict[str, Rollout] = {}
    evicted_nodes: dict[str, EvictedNode] = {}

    def unsettled(self, now: datetime) -> dict[str, MovedWorkload]:
        """Return the workloads some or all of whose pods consolidation does not move, by name."""
        return {
            name: workload
            for name, workload in sorted(self.workloads.items())
            if now < workload.settles_at or (workload.held_until is not None and now < workload.held_until)
        }

    def is_paused(self, command: Command, now: datetime) -> bool:
        """Whether the command failed recently and must not be tried yet."""
        failed = self.failures.get(key_of(command))
        return failed is not None and now < failed.until

    def after_command(
        self,
        command_id: str,
        command: Command,
        workloads: Collection[str],
        now: datetime,
        drained: Mapping[str, EvictedNode] | None = None,
    ) -> MoveHistory:
        """Return the changed records when the removal of a command's nodes begins, whose pods belong to these workloads.

        `drained` has these nodes by claim, with the number of pods that each loses.
        """
        moved = {name: _moved(self.workloads.get(name), name, now) for name in sorted(workloads)}
        outcomes: dict[str, CommandOutcome] = {}
        if command.reason == TerminationReason.UNDERUTILIZED and moved:
            before = self.outcomes.get(command_id)  # other nodes of the command were removed earlier
            fresh = CommandOutcome(command=command_id, workloads=(), savings=command.savings, carried_out_at=now)
            workloads_of_all = sorted({*moved, *(before or fresh).workloads})
            outcomes[command_id] = msgspec.structs.replace(
                before or fresh, workloads=tuple(workloads_of_all), carried_out_at=now
            )
        return MoveHistory(workloads=moved, outcomes=outcomes, evicted_nodes=dict(drained or {}))

    def after_launch(self, launches: Sequence[LaunchedNode], now: datetime) -> MoveHistory:
        """Return the changed records after a launch: watched commands are charged for nodes that serve their moved pods."""
        watched = [
            outcome for _, outcome in sorted(self.outcomes.items()) if now - outcome.carried_out_at < WATCHED_FOR
        ]
        spent = dict.fromkeys((outcome.command for outcome in watched), 0)
        for launch in launches:
            served = [outcome for outcome in watched if launch.serves(outcome.workloads)]
            for outcome in served:
                spent[outcome.command] += launch.price // len(served)
        charged = {
            outcome.command: msgspec.structs.replace(outcome, spent=outcome.spent + spent[outcome.command])
            for outcome in watched
            if spent[outcome.command]
        }
        unpaid = [c for c in charged.values() if c.did_not_pay and not self.outcomes[c.command].did_not_pay]
        names = sorted({name for outcome in unpaid for name in outcome.workloads})
        changed = {name: _with_hold(self.workloads.get(name), name, now) for name in names}
        return MoveHistory(workloads=changed, outcomes=charged)

    def after_failure(self, command: Command, now: datetime) -> MoveHistory:
        """Return the changed records when a command fails validation."""
        key = key_of(command)
        before = self.failures.get(key)
        failures = 1
        if before is not None and now - before.until < FAILURE_FORGOTTEN_AFTER:
            failures += before.failures
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures - 1, 10))
        return MoveHistory(failures={key: FailedCommand(key=key, failures=failures, until=now + pause)})


class LaunchedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A launched node, with the workloads that it is for, or whether it is for a capacity buffer.

    Attributes:
        for_buffer: Whether it is for a capacity buffer. Moved pods of any workload may have taken the buffer's room.
        price: Nano-dollars per hour.
    """

    workloads: frozenset[str]
    for_buffer: bool
    price: int

    def serves(self, workloads: Iterable[str]) -> bool:
        """Whether the node may be needed because pods of these workloads were moved."""
        return self.for_buffer or not self.workloads.isdisjoint(workloads)


def key_of(command: Command) -> str:
    """Return a key that is equal for the same command decided again."""
    text = "/".join((command.reason, command.method, *sorted(command.claims)))
    return blake2b(text.encode(), digest_size=10).hexdigest()


def first_reason(workloads: Mapping[str, MovedWorkload], pods: Iterable[Pod], now: datetime) -> Refusal | None:
    """Return why consolidation must not move these pods of a node now, None if it may."""
    for pod in pods if workloads else ():
        state = workloads.get(pod.workload)
        why = state.keeps(pod, now) if state is not None else None
        if why is not None:
            return why
    return None


def _moved(before: MovedWorkload | None, name: str, now: datetime) -> MovedWorkload:
    if before is None:
        return MovedWorkload(name=name, moving_since=now, moved_at=now)
    since = now if now >= before.settles_at else before.moving_since
    return msgspec.structs.replace(before, moving_since=since, moved_at=now)


def _with_hold(before: MovedWorkload | None, name: str, now: datetime) -> MovedWorkload:
    workload = before or MovedWorkload(name=name, moving_since=now, moved_at=now)
    if workload.held_until is not None and now < workload.held_until:  # another command of the same round
        return workload
    in_row = workload.held_until is not None and now - workload.held_until < FORGOTTEN_AFTER
    unpaid_moves = workload.unpaid_moves + 1 if in_row else 1
    hold = min(LONGEST_HOLD, FIRST_HOLD * 2 ** min(unpaid_moves - 1, 10))
    return msgspec.structs.replace(workload, unpaid_moves=unpaid_moves, held_until=now + hold)
