"""Nodes that will leave soon take no moved pods."""

from __future__ import annotations

from datetime import timedelta

from core.disruption.disruption_pass import DisruptionPass
from core.disruption.leaving_nodes import leaving_later, short_lived
from core.model.feature_gates import FeatureGates
from core.model.node_pool import Budget, Disruption
from core.model.overlay import CapacityBuffer
from core.model.snapshot import Options
from tests.builders import a_node_of, a_pod, a_pool
from tests.unit.disruption.nodes_for_tests import ON_DEMAND, OPEN, SMALL, drifted, expiring, pod_on, world


def test_a_target_moves_no_pods_to_nodes_that_go_themselves() -> None:
    """Those that have drifted, expire soon, or are empty and may go; not one that no budget lets go, or that waits."""
    closed = Disruption(budgets=(Budget("0", reasons=("Empty",)), Budget("100%")))
    waiting = Disruption(budgets=(Budget("100%"),), consolidate_after=timedelta(hours=3))
    pools = (
        a_pool("default", ON_DEMAND, disruption=OPEN),
        a_pool("closed", ON_DEMAND, disruption=closed),
        a_pool("waiting", ON_DEMAND, disruption=waiting),
        a_pool("static", ON_DEMAND, disruption=OPEN, replicas=1),
    )
    nodes = [a_node_of(SMALL, f"empty-{pool.name}", pool=pool.name) for pool in pools]
    nodes += [drifted(a_node_of(SMALL, "drifted")), expiring(a_node_of(SMALL, "expiring")), a_node_of(SMALL, "full")]
    pods = tuple(pod_on(name) for name in ("drifted", "expiring", "full"))
    this_pass = DisruptionPass(world(*nodes, pods=pods, node_pools=pools))
    assert short_lived(this_pass) == {"drifted", "expiring"}
    assert leaving_later(this_pass) == {"drifted", "expiring", "empty-default"}


def test_an_empty_node_whose_room_a_buffer_uses_takes_pods() -> None:
    """It does not go: a target that expected it to was planned again in each pass."""
    spare = CapacityBuffer(namespace="shop", name="spare", pods=1, spec=a_pod("x", cpu="400m", memory="64Mi").spec)
    options = Options(feature_gates=FeatureGates(capacity_buffer=True))
    this_pass = DisruptionPass(world(a_node_of(SMALL), buffers=(spare,), options=options))
    assert leaving_later(this_pass) == frozenset()
