"""The marks by which a controller identifies its Nodes, NodeClaims and EC2NodeClasses, as merge patches of their metadata.

Karpenter's marks are a finalizer on each, the Node's owner reference to its NodeClaim and the NodeClaim's to its NodePool. Ours
are a finalizer and the annotation `fleetwright.dev/claim`. We have no owner references: a NodePool that is restored under
another UID would let Kubernetes delete its NodeClaims, and with them all nodes (docs/adr/0093).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from core import labels
from core.api.objects import JsonObject
from core.lifecycle.draining.disruption_taint import EXCLUDED_BY_US, REASON_ANNOTATION
from core.lifecycle.rebuilding import HASHES, claim_annotations
from core.lifecycle.records import ClaimRecord
from core.model.values.taints import DISRUPTED, HELD, Taint

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
