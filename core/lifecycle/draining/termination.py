"""Terminates a claim: from a working node to the removal of its record (Karpenter, termination)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from core import labels
from core.errors import invariant
from core.lifecycle.backoff import recheck_after
from core.lifecycle.draining.cancellation import last_check, open_again
from core.lifecycle.draining.disruption_taint import lacks_marks, taint_of
from core.lifecycle.draining.escalation import next_escalation
from core.lifecycle.draining.evictions import drain, next_check
from core.lifecycle.draining.replacing import wait_for_replacements, wait_for_successors
from core.lifecycle.facts import INSTANCE_CHECK_AFTER, ClaimFacts
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion
from core.lifecycle.registration import has_registered
from core.lifecycle.steps import Adopt, ClaimStep, DeleteNode, Forget, TerminateInstance, Wait
from core.model.node import Node
from core.model.pod import Pod
from core.pods.disposition import is_drainable
from core.reasons.claim import ClaimReason
from core.reasons.termination import TerminationReason

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
