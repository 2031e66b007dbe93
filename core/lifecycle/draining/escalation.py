"""Escalates a drain that makes no progress: levels with deadlines, for nodes without a terminationGracePeriod.

Pods that do not leave hold a drain up, and volumes that are not detached after the last pod has left. Time counts from the
last eviction, so a long drain with progress is not escalated, and for volumes from the moment when the node was first seen
without pods, which may have had a long grace period. Time under a brake that stops the drain does not count. Escalation forces
no pod off; only a terminationGracePeriod does that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import IntEnum
from typing import Final

from core.lifecycle.draining.cancellation import may_be_cancelled
from core.lifecycle.draining.deletion import progress_at
from core.lifecycle.draining.evictions import identity
from core.lifecycle.facts import ClaimFacts
from core.lifecycle.records import ClaimRecord, Deletion
from core.lifecycle.steps import Blocker, CancelDrain, Escalate, NoteEmpty
from core.model.pod import Pod
from core.model.storage import VolumeAttachment
from core.reasons.code import ReasonCode
from core.reasons.drain import EvictionReason, HeldPodReason
from core.reasons.node import NodeReason


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
    names = sorted(found.volume_name for found in attachments)
    return f"{len(names)} volumes are still attached to node {node}, the first is {names[0]}"


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
