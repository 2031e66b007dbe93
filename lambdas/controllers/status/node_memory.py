"""Finds how much memory the registered nodes of an EC2NodeClass have."""

from __future__ import annotations

from collections.abc import Iterator

from adapters.observation.cluster_state import ClusterState
from core import labels
from core.catalogue.discovered.node_memory import SeenMemory
from core.model.values import quantity


def seen_memory(node_class: str, view: ClusterState) -> Iterator[SeenMemory]:
    """Yield the memory of each registered node of the class.

    A node whose stopped instance was changed to another type is ignored: its memory is not that of the launched type.
    """
    nodes = {node.provider_id: node for node in view.snapshot.nodes if node.provider_id}
    for claim in view.claims.values():
        machine = claim.machine
        if machine is None or not claim.is_registered or claim.plan.node_class.name != node_class:
            continue
        node, launched = nodes.get(machine.provider_id), machine.offering.instance_type
        if node is not None and node.labels.get(labels.INSTANCE_TYPE, launched) == launched:
            yield SeenMemory(launched, machine.image_id, node.capacity.get(quantity.MEMORY, 0))
