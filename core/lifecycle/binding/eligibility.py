"""Recognizes pods that only kube-scheduler may bind, and nodes on which only it may bind."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from core.lifecycle.records import ClaimRecord
from core.model.node import Node
from core.model.pod import DEFAULT_SCHEDULER, Pod
from core.model.values.taints import HELD, NO_EXECUTE

CLOCKS_APART: Final = timedelta(seconds=1)
"""The largest clock difference between two sandboxes (docs/adr/0028): one reads times that another wrote."""

SEEN_WITHIN: Final = timedelta(seconds=1)
"""After this time, a kubelet has certainly seen a change of its node, and kube-scheduler a binding.

A kubelet rejects pods by the taints and labels in its cache; a scheduler that sees the open node before its bindings
overcommits it.
"""

SETTLES_WITHIN: Final = SEEN_WITHIN + CLOCKS_APART
"""`SEEN_WITHIN` after a time that another sandbox may have written."""


def is_left_to_scheduler(pod: Pod) -> bool:
    """Whether the pod needs something that only a scheduler provides or knows.

    This is another scheduler profile, a gate, a group that starts together, devices, volumes (their zones, attach limits and
    `selected-node`), or an affinity to namespaces selected by label.
    """
    spec = pod.spec
    asks = spec.volumes or spec.resource_claims or spec.workload or spec.problem or pod.is_gated or pod.unreadable
    if asks or spec.scheduler_name != DEFAULT_SCHEDULER or any("/" in name for name in spec.requests):
        return True
    return any(term.namespace_selector is not None for term in (*spec.affinity, *spec.anti_affinity))


def is_held(node: Node) -> bool:
    """Whether kube-scheduler is kept off the node until its pods are bound."""
    return any(taint.matches(HELD) for taint in node.taints)


def may_hold(record: ClaimRecord) -> bool:
    """Whether kube-scheduler may be kept off the claim's node until its pods are bound.

    Not if an agent that may not tolerate our taint must run first: one that removes a startup taint, or a device plugin. Not
    if the claim replaces nodes, either: their pods do not wait, but are evicted once the node is open.
    """
    if record.command:
        return False
    extended = any("/" in name and amount > 0 for name, amount in record.plan.resources.items())
    return bool(record.plan.pods) and not record.plan.startup_taints and not extended


def accepts_bindings(node: Node, now: datetime) -> bool:
    """Whether pods may be bound to the node. Its kubelet rejects pods that a NoExecute taint repels, or repelled just now."""
    is_closed = any(taint.effect == NO_EXECUTE for taint in node.taints)
    became_ready_now = node.ready_changed_at is not None and now - node.ready_changed_at < SETTLES_WITHIN
    return node.is_ready and node.deleted_at is None and is_held(node) and not is_closed and not became_ready_now


def is_seen_by_kubelet(record: ClaimRecord, now: datetime) -> bool:
    """Whether the kubelet has certainly seen the node in its ready state; another sandbox may have written the time."""
    since = record.moments.usable_at
    return since is not None and now - since >= SETTLES_WITHIN


def covers_plan(record: ClaimRecord, node: Node) -> bool:
    """Whether the node offers everything planned for it, including the requests of its daemons."""
    return all(node.allocatable.get(name, 0) >= amount for name, amount in record.plan.resources.items())


def lacking_resource(record: ClaimRecord, node: Node) -> str | None:
    """Return a planned resource that the node does not advertise at all yet, None if there is none."""
    planned = sorted(record.plan.resources.items())
    return next((name for name, amount in planned if amount > 0 and node.allocatable.get(name, 0) == 0), None)
