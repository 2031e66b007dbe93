"""A command applied to the snapshot, so that later commands of the pass are judged in the resulting cluster."""

from __future__ import annotations

from core import labels
from core.disruption.apply_command import carried_out, joined
from core.disruption.decision import disrupt
from core.model.state_node import state_nodes
from core.model.values.taints import Taint, Toleration
from tests.builders import a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import LARGE, ON_DEMAND, OPEN, SMALL, pod_on, world


def test_the_node_is_gone_and_its_pods_run_on_the_replacement() -> None:
    snapshot = world(a_node_of(LARGE), pods=(pod_on("node-1"),))
    (command,) = disrupt(snapshot).commands
    (replacement,) = command.replacements
    after = carried_out(snapshot, command)
    (state,) = state_nodes(after)
    assert (state.name, state.is_initialized) == (replacement.name, True)
    assert [pod.node_name for pod in after.pods] == [replacement.name]
    assert state.labels[labels.INSTANCE_TYPE] == SMALL.name


TAINTS = (Taint("team", "a", "NoSchedule"),)


def test_a_replacement_joins_as_it_was_planned() -> None:
    """Later commands of the pass must not move pods to it that its NodePool keeps out, or take it for another's."""
    pool = a_pool(
        "default", ON_DEMAND, disruption=OPEN, taints=TAINTS, startup_taints=(Taint("boot", "", "NoExecute"),)
    )
    snapshot = world(
        a_node_of(LARGE, taints=TAINTS),
        pods=(pod_on("node-1", tolerations=(Toleration("team", "Exists"),)),),
        node_pools=(pool,),
    )
    (command,) = disrupt(snapshot).commands
    (planned,) = command.replacements
    claim, node = joined(planned, snapshot)
    assert planned.resources
    for field in ("name", "taints", "startup_taints", "requirements", "resources", "node_class"):
        assert getattr(claim, field) == getattr(planned, field), field
    assert (node.taints, node.is_ready, node.created_at) == (TAINTS, True, snapshot.now)
    assert claim.allocatable == node.allocatable == SMALL.allocatable()
    assert claim.provider_id == node.provider_id
    assert claim.labels.items() <= node.labels.items()
