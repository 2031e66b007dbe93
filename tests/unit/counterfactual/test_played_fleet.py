"""The fleet of a play in each recorded snapshot."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core.counterfactual.played_fleet import PlayedFleet
from core.model.moved_workload import MovedWorkload
from tests.builders import NOW, a_node_of, a_pod, a_snapshot, a_type

TYPE = a_type("m", cpu="4")
LATER = NOW + timedelta(hours=1)


def test_a_snapshot_has_the_played_nodes_and_nothing_that_was_recorded_of_the_real_ones() -> None:
    """A nomination or a move of a real node would keep a played one of the same name from going."""
    claim, node = a_node_of(TYPE, "n1")
    first = a_snapshot(types=(TYPE,), node_claims=(claim,), nodes=(node,), pods=(a_pod("p", node_name="n1"),))
    fleet = PlayedFleet(first)
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
    played = fleet.in_snapshot(asked, LATER, karpenter_moves_only=True)
    assert (played.node_claims, played.nodes) == ((claim,), (node,))
    assert (played.nominated_until, played.marked_for_deletion, played.paused_pools) == ({}, (), {})
    assert (played.moved_workloads, played.rollouts, played.attachments) == ({}, {}, ())
    assert (played.now, played.options.karpenter_moves_only) == (LATER, True)
