"""Finds nodes that joined but do not become ready for pods."""

from __future__ import annotations

from core.lifecycle.claims import INITIALIZATION_TIMEOUT, is_late_to_initialize
from core.lifecycle.registration import waits_for
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class UninitializedNodes(Sweep):
    """Reports them. `execute` removes those without pods; the others are kept for the pods that run on them."""

    name = "lateNodes"

    def run(self, round_: ReconcileRound) -> None:
        """Report for each node what it waits for."""
        view = round_.view
        late = [record for record in view.claims.values() if is_late_to_initialize(record, view.snapshot.now)]
        nodes = {node.name: node for node in view.snapshot.nodes}
        for record in late:
            missing = waits_for(record, nodes[record.node_name]) if record.node_name in nodes else "its node is gone"
            message = f"not ready for pods {INITIALIZATION_TIMEOUT} after it joined: {missing}"
            round_.report.decide(DecisionKind.SKIP, record.node_name, ClaimReason.INITIALIZATION_TIMEOUT, message)
        round_.report.count("lateNodes", len(late))
