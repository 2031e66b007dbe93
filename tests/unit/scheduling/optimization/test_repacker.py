"""What repacking does to pods, with and without topology rules."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from core import labels
from core.model.catalogue import Offering
from core.model.plan import Plan
from core.model.pod import (
    SCHEDULE_ANYWAY,
    HostPort,
    Pod,
    PodAffinityTerm,
    TopologySpread,
    VolumeUse,
    WeightedPodAffinityTerm,
)
from core.model.snapshot import BEST_EFFORT, Options, Snapshot
from core.model.storage import WAIT_FOR_FIRST_CONSUMER, StorageClass
from core.model.values.requirements import Requirement
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import DEFAULT_SETTINGS
from core.scheduling import schedule
from core.scheduling.greedy.solution import Solution
from core.scheduling.optimization import repacker
from core.scheduling.optimization.repacker import Repacker
from tests.builders import ZONES, a_pod, a_pool, a_selector, a_snapshot
from tests.unit.scheduling.optimization.clusters import (
    ON_DEMAND,
    a_cluster,
    greedily_solved,
    greedy,
    instance_types,
    plain_pods,
)

OWN = a_selector(app="own")
SPREAD_ZONES = TopologySpread(labels.ZONE, 1, selector=OWN)
SPREAD_HOSTS = TopologySpread(labels.HOSTNAME, 2, selector=OWN)
PREFER_HOSTS = TopologySpread(labels.HOSTNAME, 1, SCHEDULE_ANYWAY, OWN)
APART = PodAffinityTerm(labels.HOSTNAME, OWN)
ONE_ZONE = PodAffinityTerm(labels.ZONE, OWN)
GP3 = StorageClass(name="gp3", provisioner="ebs.csi.aws.com", binding_mode=WAIT_FOR_FIRST_CONSUMER)
SCRATCH = VolumeUse("", ephemeral="scratch", storage_class="gp3")


def ruled(count: int, **rules: Any) -> tuple[Pod, ...]:
    """Pods of one service, most of them with much memory."""
    return tuple(
        a_pod(f"own{i:02}", cpu="700m", memory="6Gi" if i % 3 else "1Gi", labels={"app": "own"}, **rules)
        for i in range(count)
    )


def a_ruled_cluster(*own: Pod, steps: int | None = 120, **changes: Any) -> Snapshot:
    """The pods, and sixty others without rules."""
    fields = {
        "types": instance_types(),
        "node_pools": (a_pool("default", ON_DEMAND),),
        "pods": (*own, *plain_pods(60)),
        **changes,
    }
    return a_snapshot(options=Options(improve_iterations=steps), **fields)


def plans(*own: Pod, **changes: Any) -> tuple[Plan, Plan]:
    """The greedy plan and the improved one."""
    cluster = a_ruled_cluster(*own, **changes)
    return schedule(msgspec.structs.replace(cluster, options=Options())), schedule(cluster)


def on_nodes(plan: Plan) -> list[int]:
    """How many of the service's pods each node has."""
    return [count for claim in plan.claims if (count := sum("/own" in pod for pod in claim.pods))]


def by_zone(plan: Plan) -> Counter[tuple[str, ...]]:
    return Counter(claim.zones for claim in plan.claims for pod in claim.pods if "/own" in pod)


def test_a_service_spread_over_zones_is_repacked_and_stays_even() -> None:
    """Otherwise, a zone is emptied to save money, or nothing is saved because of the rule."""
    before, plan = plans(*ruled(31, spreads=(SPREAD_ZONES,)))
    assert plan.cost.hourly < before.cost.hourly * 0.9
    counts = by_zone(plan)
    assert all(len(zones) == 1 for zones in counts)
    assert len(counts) == 3
    assert max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize(
    ("rules", "most"),
    [
        ({"anti_affinity": (APART,)}, 1),
        ({"spreads": (SPREAD_HOSTS,)}, 2),
        ({"spreads": (SPREAD_ZONES, SPREAD_HOSTS)}, 2),
        ({"preferred_anti_affinity": (WeightedPodAffinityTerm(100, APART),)}, 1),
        ({"spreads": (PREFER_HOSTS,)}, 1),
    ],
    ids=["anti-affinity", "spread", "both spreads", "preferred anti-affinity", "preferred spread"],
)
def test_replicas_stay_on_different_nodes(rules: dict[str, Any], most: int) -> None:
    """Otherwise, one node's end takes down the whole service; a preference that was met is kept, too."""
    before, plan = plans(*ruled(16, **rules))
    assert plan.cost.hourly < before.cost.hourly * 0.95
    assert max(on_nodes(plan)) <= most


def test_pods_that_follow_each_other_to_a_zone_stay_in_one() -> None:
    """Otherwise, traffic between zones is paid for."""
    before, plan = plans(*ruled(16, affinity=(ONE_ZONE,)))
    assert plan.cost.hourly < before.cost.hourly * 0.95
    assert len(by_zone(plan)) == 1


def test_pods_that_must_share_a_node_are_moved_together() -> None:
    """Otherwise, a pod stays pending because the pods that it must join are elsewhere."""
    before, plan = plans(*ruled(4, affinity=(APART,)))
    assert plan.cost.hourly < before.cost.hourly * 0.95
    assert on_nodes(plan) == [4]


def test_a_pod_is_not_moved_beside_one_whose_rule_counts_it() -> None:
    """The rule belongs to the other pod, and holds whichever of the two comes last."""
    isolated = tuple(a_pod(f"own-{i}", cpu="1", memory="1Gi", anti_affinity=(APART,)) for i in range(6))
    _, plan = plans(*isolated, *ruled(12))
    for claim in plan.claims:
        has_rule = {pod.startswith("default/own-") for pod in claim.pods if "/own" in pod}
        assert len(has_rule) <= 1


def test_two_pods_that_open_one_port_stay_apart_and_the_others_move() -> None:
    """Otherwise, the second of them never starts."""
    listening = tuple(a_pod(f"own{i}", cpu="1", memory="1Gi", host_ports=(HostPort(9100),)) for i in range(3))
    before, plan = plans(*listening)
    assert plan.cost.hourly < before.cost.hourly * 0.95
    assert on_nodes(plan) == [1, 1, 1]


@pytest.mark.parametrize("rules", [{"host_ports": (HostPort(9100),)}, {"volumes": (SCRATCH,)}], ids=["port", "volume"])
def test_a_pod_stays_with_pods_that_cannot_be_moved_alone(rules: dict[str, Any]) -> None:
    """Otherwise, it is moved to a node without any pod of its affinity, and stays pending."""
    company = tuple(a_pod(f"own{i}", cpu="1", memory="1Gi", labels={"app": "own"}, **rules) for i in range(8))
    followers = tuple(a_pod(f"follower{i}", cpu="300m", memory="20Gi", affinity=(APART,)) for i in range(8))
    before, plan = plans(*company, *followers, storage_classes=(GP3,))
    assert plan.cost.hourly < before.cost.hourly * 0.95
    for claim in plan.claims:
        names = {pod.removeprefix("default/")[:3] for pod in claim.pods}
        assert "fol" not in names or "own" in names


def test_nodes_of_a_few_large_pods_are_cheap_too() -> None:
    """Otherwise, GPU and database clusters pay for gaps that fractions of pods do not show."""
    sizes = [("21", "60Gi"), ("11", "4Gi"), ("5", "6Gi"), ("3", "10Gi")]  # two and two fill a machine
    large = tuple(a_pod(f"p{i:03}", cpu=sizes[i % 4][0], memory=sizes[i % 4][1]) for i in range(80))
    plan = schedule(a_cluster(steps=80, pods=large))
    assert plan.cost.lower_bound is not None
    assert plan.cost.hourly <= plan.cost.lower_bound * 1.01
    assert plan.cost.hourly < greedy(a_cluster(pods=large)).cost.hourly * 0.95


def test_pods_with_anti_affinity_stay_apart() -> None:
    """Otherwise, two pods that must be apart share a node."""
    apart = PodAffinityTerm(labels.HOSTNAME, a_selector(app="db"))
    guarded = tuple(a_pod(f"db{i}", labels={"app": "db"}, anti_affinity=(apart,)) for i in range(4))
    cluster = a_cluster(pods=guarded)
    assert schedule(cluster).claims == greedy(cluster).claims
    mixed = schedule(a_cluster(pods=(*plain_pods(60), *guarded)))
    homes = [claim.name for claim in mixed.claims for pod in claim.pods if pod.startswith("default/db")]
    assert len(set(homes)) == len(homes) == 4
    assert mixed.cost.hourly < greedy(a_cluster(pods=(*plain_pods(60), *guarded))).cost.hourly


def test_pods_in_different_zones_never_share_a_node() -> None:
    """A node is in one zone; packing problems know zones only by price and by which items may run there."""
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


def test_claims_whose_min_values_were_lowered_stay_as_they_are() -> None:
    """Otherwise, BestEffort lowers minValues further, or a claim demands again what was not available."""
    choice = Requirement(labels.INSTANCE_TYPE, True, (), None, None, 900)
    pool = a_pool("default", ON_DEMAND, choice)
    cluster = a_cluster(node_pools=(pool,), options=Options(improve_iterations=60, min_values_policy=BEST_EFFORT))
    plan = schedule(cluster)
    assert all(claim.min_values_relaxed for claim in plan.claims)
    assert plan.claims == schedule(a_cluster(node_pools=(pool,), options=Options(min_values_policy=BEST_EFFORT))).claims


def test_places_in_reservations_are_kept_and_the_other_nodes_repacked() -> None:
    """Otherwise, more claims count on a reservation than it has places, or a pool with one pays too much for the rest."""
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
    """The weight of a NodePool decides where pods run, whatever the other one costs."""
    spot = a_pool("spot", Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT))
    expensive = a_pool("expensive", ON_DEMAND, weight=10)
    plan = schedule(a_cluster(node_pools=(spot, expensive)))
    assert {claim.node_pool for claim in plan.claims} == {"expensive"}
    assert plan.cost.lower_bound is not None
    assert plan.cost.lower_bound < plan.cost.hourly / 2


def repacked(*pods: Pod) -> tuple[Solution, Solution]:
    """The greedy plan of these pods and forty others, and what thirty steps make of it."""
    context, solution = greedily_solved(a_cluster(pods=(*plain_pods(40), *pods)))
    return solution, Repacker(context, DEFAULT_SETTINGS).improved(solution, SearchBudget(30))


def test_pods_that_a_pod_without_a_place_must_join_stay_on_their_node() -> None:
    """It gets a place once there is room on that node: if they moved now, it would wait for another one."""
    company = a_pod("own", cpu="500m", memory="7Gi", labels={"app": "own"})
    too_large = a_pod("waits", cpu="4000", affinity=(APART,))
    for waiting, stays in (((too_large,), True), ((), False)):
        before, after = repacked(company, *waiting)
        (home,) = (claim for claim in before.claims if company in claim.pods)
        assert (home in after.claims) is stays
        assert sum(one.price for one in after.claims) < sum(one.price for one in before.claims)


def test_a_plan_that_changes_counts_of_a_required_rule_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """No item moves so, and if one did, a pod would break its rule."""
    monkeypatch.setattr(repacker, "keeps_counts", lambda _, *, before, after: before is after)
    before, after = repacked()
    assert after is before


def test_claims_that_gave_up_min_values_and_those_of_pods_that_wait_in_any_case_stay() -> None:
    for kind in ("lowered", "fixed", "free"):
        context, solution = greedily_solved(a_cluster(pods=plain_pods(40)))
        stays, goes = solution.claims
        stays.min_values_relaxed = kind == "lowered"
        solution.fixed_pods = frozenset([stays.pods[0].key] if kind == "fixed" else [])
        after = Repacker(context, DEFAULT_SETTINGS).improved(solution, SearchBudget(30))
        assert (stays in after.claims, goes in after.claims) == (kind != "free", False)
