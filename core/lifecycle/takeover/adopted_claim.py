"""Creates our claim from a NodeClaim of Karpenter's: its plan and its phase."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from core import labels
from core.labels import HASH_VERSION
from core.lifecycle.rebuilding import phase_of
from core.lifecycle.records import ClaimPhase, ClaimRecord, Machine, Moments
from core.model import node_claim as conditions
from core.model.node import Node
from core.model.node_claim import NodeClaim, ObjectRef
from core.model.node_pool import NodeClass, NodePool
from core.model.plan import PlannedClaim
from core.model.values import resources
from core.reasons.drift import DriftReason

UNKNOWN_HASH: Final = "karpenter"
"""The hash of a drifted NodeClaim without a hash; it differs from all our hashes."""

_NODE_CLASS_DRIFT: Final = "NodeClassDrift"
"""Karpenter's word for `DriftReason.NODE_CLASS_DRIFTED`."""


def adopted_plan(claim: NodeClaim, pool: NodePool, node_class: NodeClass) -> PlannedClaim:
    """Return the plan that the node was launched from.

    Karpenter's hashes cannot be compared with ours (docs/adr/0013), so a node gets our present hashes, and does not become
    drifted. A node that has drifted from its NodePool or EC2NodeClass keeps Karpenter's hash under our version, and stays
    drifted, as when Karpenter changes the version of its hash.

    Args:
        claim: Karpenter's NodeClaim.
        pool: Its NodePool, with our hash; `own_annotations` as they are written.
        node_class: Its EC2NodeClass, likewise.
    """
    kept = {**pool.annotations, labels.MIN_VALUES_RELAXED: ""}
    annotations = {key: value for key, value in claim.annotations.items() if key in kept}
    annotations |= _hashes(claim, pool, node_class)
    return PlannedClaim(
        name=claim.name,
        node_pool=pool.name,
        node_class=claim.node_class or ObjectRef(labels.AWS_GROUP, "EC2NodeClass", node_class.name),
        labels={**claim.labels, labels.NODEPOOL: pool.name, labels.NODECLASS: node_class.name},
        annotations=dict(sorted(annotations.items())),
        taints=claim.taints,
        startup_taints=claim.startup_taints,
        requirements=tuple(found for found in claim.requirements if found.key != labels.INSTANCE_TYPE),
        resources=claim.resources,
        expire_after=claim.expire_after,
        termination_grace_period=claim.termination_grace_period,
    )


def adopted(claim: NodeClaim, plan: PlannedClaim, machine: Machine, node: Node | None, now: datetime) -> ClaimRecord:
    """Return the claim in the phase of its node; its age counts from the NodeClaim's creation, as for Karpenter.

    Sizes are those of the NodeClaim's status, which limits have counted so far; where it has none, those of `machine`.
    """
    capacity = claim.capacity or machine.capacity or (node.capacity if node else {})
    allocatable = claim.allocatable or machine.allocatable or (node.allocatable if node else {})
    phase = phase_of(node)
    created = claim.created_at or now
    reached = {kind: found.changed_at for kind, found in claim.conditions.items() if found.status == "True"}
    launched_at = reached.get(conditions.LAUNCHED) or created
    initialized_at = (reached.get(conditions.INITIALIZED) or now) if phase is ClaimPhase.INITIALIZED else None
    return ClaimRecord(
        name=plan.name,
        plan=plan,
        token="",
        requested_at=created,
        phase_since=launched_at if phase is ClaimPhase.LAUNCHED else now,
        phase=phase,
        reserved=resources.add(capacity, {"nodes": 1}),
        machine=msgspec.structs.replace(
            machine, provider_id=claim.provider_id, capacity=capacity, allocatable=allocatable
        ),
        node_name=node.name if node is not None and phase is not ClaimPhase.LAUNCHED else "",
        initialized_at=initialized_at,
        last_pod_event_at=claim.last_pod_event_at,
        moments=Moments(launched_at=launched_at, seen_at=reached.get(conditions.REGISTERED), opened_at=initialized_at),
        is_bound=phase is not ClaimPhase.LAUNCHED,
    )


def _hashes(claim: NodeClaim, pool: NodePool, node_class: NodeClass) -> dict[str, str]:
    """Return both hashes under our version."""
    parts = (
        (labels.NODEPOOL_HASH, labels.NODEPOOL_HASH_VERSION, pool.template_hash, pool.own_annotations),
        (labels.NODECLASS_HASH, labels.NODECLASS_HASH_VERSION, node_class.spec_hash, node_class.own_annotations),
    )
    reasons = ((DriftReason.NODE_POOL_DRIFTED,), (DriftReason.NODE_CLASS_DRIFTED, _NODE_CLASS_DRIFT))
    drifted = claim.conditions.get(conditions.DRIFTED)
    reason = drifted.reason if drifted is not None and drifted.status == "True" else ""
    found: dict[str, str] = {}
    for (key, version, current, theirs), known in zip(parts, reasons, strict=True):
        own, same = claim.annotations.get(key, ""), claim.annotations.get(version) == theirs.get(version)
        has_drifted = reason in known or bool(own and same and theirs.get(key, own) != own)
        if current:
            found |= {key: (own or UNKNOWN_HASH) if has_drifted else current, version: HASH_VERSION}
    return found
