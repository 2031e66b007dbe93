"""The proven minimum holds for any fleet, whatever protects the nodes of the recorded one."""

from __future__ import annotations

from core import labels
from core.counterfactual.fleet_minimum import fleet_minimum
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type

SMALL = a_type("m5.large", cpu="4", memory="16Gi", price=0.1, capacity_types=("on-demand",))
LARGE = a_type("m5.4xlarge", cpu="16", memory="64Gi", price=0.4, capacity_types=("on-demand",))


def test_a_protected_node_that_is_too_large_does_not_raise_it() -> None:
    claim, node = a_node_of(LARGE, "large")
    protected = a_pod("p", cpu="2", node_name="large", phase="Running", annotations={labels.DO_NOT_DISRUPT: "true"})
    snapshot = a_snapshot(
        types=(SMALL, LARGE), node_pools=(a_pool(),), node_claims=(claim,), nodes=(node,), pods=(protected,)
    )
    minimum = fleet_minimum(snapshot)
    assert minimum is not None
    assert 0 < minimum <= 100_000_000


def test_what_runs_on_nodes_of_others_costs_nothing() -> None:
    _, node = a_node_of(LARGE, "theirs")
    pod = a_pod("p", cpu="2", node_name="theirs", phase="Running")
    snapshot = a_snapshot(types=(SMALL,), node_pools=(a_pool(),), nodes=(node,), pods=(pod,))
    assert not fleet_minimum(snapshot)


def test_pods_that_wait_cost_the_recorded_fleet_nothing() -> None:
    """`of $0.0098 any fleet must spend $0.0171` was said of minutes in which pods waited for the first nodes."""
    claim, node = a_node_of(SMALL, "small")
    runs = a_pod("runs", cpu="2", node_name="small", phase="Running")
    snapshot = a_snapshot(
        types=(SMALL, LARGE),
        node_pools=(a_pool(),),
        node_claims=(claim,),
        nodes=(node,),
        pods=(runs, a_pod("waits", cpu="12")),
    )
    minimum = fleet_minimum(snapshot)
    assert minimum is not None
    assert 0 < minimum <= 100_000_000
