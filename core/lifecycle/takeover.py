"""Nodes that change hands between Karpenter and us: which may be adopted, and what is written on both sides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec

from core import labels
from core.api.objects import JsonObject
from core.labels import HASH_VERSION
from core.lifecycle.claims import REGISTRATION_TIMEOUT
from core.lifecycle.draining import EXCLUDED_BY_US, REASON_ANNOTATION
from core.lifecycle.node_claim_objects import Mirrored, mirrored, new_object
from core.lifecycle.records import ClaimPhase, ClaimRecord, Machine, Moments
from core.lifecycle.registration import HASHES, claim_annotations, phase_of
from core.model import plan as conditions
from core.model.node_pool import NodeClass, NodePool
from core.model.plan import DRIFTED, Condition, NodeClaim, ObjectRef, PlannedClaim
from core.model.snapshot import Node
from core.model.values import quantity
from core.model.values.taints import DISRUPTED, HELD, REBOOTING, Taint
from core.reasons.code import AdoptionReason, ReleaseReason
from core.reasons.nodes import DriftReason

# Creates our claim from a NodeClaim of Karpenter's: its plan and its phase.


UNKNOWN_HASH: Final = "karpenter"
"""The hash of a drifted NodeClaim without a hash; it differs from all our hashes."""

_NODE_CLASS_DRIFT: Final = "NodeClassDrift"
"""Karpenter's word for `DriftReason.NODE_CLASS_DRIFTED`."""


def adopted_plan(claim: NodeClaim, pool: NodePool, node_class: NodeClass) -> PlannedClaim:
    """Return the plan that the node was launched from.

    Karpenter's hashes cannot be compared with ours (docs/engineering/handbook/drift.md), so a node gets our present hashes, and
    does not become drifted. A node that has drifted from its NodePool or EC2NodeClass keeps Karpenter's hash under our version,
    and stays drifted, as when Karpenter changes the version of its hash.

    Args:
        claim: Karpenter's NodeClaim.
        pool: Its NodePool, with our hash; `own_annotations` as they are written.
        node_class: Its EC2NodeClass, likewise.
    """
    kept = {**pool.annotations, labels.MIN_VALUES_RELAXED: ""}
    annotations = {key: value for key, value in claim.annotations.items() if key in kept}
    annotations |= _hashes_of_class(claim, pool, node_class)
    return PlannedClaim(
        name=claim.name,
        node_pool=pool.name,
        node_class=claim.node_class or ObjectRef(labels.AWS_GROUP, "EC2NodeClass", node_class.name),
        labels={**claim.labels, labels.NODEPOOL: pool.name, labels.NODECLASS: node_class.name},
        annotations=dict(sorted(annotations.items())),
        taints=claim.taints,
        startup_taints=claim.startup_taints,
        requirements=tuple(
            requirement for requirement in claim.requirements if requirement.key != labels.INSTANCE_TYPE
        ),
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
    reached = {kind: condition.changed_at for kind, condition in claim.conditions.items() if condition.status == "True"}
    launched_at = reached.get(conditions.LAUNCHED) or created
    initialized_at = (reached.get(conditions.INITIALIZED) or now) if phase is ClaimPhase.INITIALIZED else None
    return ClaimRecord(
        name=plan.name,
        plan=plan,
        token="",
        requested_at=created,
        phase_since=launched_at if phase is ClaimPhase.LAUNCHED else now,
        phase=phase,
        reserved=quantity.add(capacity, {"nodes": 1}),
        machine=msgspec.structs.replace(
            machine, provider_id=claim.provider_id, capacity=capacity, allocatable=allocatable
        ),
        node_name=node.name if node is not None and phase is not ClaimPhase.LAUNCHED else "",
        initialized_at=initialized_at,
        last_pod_event_at=claim.last_pod_event_at,
        moments=Moments(launched_at=launched_at, seen_at=reached.get(conditions.REGISTERED), opened_at=initialized_at),
        is_bound=phase is not ClaimPhase.LAUNCHED,
    )


def _hashes_of_class(claim: NodeClaim, pool: NodePool, node_class: NodeClass) -> dict[str, str]:
    """Return both hashes under our version."""
    parts = (
        (labels.NODEPOOL_HASH, labels.NODEPOOL_HASH_VERSION, pool.template_hash, pool.own_annotations),
        (labels.NODECLASS_HASH, labels.NODECLASS_HASH_VERSION, node_class.spec_hash, node_class.own_annotations),
    )
    reasons = ((DriftReason.NODE_POOL_DRIFTED,), (DriftReason.NODE_CLASS_DRIFTED, _NODE_CLASS_DRIFT))
    drifted = claim.conditions.get(conditions.DRIFTED)
    reason = drifted.reason if drifted is not None and drifted.status == "True" else ""
    hashes: dict[str, str] = {}
    for (key, version, current, theirs), drift_reasons in zip(parts, reasons, strict=True):
        our_hash, same = claim.annotations.get(key, ""), claim.annotations.get(version) == theirs.get(version)
        has_drifted = reason in drift_reasons or bool(our_hash and same and theirs.get(key, our_hash) != our_hash)
        if current:
            hashes |= {key: (our_hash or UNKNOWN_HASH) if has_drifted else current, version: HASH_VERSION}
    return hashes


IDENTIFYING_TAGS = (labels.CLUSTER_TAG, labels.NODEPOOL, labels.NODECLASS, labels.NODECLAIM, labels.CLAIM)
"""Tags that must be absent or correct: they identify the owner of the instance."""


class AdoptionState(StrEnum):
    """The state of a NodeClaim's adoption."""

    REFUSED = "refused"
    ADOPTABLE = "adoptable"
    BEGUN = "begun"
    """Its claim is stored, but an object still has a mark of Karpenter's, or a tag of ours is missing."""
    OURS = "ours"


class LaunchedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeClaim with its finalizers, nodes and instance.

    Attributes:
        node_claim: The object in the cluster.
        finalizers: The NodeClaim's.
        nodes: The Nodes with its provider id.
        tags: The tags of its instance; None where EC2 has no living instance of the id.
        launched_at: When the instance was launched, None where there is none.
    """

    node_claim: NodeClaim
    finalizers: tuple[str, ...] = ()
    nodes: tuple[Node, ...] = ()
    tags: Mapping[str, str] | None = None
    launched_at: datetime | None = None

    @property
    def node(self) -> Node | None:
        """Its only Node; None if there is none or several."""
        return self.nodes[0] if len(self.nodes) == 1 else None


class Objection(msgspec.Struct, frozen=True):
    """Why an adoption is refused: a code, and one sentence for people."""

    reason: AdoptionReason
    message: str


class Owners(msgspec.Struct, frozen=True, kw_only=True):
    """The NodePools, EC2NodeClasses and stored claims by name, against which a NodeClaim is checked."""

    cluster: str
    pools: Mapping[str, NodePool]
    node_classes: Mapping[str, NodeClass]
    records: Mapping[str, ClaimRecord]


def adoption_state(launched: LaunchedClaim, owners: Owners, now: datetime) -> tuple[AdoptionState, Objection | None]:
    """Return the state of a NodeClaim's adoption, with an objection if it is refused."""
    name = launched.node_claim.name
    record = owners.records.get(name)
    if record is not None and record.provider_id == launched.node_claim.provider_id:
        if is_marked(launched, owners.cluster):
            return AdoptionState.OURS, None
        objection = _half_done_objection(launched)
        return (AdoptionState.BEGUN, None) if objection is None else (AdoptionState.REFUSED, objection)
    if record is not None:
        problem = f"claim {name} has the instance {record.instance_id or '(none yet)'}"
        return AdoptionState.REFUSED, Objection(AdoptionReason.NAME_TAKEN, problem)
    objection = _objection(launched, owners, now)
    return (AdoptionState.ADOPTABLE, None) if objection is None else (AdoptionState.REFUSED, objection)


def is_marked(launched: LaunchedClaim, cluster: str) -> bool:
    """Whether NodeClaim, Node and instance carry all marks of ours and none of Karpenter's.

    A Node that has not registered has none of either yet.
    """
    name, tags = launched.node_claim.name, launched.tags or {}
    nodes = [node for node in launched.nodes if node.labels.get(labels.REGISTERED) == "true"]
    is_tagged = all(tags.get(key) == value for key, value in ownership_tags(launched.node_claim, cluster).items())
    is_mirror = launched.node_claim.annotations.get(labels.CLAIM) == name
    kept_by = [launched.finalizers, *(node.finalizers for node in nodes)]
    is_annotated = all(node.annotations.get(labels.CLAIM) == name for node in nodes)
    return (
        is_tagged
        and is_mirror
        and is_annotated
        and all(labels.TERMINATION_FINALIZER in kept for kept in kept_by)
        and not any(labels.KARPENTER_FINALIZER in kept for kept in kept_by)
    )


def ownership_tags(claim: NodeClaim, cluster: str) -> dict[str, str]:
    """Return the tags by which instances are found and may be terminated, Karpenter's among them."""
    return {
        f"kubernetes.io/cluster/{cluster}": "owned",
        labels.CLUSTER_TAG: cluster,
        labels.NODEPOOL: claim.node_pool,
        labels.NODECLASS: claim.node_class.name if claim.node_class is not None else "",
        labels.NODECLAIM: claim.name,
        labels.CLAIM: claim.name,
    }


def _half_done_objection(launched: LaunchedClaim) -> Objection | None:
    """Return why an adoption that has begun cannot be completed."""
    claim = launched.node_claim
    if launched.tags is None:
        return Objection(AdoptionReason.INSTANCE_NOT_FOUND, f"EC2 has no running instance of {claim.provider_id}")
    return _deleted(launched)


def _deleted(launched: LaunchedClaim) -> Objection | None:
    if launched.node_claim.deleted_at is not None:
        return Objection(AdoptionReason.BEING_DELETED, f"NodeClaim {launched.node_claim.name} is being deleted")
    for node in launched.nodes:
        if node.deleted_at is not None:
            return Objection(AdoptionReason.BEING_DELETED, f"Node {node.name} is being deleted")
    return None


def _objection(launched: LaunchedClaim, owners: Owners, now: datetime) -> Objection | None:
    """Return the first reason against the adoption, in the order in which a user should resolve them."""
    claim = launched.node_claim
    if claim.node_class is None or claim.node_class.group != labels.AWS_GROUP:
        group = claim.node_class.group if claim.node_class is not None else "(none)"
        return Objection(AdoptionReason.OTHER_PROVIDER, f"its nodeClassRef has the group {group}")
    deleted = _deleted(launched)
    if deleted is not None:
        return deleted
    closed = next((node.name for node in launched.nodes if REBOOTING in node.taints), "")
    if closed or claim.is_true(conditions.REBOOTING):
        where = f"Node {closed} has the taint {REBOOTING.key}" if closed else f"NodeClaim {claim.name} is Rebooting"
        return Objection(AdoptionReason.REBOOTING, where)
    if not claim.provider_id:
        return Objection(AdoptionReason.NOT_LAUNCHED, f"NodeClaim {claim.name} has no status.providerID")
    pool = owners.pools.get(claim.node_pool)
    if pool is None or pool.deleted_at is not None:
        name = claim.node_pool or "(none)"
        return Objection(AdoptionReason.NODE_POOL_NOT_FOUND, f"NodePool {name} {_gone(pool is not None)}")
    node_class = owners.node_classes.get(claim.node_class.name)
    if node_class is None or node_class.deleted_at is not None:
        return Objection(
            AdoptionReason.NODE_CLASS_NOT_FOUND,
            f"EC2NodeClass {claim.node_class.name} {_gone(node_class is not None)}",
        )
    return _instance_objection(launched, owners.cluster, now)


def _instance_objection(launched: LaunchedClaim, cluster: str, now: datetime) -> Objection | None:
    claim, tags = launched.node_claim, launched.tags
    instance = claim.provider_id.rpartition("/")[2]
    if tags is None:
        return Objection(AdoptionReason.INSTANCE_NOT_FOUND, f"EC2 has no running instance {instance}")
    expected = ownership_tags(claim, cluster)
    wrong = [key for key in IDENTIFYING_TAGS if tags.get(key, expected[key]) != expected[key]]
    if wrong:
        key = wrong[0]
        message = f"tag {key} of instance {instance} is {tags[key]!r} and not {expected[key]!r}"
        return Objection(AdoptionReason.OTHER_OWNER, message)
    if len(launched.nodes) > 1:
        names = ", ".join(node.name for node in launched.nodes)
        return Objection(AdoptionReason.SEVERAL_NODES, f"Nodes {names} have the provider id {claim.provider_id}")
    if (
        launched.node is None
        and launched.launched_at is not None
        and now - launched.launched_at >= REGISTRATION_TIMEOUT
    ):
        return Objection(AdoptionReason.NOT_JOINED, f"no Node has the provider id {claim.provider_id}")
    return None


def _gone(is_there: bool) -> str:
    return "is being deleted" if is_there else "does not exist"


# The marks by which a controller identifies its Nodes, NodeClaims and EC2NodeClasses, as merge patches of their metadata.
#
# Karpenter's marks are a finalizer on each, the Node's owner reference to its NodeClaim and the NodeClaim's to its NodePool.
# Ours are a finalizer and the annotation `fleetwright.dev/claim`. We have no owner references: a NodePool that is restored
# under another UID would let Kubernetes delete its NodeClaims, and with them all nodes
# (docs/engineering/handbook/node-claims.md).


_API: Final = f"{labels.CORE_GROUP}/v1"
_OURS_ON_NODES: Final = (labels.CLAIM, labels.CLAIM_SPEC, labels.DECISION, REASON_ANNOTATION)


def node_made_ours(record: ClaimRecord, finalizers: Sequence[str], owners: Sequence[JsonObject]) -> JsonObject:
    """Return the metadata that transfers a Node from Karpenter to us; `finalizers` and `owners` are its present ones."""
    return {
        "annotations": {**_hashes(record), **claim_annotations(record)},
        "finalizers": _exchanged(finalizers, labels.KARPENTER_FINALIZER, labels.TERMINATION_FINALIZER),
        "ownerReferences": [owner for owner in owners if owner.get("kind") != "NodeClaim"],
    }


def node_claim_made_ours(record: ClaimRecord, present: JsonObject) -> JsonObject:
    """Return the metadata that makes a NodeClaim of Karpenter's the mirror of our claim."""
    return {
        "annotations": {**_hashes(record), labels.CLAIM: record.name},
        "finalizers": _exchanged(_finalizers(present), labels.KARPENTER_FINALIZER, labels.TERMINATION_FINALIZER),
        "ownerReferences": [owner for owner in _owners(present) if owner.get("kind") != "NodePool"],
    }


def class_made_ours(finalizers: Sequence[str]) -> JsonObject:
    """Return the metadata of an EC2NodeClass without Karpenter's finalizer."""
    return {"finalizers": [name for name in finalizers if name != labels.KARPENTER_CLASS_FINALIZER]}


def node_made_karpenters(
    finalizers: Sequence[str],
    owners: Sequence[JsonObject],
    node_labels: Mapping[str, str],
    node_claim: tuple[str, str],
) -> JsonObject:
    """Return the metadata that transfers a Node from us to Karpenter; `node_claim` is the name and UID of its NodeClaim."""
    name, uid = node_claim
    others = [owner for owner in owners if owner.get("kind") != "NodeClaim"]
    metadata: JsonObject = {
        "annotations": dict.fromkeys(_OURS_ON_NODES),
        "finalizers": _exchanged(finalizers, labels.TERMINATION_FINALIZER, labels.KARPENTER_FINALIZER),
        "ownerReferences": [*others, _owner("NodeClaim", name, uid)],
    }
    if node_labels.get(labels.EXCLUDE_FROM_BALANCERS) == EXCLUDED_BY_US:
        metadata["labels"] = {labels.EXCLUDE_FROM_BALANCERS: None}
    return metadata


def taints_that_stay(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """Return the taints without those that we add while a node boots or leaves."""
    return tuple(taint for taint in taints if taint.key not in (DISRUPTED.key, HELD.key))


def node_claim_made_karpenters(record: ClaimRecord, present: JsonObject, pool: tuple[str, str]) -> JsonObject:
    """Return the metadata that makes the mirror of our claim a NodeClaim of Karpenter's.

    Hashes stay ours. Karpenter replaces hashes of another version by its present ones, except for drifted NodeClaims.

    Args:
        record: The claim.
        present: The present NodeClaim.
        pool: Name and UID of its NodePool.
    """
    others = [owner for owner in _owners(present) if owner.get("kind") != "NodePool"]
    return {
        "labels": dict(sorted(record.labels.items())),
        "annotations": {**_hashes(record), labels.CLAIM: None, labels.DECISION: None},
        "finalizers": _exchanged(_finalizers(present), labels.TERMINATION_FINALIZER, labels.KARPENTER_FINALIZER),
        "ownerReferences": [*others, _owner("NodePool", *pool)],
    }


def karpenters_tags(record: ClaimRecord, cluster: str) -> dict[str, str]:
    """Return the tags by which Karpenter finds the instance, and may tag and terminate it."""
    return {
        f"kubernetes.io/cluster/{cluster}": "owned",
        labels.CLUSTER_TAG: cluster,
        labels.NODEPOOL: record.plan.node_pool,
        labels.NODECLASS: record.plan.node_class.name,
        labels.NODECLAIM: record.name,
    }


def our_tags(record: ClaimRecord, cluster: str) -> dict[str, str]:
    """Return the tags by which we find the instance and rebuild its claim."""
    return {**karpenters_tags(record, cluster), labels.CLAIM: record.name, **_hashes(record)}


OURS_ALONE: Final = (labels.CLAIM, labels.DECISION, *HASHES)
"""Tags of ours that mean nothing to Karpenter."""


def _hashes(record: ClaimRecord) -> dict[str, str]:
    return {key: record.plan.annotations[key] for key in HASHES if key in record.plan.annotations}


def _exchanged(finalizers: Sequence[str], old: str, new: str) -> list[str]:
    """Return the finalizers with `new` instead of `old`, which may be absent."""
    kept = [name for name in finalizers if name not in (old, new)]
    return [*kept, new]


def _owner(kind: str, name: str, uid: str) -> JsonObject:
    return {"apiVersion": _API, "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": True}


def _finalizers(obj: JsonObject) -> list[str]:
    return list((obj.get("metadata") or {}).get("finalizers") or ())


def _owners(obj: JsonObject) -> list[JsonObject]:
    return list((obj.get("metadata") or {}).get("ownerReferences") or ())


# Decides which of our claims may become NodeClaims of Karpenter's, and renders these.


class OwnedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One of our claims with its objects and instances.

    Attributes:
        node_claim: The NodeClaim of its name, None where there is none.
        node: Its Node, None where none has joined.
        tagged: Ids of living instances that carry the claim's tag or are the claim's own.
        pool_uid: UID of its NodePool, empty where there is none.
    """

    record: ClaimRecord
    node_claim: JsonObject | None = None
    node: Node | None = None
    tagged: tuple[str, ...] = ()
    pool_uid: str = ""


class ReleaseObjection(msgspec.Struct, frozen=True):
    """Why a claim stays ours: a code, and one sentence for people."""

    reason: ReleaseReason
    message: str


def objection(owned: OwnedClaim) -> ReleaseObjection | None:
    """Return why the claim cannot be released now, None if it can; a claim without an instance is abandoned."""
    record, claim = owned.record, owned.node_claim
    if record.machine is None:
        if not owned.tagged:
            return None
        return ReleaseObjection(ReleaseReason.LAUNCHING, f"instance {owned.tagged[0]} was launched for it")
    if record.deletion is not None and record.deletion.terminated_at is not None:
        return ReleaseObjection(ReleaseReason.LEAVING, f"instance {record.instance_id} is being terminated")
    if owned.node is not None and owned.node.deleted_at is not None:
        return ReleaseObjection(ReleaseReason.LEAVING, f"Node {owned.node.name} is being deleted")
    if claim is not None and (claim.get("metadata") or {}).get("deletionTimestamp"):
        return ReleaseObjection(ReleaseReason.LEAVING, f"NodeClaim {record.name} is being deleted")
    if record.instance_id not in owned.tagged:
        return ReleaseObjection(ReleaseReason.GONE, f"EC2 has no running instance {record.instance_id}")
    if owned.node is None and record.phase is not ClaimPhase.LAUNCHED:
        return ReleaseObjection(ReleaseReason.GONE, f"Node {record.node_name} does not exist")
    if not owned.pool_uid:
        return ReleaseObjection(ReleaseReason.POOL_NOT_FOUND, f"NodePool {record.plan.node_pool} does not exist")
    provider_id = str(((claim or {}).get("status") or {}).get("providerID") or "")
    if provider_id and provider_id != record.provider_id:
        return ReleaseObjection(ReleaseReason.OTHER_NODE_CLAIM, f"NodeClaim {record.name} is of {provider_id}")
    return None


def released(record: ClaimRecord) -> ClaimRecord:
    """Return the claim without its removal: from then on Karpenter decides whether the node goes."""
    return msgspec.structs.replace(record, deletion=None, is_disrupting=False, hold=None)


def karpenters_object(record: ClaimRecord) -> JsonObject:
    """Return the NodeClaim to create if there is none, without its status."""
    obj = new_object(record)
    annotations = {
        key: value
        for key, value in obj["metadata"]["annotations"].items()
        if key not in (labels.CLAIM, labels.DECISION)
    }
    metadata = {**obj["metadata"], "annotations": annotations, "finalizers": [labels.KARPENTER_FINALIZER]}
    return {**obj, "metadata": metadata}


def karpenters_status(record: ClaimRecord, drift: str) -> JsonObject:
    """Return the complete status from which Karpenter continues.

    The condition Drifted is included only if it is True: when Karpenter renews hashes, its mere presence means drift.
    """
    drifted: Mapping[str, Condition] = {DRIFTED: Condition("True", drift, "", record.initialized_at)} if drift else {}
    mirror: Mirrored = mirrored(released(record), drifted)
    status: JsonObject = {**mirror.status, "conditions": mirror.written_conditions()}
    if record.last_pod_event_at is not None:
        status["lastPodEventTime"] = record.last_pod_event_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return status
