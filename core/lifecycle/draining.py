"""The drain of a node: who is evicted next, when force is used, and what blocks it.

The eviction queue of one node: which pods are evicted now, which are deleted by force, and when the others are retried.

Each pod has its own entry, so a pod that cannot be evicted does not delay the others. No pod is deleted by force before an
eviction of it was tried.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Any, Final

import msgspec

from core import labels
from core.errors import invariant
from core.lifecycle.deletion import (
    CONSOLIDATION,
    VOLUNTARY,
    last_check,
    lets_groups_end,
    may_be_cancelled,
    open_again,
    progress_at,
    wait_for_replacements,
    wait_for_successors,
)
from core.lifecycle.records import ClaimPhase, ClaimRecord, CommandRecord, Deletion, EvictionTry
from core.lifecycle.registration import has_registered
from core.lifecycle.steps import (
    INSTANCE_CHECK_AFTER,
    Adopt,
    Blocker,
    CancelDrain,
    ClaimFacts,
    ClaimStep,
    DeleteNode,
    Drain,
    Escalate,
    Forget,
    NoteEmpty,
    TaintNode,
    TerminateInstance,
    Wait,
    recheck_after,
)
from core.manifests.wire.pod import WireWorkload
from core.model.plan import Plan, PlannedClaim
from core.model.pod import Pod, VolumeAttachment
from core.model.snapshot import Node
from core.model.values import quantity
from core.model.values.taints import DISRUPTED
from core.pods import is_drainable, names_group
from core.reasons.code import ClaimReason, ReasonCode, TerminationReason
from core.reasons.nodes import NodeReason
from core.reasons.pods import EvictionReason, HeldPodReason

# The taint of a leaving node, its label and its reason.
#
# They survive the loss of the claim's row, which a restored table may replace.


EXCLUDED_BY_US: Final = "karpenter"
"""Value of the label that keeps a node out of load balancers (Karpenter); a user's own label has another value and stays."""

REASON_ANNOTATION: Final = "fleetwright.dev/disruption-reason"
"""Annotation with the reason for the disrupted taint, which has no value itself (Karpenter)."""


def taint_of(node: Node, reason: str) -> TaintNode:
    """Return the step that keeps new pods and load balancers off the node; our taint replaces one with the same key."""
    others = tuple(taint for taint in node.taints if taint.key != DISRUPTED.key)
    return TaintNode(
        node=node.name,
        labels={labels.EXCLUDE_FROM_BALANCERS: EXCLUDED_BY_US},
        annotations={REASON_ANNOTATION: _reason_to_write(node, reason)},
        taints=(*others, DISRUPTED),
    )


def lacks_marks(node: Node, reason: str) -> bool:
    """Whether the node must be marked for this reason: it is unmarked, or marked for a voluntary reason only."""
    is_marked = DISRUPTED in node.taints and labels.EXCLUDE_FROM_BALANCERS in node.labels
    written = node.annotations.get(REASON_ANNOTATION, reason)
    return not is_marked or written != _reason_to_write(node, reason)


def must_leave_for(node: Node) -> TerminationReason | None:
    """Return the mandatory reason for which the node is marked, None if it is unmarked or could stay.

    A mandatory removal is never revoked, so a claim without it has lost it. Marks of a voluntary reason may also remain from an
    abandoned command.
    """
    if DISRUPTED not in node.taints:
        return None
    reason = TerminationReason.stored(node.annotations.get(REASON_ANNOTATION, ""))
    return None if reason in VOLUNTARY or reason is TerminationReason.OTHER else reason


def _reason_to_write(node: Node, reason: str) -> str:
    """Return the reason that the node is already marked with, unless it is voluntary and the new one mandatory."""
    written = node.annotations.get(REASON_ANNOTATION, reason)
    return reason if written in VOLUNTARY and reason not in VOLUNTARY else written


FIRST_WAIT: Final = timedelta(seconds=1)
LONGEST_WAIT: Final = timedelta(seconds=10)
"""The longest time between two attempts for one pod, up to which it doubles (Karpenter: from 100 ms to 10 s)."""

PATIENT_AFTER: Final = 30
PATIENT_WAIT: Final = timedelta(seconds=30)
"""After this many attempts, in about five minutes, a pod is tried less often."""

SOONEST: Final = timedelta(seconds=1)
"""Shortest time between two checks of a node."""

FORCED_ANYWAY_AFTER: Final = timedelta(minutes=1)
"""A round of evictions that is over this long after the deadline is the last that may leave a pod untried: the next one deletes
it by force. Earlier rounds do not count: an outage that outlasts the deadline leaves no pod untried."""

_CRITICAL: Final = ("system-cluster-critical", "system-node-critical")


class EvictionRefusal(msgspec.Struct, frozen=True):
    """The API server's refusal of an eviction or a forced deletion; `retry_after` is the delay that it requests."""

    reason: EvictionReason
    retry_after: timedelta = timedelta(0)
    is_forced: bool = False


def drain(deletion: Deletion, waiting: Sequence[Pod], now: datetime) -> Drain:
    """Choose the pods to remove now among those that block the drain.

    Overdue pods of every tier are evicted at once, and deleted by force if that fails. Of the others, only the first tier is
    evicted. Pods that keep failing do not crowd out the others: pods with the fewest attempts come first, and a pod whose
    forced deletion failed waits before the next attempt.
    """
    overdue = [pod for pod in waiting if is_overdue(pod, deletion, now)]
    late = {pod.key for pod in overdue}
    forcible = [pod for pod in overdue if _is_forced(pod, deletion)]
    forced = {pod.key for pod in forcible}
    force = [pod for pod in forcible if not _has_resisted(pod, deletion) or _next_at(pod, deletion, now) <= now]
    force.sort(key=lambda pod: (_has_resisted(pod, deletion), _attempts(pod, deletion), pod.key))
    unforced = [pod for pod in overdue if pod.key not in forced]
    unforced += [
        pod
        for pod in _first_tier([p for p in waiting if p.key not in late])
        if not pod.blocks_disruption(now) and not _ends_with_group(pod, deletion)
    ]
    due = [pod for pod in unforced if pod.is_active and _next_at(pod, deletion, now) <= now]
    return Drain(
        evict=tuple(sorted(due, key=lambda pod: (_attempts(pod, deletion), pod.key))),
        force=tuple((pod, _grace_left(deletion.deadline, now)) for pod in force),
    )


def next_check(deletion: Deletion, waiting: Iterable[Pod], now: datetime) -> timedelta:
    """Return when to check the node again: when the next pod may be evicted or forced off, at the latest after `recheck_after`.

    Time counts from the last pod that left, so a long drain whose pods leave one by one is checked as often as a new one.
    """
    since = max(moment for moment in (deletion.asked_at, deletion.tainted_at, deletion.evicted_at) if moment)
    delays = [recheck_after(since, now)]
    for pod in waiting:
        moments = [_next_at(pod, deletion, now)] if pod.is_active or _has_resisted(pod, deletion) else []
        if deletion.deadline is not None:
            moments.append(_due_at(pod, deletion))
        delays += [moment - now for moment in moments if moment > now]
    return max(SOONEST, min(delays))


def after_tries(
    deletion: Deletion,
    waiting: Iterable[Pod],
    refused: Mapping[str, EvictionRefusal],
    now: datetime,
    *,
    moved: bool,
    postponed: bool = False,
) -> Deletion:
    """Return the deletion with the results of a round of evictions; the same object if nothing changed.

    Args:
        deletion: The deletion before the round.
        waiting: The pods that still block the drain; entries of others are dropped, which bounds the record.
        refused: Key of a pod → the refusal of its eviction, or of its deletion by force.
        now: The moment of the round.
        moved: Whether any pod was evicted or forced off.
        postponed: Whether the round left pods to the next one; then it is none after which untried pods may be forced off.
    """
    present = {pod.key: identity(pod) for pod in waiting}
    tries = {uid: deletion.tries[uid] for uid in sorted(present.values()) if uid in deletion.tries}
    for key, refusal in sorted(refused.items()):
        if key in present:
            attempts = 1 + (tries[present[key]].attempts if present[key] in tries else 0)
            wait = max(back_off(attempts), refusal.retry_after)
            tries[present[key]] = EvictionTry(attempts, refusal.reason, now + wait, refusal.is_forced)
    tried_at = now if (moved or refused) and not postponed else deletion.tried_at
    if not moved and tries == deletion.tries and tried_at == deletion.tried_at:
        return deletion
    after = msgspec.structs.replace(deletion, tries=tries, tried_at=tried_at)
    if not moved:
        return after
    return msgspec.structs.replace(
        after, evicted_at=now, emptied_at=None, escalation_level=0, held_since_progress=timedelta(0)
    )


def back_off(attempts: int) -> timedelta:
    """Return how long to wait after this many failed tries."""
    if attempts > PATIENT_AFTER:
        return PATIENT_WAIT
    return min(LONGEST_WAIT, FIRST_WAIT * (1 << (attempts - 1)))


def needs_surge(tried: EvictionTry) -> bool:
    """Whether to restart the pod's Deployment, if its owner opted in: after two, four, eight … attempts.

    One failure may mean that another eviction has just used up the budget; two mean that the budget allows none. Later attempts
    repeat the restart in case a run crashed before it.
    """
    attempts = tried.attempts
    return tried.reason == EvictionReason.POD_DISRUPTION_BUDGET and attempts > 1 and not attempts & (attempts - 1)


def identity(pod: Pod) -> str:
    """Return the key of a pod's entry: its UID, so that a successor of the same name starts without one."""
    return pod.uid or pod.key


def is_overdue(pod: Pod, deletion: Deletion, now: datetime) -> bool:
    """Whether the pod would outlive terminationGracePeriod unless it is removed now, whatever protects it."""
    deadline = deletion.deadline
    if deadline is None:
        return False
    if pod.deleted_at is not None:
        return pod.deleted_at > max(deadline, now + SOONEST)
    return now > _due_at(pod, deletion)


def _due_at(pod: Pod, deletion: Deletion) -> datetime:
    """Return the time from which the pod is overdue: its own grace period before the deadline (Karpenter).

    A pod whose grace period is as long as terminationGracePeriod, or longer, cannot have all of it. Karpenter forces it off at
    once. Here PodDisruptionBudgets apply for the first half of the time; otherwise they would protect no pod on such a node.
    Time under a brake, by which the deadline was moved, is no part of it.
    """
    deadline = deletion.deadline
    assert deadline is not None  # noqa: S101 - callers have asked; tells the type checker
    begun = deletion.begun_at + deletion.held_for
    grace = timedelta(seconds=pod.spec.termination_grace_seconds)
    return deadline - grace if grace < deadline - begun else begun + (deadline - begun) / 2


def _is_forced(pod: Pod, deletion: Deletion) -> bool:
    """Whether eviction of an overdue pod has been tried before, or can no longer be tried."""
    if not pod.is_active or identity(pod) in deletion.tries:
        return True
    if deletion.deadline is None or deletion.tried_at is None:
        return False
    return deletion.tried_at > deletion.deadline + FORCED_ANYWAY_AFTER


def _has_resisted(pod: Pod, deletion: Deletion) -> bool:
    """Whether the last try was to delete the pod by force, and failed."""
    attempt = deletion.tries.get(identity(pod))
    return attempt is not None and attempt.is_forced


def _grace_left(deadline: datetime | None, now: datetime) -> int:
    return max(1, int((deadline - now).total_seconds())) if deadline else 1


def _attempts(pod: Pod, deletion: Deletion) -> int:
    attempt = deletion.tries.get(identity(pod))
    return attempt.attempts if attempt else 0


def _next_at(pod: Pod, deletion: Deletion, now: datetime) -> datetime:
    attempt = deletion.tries.get(identity(pod))
    return attempt.next_at if attempt else now


def _first_tier(pods: Sequence[Pod]) -> list[Pod]:
    """Return the pods that go first: ordinary before critical, and in each group DaemonSets' pods last (Karpenter)."""
    if not pods:
        return []
    first = min(_tier(pod) for pod in pods)
    return [pod for pod in pods if _tier(pod) == first]


def _tier(pod: Pod) -> tuple[bool, bool]:
    return pod.spec.priority_class in _CRITICAL, pod.is_daemon


# Escalates a drain that makes no progress: levels with deadlines, for nodes without a terminationGracePeriod.
#
# Pods that do not leave hold a drain up, and volumes that are not detached after the last pod has left. Time counts from the
# last eviction, so a long drain with progress is not escalated, and for volumes from the moment when the node was first seen
# without pods, which may have had a long grace period. Time under a brake that stops the drain does not count. Escalation
# forces no pod off; only a terminationGracePeriod does that.


class EscalationLevel(IntEnum):
    """Levels by how long a drain has made no progress."""

    SLOW = 1
    BLOCKED = 2
    LASTING = 3
    ALARMING = 4


DEADLINES: Final = {
    EscalationLevel.SLOW: timedelta(minutes=5),
    EscalationLevel.BLOCKED: timedelta(minutes=15),
    EscalationLevel.LASTING: timedelta(hours=1),
    EscalationLevel.ALARMING: timedelta(hours=24),
}
"""SLOW: events on the pods and the node. BLOCKED: counted in metrics. LASTING: the drain is cancelled if the node may stay,
otherwise reported once more. ALARMING: raises the metric of an alarm; evictions from a node that must go continue."""


def next_escalation(
    record: ClaimRecord, facts: ClaimFacts, waiting: Sequence[Pod], now: datetime
) -> Escalate | CancelDrain | NoteEmpty | None:
    """Return the step for a level that the drain has reached since the last check, or from when volumes count; None if none."""
    deletion, node = record.deletion, facts.node
    if deletion is None or deletion.tainted_at is None or deletion.deadline is not None or node is None:
        return None
    if not waiting and not facts.attachments:
        return None
    if not waiting and deletion.emptied_at is None:
        return NoteEmpty(node.name)
    if deletion.held_at is not None:
        return None
    since = progress_at(deletion)
    counted = now - since - deletion.held_since_progress
    reached = max((level for level, after in DEADLINES.items() if counted >= after), default=0)
    if reached <= deletion.escalation_level:
        return None
    blockers = tuple(_blocker(pod, deletion, now) for pod in waiting)
    first = min(blockers, key=lambda blocker: (blocker.reason in _PASSING, blocker.pod.key), default=None)
    cause = (
        f"{first.message}; no pod was evicted from node {node.name} since"
        if first is not None
        else f"{_attached(facts.attachments, node.name)}; the last pod had left by"
    )
    kept = f"{cause} {since:%Y-%m-%dT%H:%M:%SZ}"
    if reached >= EscalationLevel.LASTING and may_be_cancelled(record) and node.deleted_at is None:
        reason = _BLOCKED_BY.get(first.reason) if first is not None else None
        return CancelDrain(node.name, reason or NodeReason.DRAIN_BLOCKED, kept)
    return Escalate(reached, blockers, kept)


def _attached(attachments: Sequence[VolumeAttachment], node: str) -> str:
    """Name the volumes that keep a node after its pods have left; their CSI driver may not be running."""
    names = sorted(attachment.volume_name for attachment in attachments)
    return f"{len(names)} volumes are still attached to node {node}, the first is {names[0]}"


def _ends_with_group(pod: Pod, deletion: Deletion) -> bool:
    """Whether a pod is left alone until the deadline, so that its whole group need not start again for a newer node.

    Without a deadline such a drain does not begin. One that an instance's end, a user or repair asks for does not wait.
    """
    moves_alone = (
        pod.annotations.get(labels.GROUP_DISRUPTION) == "single" or pod.annotations.get(labels.GROUP) == "none"
    )
    return lets_groups_end(deletion) and names_group(pod) and not moves_alone


def _blocker(pod: Pod, deletion: Deletion, now: datetime) -> Blocker:
    tried = deletion.tries.get(identity(pod))
    if pod.deleted_at is not None:
        return Blocker(
            pod, HeldPodReason.TERMINATING, f"pod {pod.key} is terminating until {pod.deleted_at:%Y-%m-%dT%H:%M:%SZ}"
        )
    if pod.blocks_disruption(now):
        return Blocker(pod, HeldPodReason.DO_NOT_DISRUPT, f"pod {pod.key} has karpenter.sh/do-not-disrupt")
    if tried is None:
        return Blocker(pod, HeldPodReason.NOT_ASKED, f"pod {pod.key} waits until pods of earlier tiers have left")
    reason = EvictionReason.of(tried.reason, EvictionReason.SERVER_ERROR)
    return Blocker(pod, reason, f"pod {pod.key} was not evicted in {tried.attempts} attempts: {reason.clause}")


_PASSING: Final = (HeldPodReason.NOT_ASKED, HeldPodReason.TERMINATING)
"""Objections that end by themselves. They explain a blocked drain only if nothing else does."""

_BLOCKED_BY: Final[Mapping[ReasonCode, NodeReason]] = {
    HeldPodReason.DO_NOT_DISRUPT: NodeReason.DO_NOT_DISRUPT,
    EvictionReason.POD_DISRUPTION_BUDGET: NodeReason.POD_DISRUPTION_BUDGET,
}
"""A pod's objection → the reason for the node's hold once its drain is cancelled; `DRAIN_BLOCKED` for others."""


# Removes from a plan the places of pods that consolidation moves: its commands already have places for them.


def without_planned_moves(
    plan: Plan, pods: Iterable[Pod], records: Iterable[ClaimRecord], commands: Iterable[CommandRecord]
) -> Plan:
    """Return the plan without places of pods that consolidation moves, and without new nodes that serve only these.

    The command found room for them or launches new nodes, which it may not have stored yet. A second plan may pack the same
    pods differently, and would nominate nodes for pods that go elsewhere. An evicted pod that finds no place waits, and is
    planned like other pods.

    Args:
        plan: A plan for waiting pods, and for those of all nodes that are leaving.
        pods: The pods that it was made for, among others.
        records: The claims.
        commands: The running commands.
    """
    going = {
        record.node_name for record in records if record.deletion is not None and _is_consolidated(record.deletion)
    }
    started = [begun.command for begun in commands if begun.has_started and begun.command.reason in CONSOLIDATION]
    going.update(node for command in started for node in command.nodes)
    moving = frozenset(pod.key for pod in pods if pod.node_name and pod.node_name in going)
    claims = tuple(claim for claim in plan.claims if not _serves_only(claim, moving))
    bindings = tuple(binding for binding in plan.bindings if binding.pod not in moving)
    return msgspec.structs.replace(plan, claims=claims, bindings=bindings) if moving else plan


def _is_consolidated(deletion: Deletion) -> bool:
    """Whether only consolidation removes the node. If AWS takes it too, its pods get a plan of their own."""
    return deletion.reason in CONSOLIDATION and deletion.ends_at is None


def _serves_only(claim: PlannedClaim, moving: Collection[str]) -> bool:
    return bool(claim.pods) and not claim.buffer_pods and all(pod in moving for pod in claim.pods)


# Rollout restarts for single replicas, by opt-in: the new pod starts on another node before the old one stops.
#
# A PodDisruptionBudget over one replica never allows its eviction. Restarting its Deployment while the node is closed to new
# pods starts the new pod on another node, and removes the old one once the new one is ready: the workload always has a pod.


RESTARTED_FOR: Final = "fleetwright.dev/restarted-for"
"""Annotation of the pod template: the claim for whose drain the Deployment was last restarted. A drain restarts it once."""

_ROLLING: Final = "RollingUpdate"


def is_restarted(deployment: WireWorkload, claim: str) -> bool:
    """Whether the Deployment was already restarted for the drain of `claim`."""
    return deployment.spec.template.metadata.annotations.get(RESTARTED_FOR) == claim


def objection(deployment: WireWorkload) -> str:
    """Return in one sentence why the Deployment must not be restarted; empty if it may."""
    spec, status = deployment.spec, deployment.status
    if spec.replicas != 1:
        return f"it has {spec.replicas} replicas, but a surge restart supports only one"
    if spec.paused:
        return "its rollout is paused"
    rolling = spec.strategy.rolling_update
    if spec.strategy.type != _ROLLING or not _is_a_pod(rolling.max_surge, from_percent=1):
        return "its strategy starts no new pod before the old one stops"
    if _is_a_pod(rolling.max_unavailable, from_percent=100):
        return "its strategy stops the old pod before the new one is ready"
    if status.observed_generation < deployment.metadata.generation or status.updated_replicas < status.replicas:
        return "a rollout is already in progress"
    return ""


def restart(deployment: WireWorkload, claim: str) -> dict[str, Any]:
    """Return the merge patch that restarts the Deployment, as `kubectl rollout restart` does, for the version that was read."""
    template = {"metadata": {"annotations": {RESTARTED_FOR: claim}}}
    return {"metadata": {"resourceVersion": deployment.metadata.resource_version}, "spec": {"template": template}}


def _is_a_pod(amount: int | str, *, from_percent: int) -> bool:
    """Whether a number, or a percentage of the one replica, is a pod: Kubernetes rounds surge up and unavailability down."""
    text = str(amount)
    least = from_percent if text.endswith("%") else 1
    return (quantity.whole_number(text.removesuffix("%")) or 0) >= least


# Terminates a claim: from a working node to the removal of its record (Karpenter, termination).


SETTLE: Final = timedelta(seconds=5)
"""How long an empty node is watched for pods that were bound to it just before it was tainted (Karpenter)."""

TERMINATE_AGAIN: Final = timedelta(seconds=30)
FINALIZERS_FOR: Final = timedelta(minutes=10)
"""How long a claim is kept while its Node, whose instance is already gone, waits for other finalizers."""


_REASONS_OF_END: Final = (TerminationReason.INSTANCE_GONE, TerminationReason.START_FAILED)
"""Reasons that are based on the end of the instance itself."""


def next_termination_step(record: ClaimRecord, facts: ClaimFacts, now: datetime) -> ClaimStep:
    """Choose the step: taint, wait for replacements, drain by tier, wait for volumes, terminate, delete the node, forget."""
    deletion = record.deletion
    invariant(deletion is not None, f"claim {record.name} is not to go")
    assert deletion is not None  # noqa: S101 - tells the type checker what the line above ensures
    if record.machine is None:
        return (
            Adopt(facts.tagged_instance) if facts.tagged_instance else Forget(TerminationReason.stored(deletion.reason))
        )
    if facts.is_instance_gone and _may_appear(record, deletion, now):
        return _wait_for_end(deletion, now) if deletion.terminated_at is not None else TerminateInstance()
    if facts.is_instance_gone:
        kept = _remove_nodes(facts.nodes, now) or wait_for_successors(record, facts, now)
        return kept or Forget(TerminationReason.stored(deletion.reason))
    if deletion.terminated_at is not None:
        return _wait_for_end(deletion, now)
    node = facts.node
    waiting = [pod for pod in facts.pods if is_drainable(pod, now)]
    if node is None and record.is_registered and not facts.nodes:
        # The Node was deleted while its pods still run: they are evicted like others until Kubernetes removes them.
        return _empty(deletion, waiting, now) or TerminateInstance()
    if node is None or not has_registered(record, node):
        return TerminateInstance()
    if deletion.tainted_at is None or lacks_marks(node, deletion.reason):
        return open_again(record, node, now) or taint_of(node, deletion.reason)
    kept = last_check(record, facts, waiting, now) or wait_for_replacements(record, facts, waiting, now)
    return (
        kept
        or next_escalation(record, facts, waiting, now)
        or _drain(deletion, facts, waiting, now)
        or TerminateInstance()
    )


def _may_appear(record: ClaimRecord, deletion: Deletion, now: datetime) -> bool:
    """Whether EC2 may not show the instance yet, which was just launched: forgotten now, it would run without a claim.

    A request to terminate it is repeated until EC2 would know it. An end that EC2 has told of is believed.
    """
    is_young = record.phase is ClaimPhase.LAUNCHED and now - record.phase_since < INSTANCE_CHECK_AFTER
    return is_young and deletion.reason not in _REASONS_OF_END


def _remove_nodes(nodes: Sequence[Node], now: datetime) -> ClaimStep | None:
    """Request each node's deletion once, then wait for its finalizers, for a bounded time."""
    for node in nodes:
        if node.deleted_at is None or labels.TERMINATION_FINALIZER in node.finalizers:
            return DeleteNode(node.name)
    deleted = [node for node in nodes if node.deleted_at is not None]
    since = max((node.deleted_at for node in deleted if node.deleted_at is not None), default=now)
    if not deleted:
        return None
    if now - since < FINALIZERS_FOR:
        return Wait(recheck_after(since, now), awaited_finalizers(deleted[0]))
    return Forget(ClaimReason.NODE_HELD_BY_FINALIZERS, f"{awaited_finalizers(deleted[0])}; its instance is gone")


def awaited_finalizers(node: Node) -> str:
    """Name in one sentence the finalizers that a deleted node waits for."""
    return f"node {node.name} is deleted and waits for its finalizers {', '.join(node.finalizers) or '(none)'}"


def _wait_for_end(deletion: Deletion, now: datetime) -> ClaimStep:
    asked_at = deletion.terminated_at or now
    if now - asked_at >= TERMINATE_AGAIN:
        return TerminateInstance()
    return Wait(recheck_after(deletion.asked_at, now), "the instance is shutting down")


def _empty(deletion: Deletion, waiting: Sequence[Pod], now: datetime) -> ClaimStep | None:
    """Return the step for the pods that must leave first, None if there are none."""
    if not waiting:
        return None
    step = drain(deletion, waiting, now)
    if step.evict or step.force:
        return step
    return Wait(next_check(deletion, waiting, now), f"{len(waiting)} pods have not left yet")


def _drain(deletion: Deletion, facts: ClaimFacts, waiting: Sequence[Pod], now: datetime) -> ClaimStep | None:
    step = _empty(deletion, waiting, now)
    if step is not None:
        return step
    settled_at = (deletion.tainted_at or now) + SETTLE
    if now < settled_at:
        return Wait(settled_at - now, "watching for pods that were bound late")
    if facts.attachments and (deletion.deadline is None or now < deletion.deadline):
        return Wait(next_check(deletion, (), now), f"{len(facts.attachments)} volumes are still attached")
    return None
