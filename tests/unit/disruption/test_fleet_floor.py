"""A lower bound on the fleet's cost, given wherever a node could go."""

from __future__ import annotations

from typing import Any

import pytest

from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.fleet_floor import fleet_floor
from core.model.node_pool import Budget, Disruption
from core.model.snapshot import FeatureGates, Options
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


REPAIRS = Options(feature_gates=FeatureGates(node_repair=True))
NEVER = Disruption(budgets=(Budget("100%"),), consolidate_after=None)
KEPT = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}


@pytest.mark.parametrize(
    ("pool", "is_drifted", "pod", "options", "price"),
    [
        ({"disruption": OPEN}, False, {}, Options(), 5),
        ({"disruption": NEVER}, False, {}, Options(), 20),
        ({"disruption": NEVER}, False, {}, REPAIRS, 5),
        ({"disruption": NEVER}, True, {}, Options(), 5),
        ({"disruption": NEVER}, True, KEPT, Options(), 20),
        ({"disruption": OPEN}, False, KEPT, REPAIRS, 20),
        ({"disruption": OPEN, "replicas": 1}, True, KEPT, Options(), 20),
        ({"disruption": OPEN, "replicas": 1}, False, KEPT, REPAIRS, -80),
        ({"disruption": OPEN, "replicas": 1}, False, {}, Options(), 20),
    ],
)
def test_only_nodes_that_some_decision_may_end_count_at_less_than_their_price(
    pool: dict[str, Any], is_drifted: bool, pod: dict[str, Any], options: Options, price: int
) -> None:
    """One whole node that stays beside it; of another, its pod alone must run somewhere, at the price of the smallest type."""
    kept = a_node_of(LARGE, "kept")
    node = drifted(a_node_of(MIDDLE, "a")) if is_drifted else a_node_of(MIDDLE, "a")
    pods = (pod_on("a", cpu="1", **pod), pod_on("kept", cpu="16", **KEPT))
    pools = (a_pool("default", ON_DEMAND, **pool),)
    found = fleet_floor(DisruptionPass(world(node, kept, pods=pods, node_pools=pools, options=options)))
    assert 0 <= (80 + price) * 10**7 - found <= 1, "rounded down"
