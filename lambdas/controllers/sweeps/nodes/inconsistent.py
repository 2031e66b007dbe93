"""Finds nodes that are smaller than planned."""

from __future__ import annotations

from adapters.messages import work_on_claim
from adapters.ports import Queue
from core.lifecycle.claims import inconsistency
from core.lifecycle.consistency import shortfall
from installation.metric_names import INCONSISTENT_NODES
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class InconsistentNodes(Sweep):
    """Counts them, and requests a report of new ones from `execute`; they stay until a person decides."""

    name = "inconsistentNodes"

    def __init__(self, work: Queue) -> None:
        self._work = work

    def run(self, round_: ReconcileRound) -> None:
        """Compare the nodes of settled claims."""
        view = round_.view
        nodes = {node.name: node for node in view.snapshot.nodes}
        settled = [(r, nodes[r.node_name]) for r in view.claims.values() if r.is_settled and r.node_name in nodes]
        small = [(record, node) for record, node in settled if shortfall(record, node)]
        round_.report.count(INCONSISTENT_NODES, len(small))
        now = round_.clock.now()
        self._work.send(work_on_claim(record.name, now) for record, node in small if inconsistency(record, node))
