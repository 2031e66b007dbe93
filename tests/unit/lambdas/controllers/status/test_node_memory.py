"""What registered nodes of a class show of their types' memory."""

from __future__ import annotations

import msgspec

from core import labels
from core.manifests.wire import api_resources as kinds
from core.model.values import quantity
from lambdas.controllers.status.node_memory import seen_memory
from tests.fakes.lab import Lab, a_pending_pod


def test_each_registered_node_of_the_launched_type_shows_its_memory() -> None:
    """A claim that has no node yet hides none of the others."""
    lab = Lab()
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", cpu="3") for n in range(2)))
    lab.settle()
    first, second = lab.kubernetes.names(kinds.NODES)
    lab.kubernetes.put(a_pending_pod("late", cpu="3"))
    lab.provision()
    view = lab.app.shared.observer.observe()
    assert len(view.claims) == 3
    memory = {node.name: node.capacity[quantity.MEMORY] for node in view.snapshot.nodes}
    for claims in (view.claims, dict(reversed(view.claims.items()))):
        seen = seen_memory("default", msgspec.structs.replace(view, claims=claims))
        assert {(one.instance_type, one.memory) for one in seen} == {("m5.xlarge", memory[n]) for n in (first, second)}
    assert list(seen_memory("other", view)) == []
    lab.kubernetes.amend(kinds.NODES, first, {"metadata": {"labels": {labels.INSTANCE_TYPE: "m5.large"}}})
    assert len(list(seen_memory("default", lab.app.shared.observer.observe()))) == 1
