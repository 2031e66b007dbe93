"""New nodes are made cheaper under quotas that fall short, too, but for those of a quota that refused pods a node."""

from __future__ import annotations

import pytest

from core import labels
from core.model.plan import Plan
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from core.model.values.vcpu_quotas import BY_NAME, quota_of
from core.scheduling import schedule
from tests.builders import a_pod, a_pool, a_type
from tests.unit.scheduling.optimization.clusters import ON_DEMAND, a_cluster, greedy, instance_types, plain_pods

GENERAL, SHORT = BY_NAME["F"].on_demand, BY_NAME["G and VT"].on_demand
LARGE = a_type("g5.4xlarge", cpu="16", memory="64Gi", pods="110", price=1.6)
GPU_POOL = a_pool("gpu", ON_DEMAND, Requirement.one_of(labels.INSTANCE_TYPE, LARGE.name))
GENERAL_POOL = a_pool("default", ON_DEMAND, Requirement(labels.INSTANCE_TYPE, True, (LARGE.name,)))
VCPUS = {found.name: found.capacity["cpu"] // 1000 for found in (*instance_types(), LARGE)}


def a_short_cluster(*, general: int = 10_000) -> Snapshot:
    """Sixty pods for general nodes under one quota, and two for nodes of a family whose quota has room for one."""
    wanted = (Requirement.one_of(labels.NODEPOOL, "gpu"),)
    large = tuple(a_pod(f"large-{n}", cpu="9", node_selector=wanted) for n in range(2))
    general_only = (Requirement.one_of(labels.NODEPOOL, "default"),)
    return a_cluster(
        types=(*instance_types(), LARGE),
        node_pools=(GENERAL_POOL, GPU_POOL),
        pods=(*plain_pods(60, node_selector=general_only), *large),
        vcpu_quotas={SHORT: 16, GENERAL: general},
    )


def taken(plan: Plan, code: str) -> int:
    """What the claims may turn out to take of a quota, each at its largest type."""
    return sum(
        max((VCPUS[name] for name in claim.instance_types if quota_of(name).on_demand == code), default=0)
        for claim in plan.claims
    )


def test_a_short_quota_of_one_family_keeps_no_other_nodes_from_getting_cheaper() -> None:
    """One GPU pod too many kept the nodes of every NodePool at the price of the greedy plan."""
    snapshot = a_short_cluster()
    plan, before = schedule(snapshot), greedy(snapshot)
    assert len(plan.unschedulable) == 1
    assert plan.cost.hourly < before.cost.hourly
    assert [c for c in plan.claims if c.node_pool == "gpu"] == [c for c in before.claims if c.node_pool == "gpu"]


@pytest.mark.parametrize("general", range(40, 140, 10))
def test_cheaper_nodes_are_charged_what_they_may_turn_out_to_take(general: int) -> None:
    """Under each quota: it refuses pods, or their nodes get cheaper within it."""
    snapshot = a_short_cluster(general=general)
    plan, before = schedule(snapshot), greedy(snapshot)
    assert taken(plan, GENERAL) <= general
    assert taken(plan, SHORT) <= 16
    assert plan.cost.hourly <= before.cost.hourly
    assert len(plan.unschedulable) == len(before.unschedulable)


def test_claims_of_a_quota_that_refused_pods_stay_as_they_are() -> None:
    """The greedy plan decides by its order which pods get the last room of a quota."""
    snapshot = a_short_cluster(general=24)
    plan = schedule(snapshot)
    assert len(plan.unschedulable) > 1
    assert plan.claims == greedy(snapshot).claims
