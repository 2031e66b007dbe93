"""The fleet of a simulation in each recorded snapshot."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core.counterfactual.simulated_fleet import SimulatedFleet
from core.model.moved_workload import EvictedNode, MovedWorkload
from core.model.plan import StoredTarget
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
        evicted_nodes={"n1": EvictedNode(node_pool="default", pods=3, at=NOW)},
        stored_target=StoredTarget(
            made_at=NOW, settings="", drains=(), kept_price=0, drained_price=0, new_price=0, slots=(), new_nodes=()
        ),
    )
    simulated = fleet.in_snapshot(asked, LATER, karpenter_moves_only=True)
    assert (simulated.node_claims, simulated.nodes) == ((claim,), (node,))
    assert (simulated.nominated_until, simulated.marked_for_deletion, simulated.paused_pools) == ({}, (), {})
    assert (simulated.moved_workloads, simulated.rollouts, simulated.attachments) == ({}, {}, ())
    assert (simulated.evicted_nodes, simulated.stored_target) == ({}, None)
    assert (simulated.now, simulated.options.karpenter_moves_only) == (LATER, True)


def test_an_unchanged_pod_in_the_same_place_stays_the_same_object() -> None:
    """What is remembered of a pod is found by its identity."""
    claim, node = a_node_of(TYPE, "n1")
    pods = (a_pod("p", node_name="n1"), a_pod("q"))
    first = a_snapshot(types=(TYPE,), node_claims=(claim,), nodes=(node,), pods=pods)
    fleet = SimulatedFleet(first)
    one = fleet.in_snapshot(first, NOW, karpenter_moves_only=False)
    later = msgspec.structs.replace(
        first, now=LATER, pods=(pods[0], msgspec.structs.replace(pods[1], labels={"a": "b"}))
    )
    fleet.meet(later)
    two = fleet.in_snapshot(later, LATER, karpenter_moves_only=False)
    assert [a is b for a, b in zip(one.pods, two.pods, strict=True)] == [True, False]
    assert [(pod.node_name, pod.phase, pod.is_ready) for pod in two.pods] == [
        ("n1", "Running", True),
        ("", "Pending", None),
    ]
