"""Decides when to drain a node whose end is known in advance: its replacements come first (docs/adr/0031).

Its pods keep running until their replacements are ready, or until the remaining time is just enough to drain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from core import labels
from core.lifecycle.backoff import SHORTEST, recheck_after
from core.lifecycle.draining.deletion import reclaimed_at
from core.lifecycle.facts import ClaimFacts
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion
from core.lifecycle.steps import CancelDrain, Wait
from core.model.plan import Binding
from core.model.pod import Pod
from core.pods.disposition import is_reschedulable
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason

SPOT_NOTICE: Final = timedelta(minutes=2)
"""Time from EC2's warning to the end of a spot instance."""

REPLACED_WITHIN: Final = timedelta(minutes=5)
"""How long to wait for replacements if the end of the instance is not announced: several times a node's boot time."""

EXPIRED_WAITS: Final = timedelta(minutes=20)
"""How long an expired node waits for its pods' replacements: the time an instance may take to join, plus a margin."""

MARGIN: Final = timedelta(seconds=15)
"""Added to the longest grace period of its pods: time for the evictions themselves, and for a run that starts late."""

SHORTEST_DRAIN: Final = timedelta(seconds=45)
"""Shortest time kept for the drain: PodDisruptionBudgets let pods go one after the other."""


LOST_FOR: Final = timedelta(minutes=3)
"""How long after the end of the instance a claim stands for pods that still exist: Kubernetes deletes them after 90 s."""


def wait_for_successors(record: ClaimRecord, facts: ClaimFacts, now: datetime) -> Wait | None:
    """Return a wait while pods of an instance that EC2 took are not deleted; None otherwise.

    Until their successors are created, nothing but the claim says what the nodes are for that were launched for them.
    """
    ended_at = reclaimed_at(record)
    if ended_at is None or now >= ended_at + LOST_FOR or not any(is_reschedulable(pod) for pod in facts.pods):
        return None
    return Wait(recheck_after(ended_at, now), "Kubernetes has not deleted the pods of its node yet")


def awaits_replacements(record: ClaimRecord) -> bool:
    """Whether the drain may still wait: an end is known, and no pod has left the node yet."""
    deletion = record.deletion
    return (
        deletion is not None and deletion.ends_at is not None and not deletion.evicted_at and not deletion.terminated_at
    )


def wait_for_replacements(
    record: ClaimRecord, facts: ClaimFacts, waiting: Sequence[Pod], now: datetime
) -> Wait | CancelDrain | None:
    """Return a wait while replacements are not ready and there is time to drain later; None to drain now.

    An expired node whose pods find no other place in time stays for now, unless a terminationGracePeriod ends sooner. A node in
    a capacity reservation is drained at once: its place may be the only one for its replacement.
    """
    deletion, node = record.deletion, facts.node
    if deletion is None or not awaits_replacements(record) or facts.has_replacements:
        return None
    if node is None or not node.is_ready or not any(is_reschedulable(pod) for pod in waiting):
        return None
    left = drain_by(deletion, waiting) - now
    if left <= timedelta(0):
        return _unreplaced(record, deletion, node.name)
    return Wait(
        max(SHORTEST, min(left, recheck_after(deletion.asked_at, now))), "the replacements for its pods are not ready"
    )


def _unreplaced(record: ClaimRecord, deletion: Deletion, node: str) -> CancelDrain | None:
    """Return the step for a node whose replacements did not become ready in time; None to drain it, or under a brake."""
    if deletion.held_at is not None:
        return None
    is_forced = deletion.deadline is not None and deletion.ends_at is not None and deletion.deadline < deletion.ends_at
    is_reserved = record.machine is not None and record.machine.offering.capacity_type == labels.RESERVED
    if deletion.reason != TerminationReason.EXPIRED or deletion.is_final or is_forced or is_reserved:
        return None
    return CancelDrain(node, NodeReason.NO_REPLACEMENT, "the replacements for its pods were not ready in time")


def drain_by(deletion: Deletion, waiting: Iterable[Pod]) -> datetime:
    """Return when the drain must begin so that every pod has its grace period before the node ends or pods are forced off."""
    graces = [timedelta(seconds=pod.spec.termination_grace_seconds) for pod in waiting if pod.is_active]
    ends = min(moment for moment in (deletion.ends_at, deletion.deadline) if moment is not None)
    return ends - max(SHORTEST_DRAIN, max(graces, default=timedelta(0)) + MARGIN)


def replacements(
    pods: Iterable[str], records: Iterable[ClaimRecord], bindings: Iterable[Binding], unplaced: Collection[str]
) -> tuple[str, ...] | None:
    """Return the claims that a node's pods wait for: empty if all fit on working nodes, None if a pod has no place.

    Args:
        pods: Pods that must move; pods that can never be evicted are in no plan and do not count.
        records: The claims, those of the new plan included.
        bindings: Where the plan expects pods on existing or launching nodes.
        unplaced: Pods for which the plan has no place, or whose new claim was refused.
    """
    wanted = set(pods)
    if not wanted.isdisjoint(unplaced):
        return None
    starting = [r for r in records if r.phase is not ClaimPhase.INITIALIZED and r.deletion is None]
    names: Mapping[str, str] = {key: r.name for r in starting for key in (r.name, r.node_name) if key}
    found = {r.name for r in starting if not wanted.isdisjoint(r.plan.pods)}
    found |= {names[binding.node] for binding in bindings if binding.pod in wanted and binding.node in names}
    return tuple(sorted(found))
