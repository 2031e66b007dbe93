"""Chooses the next step of one claim."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from core.lifecycle.backoff import recheck_after
from core.lifecycle.binding.eligibility import SEEN_WITHIN, SETTLES_WITHIN, is_held
from core.lifecycle.consistency import shortfall
from core.lifecycle.draining.cancellation import is_voluntary
from core.lifecycle.draining.disruption_taint import must_leave_for
from core.lifecycle.draining.termination import next_termination_step
from core.lifecycle.facts import INSTANCE_CHECK_AFTER, ClaimFacts
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.lifecycle.registration import STARTED, registration_of, waits_for, was_recreated
from core.lifecycle.steps import (
    Adopt,
    BeginTermination,
    BindPods,
    ClaimStep,
    Forget,
    Launch,
    MarkInitialized,
    NoStep,
    NoteUsable,
    ReportNode,
    Wait,
)
from core.model.node import Node
from core.model.pod import Pod
from core.reasons.claim import ClaimReason
from core.reasons.termination import TerminationReason

LAUNCH_TIMEOUT: Final = timedelta(minutes=5)
REGISTRATION_TIMEOUT: Final = timedelta(minutes=15)
"""Karpenter's liveness limits."""

INITIALIZATION_TIMEOUT: Final = timedelta(minutes=15)
"""Additional time after the limit for joining. Karpenter has no such limit: it keeps a node that never becomes ready."""

BOOT_AT_LEAST: Final = timedelta(seconds=15)
"""The shortest time in which an instance boots."""

CHECKED_TOGETHER: Final = timedelta(seconds=5)
"""Claims with less than this left of `BOOT_AT_LEAST` are checked as often as those that have passed it.

Claims of a plan are launched within seconds of each other. If each waited until its own moment, their common message would
become one for each.
"""

BOOT_RECHECKED: Final = timedelta(seconds=1)
BOOT_RECHECKED_FOR: Final = timedelta(minutes=1)
"""How long, from the shortest boot time on, claims are checked every second, since pods wait for the nodes.

Afterwards `recheck_after` decides.
"""


def next_claim_step(record: ClaimRecord, facts: ClaimFacts, now: datetime, *, binds: bool = False) -> ClaimStep:
    """Return the next step of a claim; the same record and facts give the same step.

    `binds`: whether our functions bind pods.
    """
    resumed = _resume(record, facts.node)
    if resumed is not None:
        return resumed
    if record.deletion is not None:
        return next_termination_step(record, facts, now)
    if record.phase is ClaimPhase.REQUESTED:
        return _launch(record, facts, now)
    if record.phase is ClaimPhase.LAUNCHED:
        return _register(record, facts, now, binds=binds)
    node = facts.node
    if node is None:
        return _without_node(record, facts, now)
    if node.deleted_at is not None:
        return BeginTermination(TerminationReason.NODE_DELETED, f"node {node.name} is being deleted")
    if was_recreated(record, node):
        return registration_of(record, node, binds=binds)
    if record.phase is ClaimPhase.REGISTERED:
        return _initialize(record, node, facts, now)
    return inconsistency(record, node) or NoStep()


def inconsistency(record: ClaimRecord, node: Node) -> ReportNode | None:
    """Return a report that a working node is smaller than planned, None if there is nothing new to report."""
    found = shortfall(record, node)
    if not found or (record.reason, record.message) == (ClaimReason.FAILED_CONSISTENCY_CHECK, found):
        return None
    return ReportNode(node.name, ClaimReason.FAILED_CONSISTENCY_CHECK, found)


def needs_instance(record: ClaimRecord, node: Node | None, now: datetime) -> bool:
    """Whether the claim's instance must be looked up in EC2 before its next step.

    The call is slow, so it is made only if needed. A throttled launch gets its instance, if an attempt of the SDK before the
    throttled one launched it, with the next request; only before the claim is given up is it looked for.
    """
    if record.machine is None:
        is_last = record.reason == ClaimReason.LAUNCH_FAILED and now - record.requested_at >= LAUNCH_TIMEOUT
        return record.deletion is not None or record.attempts > 0 or is_last
    if record.deletion is not None:
        return record.deletion.terminated_at is not None or node is None or not node.is_ready
    if record.phase is ClaimPhase.LAUNCHED:
        return node is None and now - record.phase_since >= INSTANCE_CHECK_AFTER
    return node is None


def is_late_to_initialize(record: ClaimRecord, now: datetime) -> bool:
    """Whether the node joined long ago and is still not ready.

    Its pods are planned elsewhere, and the node is removed if empty.
    """
    overdue = now - record.phase_since >= INITIALIZATION_TIMEOUT
    return record.phase is ClaimPhase.REGISTERED and record.deletion is None and overdue


def _keeps(pod: Pod) -> bool:
    """Whether this pod keeps a node that never became ready."""
    return pod.is_active and not pod.is_daemon and not pod.is_static


def may_have_joined(record: ClaimRecord, now: datetime) -> bool:
    """Whether to search for the node of a claim without a node name before its instance is terminated.

    A row restored from a copy of the table may be older than the node.
    """
    is_late = record.phase is ClaimPhase.LAUNCHED and now - record.phase_since >= INSTANCE_CHECK_AFTER
    return record.machine is not None and not record.node_name and (is_late or record.deletion is not None)


def _resume(record: ClaimRecord, node: Node | None) -> BeginTermination | None:
    """Resume a removal that the claim's row has lost: the table was restored, and the node still records the reason."""
    reason = must_leave_for(node) if node is not None else None
    if node is None or reason is None:
        return None
    if record.deletion is not None and (not is_voluntary(record.deletion) or record.deletion.terminated_at is not None):
        return None
    return BeginTermination(
        reason, f"node {node.name} is marked as leaving for {reason}, which its claim does not know"
    )


def _launch(record: ClaimRecord, facts: ClaimFacts, now: datetime) -> ClaimStep:
    if facts.tagged_instance:
        return Adopt(facts.tagged_instance)
    if now - record.requested_at >= LAUNCH_TIMEOUT:
        return Forget(ClaimReason.LAUNCH_TIMEOUT)
    return Launch()


def _register(record: ClaimRecord, facts: ClaimFacts, now: datetime, *, binds: bool) -> ClaimStep:
    if facts.node is not None:
        return registration_of(record, facts.node, binds=binds)
    age = now - record.phase_since
    if facts.is_instance_gone and age >= INSTANCE_CHECK_AFTER:
        return BeginTermination(
            TerminationReason.INSTANCE_GONE, f"instance {record.instance_id} ended before it joined"
        )
    if age >= REGISTRATION_TIMEOUT:
        return BeginTermination(
            TerminationReason.REGISTRATION_TIMEOUT, f"instance {record.instance_id} did not join in 15 minutes"
        )
    if len(facts.nodes) > 1:
        return Wait(recheck_after(record.phase_since, now), "several nodes have this provider id")
    if BOOT_AT_LEAST - age >= CHECKED_TOGETHER:
        return Wait(BOOT_AT_LEAST - age, "the instance is booting")
    since = record.phase_since + BOOT_AT_LEAST
    return Wait(_boot_recheck(since, now), "the node has not joined yet")


def _without_node(record: ClaimRecord, facts: ClaimFacts, now: datetime) -> ClaimStep:
    if len(facts.nodes) > 1:
        return Wait(recheck_after(record.phase_since, now), "several nodes have this provider id")
    if facts.is_instance_gone:
        return BeginTermination(TerminationReason.INSTANCE_GONE, f"instance {record.instance_id} is gone")
    return BeginTermination(TerminationReason.NODE_DELETED, f"node {record.node_name} was deleted")


def _initialize(record: ClaimRecord, node: Node, facts: ClaimFacts, now: datetime) -> ClaimStep:
    missing = waits_for(record, node)
    if missing == STARTED:
        return _open(record, node, facts.usable_for, now)
    if is_late_to_initialize(record, now):
        message = f"node {node.name} is not ready for pods in 15 minutes: {missing}"
        if record.reason != ClaimReason.INITIALIZATION_TIMEOUT:
            return ReportNode(node.name, ClaimReason.INITIALIZATION_TIMEOUT, message, record.plan.pods)
        if not any(_keeps(pod) for pod in facts.pods):
            return BeginTermination(TerminationReason.INITIALIZATION_TIMEOUT, message)
    return Wait(_boot_recheck(record.phase_since, now), missing)


def _open(record: ClaimRecord, node: Node, usable_for: timedelta, now: datetime) -> ClaimStep:
    """Open a started node to pods: if the scheduler is kept off it, first to those that it was launched for."""
    if not is_held(node):
        return MarkInitialized(node.name)
    is_over = record.is_bound or not record.plan.pods
    if not is_over and record.moments.usable_at is None:
        return NoteUsable(node.name)
    since = record.moments.bound_at if is_over else record.moments.usable_at
    is_settled = since is None or now - since >= SETTLES_WITHIN or (usable_for >= SEEN_WITHIN and not is_over)
    if not is_settled:
        return Wait(SEEN_WITHIN, "what was written to the node may not have been seen by all who must know it")
    return MarkInitialized(node.name) if is_over else BindPods(node.name)


def _boot_recheck(since: datetime, now: datetime) -> timedelta:
    """Return when to check again for a node that may join at any moment."""
    return BOOT_RECHECKED if now - since < BOOT_RECHECKED_FOR else recheck_after(since, now)
