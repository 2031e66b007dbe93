"""Which NodePools waiting pods could use, and that the others' new nodes are still made cheaper."""

from __future__ import annotations

import pytest

from core import labels
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint, Toleration
from core.scheduling import schedule
from core.scheduling.optimization.template_demand import templates_in_demand
from tests.builders import a_pod, a_pool
from tests.unit.scheduling.optimization.clusters import ON_DEMAND, a_cluster, greedily_solved, greedy, plain_pods

TAINT = Taint("team", "NoSchedule", "a")
KEPT = (Toleration("team", "Exists"),)
LIMITED = a_pool("default", ON_DEMAND, taints=(TAINT,), limits={"cpu": 400_000})


def a_limited_cluster(*waiting: Pod) -> Snapshot:
    """Sixty pods that a tainted NodePool with limits launches nodes for, and these."""
    return a_cluster(node_pools=(LIMITED,), pods=(*plain_pods(60, tolerations=KEPT), *waiting))


@pytest.mark.parametrize(
    ("waiting", "in_demand"),
    [
        (a_pod("w"), False),
        (a_pod("w", cpu="4000", tolerations=KEPT), False),
        (a_pod("w", tolerations=KEPT, node_selector=(Requirement.one_of(labels.ZONE, "elsewhere"),)), False),
        (a_pod("w", tolerations=KEPT), True),
    ],
    ids=["not tolerated", "too large", "another zone", "over the limits"],
)
def test_a_pod_demands_what_could_launch_a_node_for_it(waiting: Pod, in_demand: bool) -> None:
    """Taints, requirements and size decide; limits and other pods do not, for repacking changes what they leave."""
    pool = a_pool("default", ON_DEMAND, taints=(TAINT,), limits={"cpu": 1_000})
    context, solution = greedily_solved(a_cluster(node_pools=(pool,), pods=(waiting,)))
    assert [group.pods for group in solution.unplaced] == [[waiting]]
    assert templates_in_demand(context, solution.unplaced) == (frozenset({0}) if in_demand else frozenset())


def test_a_pod_that_can_never_run_keeps_no_other_plan_from_getting_cheaper() -> None:
    """One pod without the toleration kept every NodePool with limits at the price of the greedy plan."""
    alone, beside = a_limited_cluster(), a_limited_cluster(a_pod("w"))
    cheaper = schedule(beside)
    assert [found.pod for found in cheaper.unschedulable] == ["default/w"]
    assert cheaper.cost.hourly < greedy(beside).cost.hourly
    assert cheaper.cost.hourly == schedule(alone).cost.hourly


def test_claims_that_a_waiting_pod_could_use_stay_as_they_are() -> None:
    """The greedy plan decides by its order which pods get the last room of a limit."""
    pool = a_pool("default", ON_DEMAND, limits={"cpu": 60_000})
    snapshot = a_cluster(node_pools=(pool,), pods=plain_pods(120))
    plan = schedule(snapshot)
    assert plan.unschedulable
    assert plan.claims == greedy(snapshot).claims
