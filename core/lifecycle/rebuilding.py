"""Rebuilds a claim whose row is lost, from its instance and its node.

The instance's tags name the claim, the NodePool, the EC2NodeClass and the drift hashes. The rest of the claim's plan is written
to its node at registration; if it cannot be read there, the NodePool's current template is used. A node may change its own
annotations, so nothing that identifies a claim is read from them, nor taints and labels that keep pods apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core import labels
from core.lifecycle.records import ClaimPhase, ClaimRecord, Machine
from core.model.node import Node
from core.model.node_claim import ObjectRef
from core.model.node_pool import NodePool
from core.model.plan import PlannedClaim
from core.model.values import resources
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint
from core.pools.pool_template import template_labels

HASHES: Final = (
    labels.NODEPOOL_HASH,
    labels.NODEPOOL_HASH_VERSION,
    labels.NODECLASS_HASH,
    labels.NODECLASS_HASH_VERSION,
)
"""Annotations of a claim that its instance has as tags. With the current hashes instead, a drifted node would look new."""


class ClaimSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parts of a claim's plan that only its node's annotation `labels.CLAIM_SPEC` stores.

    `taints` are stored only for a hand-made NodeClaim; None for others, which have those of the NodePool.
    """

    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] | None = None
    startup_taints: tuple[Taint, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    resources: dict[str, int] = {}
    expire_after: timedelta | None = None
    termination_grace_period: timedelta | None = None


def claim_tags(plan: PlannedClaim) -> dict[str, str]:
    """Return the drift hashes, the decision and the UID of a hand-made NodeClaim as tags of the instance."""
    kept = (*HASHES, labels.DECISION, labels.MADE_BY_HAND)
    return {key: plan.annotations[key] for key in kept if key in plan.annotations}


def claim_annotations(record: ClaimRecord) -> dict[str, str]:
    """Return the annotations in which a node records its claim.

    Instance types are left out: they take kilobytes, and the node's type is fixed.
    """
    plan = record.plan
    spec = ClaimSpec(
        labels=plan.labels,
        taints=plan.taints if plan.made_by_hand else None,
        startup_taints=plan.startup_taints,
        requirements=tuple(r for r in plan.requirements if r.key != labels.INSTANCE_TYPE),
        resources=plan.resources,
        expire_after=plan.expire_after,
        termination_grace_period=plan.termination_grace_period,
    )
    return {labels.CLAIM: record.name, labels.CLAIM_SPEC: msgspec.json.encode(spec, order="deterministic").decode()}


def rebuilt_plan(name: str, tags: Mapping[str, str], node: Node | None, pool: NodePool) -> PlannedClaim:
    """Return the plan that an instance with these tags was launched from, without parts that no longer matter.

    Args:
        name: The claim's name.
        tags: The instance's.
        node: Its node, None if it has not joined.
        pool: The NodePool that the tags name; an empty one if it is gone.
    """
    spec = _spec(node) or _spec_of_pool(node, pool)
    class_name = tags.get(labels.NODECLASS, "") or pool.node_class.name
    kept = {**pool.annotations, labels.MIN_VALUES_RELAXED: ""}
    annotations = {key: value for key, value in (node.annotations if node else {}).items() if key in kept}
    hashes = {
        key: source[key] for source in (node.annotations if node else {}, tags) for key in HASHES if key in source
    }
    by_hand = {key: tags[key] for key in (labels.MADE_BY_HAND,) if key in tags}
    of_pool = {labels.NODEPOOL: pool.name} if pool.name else {}
    return PlannedClaim(
        name=name,
        node_pool=pool.name,
        node_class=ObjectRef(labels.AWS_GROUP, "EC2NodeClass", class_name),
        labels={**_trusted(spec.labels, node, pool), **of_pool, labels.NODECLASS: class_name},
        annotations=dict(sorted((annotations | hashes | by_hand).items())),
        taints=spec.taints if by_hand and spec.taints is not None else pool.taints,
        startup_taints=spec.startup_taints,
        requirements=spec.requirements,
        resources=spec.resources,
        expire_after=spec.expire_after,
        termination_grace_period=spec.termination_grace_period,
    )


def rebuilt(
    plan: PlannedClaim, machine: Machine, node: Node | None, launched_at: datetime, now: datetime
) -> ClaimRecord:
    """Return the claim in the phase of its node."""
    capacity = machine.capacity or (node.capacity if node else {})
    if not machine.capacity and node is not None:
        machine = msgspec.structs.replace(machine, capacity=node.capacity, allocatable=node.allocatable)
    phase = phase_of(node)
    return ClaimRecord(
        name=plan.name,
        plan=plan,
        token="",
        requested_at=launched_at,
        phase_since=launched_at if phase is ClaimPhase.LAUNCHED else now,
        phase=phase,
        reserved=resources.add(capacity, {"nodes": 1}),
        machine=machine,
        node_name=node.name if node is not None and phase is not ClaimPhase.LAUNCHED else "",
        initialized_at=now if phase is ClaimPhase.INITIALIZED else None,
    )


def with_labels_of(record: ClaimRecord, node: Node) -> ClaimRecord:
    """Return a claim that was rebuilt before its node joined, completed with the node's labels.

    Where the NodePool leaves a label open, the plan chose a value, which the kubelet reports. Without it the node would look
    drifted. A claim that was not rebuilt has a launch token and is returned unchanged.
    """
    if record.token:
        return record
    open_keys = {requirement.key for requirement in record.plan.requirements} - set(record.labels)
    chosen = {key: value for key, value in sorted(node.labels.items()) if key in open_keys}
    plan = msgspec.structs.replace(record.plan, labels={**chosen, **record.plan.labels})
    return msgspec.structs.replace(record, plan=plan)


def phase_of(node: Node | None) -> ClaimPhase:
    """Return the phase of a claim whose instance runs, by its node's labels."""
    if node is None or node.labels.get(labels.REGISTERED) != "true":
        return ClaimPhase.LAUNCHED
    return ClaimPhase.INITIALIZED if node.labels.get(labels.INITIALIZED) == "true" else ClaimPhase.REGISTERED


def _spec(node: Node | None) -> ClaimSpec | None:
    """Return the spec in the node's annotation, None if there is no readable one."""
    written = node.annotations.get(labels.CLAIM_SPEC, "") if node is not None else ""
    try:
        return msgspec.json.decode(written, type=ClaimSpec) if written else None
    except msgspec.MsgspecError:
        return None


def _trusted(found: Mapping[str, str], node: Node | None, pool: NodePool) -> dict[str, str]:
    """Return the labels without those that a kubelet may not set, unless the node has them already or the NodePool sets them.

    A node writes its own annotations: with the labels in them it could attract pods that trust such labels.
    """
    known = {**template_labels(pool), **(node.labels if node is not None else {})}
    return {k: value for k, value in found.items() if not labels.is_kept_from_kubelets(k) or known.get(k) == value}


def _spec_of_pool(node: Node | None, pool: NodePool) -> ClaimSpec:
    """Return a spec from the current template, with the node's values for the labels that the template leaves open."""
    wanted = {*template_labels(pool), *(requirement.key for requirement in pool.requirements)}
    own = {key: value for key, value in (node.labels if node else {}).items() if key in wanted}
    return ClaimSpec(
        labels={key: value for key, value in (template_labels(pool) | own).items() if value or key != labels.NODEPOOL},
        startup_taints=pool.startup_taints,
        requirements=pool.requirements,
        expire_after=pool.expire_after,
        termination_grace_period=pool.termination_grace_period,
    )
