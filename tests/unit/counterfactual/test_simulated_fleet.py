"""The fleet of a simulation in each recorded snapshot."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core.counterfactual.simulated_fleet import SimulatedFleet
from core.model.moved_workload import MovedWorkload
from tests.builders import NOW, a_node_of, a_pod, a_snapshot, a_type

TYPE = a_type("m", cpu="4")
LATER = NOW + timedelta(hours=1)


def test_a_snapshot_has_the_simulated_nodes_and_nothing_that_was_recorded_of_the_real_ones() -> None:
    """A nomination or a move of a real node would keep a simulated one of the same name from going."""
    claim, node = a_node_of(TYPE, "n1")
    first = a_snapshot(types=(TYPE,), node_claims=(claim,), nodes=(node,), pods=(a_pod("p", node_name="n1"),))
    fleet = SimulatedFleet(first)
    other_claim, other = a_node_of(TYPE, "n2")
    asked = msgspec.structs.replace(
        first,
        node_claims=(other_claim,),
        nodes=(other,),
        nominated_until={"n1": LATER},
        marked_for_deletion=("n1",),
        paused_pools={"default": LATER},
        moved_workloads={"default/web": MovedWorkload(name="default/web", moving_since=NOW, moved_at=NOW)},
    )
    simulated = fleet.in_snapshot(asked, LATER, karpenter_moves_only=True)
    assert (simulated.node_claims, simulated.nodes) == ((claim,), (node,))
    assert (simulated.nominated_until, simulated.marked_for_deletion, simulated.paused_pools) == ({}, (), {})
    assert (simulated.moved_workloads, simulated.rollouts, simulated.attachments) == ({}, {}, ())
    assert (simulated.now, simulated.options.karpenter_moves_only) == (LATER, True)
