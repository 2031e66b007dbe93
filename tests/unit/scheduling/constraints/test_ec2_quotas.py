"""Plans under quotas that fall short."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.model.catalogue import Offering
from core.model.plan import Plan
from core.model.values import quantity
from core.model.values.requirements import Requirement
from core.model.values.vcpu_quotas import STANDARD, quota_of
from core.reasons.pod import PodReason
from core.scheduling.constraints.ec2_quotas import Ec2Quotas
from core.scheduling.greedy.queue import queue_of
from core.scheduling.greedy.scheduler import GreedyScheduler
from core.scheduling.planner import Planner
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of, plan_of, reasons_of

BOTH = (labels.ON_DEMAND, labels.SPOT)
SIZES = (2, 4, 8, 16, 32, 64)
TYPES = tuple(a_type(f"m5.{n}", cpu=str(n), memory=f"{4 * n}Gi", pods="110", price=0.05 * n) for n in SIZES)
VCPUS = dict(zip((found.name for found in TYPES), SIZES, strict=True))


def _taken(plan: Plan, capacity_type: str) -> int:
    """The vCPUs that the claims of a plan may turn out to have of the standard quota: each its largest type."""
    return sum(
        max(VCPUS[name] for name in claim.instance_types)
        for claim in plan.claims
        if capacity_type == (labels.SPOT if labels.SPOT in claim.capacity_types else labels.ON_DEMAND)
    )


@pytest.mark.parametrize("quota", [0, 1, 3, 7, 20, 31, 48, 200])
def test_no_plan_may_exceed_a_quota(quota: int) -> None:
    """And no more than one node's worth of it is left while pods wait."""
    pods = tuple(a_pod(f"p{n:02}", cpu="900m") for n in range(60))
    on_demand = a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND))
    plan = plan_of(types=TYPES, pods=pods, node_pools=(on_demand,), vcpu_quotas={STANDARD.on_demand: quota})
    taken = _taken(plan, labels.ON_DEMAND)
    assert taken <= quota
    if plan.unschedulable:
        assert quota - taken < min(VCPUS.values())
        assert set(reasons_of(plan).values()) == {PodReason.QUOTA_REACHED}


def test_only_a_plan_that_would_exceed_a_quota_is_made_with_the_constraint() -> None:
    """It charges each claim its largest type, which costs every plan that is far from its quotas."""
    world = {"types": TYPES, "pods": (a_pod(cpu="7"),), "vcpu_quotas": {STANDARD.on_demand: 5, STANDARD.spot: 5}}
    context = context_of(**world)
    assert Ec2Quotas not in context.constraints
    queue = queue_of(context, [(context.pending, False)])
    claims = GreedyScheduler(context, queue, frozenset(), frozenset()).run().claims
    other = context.for_another_plan(claims)
    assert other is not None
    assert Ec2Quotas in other.constraints
    assert other.for_another_plan(claims) is None, "its plan keeps to them already"


@pytest.mark.parametrize(
    ("quota", "sizes"), [(6, [2, 2, 2]), (7, [2, 2, 2]), (5, [2, 2]), (4, [2, 2]), (200, [64, 64, 64])]
)
def test_claims_are_made_smaller_until_all_have_room_in_the_quota(quota: int, sizes: list[int]) -> None:
    """A node for each zone: the first claim's choice of larger types must not keep the last pod out."""
    pods = tuple(
        a_pod(f"p{n}", cpu="1500m", node_selector=(Requirement.one_of(labels.ZONE, zone),))
        for n, zone in enumerate(ZONES)
    )
    on_demand = a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND))
    plan = plan_of(types=TYPES, pods=pods, node_pools=(on_demand,), vcpu_quotas={STANDARD.on_demand: quota})
    assert sorted(max(VCPUS[name] for name in claim.instance_types) for claim in plan.claims) == sizes
    assert len(reasons_of(plan)) == 3 - len(sizes)


def test_the_reason_names_the_quota_and_what_is_missing() -> None:
    """A person raises it by its code."""
    on_demand = a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND))
    plan = plan_of(types=TYPES, pods=(a_pod(cpu="7"),), node_pools=(on_demand,), vcpu_quotas={STANDARD.on_demand: 5})
    (entry,) = plan.unschedulable
    assert entry.reason == PodReason.QUOTA_REACHED
    wanted = "quota L-1216C47A, Standard on-demand, leaves 5 vCPUs and the smallest suitable instance type has 8"
    assert wanted in entry.message


def test_on_demand_capacity_takes_over_where_the_spot_quota_is_spent() -> None:
    """It costs more, but the pods run; the other way round where that is cheaper anyway."""
    pods = tuple(a_pod(f"p{n}", cpu="7") for n in range(3))
    plan = plan_of(types=TYPES, pods=pods, vcpu_quotas={STANDARD.spot: 8, STANDARD.on_demand: 100})
    assert not plan.unschedulable
    assert _taken(plan, labels.SPOT) == 8
    assert 16 <= _taken(plan, labels.ON_DEMAND) <= 100


def test_another_family_takes_over_where_the_pool_admits_it() -> None:
    """Its quota is another one."""
    expensive = a_type("x2.2xlarge", cpu="8", memory="64Gi", price=2)
    plan = plan_of(
        types=(*TYPES, expensive), pods=(a_pod(cpu="7"),), vcpu_quotas={STANDARD.spot: 4, STANDARD.on_demand: 4}
    )
    (claim,) = plan.claims
    assert claim.instance_types == ("x2.2xlarge",)


def test_nodes_that_run_use_it_up() -> None:
    """Also nodes that a plan removes: they go only after their replacements came."""
    node, claim = a_node_of(TYPES[3])[1], a_node_of(TYPES[3])[0]
    snapshot = a_snapshot(
        types=TYPES, nodes=(node,), node_claims=(claim,), pods=(a_pod("bound", cpu="2", node_name=node.name),),
        node_pools=(a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND)),),
        vcpu_quotas={STANDARD.on_demand: 9},
    )  # fmt: skip
    results = Planner(snapshot).what_if([node.name], consolidation=True)
    assert reasons_of(results.plan) == {"bound": PodReason.QUOTA_REACHED}


def test_a_reservation_needs_no_quota() -> None:
    """It was charged when it was made."""
    reserved = Offering("m5.8", ZONES[0], labels.RESERVED, 0, reservation_id="cr-1", reservation_capacity=1)
    eight = msgspec.structs.replace(TYPES[2], offerings=(*TYPES[2].offerings, reserved))
    types = tuple(eight if found.name == eight.name else found for found in TYPES)
    pods = tuple(a_pod(f"p{n}", cpu="7") for n in range(2))
    plan = plan_of(types=types, pods=pods, vcpu_quotas={STANDARD.spot: 0, STANDARD.on_demand: 0})
    assert [claim.capacity_types for claim in plan.claims] == [(labels.RESERVED,)]
    assert len(plan.unschedulable) == 1


def test_min_values_are_kept_or_the_pod_waits() -> None:
    """Smaller types alone would not be what the NodePool demands."""
    wants = a_pool("default", Requirement(labels.INSTANCE_TYPE, True, (), min_values=3))
    pods = (a_pod(cpu="3"),)
    kept = plan_of(types=TYPES, pods=pods, node_pools=(wants,), vcpu_quotas={STANDARD.spot: 16})
    assert [len(claim.instance_types) for claim in kept.claims] == [3]
    short = plan_of(types=TYPES, pods=pods, node_pools=(wants,), vcpu_quotas={STANDARD.spot: 8, STANDARD.on_demand: 8})
    assert not short.claims


def test_every_type_has_a_quota_code_in_this_test() -> None:
    """The sums above count what the planner counts."""
    assert {quota_of(found.name) for found in TYPES} == {STANDARD}
    assert all(found.capacity[quantity.CPU] == 1000 * VCPUS[found.name] for found in TYPES)
