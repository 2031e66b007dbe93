"""Static NodePools: removes surplus nodes, and requests missing ones from `provision`."""

from __future__ import annotations

from collections import Counter
from typing import Final

from adapters.messages import wake_up
from adapters.ports import Queue
from adapters.store import ClaimStore
from core.disruption.static_capacity.replicas import lacks_nodes, surplus
from core.model.node_claim import NodeClaim
from core.reasons.termination import TerminationReason
from lambdas.controllers.sweeps.claim_terminator import ClaimTerminator
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep

WAKE_UP: Final = "static capacity"


class StaticCapacity(Sweep):
    """Brings static NodePools to their `replicas`, regardless of budgets: the number is the user's (Karpenter)."""

    name = "staticCapacity"

    def __init__(self, claims: ClaimStore, terminator: ClaimTerminator, wake_ups: Queue) -> None:
        self._claims = claims
        self._terminator = terminator
        self._wake_ups = wake_ups

    def run(self, round_: ReconcileRound) -> None:
        """Request missing nodes, and remove surplus ones according to the current rows."""
        snapshot = round_.view.snapshot
        if lacks_nodes(snapshot):
            self._wake_ups.send([wake_up(WAKE_UP)])
        found = surplus(snapshot)
        if not found:
            return
        staying = {claim.name for claim in self._claims.all() if claim.deletion is None}
        gone = Counter(
            claim.node_pool
            for claim in snapshot.node_claims
            if claim.deleted_at is None and claim.name not in staying | set(snapshot.marked_for_deletion)
        )
        wanted = {pool.name: pool.replicas for pool in snapshot.node_pools}
        going: list[NodeClaim] = []
        for claim in reversed(found):  # if others are gone since the observation, the most useful of these stay
            if gone[claim.node_pool] > 0:
                gone[claim.node_pool] -= 1
            else:
                going.append(claim)

        def terminate(claim: NodeClaim) -> None:
            message = f"NodePool {claim.node_pool} wants {wanted[claim.node_pool]} nodes"
            self._terminator.begin(claim.name, TerminationReason.SCALED_DOWN, message, round_.report)

        round_.each(list(reversed(going)), terminate, subject=lambda claim: claim.name)
