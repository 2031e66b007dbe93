"""Creates our claim from a hand-made NodeClaim: an order to launch one node, regardless of pods."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from core import api, labels
from core.api.objects import JsonObject
from core.lifecycle.launching.subnet_assignment import full_zones
from core.lifecycle.mirror.node_claim_object import is_mirror
from core.lifecycle.rebuilding import HASHES
from core.manifests.zone_ids import requirements_with_zones, zones_by_id
from core.model.catalogue import InstanceType, Offering
from core.model.node_claim import NodeClaim, ObjectRef
from core.model.node_pool import NodeClass
from core.model.plan import PlannedClaim
from core.model.snapshot import Snapshot
from core.model.values import quantity, resources
from core.model.values.label_syntax import labels_fault
from core.model.values.requirements import Requirements
from core.pools.admitted_types import admitted_types
from core.pools.pool_types import pool_types
from core.reasons.claim import ClaimReason
from core.reasons.refusal import Refusal

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
        used: NodePool → what its claims hold of its limits.
    """
    fault = _fault(obj)
    if fault:
        return Refusal(ClaimReason.NODE_CLAIM_INVALID, fault)
    claim = api.node_claim({**KIND, **obj})
    node_class = _node_class(claim, snapshot)
    if isinstance(node_class, Refusal):
        return node_class
    zones = zones_by_id(snapshot.node_classes, snapshot.nodes)
    asked = Requirements(requirements_with_zones(claim.requirements, zones))
    types = pool_types(snapshot).of(claim.node_pool, node_class.name)
    offered = _offered(claim, asked, types, snapshot.catalogue.label_keys())
    if isinstance(offered, Refusal):
        return offered
    full = full_zones(node_class, snapshot.subnet_addresses)
    offered = _outside(full, offered)
    if not offered:
        takes = f"has the free addresses that its node takes ({', '.join(sorted(full))})"
        message = f"no subnet of {NODE_CLASS_KIND} {node_class.name} {takes}"
        return Refusal(ClaimReason.INSUFFICIENT_CAPACITY, message)
    allowed = _within_limits(claim.node_pool, types, snapshot, used)
    offered = {name: offerings for name, offerings in offered.items() if name in allowed}
    if not offered:
        return limit_reached(claim.node_pool)
    node_labels = _labels(claim, asked, node_class)
    if fault := labels_fault(node_labels):
        return Refusal(
            ClaimReason.NODE_CLAIM_INVALID, f"its name, class and labels become labels of its node, and {fault}"
        )
    uid = str((obj.get("metadata") or {}).get("uid") or "")
    return _planned(claim, uid, asked, node_labels, node_class, offered)


def limit_reached(node_pool: str) -> Refusal:
    """Return why nothing is launched for a NodePool without room."""
    return Refusal(ClaimReason.LIMIT_REACHED, f"the limits of NodePool {node_pool} have no room for it")


def _fault(obj: JsonObject) -> str:
    """Return the fault of the object itself, empty if it has none."""
    faults = api.problems({**KIND, **obj})
    if faults:
        return "; ".join(f"{fault.field}: {fault.message}" for fault in faults)
    finalizers = (obj.get("metadata") or {}).get("finalizers") or ()
    others = sorted(set(finalizers) - {labels.TERMINATION_FINALIZER})
    if others:
        return (
            f"metadata.finalizers: {others[0]} is another controller's; nothing is launched for an object that it holds"
        )
    return ""


def _planned(
    claim: NodeClaim,
    uid: str,
    asked: Requirements,
    node_labels: dict[str, str],
    node_class: NodeClass,
    offered: Mapping[str, tuple[Offering, ...]],
) -> PlannedClaim:
    """Return the plan of a claim; `uid` is its object's, `offered` has the offerings of each suitable type."""
    offerings = [offering for found in offered.values() for offering in found]
    return PlannedClaim(
        name=claim.name,
        node_pool=claim.node_pool,
        node_class=ObjectRef(labels.AWS_GROUP, NODE_CLASS_KIND, node_class.name),
        labels=node_labels,
        annotations=_annotations(claim, uid),
        taints=claim.taints,
        startup_taints=claim.startup_taints,
        requirements=tuple(asked.without(labels.NODEPOOL).values()),
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
        return Refusal(ClaimReason.NODE_CLAIM_INVALID, f"spec.nodeClassRef.kind: {kind!r} is not {NODE_CLASS_KIND}")
    found = next((known for known in snapshot.node_classes if known.name == name), None)
    if found is None or found.deleted_at is not None:
        gone = "does not exist" if found is None else "is being deleted"
        return Refusal(ClaimReason.NODE_CLASS_NOT_FOUND, f"spec.nodeClassRef.name: {NODE_CLASS_KIND} {name} {gone}")
    if found.is_ready is not True or found.problem:
        message = found.problem or "its condition Ready is not True"
        return Refusal(ClaimReason.NODE_CLASS_NOT_READY, f"{NODE_CLASS_KIND} {name}: {message}")
    return found


def _offered(
    claim: NodeClaim, asked: Requirements, types: tuple[InstanceType, ...], keys: frozenset[str]
) -> dict[str, tuple[Offering, ...]] | Refusal:
    """Return the available offerings of each suitable type, by its name."""
    unknown = asked.get(labels.ZONE_ID)
    alike = admitted_types(types, asked, keys)
    if not alike or (unknown is not None and not unknown.tolerates_absence):
        return Refusal(ClaimReason.INSUFFICIENT_CAPACITY, f"spec.requirements: {_unmet(asked, types, keys)}")
    large = [found for found in alike if resources.fits(claim.resources, found.allocatable())]
    if not large:
        message = f"none of the {len(alike)} instance types that spec.requirements admit has as much"
        return Refusal(ClaimReason.INSUFFICIENT_CAPACITY, f"spec.resources.requests: {message}")
    open_now = {found.name: tuple(o for o in found.offerings if _is_open(o, asked)) for found in large}
    if not any(open_now.values()):
        message = f"none of the {len(large)} suitable instance types is available now"
        return Refusal(ClaimReason.INSUFFICIENT_CAPACITY, message)
    return {name: offerings for name, offerings in open_now.items() if offerings}


def _unmet(asked: Requirements, types: tuple[InstanceType, ...], keys: frozenset[str]) -> str:
    """Return the requirement that no type meets, if a single one rules out all types."""
    alone = (
        requirement
        for requirement in asked.values()
        if requirement.key == labels.ZONE_ID or not admitted_types(types, Requirements([requirement]), keys)
    )
    found = next(alone, None)
    return f"no instance type meets that on {found.key}" if found is not None else "no instance type meets them all"


def _outside(zones: Collection[str], offered: Mapping[str, tuple[Offering, ...]]) -> dict[str, tuple[Offering, ...]]:
    """Return the offerings in other zones, without types that have none there."""
    found = {name: tuple(one for one in offerings if one.zone not in zones) for name, offerings in offered.items()}
    return {name: offerings for name, offerings in found.items() if offerings}


def _within_limits(
    node_pool: str, types: tuple[InstanceType, ...], snapshot: Snapshot, used: Mapping[str, Mapping[str, int]]
) -> frozenset[str]:
    """Return the names of the types of which the NodePool's limits allow one more: a claim is charged its largest type."""
    limits = next((pool.limits for pool in snapshot.node_pools if pool.name == node_pool), {})
    left = resources.subtract(limits, used.get(node_pool, {}))

    def allows(found: InstanceType) -> bool:
        one_more = {**found.capacity, quantity.NODES: 1}
        return all(one_more.get(name, 0) <= left[name] for name in limits)

    return frozenset(found.name for found in types if allows(found))


def _is_open(offering: Offering, asked: Requirements) -> bool:
    return offering.available and offering.requirements().conflict(asked) is None


def _by_price(offered: Mapping[str, tuple[Offering, ...]]) -> tuple[str, ...]:
    return tuple(sorted(offered, key=lambda name: (min(offering.price for offering in offered[name]), name)))


def _labels(claim: NodeClaim, asked: Requirements, node_class: NodeClass) -> dict[str, str]:
    """Return the node's labels: the claim's own, and a value for each label that its requirements leave to us (Karpenter).

    Well-known labels follow from the instance; the claim's own values for them are ignored.
    """
    chosen = {r.key: min(r.values) for r in asked.values() if r.is_finite and r.values and _is_free(r.key)}
    own = {key: value for key, value in claim.labels.items() if _is_free(key)}
    pool = {labels.NODEPOOL: claim.node_pool} if claim.node_pool else {}
    return dict(sorted({**chosen, **own, **pool, labels.NODECLASS: node_class.name}.items()))


def _is_free(key: str) -> bool:
    known = labels.normalized(key)
    return known not in labels.WELL_KNOWN and not labels.is_restricted(known) and known != labels.ZONE_ID


def _annotations(claim: NodeClaim, uid: str) -> dict[str, str]:
    own = {key: value for key, value in labels.without_own(claim.annotations).items() if key not in _NOT_COPIED}
    return dict(sorted({**own, labels.MADE_BY_HAND: uid}.items()))
