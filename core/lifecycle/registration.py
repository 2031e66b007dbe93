"""Registers and initializes a node: from an instance to a working node (Karpenter, registration and initialization)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core import labels
from core.lifecycle.binding import is_held, lacking_resource, may_hold
from core.lifecycle.records import ClaimPhase, ClaimRecord, Machine
from core.lifecycle.steps import Register
from core.model.node_pool import NodePool
from core.model.plan import ObjectRef, PlannedClaim
from core.model.snapshot import Node
from core.model.values import quantity
from core.model.values.requirements import Requirement
from core.model.values.taints import HELD, UNREGISTERED, Taint, is_ephemeral
from core.pools import is_priced, template_labels

# Rebuilds a claim whose row is lost, from its instance and its node.
#
# The instance's tags name the claim, the NodePool, the EC2NodeClass, the drift hashes and the caps that count it. The rest of
# the claim's plan is written to its node at registration; if it cannot be read there, the NodePool's current template is used.
# A node may change its own annotations, so nothing that identifies a claim is read from them, nor taints and labels that keep
# pods apart.


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
    """Return the drift hashes, the decision, the caps and the UID of a hand-made NodeClaim as tags of the instance."""
    kept = (*HASHES, labels.DECISION, labels.MADE_BY_HAND)
    charges = {labels.CHARGED_TO: text} if (text := _short(plan.annotations.get(labels.CHARGED_TO, ""))) else {}
    return {key: plan.annotations[key] for key in kept if key in plan.annotations} | charges


TAG_MAX: Final = 256
"""Characters of a tag's value, by EC2."""


def _short(charges: str) -> str:
    """Return as many of the caps as fit into a tag; the others lose track of a claim whose row is lost."""
    text = ""
    for entry in charges.split():
        longer = f"{text} {entry}".lstrip()
        text = longer if len(longer) <= TAG_MAX else text
    return text


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
    charges = {key: tags[key] for key in (labels.CHARGED_TO,) if key in tags}
    of_pool = {labels.NODEPOOL: pool.name} if pool.name else {}
    return PlannedClaim(
        name=name,
        node_pool=pool.name,
        node_class=ObjectRef(labels.AWS_GROUP, "EC2NodeClass", class_name),
        labels={**_trusted(spec.labels, node, pool), **of_pool, labels.NODECLASS: class_name},
        annotations=dict(sorted((annotations | hashes | by_hand | charges).items())),
        taints=spec.taints if by_hand and spec.taints is not None else pool.taints,
        startup_taints=spec.startup_taints,
        requirements=spec.requirements,
        resources=spec.resources,
        expire_after=spec.expire_after,
        termination_grace_period=spec.termination_grace_period,
    )


def rebuilt(
    plan: PlannedClaim, machine: Machine, node: Node | None, pool: NodePool, launched_at: datetime, now: datetime
) -> ClaimRecord:
    """Return the claim in the phase of its node, counted in all limits and caps as before."""
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
        reserved={
            **quantity.add(capacity, {quantity.NODES: 1}),
            **({quantity.HOURLY: machine.offering.price} if is_priced(pool) else {}),
        },
        limit_groups=tuple(sorted(pool.shared_limits)),
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


def _trusted(claim_labels: Mapping[str, str], node: Node | None, pool: NodePool) -> dict[str, str]:
    """Return the labels without those that a kubelet may not set, unless the node has them already or the NodePool sets them.

    A node writes its own annotations: with the labels in them it could attract pods that trust such labels.
    """
    trusted_labels = {**template_labels(pool), **(node.labels if node is not None else {})}
    return {
        k: value
        for k, value in claim_labels.items()
        if not labels.is_kept_from_kubelets(k) or trusted_labels.get(k) == value
    }


def _spec_of_pool(node: Node | None, pool: NodePool) -> ClaimSpec:
    """Return a spec from the current template, with the node's values for the labels that the template leaves open."""
    wanted = {*template_labels(pool), *(requirement.key for requirement in pool.requirements)}
    node_labels = {key: value for key, value in (node.labels if node else {}).items() if key in wanted}
    return ClaimSpec(
        labels={
            key: value
            for key, value in (template_labels(pool) | node_labels).items()
            if value or key != labels.NODEPOOL
        },
        startup_taints=pool.startup_taints,
        requirements=pool.requirements,
        expire_after=pool.expire_after,
        termination_grace_period=pool.termination_grace_period,
    )


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
    merged_keys = {(taint.key, taint.effect) for taint in present}
    merged = list(present)
    for taint in wanted:
        if (taint.key, taint.effect) not in merged_keys:
            merged_keys.add((taint.key, taint.effect))
            merged.append(taint)
    return merged
