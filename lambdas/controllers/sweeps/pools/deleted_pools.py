"""Removes claims whose NodePool is gone."""

from __future__ import annotations

from adapters.ports import Kubernetes, NotFoundError
from core.lifecycle.records import ClaimRecord
from core.manifests.wire import api_resources as kinds
from core.reasons.termination import TerminationReason
from lambdas.controllers.sweeps.claim_terminator import ClaimTerminator
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class DeletedPools(Sweep):
    """Removes nodes with their NodePool (for Karpenter, Kubernetes' garbage collection does).

    A hand-made NodeClaim may name a NodePool that never existed; it belongs to its creator (Karpenter).
    """

    name = "deletedPools"

    def __init__(self, kubernetes: Kubernetes, terminator: ClaimTerminator) -> None:
        self._kubernetes = kubernetes
        self._terminator = terminator

    def run(self, round_: ReconcileRound) -> None:
        """Remove the claims of each pool that is certainly gone."""
        view = round_.view
        present = {pool.name for pool in view.snapshot.node_pools if pool.deleted_at is None}
        of_pools = (record for record in view.claims.values() if not record.plan.made_by_hand)
        gone = sorted({record.plan.node_pool for record in of_pools} - present)
        round_.each(gone, lambda pool: self._terminate_claims_of(pool, round_), subject=lambda pool: f"NodePool {pool}")

    def _terminate_claims_of(self, pool: str, round_: ReconcileRound) -> None:
        if self._exists(pool):
            return
        of_pool = (r for r in round_.view.claims.values() if r.plan.node_pool == pool and r.deletion is None)
        claims = [record for record in of_pool if not record.plan.made_by_hand]

        def terminate(record: ClaimRecord) -> None:
            self._terminator.begin(
                record.name, TerminationReason.NODE_POOL_DELETED, f"NodePool {pool} is gone", round_.report
            )

        round_.each(claims, terminate, subject=lambda record: record.name)

    def _exists(self, name: str) -> bool:
        """Whether the NodePool exists, read by name: a list may be stale, and all nodes of the pool would be removed."""
        try:
            found = self._kubernetes.get(kinds.NODE_POOLS, name)
        except NotFoundError:
            return False
        return not (found.get("metadata") or {}).get("deletionTimestamp")
