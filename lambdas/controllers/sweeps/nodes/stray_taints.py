"""Nodes that carry the disrupted taint while nobody disrupts them."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from core.model.node import Node
from core.model.taints import DISRUPTED
from lambdas.controllers.cluster_look import ClusterLook
from lambdas.controllers.node_writes import release_node
from lambdas.controllers.sweeps.sweep import EACH_ROUND, Round
from lambdas.observer import Memory
from lambdas.ports import Clock, CloudProvider, Kubernetes


class StrayTaints:
    """Takes the taint off: a command was lost half-way (Karpenter). Node and rows are read anew before that."""

    name: Final = "strayTaints"
    every: timedelta = EACH_ROUND
    is_urgent: Final = True

    def __init__(self, kubernetes: Kubernetes, cloud: CloudProvider, memory: Memory, clock: Clock) -> None:
        self._kubernetes = kubernetes
        self._cloud = cloud
        self._memory = memory
        self._clock = clock

    def run(self, round_: Round) -> None:
        """Free the nodes of ours that carry it without reason."""
        view = round_.view
        ours = {record.node_name: record.name for record in view.claims.values() if record.node_name}
        marked = [node for node in view.snapshot.nodes if DISRUPTED in node.taints and node.name in ours]
        if not marked:
            return
        look = ClusterLook(self._kubernetes, self._cloud, self._clock)
        busy = {claim for command in self._memory.commands.all() for claim in command.command.claims}

        def free(node: Node) -> None:
            seen = look.node(node.name)
            record = self._memory.claims.get(ours[node.name])
            if record is None or record.deletion is not None or record.name in busy:
                return
            if seen is not None and DISRUPTED in seen.node.taints:
                release_node(self._kubernetes, seen)
                round_.outcome.decide("abandon", node.name, "StrayTaint", "no command is disrupting this node")

        round_.each(marked, free, subject=lambda node: node.name)
