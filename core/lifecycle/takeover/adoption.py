"""Decides which NodeClaims of Karpenter's may become claims of ours."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from core import labels
from core.lifecycle.claims import REGISTRATION_TIMEOUT
from core.lifecycle.records import ClaimRecord
from core.model.node import Node
from core.model.node_claim import NodeClaim
from core.model.node_pool import NodeClass, NodePool
from core.reasons.takeover import AdoptionReason

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


def adoption_state(found: LaunchedClaim, owners: Owners, now: datetime) -> tuple[AdoptionState, Objection | None]:
    """Return the state of a NodeClaim's adoption, with an objection if it is refused."""
    name = found.node_claim.name
    record = owners.records.get(name)
    if record is not None and record.provider_id == found.node_claim.provider_id:
        if is_marked(found, owners.cluster):
            return AdoptionState.OURS, None
        objection = _half_done_objection(found)
        return (AdoptionState.BEGUN, None) if objection is None else (AdoptionState.REFUSED, objection)
    if record is not None:
        problem = f"claim {name} has the instance {record.instance_id or '(none yet)'}"
        return AdoptionState.REFUSED, Objection(AdoptionReason.NAME_TAKEN, problem)
    objection = _objection(found, owners, now)
    return (AdoptionState.ADOPTABLE, None) if objection is None else (AdoptionState.REFUSED, objection)


def is_marked(found: LaunchedClaim, cluster: str) -> bool:
    """Whether NodeClaim, Node and instance carry all marks of ours and none of Karpenter's.

    A Node that has not registered has none of either yet.
    """
    name, tags = found.node_claim.name, found.tags or {}
    nodes = [node for node in found.nodes if node.labels.get(labels.REGISTERED) == "true"]
    is_tagged = all(tags.get(key) == value for key, value in ownership_tags(found.node_claim, cluster).items())
    is_mirror = found.node_claim.annotations.get(labels.CLAIM) == name
    kept_by = [found.finalizers, *(node.finalizers for node in nodes)]
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


def _half_done_objection(found: LaunchedClaim) -> Objection | None:
    """Return why an adoption that has begun cannot be completed."""
    claim = found.node_claim
    if found.tags is None:
        return Objection(AdoptionReason.INSTANCE_NOT_FOUND, f"EC2 has no running instance of {claim.provider_id}")
    return _deleted(found)


def _deleted(found: LaunchedClaim) -> Objection | None:
    if found.node_claim.deleted_at is not None:
        return Objection(AdoptionReason.BEING_DELETED, f"NodeClaim {found.node_claim.name} is being deleted")
    for node in found.nodes:
        if node.deleted_at is not None:
            return Objection(AdoptionReason.BEING_DELETED, f"Node {node.name} is being deleted")
    return None


def _objection(found: LaunchedClaim, owners: Owners, now: datetime) -> Objection | None:
    """Return the first reason against the adoption, in the order in which a user should resolve them."""
    claim = found.node_claim
    if claim.node_class is None or claim.node_class.group != labels.AWS_GROUP:
        group = claim.node_class.group if claim.node_class is not None else "(none)"
        return Objection(AdoptionReason.OTHER_PROVIDER, f"its nodeClassRef has the group {group}")
    deleted = _deleted(found)
    if deleted is not None:
        return deleted
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
    return _instance_objection(found, owners.cluster, now)


def _instance_objection(found: LaunchedClaim, cluster: str, now: datetime) -> Objection | None:
    claim, tags = found.node_claim, found.tags
    instance = claim.provider_id.rpartition("/")[2]
    if tags is None:
        return Objection(AdoptionReason.INSTANCE_NOT_FOUND, f"EC2 has no running instance {instance}")
    expected = ownership_tags(claim, cluster)
    wrong = [key for key in IDENTIFYING_TAGS if tags.get(key, expected[key]) != expected[key]]
    if wrong:
        key = wrong[0]
        message = f"tag {key} of instance {instance} is {tags[key]!r} and not {expected[key]!r}"
        return Objection(AdoptionReason.OTHER_OWNER, message)
    if len(found.nodes) > 1:
        names = ", ".join(node.name for node in found.nodes)
        return Objection(AdoptionReason.SEVERAL_NODES, f"Nodes {names} have the provider id {claim.provider_id}")
    if found.node is None and found.launched_at is not None and now - found.launched_at >= REGISTRATION_TIMEOUT:
        return Objection(AdoptionReason.NOT_JOINED, f"no Node has the provider id {claim.provider_id}")
    return None


def _gone(is_there: bool) -> str:
    return "is being deleted" if is_there else "does not exist"
