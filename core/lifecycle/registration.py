"""Registers and initializes a node: from an instance to a working node (Karpenter, registration and initialization)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from core import labels
from core.lifecycle.binding.eligibility import is_held, lacking_resource, may_hold
from core.lifecycle.rebuilding import claim_annotations
from core.lifecycle.records import ClaimRecord
from core.lifecycle.steps import Register
from core.model.node import Node
from core.model.values.taints import HELD, UNREGISTERED, Taint, is_ephemeral

STARTED: Final = "Started"
"""Returned by `waits_for` if nothing is missing."""


def has_registered(record: ClaimRecord, node: Node) -> bool:
    """Whether pods may be on the node: either the claim or the node is marked as registered.

    A node is opened to pods before its claim's row is updated, and a run may crash in between; a restored row may also be older
    than the node.
    """
    return record.is_registered or node.labels.get(labels.REGISTERED) == "true"


def was_recreated(record: ClaimRecord, node: Node) -> bool:
    """Whether this Node is not the one that the claim registered, although the instance is the same.

    Someone deleted that one past its finalizers, and the kubelet joined again: the new one has no marks, and a taint keeps all
    pods away. A node that merely lost the label is not registered again, since that would bring back its startup taints.
    """
    if not record.is_registered or labels.REGISTERED in node.labels or node.deleted_at is not None:
        return False
    is_younger = node.created_at is not None and node.created_at > record.phase_since
    return is_younger or any(taint.matches(UNREGISTERED) for taint in node.taints)


def registration_of(record: ClaimRecord, node: Node, *, binds: bool = False) -> Register:
    """Return the step that gives a node that joined its labels, annotations, taints and finalizers.

    Taints and startup taints are merged unless the node opts out with `karpenter.sh/do-not-sync-taints`; a taint that it
    already has, by key and effect, stays unchanged. The same patch removes the unregistered taint. A node that is registered
    although its claim does not say so, after a crash or a restored table, gets no taints: its startup taints may have been
    removed since. `binds`: whether the scheduler is kept off until the claim's pods are bound.
    """
    taints: list[Taint] = [taint for taint in node.taints if taint.key != UNREGISTERED.key]
    if labels.REGISTERED not in node.labels and node.labels.get(labels.DO_NOT_SYNC_TAINTS) != "true":
        taints = _merged(taints, (*record.plan.taints, *record.plan.startup_taints))
    if binds and may_hold(record) and (labels.REGISTERED not in node.labels or is_held(node)):
        taints = _merged(taints, (HELD,))
    return Register(
        node=node.name,
        labels={**record.labels, labels.REGISTERED: "true"},
        annotations={**record.plan.annotations, **claim_annotations(record)},
        taints=tuple(taints),
        finalizers=_finalizers(node),
    )


def waits_for(record: ClaimRecord, node: Node) -> str:
    """Return what a registered node still lacks to be initialized, `STARTED` if nothing.

    Checked in Karpenter's order: ready, startup taints gone, no taint of a booting node, every requested resource advertised.
    Our own taint that keeps the scheduler off is removed last.
    """
    if not node.is_ready:
        return "the node is not ready"
    startup = {(taint.key, taint.effect) for taint in record.plan.startup_taints}
    for taint in node.taints:
        if taint.matches(HELD):
            continue
        if (taint.key, taint.effect) in startup:
            return f"startup taint {taint} is still there"
        if is_ephemeral(taint):
            return f"taint {taint} is still there"
    lacking = lacking_resource(record, node)
    return STARTED if lacking is None else f"resource {lacking} is not advertised yet"


def _finalizers(node: Node) -> tuple[str, ...]:
    """Return the finalizers including ours; the API server accepts no new ones on an object that is being deleted."""
    if node.deleted_at is not None or labels.TERMINATION_FINALIZER in node.finalizers:
        return node.finalizers
    return (*node.finalizers, labels.TERMINATION_FINALIZER)


def _merged(present: list[Taint], wanted: Iterable[Taint]) -> list[Taint]:
    known = {(taint.key, taint.effect) for taint in present}
    merged = list(present)
    for taint in wanted:
        if (taint.key, taint.effect) not in known:
            known.add((taint.key, taint.effect))
            merged.append(taint)
    return merged
