"""NodeClaim objects: those that mirror our claims, and those that people make."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from core import api, labels
from core.api.objects import JsonObject
from core.lifecycle.deletion import LASTING, is_voluntary
from core.lifecycle.launching import full_zones
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion
from core.lifecycle.registration import HASHES
from core.manifests.assemble import requirements_with_zones, zones_by_id
from core.model import plan
from core.model.catalogue import InstanceType, Offering
from core.model.node_pool import GROUP_COUNTER, NodeClass
from core.model.plan import Condition, NodeClaim, ObjectRef, PlannedClaim
from core.model.snapshot import Snapshot
from core.model.values import quantity
from core.model.values.requirements import Requirement, Requirements, labels_fault
from core.model.values.taints import Taint
from core.pool_admission import admitted_types
from core.pools import holder, pool_types, shared_limits
from core.reasons.code import (
    ClaimReason,
    ClassGone,
    ClassOfOtherKind,
    ClassUnready,
    FieldsInvalid,
    FieldsUnknown,
    FinalizerForeign,
    NodeLabelsInvalid,
    NoneOpen,
    NoRoomInLimits,
    Refusal,
    RequestsTooLarge,
    RequirementsUnmet,
    ZonesFull,
)

# A claim's record as a NodeClaim object (`karpenter.sh/v1`): a pure function of the record, so no further state is stored.


NEVER: Final = "Never"
DRAINED: Final = "Drained"
CONSISTENT: Final = "ConsistentStateFound"
_IN_READY: Final = (plan.LAUNCHED, plan.REGISTERED, plan.INITIALIZED)
"""The conditions that Ready summarizes (Karpenter)."""

_GENERATION: Final = 1
"""The spec of a NodeClaim never changes."""


class Mirrored(msgspec.Struct, frozen=True, kw_only=True):
    """The desired NodeClaim of one claim. Equal values need no write.

    Attributes:
        status: Without conditions.
        is_leaving: Whether the object is to be deleted. A deletion cannot be revoked, so this waits until the claim's removal
            is final.
    """

    labels: dict[str, str]
    status: JsonObject
    conditions: dict[str, Condition]
    is_leaving: bool

    def written_conditions(self) -> list[JsonObject]:
        """Return `status.conditions`, by type."""
        return [_written(kind, condition) for kind, condition in sorted(self.conditions.items())]


def mirrored(record: ClaimRecord, observed: Mapping[str, Condition] | None = None) -> Mirrored:
    """Return the desired NodeClaim; `observed` are conditions that the record lacks, and take precedence over its own."""
    machine = record.machine
    by_kind = _conditions(record) | dict(observed or {})
    by_kind[plan.READY] = _ready(by_kind)
    status = {
        "nodeName": record.node_name,
        "providerID": record.provider_id,
        "imageID": machine.image_id if machine else "",
        "capacity": quantity.render_resources(machine.capacity) if machine else {},
        "allocatable": quantity.render_resources(machine.allocatable) if machine else {},
    }
    return Mirrored(
        labels=dict(sorted(record.labels.items())),
        status={name: value for name, value in status.items() if value},
        conditions=by_kind,
        is_leaving=record.deletion is not None and not _may_stay(record.deletion),
    )


def new_object(record: ClaimRecord) -> JsonObject:
    """The object to create, without its status. Its spec is the original request and never changes (Karpenter)."""
    plan = record.plan
    return {
        "metadata": {
            "name": record.name,
            "labels": dict(sorted(record.labels.items())),
            "annotations": dict(sorted({**plan.annotations, labels.CLAIM: record.name}.items())),
            "finalizers": [labels.TERMINATION_FINALIZER],
        },
        "spec": _spec(plan),
    }


def is_mirror(obj: JsonObject) -> bool:
    """Whether we wrote a NodeClaim of the cluster as the mirror of a claim."""
    metadata = obj.get("metadata") or {}
    return bool((metadata.get("annotations") or {}).get(labels.CLAIM) == metadata.get("name"))


def _admissible(requirement: Requirement) -> Iterator[JsonObject]:
    """Return a requirement's entries as the API server admits them: minValues of no more values than there are.

    Policy BestEffort launches with fewer than the NodePool asks for.
    """
    for entry in requirement.to_manifest():
        values = entry.get("values")
        least = entry.get("minValues")
        if isinstance(least, int) and isinstance(values, list) and entry.get("operator") == "In":
            yield {**entry, "minValues": min(least, len(values))}
        else:
            yield entry


def _spec(plan: PlannedClaim) -> JsonObject:
    spec: JsonObject = {
        "nodeClassRef": {"group": plan.node_class.group, "kind": plan.node_class.kind, "name": plan.node_class.name},
        "requirements": [entry for requirement in plan.requirements for entry in _admissible(requirement)],
        "resources": {"requests": quantity.render_resources(plan.resources)},
        "expireAfter": _duration(plan.expire_after) if plan.expire_after is not None else NEVER,
    }
    if plan.termination_grace_period is not None:
        spec["terminationGracePeriod"] = _duration(plan.termination_grace_period)
    if plan.taints:
        spec["taints"] = _taints(plan.taints)
    if plan.startup_taints:
        spec["startupTaints"] = _taints(plan.startup_taints)
    return spec


def _conditions(record: ClaimRecord) -> dict[str, Condition]:
    """Return Launched, Registered and Initialized always; other conditions only if they apply."""
    moments = record.moments
    reached = (
        (plan.LAUNCHED, record.machine is not None, moments.launched_at, "its instance is not launched yet"),
        (plan.REGISTERED, record.is_registered, moments.seen_at, "its node has not joined the cluster yet"),
        (
            plan.INITIALIZED,
            record.phase is ClaimPhase.INITIALIZED,
            record.initialized_at,
            record.message or "its node is not ready for pods yet",
        ),
    )
    by_kind = {
        kind: Condition("True", kind, "", since or record.phase_since)
        if holds
        else Condition("Unknown", "AwaitingReconciliation", missing, record.requested_at)
        for kind, holds, since, missing in reached
    }
    if record.phase is ClaimPhase.INITIALIZED:
        by_kind[CONSISTENT] = _consistent(record)
    if record.deletion is not None:
        by_kind |= _leaving(record.deletion)
    return by_kind


def _consistent(record: ClaimRecord) -> Condition:
    if record.reason == ClaimReason.FAILED_CONSISTENCY_CHECK:
        return Condition("False", record.reason, record.message, record.initialized_at)
    return Condition("True", CONSISTENT, "", record.initialized_at)


def _leaving(deletion: Deletion) -> dict[str, Condition]:
    by_kind = {plan.DISRUPTION_REASON: Condition("True", deletion.reason, deletion.message, deletion.asked_at)}
    if deletion.terminated_at is not None:
        by_kind[DRAINED] = Condition("True", DRAINED, "", deletion.terminated_at)
        by_kind[plan.INSTANCE_TERMINATING] = Condition("True", plan.INSTANCE_TERMINATING, "", deletion.terminated_at)
    elif deletion.tainted_at is not None:
        by_kind[DRAINED] = Condition("Unknown", "Draining", "pods are leaving its node", deletion.tainted_at)
    return by_kind


def _ready(by_kind: Mapping[str, Condition]) -> Condition:
    """Return Ready: the worst of the conditions that it summarizes, with its cause; the latest time if all are True."""
    parts = [(kind, by_kind[kind]) for kind in _IN_READY]
    for status, reason in (("False", "UnhealthyDependents"), ("Unknown", "ReconcilingDependents")):
        worse = next(((kind, condition) for kind, condition in parts if condition.status == status), None)
        if worse is not None:
            kind, condition = worse
            return Condition(status, reason, f"{kind}={status}: {condition.message}", condition.changed_at)
    return Condition("True", plan.READY, "", by_kind[plan.INITIALIZED].changed_at)


def _may_stay(deletion: Deletion) -> bool:
    """Whether its drain may still be cancelled (`core.lifecycle.deletion`)."""
    if not is_voluntary(deletion) or deletion.is_final or deletion.terminated_at is not None:
        return False
    return deletion.reason not in LASTING or deletion.deadline is None


def _written(kind: str, condition: Condition) -> JsonObject:
    since = condition.changed_at or datetime.fromtimestamp(0, UTC)
    return {
        "type": kind,
        "status": condition.status,
        "reason": condition.reason or kind,
        "message": condition.message,
        "lastTransitionTime": since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "observedGeneration": _GENERATION,
    }


def _taints(taints: Iterable[Taint]) -> list[JsonObject]:
    return [
        {"key": taint.key, "effect": taint.effect, **({"value": taint.value} if taint.value else {})}
        for taint in taints
    ]


def _duration(span: timedelta) -> str:
    """Format a duration in hours if whole, else in seconds: the schema takes no fractions."""
    seconds = int(span.total_seconds())
    return f"{seconds // 3600}h" if seconds % 3600 == 0 else f"{seconds}s"


KIND: Final = {"apiVersion": f"{labels.CORE_GROUP}/v1", "kind": "NodeClaim"}
"""Kind and API version, which items of a list lack."""

NODE_CLASS_KIND: Final = "EC2NodeClass"

_NOT_COPIED: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration", *HASHES})
"""Annotations that are about the object instead of the node, or that follow from its class."""


def is_made_by_hand(obj: JsonObject) -> bool:
    """Whether the NodeClaim is hand-made, and we have no claim for it yet.

    One with an instance, or with Karpenter's finalizer, is Karpenter's (`core.lifecycle.takeover`). One that is being deleted
    is ours only if it carries our finalizer, which we put on before the claim is stored.
    """
    metadata, reference = obj.get("metadata") or {}, (obj.get("spec") or {}).get("nodeClassRef") or {}
    finalizers = metadata.get("finalizers") or ()
    if is_mirror(obj) or labels.KARPENTER_FINALIZER in finalizers or (obj.get("status") or {}).get("providerID"):
        return False
    is_leaving = bool(metadata.get("deletionTimestamp")) and labels.TERMINATION_FINALIZER not in finalizers
    return reference.get("group") == labels.AWS_GROUP and not is_leaving


def hand_made_plan(
    obj: JsonObject, snapshot: Snapshot, used: Mapping[str, Mapping[str, int]]
) -> PlannedClaim | Refusal:
    """Return the plan of the NodeClaim's launch, or why it cannot be launched.

    Only its own requirements and requests count, not those of a NodePool that it may name; no DaemonSets are added (Karpenter).

    Args:
        obj: The object in the cluster.
        snapshot: The cluster and its market.
        used: Counter (`ClaimRecord.counters`) → what claims hold of its limits.
    """
    fault = _fault(obj)
    if fault is not None:
        return fault
    claim = api.node_claim({**KIND, **obj})
    node_class = _node_class(claim, snapshot)
    if isinstance(node_class, Refusal):
        return node_class
    zones = zones_by_id(snapshot.node_classes, snapshot.nodes)
    requirements = Requirements(requirements_with_zones(claim.requirements, zones))
    types = pool_types(snapshot).of(claim.node_pool, node_class.name)
    offered = _offered(claim, requirements, types, snapshot.catalogue.label_keys())
    if isinstance(offered, Refusal):
        return offered
    full = full_zones(node_class, snapshot.subnet_addresses)
    offered = _outside(full, offered)
    if not offered:
        return ZonesFull(node_class.name, tuple(sorted(full)))
    for counter, room in _rooms(claim.node_pool, snapshot, used).items():
        allowed = _within(room, types)
        offered = {name: offerings for name, offerings in offered.items() if name in allowed}
        if not offered:
            return NoRoomInLimits(holder(counter))
    node_labels = _labels(claim, requirements, node_class)
    if labels_fault(node_labels):
        return NodeLabelsInvalid(labels_fault(node_labels))
    uid = str((obj.get("metadata") or {}).get("uid") or "")
    return _planned(claim, uid, requirements, node_labels, node_class, offered)


def _fault(obj: JsonObject) -> Refusal | None:
    """Return the fault of the object itself, None if it has none."""
    from core.api.translation import not_ignored

    faults = api.problems({**KIND, **obj})
    if faults:
        return FieldsInvalid(tuple((fault.field, fault.message) for fault in faults))
    if dropped := not_ignored({**KIND, **obj}):
        return FieldsUnknown(tuple(dropped))
    finalizers = (obj.get("metadata") or {}).get("finalizers") or ()
    others = sorted(set(finalizers) - {labels.TERMINATION_FINALIZER})
    return FinalizerForeign(others[0]) if others else None


def _planned(
    claim: NodeClaim,
    uid: str,
    required: Requirements,
    node_labels: dict[str, str],
    node_class: NodeClass,
    offered: Mapping[str, tuple[Offering, ...]],
) -> PlannedClaim:
    """Return the plan of a claim; `uid` is its object's, `offered` has the offerings of each suitable type."""
    offerings = [offering for offerings_of_type in offered.values() for offering in offerings_of_type]
    return PlannedClaim(
        name=claim.name,
        node_pool=claim.node_pool,
        node_class=ObjectRef(labels.AWS_GROUP, NODE_CLASS_KIND, node_class.name),
        labels=node_labels,
        annotations=_annotations(claim, uid),
        taints=claim.taints,
        startup_taints=claim.startup_taints,
        requirements=tuple(required.without(labels.NODEPOOL).values()),
        instance_types=_by_price(offered),
        zones=tuple(sorted({offering.zone for offering in offerings})),
        capacity_types=tuple(sorted({offering.capacity_type for offering in offerings})),
        resources=claim.resources,
        price=min(offering.price for offering in offerings),
        expire_after=claim.expire_after,
        termination_grace_period=claim.termination_grace_period,
    )


def _node_class(claim: NodeClaim, snapshot: Snapshot) -> NodeClass | Refusal:
    """Return the class that the claim names, if a launch can be rendered from it."""
    reference = claim.node_class
    name = reference.name if reference is not None else ""
    if reference is None or reference.kind != NODE_CLASS_KIND:
        kind = reference.kind if reference is not None else ""
        return ClassOfOtherKind(kind)
    node_class = next((listed for listed in snapshot.node_classes if listed.name == name), None)
    if node_class is None or node_class.deleted_at is not None:
        return ClassGone(name, is_deleted=node_class is not None)
    if node_class.is_ready is not True or node_class.problem:
        return ClassUnready(name, node_class.problem)
    return node_class


def _offered(
    claim: NodeClaim, required: Requirements, types: tuple[InstanceType, ...], keys: frozenset[str]
) -> dict[str, tuple[Offering, ...]] | Refusal:
    """Return the available offerings of each suitable type, by its name."""
    unknown = required.get(labels.ZONE_ID)
    alike = admitted_types(types, required, keys)
    if not alike or (unknown is not None and not unknown.tolerates_absence):
        return RequirementsUnmet(_unmet(required, types, keys))
    large = [instance_type for instance_type in alike if quantity.fits(claim.resources, instance_type.allocatable())]
    if not large:
        return RequestsTooLarge(len(alike))
    open_now = {
        instance_type.name: tuple(o for o in instance_type.offerings if _is_open(o, required))
        for instance_type in large
    }
    if not any(open_now.values()):
        return NoneOpen(len(large))
    return {name: offerings for name, offerings in open_now.items() if offerings}


def _unmet(required: Requirements, types: tuple[InstanceType, ...], keys: frozenset[str]) -> str:
    """Return the key of the requirement that no type meets, if a single one rules out all types; empty for none."""
    alone = (
        requirement
        for requirement in required.values()
        if requirement.key == labels.ZONE_ID or not admitted_types(types, Requirements([requirement]), keys)
    )
    return next((requirement.key for requirement in alone), "")


def _outside(zones: Collection[str], offered: Mapping[str, tuple[Offering, ...]]) -> dict[str, tuple[Offering, ...]]:
    """Return the offerings in other zones, without types that have none there."""
    by_type = {
        name: tuple(offering for offering in offerings if offering.zone not in zones)
        for name, offerings in offered.items()
    }
    return {name: offerings for name, offerings in by_type.items() if offerings}


def _rooms(node_pool: str, snapshot: Snapshot, used: Mapping[str, Mapping[str, int]]) -> dict[str, Mapping[str, int]]:
    """Return counter → what the limits of the NodePool, of its groups and of caps on all pods leave; without limits, none."""
    pool = next((pool for pool in snapshot.node_pools if pool.name == node_pool), None)
    if pool is None:
        return {}
    of_groups = {GROUP_COUNTER + group: shared_limits(snapshot.node_pools)[group] for group in pool.shared_limits}
    limits = {node_pool: pool.limits, **dict(sorted(of_groups.items()))}
    rooms = {counter: quantity.subtract(of_counter, used.get(counter, {})) for counter, of_counter in limits.items()}
    return {counter: {name: room[name] for name in limits[counter]} for counter, room in rooms.items()}


def _within(room: Mapping[str, int], types: tuple[InstanceType, ...]) -> frozenset[str]:
    """Return the names of the types with room for one more: a claim is charged its largest type."""

    def allows(instance_type: InstanceType) -> bool:
        one_more = {**instance_type.capacity, quantity.NODES: 1}
        return all(one_more.get(name, 0) <= amount for name, amount in room.items())

    return frozenset(instance_type.name for instance_type in types if allows(instance_type))


def _is_open(offering: Offering, required: Requirements) -> bool:
    return offering.available and offering.requirements().conflict(required) is None


def _by_price(offered: Mapping[str, tuple[Offering, ...]]) -> tuple[str, ...]:
    return tuple(sorted(offered, key=lambda name: (min(offering.price for offering in offered[name]), name)))


def _labels(claim: NodeClaim, required: Requirements, node_class: NodeClass) -> dict[str, str]:
    """Return the node's labels: the claim's own, and a value for each label that its requirements leave to us (Karpenter).

    Well-known labels follow from the instance; the claim's own values for them are ignored.
    """
    chosen = {r.key: min(r.values) for r in required.values() if r.is_finite and r.values and _is_free(r.key)}
    free_labels = {key: value for key, value in claim.labels.items() if _is_free(key)}
    pool = {labels.NODEPOOL: claim.node_pool} if claim.node_pool else {}
    return dict(sorted({**chosen, **free_labels, **pool, labels.NODECLASS: node_class.name}.items()))


def _is_free(key: str) -> bool:
    normalized = labels.normalized(key)
    return normalized not in labels.WELL_KNOWN and not labels.is_restricted(normalized) and normalized != labels.ZONE_ID


def _annotations(claim: NodeClaim, uid: str) -> dict[str, str]:
    copied = {key: value for key, value in labels.without_own(claim.annotations).items() if key not in _NOT_COPIED}
    return dict(sorted({**copied, labels.MADE_BY_HAND: uid}.items()))
