"""A command applied to the snapshot, so that later commands of the pass are judged in the resulting cluster."""

from __future__ import annotations

from core import labels
from core.disruption.apply_command import carried_out
from core.disruption.decision import disrupt
from core.model.state_node import state_nodes
from tests.builders import a_node_of
from tests.unit.disruption.nodes_for_tests import LARGE, SMALL, pod_on, world


def test_the_node_is_gone_and_its_pods_run_on_the_replacement() -> None:
    snapshot = world(a_node_of(LARGE), pods=(pod_on("node-1"),))
    (command,) = disrupt(snapshot).commands
    (replacement,) = command.replacements
    after = carried_out(snapshot, command)
    (state,) = state_nodes(after)
    assert (state.name, state.is_initialized) == (replacement.name, True)
    assert [pod.node_name for pod in after.pods] == [replacement.name]
    assert state.labels[labels.INSTANCE_TYPE] == SMALL.name
