"""A lower bound on the fleet's cost, given wherever a node could go."""

from __future__ import annotations

from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.fleet_floor import fleet_floor
from tests.builders import a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, ON_DEMAND, OPEN, SMALL, drifted, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY


def test_no_plan_undercuts_it() -> None:
    nodes = [a_node_of(kind, f"n{n}") for n, kind in enumerate((LARGE, MIDDLE, MIDDLE, SMALL))]
    pods = tuple(pod_on(f"n{n}", cpu="700m") for n in range(4))
    snapshot = world(*nodes, pods=pods, options=WHOLE_WAY)
    assert 0 < fleet_floor(DisruptionPass(snapshot)) <= disrupt(snapshot).cost.after


def test_nodes_that_may_not_go_count_at_their_price() -> None:
    snapshot = world(a_node_of(MIDDLE, "a"), pods=(pod_on("a", annotations={"karpenter.sh/do-not-disrupt": "true"}),))
    assert fleet_floor(DisruptionPass(snapshot)) == 2 * 10**8


def test_replacements_of_a_static_pool_are_not_counted() -> None:
    static = a_pool("default", ON_DEMAND, disruption=OPEN, replicas=1)
    snapshot = world(drifted(a_node_of(MIDDLE, "a")), node_pools=(static,))
    assert fleet_floor(DisruptionPass(snapshot)) == 0
