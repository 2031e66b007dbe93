"""Existing nodes as every plan begins with them."""

from __future__ import annotations

import msgspec

from core import labels
from core.model.node_claim import INITIALIZED
from tests.builders import a_node_of, a_pod, a_type
from tests.unit.scheduling.reading import context_of, places, plan_of

TYPE = a_type("m")


def test_initialized_nodes_are_tried_before_nodes_that_boot() -> None:
    """Otherwise, a pod that could run at once waits for a node whose name comes first."""
    claim, node = a_node_of(TYPE, "a")
    boots = msgspec.structs.replace(node, labels={k: v for k, v in node.labels.items() if k != labels.INITIALIZED})
    waits = msgspec.structs.replace(claim, conditions={k: v for k, v in claim.conditions.items() if k != INITIALIZED})
    ready_claim, ready = a_node_of(TYPE, "b")
    world = {"nodes": (boots, ready), "node_claims": (waits, ready_claim), "pods": (a_pod("p"),)}
    assert [found.name for found in context_of(types=(TYPE,), **world).existing_nodes] == ["b", "a"]
    assert places(plan_of(types=(TYPE,), **world)) == {"p": "b"}
