"""Decides which of our claims may become NodeClaims of Karpenter's, and renders these."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from core import labels
from core.api.objects import JsonObject
from core.lifecycle.mirror.node_claim_object import Mirrored, mirrored, new_object
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.node import Node
from core.model.node_claim import DRIFTED, Condition
from core.reasons.takeover import ReleaseReason


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
    known = str(((claim or {}).get("status") or {}).get("providerID") or "")
    if known and known != record.provider_id:
        return ReleaseObjection(ReleaseReason.OTHER_NODE_CLAIM, f"NodeClaim {record.name} is of {known}")
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
    found: Mapping[str, Condition] = {DRIFTED: Condition("True", drift, "", record.initialized_at)} if drift else {}
    mirror: Mirrored = mirrored(released(record), found)
    status: JsonObject = {**mirror.status, "conditions": mirror.written_conditions()}
    if record.last_pod_event_at is not None:
        status["lastPodEventTime"] = record.last_pod_event_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return status
