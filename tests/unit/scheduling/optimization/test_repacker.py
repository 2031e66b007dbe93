"""What packing anew does to pods with rules about their neighbours."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from core import labels
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
from core.model.snapshot import Options, Snapshot
from core.model.storage import WAIT_FOR_FIRST_CONSUMER, StorageClass
from core.scheduling import schedule
from tests.builders import a_pod, a_pool, a_selector, a_snapshot
from tests.unit.scheduling.optimization.clusters import ON_DEMAND, instance_types, plain_pods

OWN = a_selector(app="own")
SPREAD_ZONES = TopologySpread(labels.ZONE, 1, selector=OWN)
SPREAD_HOSTS = TopologySpread(labels.HOSTNAME, 2, selector=OWN)
PREFER_HOSTS = TopologySpread(labels.HOSTNAME, 1, SCHEDULE_ANYWAY, OWN)
APART = PodAffinityTerm(labels.HOSTNAME, OWN)
ONE_ZONE = PodAffinityTerm(labels.ZONE, OWN)
GP3 = StorageClass(name="gp3", provisioner="ebs.csi.aws.com", binding_mode=WAIT_FOR_FIRST_CONSUMER)
SCRATCH = VolumeUse("", ephemeral="scratch", storage_class="gp3")


def ruled(count: int, **rules: Any) -> tuple[Pod, ...]:
    """Pods of one service, most of them hungry for memory."""
    return tuple(
        a_pod(f"own{i:02}", cpu="700m", memory="6Gi" if i % 3 else "1Gi", labels={"app": "own"}, **rules)
        for i in range(count)
    )


def a_cluster(*own: Pod, steps: int | None = 120, **changes: Any) -> Snapshot:
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
    cluster = a_cluster(*own, **changes)
    return schedule(msgspec.structs.replace(cluster, options=Options())), schedule(cluster)


def on_nodes(plan: Plan) -> list[int]:
    """How many of the service's pods each node has."""
    return [count for claim in plan.claims if (count := sum("/own" in pod for pod in claim.pods))]


def by_zone(plan: Plan) -> Counter[tuple[str, ...]]:
    return Counter(claim.zones for claim in plan.claims for pod in claim.pods if "/own" in pod)


def test_a_service_spread_over_zones_is_packed_anew_and_stays_even() -> None:
    """A zone would be emptied to save money, or nothing saved because of the rule."""
    greedy, plan = plans(*ruled(31, spreads=(SPREAD_ZONES,)))
    assert plan.cost.hourly < greedy.cost.hourly * 0.9
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
    """One node's end would take the whole service with it; so would a preference that was met and given up for money."""
    greedy, plan = plans(*ruled(16, **rules))
    assert plan.cost.hourly < greedy.cost.hourly * 0.95
    assert max(on_nodes(plan)) <= most


def test_pods_that_follow_each_other_to_a_zone_stay_in_one() -> None:
    """Traffic between them would be paid for."""
    greedy, plan = plans(*ruled(16, affinity=(ONE_ZONE,)))
    assert plan.cost.hourly < greedy.cost.hourly * 0.95
    assert len(by_zone(plan)) == 1


def test_pods_that_must_share_a_node_are_moved_together() -> None:
    """The follower would wait for company that is elsewhere."""
    greedy, plan = plans(*ruled(4, affinity=(APART,)))
    assert plan.cost.hourly < greedy.cost.hourly * 0.95
    assert on_nodes(plan) == [4]


def test_a_pod_that_another_rule_minds_is_not_moved_beside_it() -> None:
    """The rule belongs to the other pod, and holds whichever of the two comes last."""
    loners = tuple(a_pod(f"own-{i}", cpu="1", memory="1Gi", anti_affinity=(APART,)) for i in range(6))
    _, plan = plans(*loners, *ruled(12))
    for claim in plan.claims:
        kinds = {pod.startswith("default/own-") for pod in claim.pods if "/own" in pod}
        assert len(kinds) <= 1


def test_two_pods_that_open_one_port_stay_apart_and_the_others_move() -> None:
    """The second of them would never start."""
    listening = tuple(a_pod(f"own{i}", cpu="1", memory="1Gi", host_ports=(HostPort(9100),)) for i in range(3))
    greedy, plan = plans(*listening)
    assert plan.cost.hourly < greedy.cost.hourly * 0.95
    assert on_nodes(plan) == [1, 1, 1]


@pytest.mark.parametrize("rules", [{"host_ports": (HostPort(9100),)}, {"volumes": (SCRATCH,)}], ids=["port", "volume"])
def test_a_pod_stays_with_company_that_is_not_moved_alone(rules: dict[str, Any]) -> None:
    """It would be moved to a node where nobody is whom it follows, and wait there for ever."""
    company = tuple(a_pod(f"own{i}", cpu="1", memory="1Gi", labels={"app": "own"}, **rules) for i in range(8))
    followers = tuple(a_pod(f"follower{i}", cpu="300m", memory="20Gi", affinity=(APART,)) for i in range(8))
    greedy, plan = plans(*company, *followers, storage_classes=(GP3,))
    assert plan.cost.hourly < greedy.cost.hourly * 0.95
    for claim in plan.claims:
        names = {pod.removeprefix("default/")[:3] for pod in claim.pods}
        assert "fol" not in names or "own" in names


def test_the_bound_knows_that_pods_which_keep_apart_need_a_node_each() -> None:
    """The proof would be too weak to say that nothing is left to save."""
    one = min(
        offering.price
        for kind in instance_types()
        for offering in kind.offerings
        if offering.capacity_type == "on-demand"
    )
    cluster = a_cluster(pods=ruled(40, anti_affinity=(APART,)))
    plan = schedule(cluster)
    assert plan.cost.lower_bound is not None
    assert plan.cost.lower_bound >= 40 * one * 0.999
