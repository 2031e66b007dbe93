"""Finds nodes with the disrupted taint although nothing disrupts them."""

from __future__ import annotations

from adapters.messages import work_on_claim
from adapters.observation.stores import Stores
from adapters.ports import CloudProvider, Kubernetes, Queue
from core.lifecycle.draining.deletion import staying, untainted
from core.lifecycle.draining.disruption_taint import must_leave_for
from core.lifecycle.records import ClaimRecord
from core.model.node import Node
from core.model.values.taints import DISRUPTED
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from lambdas.controllers.nodes.node_patches import release_node
from lambdas.controllers.nodes.node_state_reader import NodeStateReader
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class StaleTaints(Sweep):
    """Removes the taint that an interrupted command left (Karpenter). Node and rows are read again before.

    A claim in a restored table may lack its removal. A node that is marked with a mandatory reason keeps the taint, and
    `execute` resumes the removal. A node whose instance is ending keeps it too, until it is not ready.
    """

    name = "strayTaints"
    is_urgent = True

    def __init__(self, kubernetes: Kubernetes, cloud: CloudProvider, stores: Stores, work: Queue) -> None:
        self._kubernetes = kubernetes
        self._cloud = cloud
        self._stores = stores
        self._work = work

    def run(self, round_: ReconcileRound) -> None:
        """Untaint our nodes that have it without reason."""
        view = round_.view
        kept = (record for record in view.claims.values() if record.deletion is None)
        ours = {record.node_name: record.name for record in kept if record.node_name}
        marked = [
            node
            for node in view.snapshot.nodes
            if node.name in ours and (DISRUPTED in node.taints or _is_half_undone(view.claims[ours[node.name]]))
        ]
        if not marked:
            return
        reader = NodeStateReader(self._kubernetes, self._cloud, round_.clock)
        ids = sorted(view.claims[ours[node.name]].instance_id for node in marked)
        running = {found.instance_id for found in self._cloud.instances(ids) if found.is_alive}

        def free(node: Node) -> None:
            seen = reader.node(node.name)
            record = self._stores.claims.get(ours[node.name])
            if record is None or record.deletion is not None or self._is_in_command(record.name):
                return
            if record.instance_id not in running:
                return
            if seen is not None and must_leave_for(seen.node):
                self._work.send([work_on_claim(record.name, round_.clock.now())])
                return
            current = untainted(record)
            if current is not record:
                current = self._stores.claims.change(record, current)
            if seen is not None and DISRUPTED in seen.node.taints:
                release_node(self._kubernetes, seen)
                round_.report.decide(
                    DecisionKind.ABANDON, node.name, ClaimReason.STRAY_TAINT, "no command is disrupting this node"
                )
            if current.is_disrupting:
                self._stores.claims.change(current, staying(current))

        round_.each(marked, free, subject=lambda node: node.name)

    def _is_in_command(self, claim: str) -> bool:
        """Whether a started command names the claim.

        Checked after the claim was read: a command starts in one transaction with its claims.
        """
        return any(claim in command.command.claims for command in self._stores.commands.all())


def _is_half_undone(record: ClaimRecord) -> bool:
    """Whether it stays but still counts as leaving: the run that abandoned its command crashed before the end."""
    return record.is_settled and (record.is_disrupting or not record.reserved)
