"""What improving a plan does to a cluster's claims."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.pod import PodAffinityTerm
from core.model.snapshot import BEST_EFFORT, STRICT, Options
from core.model.values.requirements import Requirement
from core.scheduling import schedule
from tests.builders import ZONES, a_pod, a_pool, a_selector, a_type
from tests.unit.scheduling.optimization.clusters import a_cluster, greedy, instance_types, plain_pods

ROOT = Path(__file__).parents[4]


def of_families(types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
    """The same, each with its family as a label."""
    return tuple(
        msgspec.structs.replace(kind, labels={**kind.labels, FAMILY: (kind.name.partition("-")[0],)}) for kind in types
    )


def test_new_nodes_become_cheaper_and_the_gap_is_known() -> None:
    """Greedy buys the wrong mix of CPU and memory, and nobody would know."""
    cluster = a_cluster()
    before, after = greedy(cluster), schedule(cluster)
    assert after.cost.hourly < before.cost.hourly * 0.95
    assert after.cost.lower_bound is not None
    assert after.cost.lower_bound <= after.cost.hourly <= after.cost.lower_bound * 1.08
    assert before.cost.lower_bound is None


def test_nodes_of_a_few_large_pods_are_cheap_too() -> None:
    """GPU and database clusters would pay for the gaps that fractions of pods do not show."""
    sizes = [("21", "60Gi"), ("11", "4Gi"), ("5", "6Gi"), ("3", "10Gi")]  # two and two fill a machine
    large = tuple(a_pod(f"p{i:03}", cpu=sizes[i % 4][0], memory=sizes[i % 4][1]) for i in range(80))
    plan = schedule(a_cluster(steps=80, pods=large))
    assert plan.cost.lower_bound is not None
    assert plan.cost.hourly <= plan.cost.lower_bound * 1.01
    assert plan.cost.hourly < greedy(a_cluster(pods=large)).cost.hourly * 0.95


def test_a_repacked_node_keeps_thirty_types_to_choose_from() -> None:
    """One type out of capacity would hold up the launch; all those named hold the pods at a price near the cheapest."""
    plan = schedule(a_cluster())
    for claim in plan.claims:
        assert len(claim.instance_types) >= 30
        shapes = {tuple(map(int, name.split("-")[1:])) for name in claim.instance_types}
        assert all(cpu * 1000 >= claim.resources["cpu"] for cpu, _ in shapes)
        assert all(gib * 2**30 >= claim.resources["memory"] for _, gib in shapes)


def test_pods_that_mind_their_neighbours_stay_apart() -> None:
    """Moving a pod could put two that must be apart onto one node."""
    apart = PodAffinityTerm(labels.HOSTNAME, a_selector(app="db"))
    guarded = tuple(a_pod(f"db{i}", labels={"app": "db"}, anti_affinity=(apart,)) for i in range(4))
    cluster = a_cluster(pods=guarded)
    assert schedule(cluster).claims == greedy(cluster).claims
    mixed = schedule(a_cluster(pods=(*plain_pods(60), *guarded)))
    homes = [claim.name for claim in mixed.claims for pod in claim.pods if pod.startswith("default/db")]
    assert len(set(homes)) == len(homes) == 4
    assert mixed.cost.hourly < greedy(a_cluster(pods=(*plain_pods(60), *guarded))).cost.hourly


def test_pods_that_ask_for_different_zones_never_share_a_node() -> None:
    """A node is in one zone; the packing knows zones only by price and by who may be there."""
    zones = ("us-east-1a", "us-east-1b")
    asking = tuple(
        msgspec.structs.replace(
            pod, spec=msgspec.structs.replace(pod.spec, node_selector=(Requirement.one_of(labels.ZONE, zones[i % 2]),))
        )
        for i, pod in enumerate(plain_pods(60))
    )
    zone_of = {pod.key: zones[i % 2] for i, pod in enumerate(asking)}
    plan = schedule(a_cluster(pods=asking))
    assert plan.cost.hourly <= greedy(a_cluster(pods=asking)).cost.hourly
    for claim in plan.claims:
        assert {zone_of[pod] for pod in claim.pods} == set(claim.zones)


@pytest.mark.parametrize("limits", [{"cpu": 96000}, {"nodes": 2}, {"memory": 400 * 2**30}])
def test_limits_hold_for_the_repacked_nodes_too(limits: dict[str, int]) -> None:
    """The cheaper fleet would be larger than the NodePool allows."""
    on_demand = Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND)
    cluster = a_cluster(node_pools=(a_pool("default", on_demand, limits=limits),))
    capacity = {t.name: t.capacity for t in instance_types()}
    plan = schedule(cluster)
    assert plan.cost.hourly <= greedy(cluster).cost.hourly
    assert len(plan.claims) <= limits.get("nodes", 99)
    for name in ("cpu", "memory"):
        taken = sum(max(capacity[t][name] for t in claim.instance_types) for claim in plan.claims)
        assert taken <= limits.get(name, taken)


FAMILY = "karpenter.k8s.aws/instance-family"
"""A label of the types in this market, each value at a price of its own."""


@pytest.mark.parametrize("policy", [STRICT, BEST_EFFORT])
@pytest.mark.parametrize(("key", "least"), [(labels.INSTANCE_TYPE, 50), (FAMILY, 12), (FAMILY, 35)])
def test_repacked_claims_leave_the_choice_that_min_values_demand(key: str, least: int, policy: str) -> None:
    """A launch would have fewer kinds of instances to fall back on than the NodePool says, or greedy's price would be paid."""
    kinds = {kind.name: kind for kind in of_families(instance_types())}
    choice = Requirement(key, True, (), None, None, least)
    pool = a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND), choice)
    options = Options(improve_iterations=60, min_values_policy=policy)
    cluster = a_cluster(node_pools=(pool,), types=tuple(kinds.values()), options=options)
    plan = schedule(cluster)
    assert plan.cost.hourly < greedy(cluster).cost.hourly * 0.97
    for claim in plan.claims:
        of_key = (
            claim.instance_types if key != FAMILY else [kinds[name].labels[FAMILY][0] for name in claim.instance_types]
        )
        assert len(set(of_key)) >= least
        assert {requirement.key: requirement.min_values for requirement in claim.requirements}[key] == least
        assert not claim.min_values_relaxed


def test_claims_whose_min_values_were_lowered_stay_as_they_are() -> None:
    """What could not be had for the first pod is not asked for once more, nor lowered further."""
    choice = Requirement(labels.INSTANCE_TYPE, True, (), None, None, 900)
    pool = a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND), choice)
    cluster = a_cluster(node_pools=(pool,), options=Options(improve_iterations=60, min_values_policy=BEST_EFFORT))
    plan = schedule(cluster)
    assert all(claim.min_values_relaxed for claim in plan.claims)
    assert plan.claims == schedule(a_cluster(node_pools=(pool,), options=Options(min_values_policy=BEST_EFFORT))).claims


def test_places_in_reservations_are_kept_and_the_other_nodes_packed_anew() -> None:
    """More claims would count on a reservation than it has places, or a pool with one would pay greedy's price for the rest."""
    first, *others = instance_types()
    place = Offering(first.name, ZONES[0], labels.RESERVED, 0, reservation_id="cr-1", reservation_capacity=2)
    types = (msgspec.structs.replace(first, offerings=(*first.offerings, place)), *others)
    pool = a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND, labels.RESERVED))
    cluster = a_cluster(types=types, node_pools=(pool,))
    before, plan = greedy(cluster), schedule(cluster)
    held = [[claim for claim in one.claims if claim.capacity_types == (labels.RESERVED,)] for one in (before, plan)]
    assert 1 <= len(held[1]) <= 2
    assert [claim.pods for claim in held[0]] == [claim.pods for claim in held[1]]
    assert plan.cost.hourly < before.cost.hourly * 0.97
    assert plan.cost.lower_bound is not None
    assert plan.cost.lower_bound <= plan.cost.hourly


def test_pods_stay_in_the_node_pool_that_comes_first() -> None:
    """A heavier NodePool is a wish about where pods run, whatever the other one costs."""
    spot = a_pool("spot", Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT))
    dear = a_pool("dear", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND), weight=10)
    plan = schedule(a_cluster(node_pools=(spot, dear)))
    assert {claim.node_pool for claim in plan.claims} == {"dear"}
    assert plan.cost.lower_bound is not None
    assert plan.cost.lower_bound < plan.cost.hourly / 2


def test_a_caller_out_of_time_still_gets_a_whole_plan() -> None:
    """A tight deadline would leave pods without a node."""
    cluster = a_cluster(steps=None)
    plan = schedule(cluster, lambda: True)
    assert sum(len(claim.pods) for claim in plan.claims) == 60
    assert plan.cost.hourly <= greedy(cluster).cost.hourly


def test_two_pods_on_a_node_far_too_large_are_worth_the_solver() -> None:
    """One large GPU machine would be launched where two small ones cost a quarter."""
    one, eight = (
        a_type(f"gpu-{n}", cpu=str(4 * n), memory=f"{16 * n}Gi", price=price, extra={"nvidia.com/gpu": str(n)})
        for n, price in ((1, 0.5), (8, 4.0))
    )
    jobs = tuple(a_pod(f"job{i}", cpu="3", memory="12Gi", extra={"nvidia.com/gpu": "1"}) for i in range(2))
    on_demand = Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND)
    pool = a_pool("gpu", on_demand, limits={"nvidia.com/gpu": 8})
    plan = schedule(a_cluster(types=(one, eight), node_pools=(pool,), pods=jobs))
    assert [claim.instance_types for claim in plan.claims] == [("gpu-1",), ("gpu-1",)]


def test_a_handful_of_pods_wakes_no_solver() -> None:
    """Loading numpy and HiGHS takes longer than planning for one pod, and there is next to nothing to save."""
    program = (
        "import sys; from tests.unit.scheduling.optimization.test_optimizer import *\n"
        "for name in [n for n in sys.modules if n.partition('.')[0] in ('numpy', 'highspy')]: sys.modules[name] = None\n"
        "small = tuple(a_pod(f'p{i}', cpu='500m', memory='2Gi') for i in range(3))\n"
        "plan = schedule(a_cluster(pods=small))\n"
        "assert len(plan.claims) == 1 and 0 < plan.cost.lower_bound <= plan.cost.hourly\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)  # noqa: S603 - our own interpreter and program
