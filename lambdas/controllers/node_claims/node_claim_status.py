"""Conditions of NodeClaims that records do not store: Drifted and Consolidatable."""

from __future__ import annotations

from typing import Final

from adapters.observation.cluster_state import ClusterState
from adapters.ports import Clock, JsonObject, Kubernetes
from core.disruption.conditions.drift import DriftCheck
from core.lifecycle.mirror.node_claim_object import DRAINED, Mirrored, mirrored
from core.lifecycle.records import ClaimRecord
from core.manifests.wire.api_resources import NODE_CLAIMS
from core.model.node_claim import CONSOLIDATABLE, DISRUPTION_REASON, DRIFTED, INITIALIZED, Condition
from lambdas.controllers.status.status_writer import Present, StatusWriter, condition, tolerate_gone

_PASSING: Final = (CONSOLIDATABLE, DRIFTED, DISRUPTION_REASON, DRAINED)
"""Conditions that are written as False only if they were True before."""


class Findings:
    """The conditions of claims from one observation."""

    def __init__(self, view: ClusterState) -> None:
        snapshot = view.snapshot
        self._claims = {claim.name: claim for claim in snapshot.node_claims}
        self._pools = {pool.name: pool for pool in snapshot.node_pools}
        self._drift = DriftCheck(snapshot, knows_types=False)

    def of(self, record: ClaimRecord) -> Mirrored:
        """Return the desired NodeClaim of the claim."""
        claim, pool = self._claims.get(record.name), self._pools.get(record.plan.node_pool)
        if claim is None:
            return mirrored(record)
        kinds = (CONSOLIDATABLE, INITIALIZED)
        found = {kind: claim.conditions[kind] for kind in kinds if kind in claim.conditions}
        drift = self._drift.reason(claim, pool) if pool is not None else ""
        if drift:
            found[DRIFTED] = Condition("True", drift)
        return mirrored(record, found)


class NodeClaimStatus:
    """Writes labels and status if they differ."""

    def __init__(self, kubernetes: Kubernetes, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._statuses = StatusWriter(kubernetes, clock)

    def write(self, obj: JsonObject, wanted: Mirrored) -> bool:
        """Update the NodeClaim of a claim; return whether it differed. Raises PortError."""
        name, written = str(obj["metadata"]["name"]), (obj["metadata"].get("labels") or {})
        has_changed = not wanted.labels.items() <= written.items()
        if has_changed:
            body: JsonObject = {"metadata": {"labels": wanted.labels}}
            tolerate_gone(lambda: self._kubernetes.patch(NODE_CLAIMS, name, body))
        conditions = [
            condition(kind, found.status, found.message, reason=found.reason)
            for kind, found in sorted(wanted.conditions.items())
        ]
        conditions += [
            condition(kind, "False", reason=f"Not{kind}") for kind in _PASSING if _was_true(obj, kind, wanted)
        ]
        if self._statuses.write(Present.of(NODE_CLAIMS, obj), {**wanted.status, "conditions": conditions}):
            has_changed = True
        if wanted.is_leaving and not obj["metadata"].get("deletionTimestamp"):
            tolerate_gone(lambda: self._kubernetes.delete(NODE_CLAIMS, name))
            has_changed = True
        return has_changed


def _was_true(obj: JsonObject, kind: str, wanted: Mirrored) -> bool:
    """Whether the object has the condition as True and it no longer holds."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return kind not in wanted.conditions and any(
        c.get("type") == kind and c.get("status") != "False" for c in conditions
    )
