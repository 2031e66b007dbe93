"""Handles NodeClaims that users delete: their nodes are drained and their instances terminated (Karpenter)."""

from __future__ import annotations

from contextlib import suppress

from adapters.ports import JsonObject, Kubernetes, NotFoundError
from adapters.run_report import RunReport
from adapters.store import ClaimStore
from core.lifecycle.mirror.node_claim_object import is_mirror, mirrored
from core.lifecycle.records import ClaimRecord
from core.manifests.wire.api_resources import NODE_CLAIMS
from core.reasons.termination import TerminationReason
from lambdas.controllers.sweeps.claim_terminator import ClaimTerminator


class DeletedNodeClaims:
    """Removes claims whose NodeClaim is deleted. The finalizer keeps the object until the claim is gone."""

    def __init__(self, kubernetes: Kubernetes, claims: ClaimStore, terminator: ClaimTerminator) -> None:
        self._kubernetes = kubernetes
        self._claims = claims
        self._terminator = terminator

    def check(self, name: str, report: RunReport) -> None:
        """Check a NodeClaim that an audit event reports as deleted. Raises PortError."""
        record = self._claims.get(name)
        if record is None:
            return
        with suppress(NotFoundError):
            self.terminate_if_deleted(self._kubernetes.get(NODE_CLAIMS, name), record, report)

    def terminate_if_deleted(self, obj: JsonObject, record: ClaimRecord, report: RunReport) -> None:
        """Remove the claim if its NodeClaim is being deleted and the claim is not leaving already. Raises PortError."""
        if is_deleted(obj) and is_mirror(obj) and not mirrored(record).is_leaving:
            message = f"NodeClaim {record.name} was deleted"
            self._terminator.begin(record.name, TerminationReason.NODE_CLAIM_DELETED, message, report)


def is_deleted(obj: JsonObject) -> bool:
    """Whether the deletion of the object was requested."""
    return bool((obj.get("metadata") or {}).get("deletionTimestamp"))
