"""Topology spread, pod affinity and anti-affinity, rule by rule."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from core import labels
from core.model.node import Node
from core.model.pod import (
    HONOR,
    IGNORE,
    SCHEDULE_ANYWAY,
    LabelSelector,
    NodeSelectorTerm,
    Owner,
    Pod,
    PodAffinityTerm,
    TopologySpread,
    WeightedPodAffinityTerm,
)
from core.model.policy import Namespace, Service, WorkloadSelector
from core.model.snapshot import Options
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint
from core.reasons.pod import PodReason
from core.scheduling.topology.topology import Topology
from core.scheduling.topology.topology_group import SPREAD
from tests.builders import ZONES, a_pod, a_pool, a_selector, a_type
from tests.unit.scheduling.reading import claim_of, context_of, group_of, places, plan_of, reasons_of, zones

TYPE = a_type("m", cpu="4", memory="16Gi")
ONE_POD = a_type("one", pods="1")
WEB = a_selector(app="web")


def a_spread(key: str = labels.ZONE, skew: int = 1, **changes: Any) -> TopologySpread:
    return TopologySpread(**{"topology_key": key, "max_skew": skew, "selector": WEB, **changes})


def webs(count: int, **changes: Any) -> tuple[Pod, ...]:
    return tuple(a_pod(f"p{n}", **{"cpu": "100m", "labels": {"app": "web"}, **changes}) for n in range(count))


def a_node(name: str, zone: str, *, pods: str = "1", **own: Any) -> Node:
    room = {"cpu": 4000, "memory": 2**34, "pods": int(pods)}
    known = {labels.HOSTNAME: name, labels.ZONE: zone, **own.pop("labels", {})}
    return Node(name=name, labels=known, capacity=room, allocatable=room, is_ready=True, **own)


def running(name: str, node: str, app: str = "web", **changes: Any) -> Pod:
    return a_pod(name, cpu="1m", **{"node_name": node, "phase": "Running", "labels": {"app": app}, **changes})


def per_zone(plan: Any) -> list[int]:
    found = zones(plan)
    assert all(len(one) == 1 for one in found.values()), "a zonal rule concerns the pod, so its zone is decided"
    return sorted(Counter(one[0] for one in found.values()).values())


def test_a_dropped_preference_does_not_reset_a_spreads_counts() -> None:
    """Karpenter counts again for the relaxed pod, running pods only, and places the second beside the first."""
    node = a_node("n", ZONES[0], pods="9", labels={labels.CAPACITY_TYPE: labels.ON_DEMAND})
    pool = a_pool(taints=(Taint("unloved", PREFER_NO_SCHEDULE),))
    pods = webs(2, spreads=(a_spread(labels.CAPACITY_TYPE, node_taints_policy=HONOR),))
    plan = plan_of(types=(TYPE,), node_pools=(pool,), nodes=(node,), pods=pods)
    assert places(plan)["p0"] == "n"
    assert claim_of(plan, "p1").capacity_types == (labels.SPOT,)


def test_a_zonal_spread_is_even() -> None:
    """Otherwise, a zone's outage takes more than its share."""
    assert per_zone(plan_of(types=(TYPE,), pods=webs(7, spreads=(a_spread(),)))) == [2, 2, 3]


def test_running_pods_count_and_finished_or_foreign_ones_do_not() -> None:
    """Otherwise, the spread would be even among the new pods only."""
    nodes = (a_node("n1", ZONES[0], pods="4"),)
    pods = (
        running("r1", "n1"),
        running("r2", "n1"),
        running("done", "n1", phase="Succeeded"),
        running("other", "n1", namespace="elsewhere"),
    )
    plan = plan_of(types=(TYPE,), nodes=nodes, pods=(*pods, *webs(4, spreads=(a_spread(),))))
    assert Counter(one[0] for one in zones(plan).values()) == {ZONES[1]: 2, ZONES[2]: 2}


def test_a_hostname_spread_opens_nodes() -> None:
    """Otherwise, replicas would share a node."""
    plan = plan_of(types=(TYPE,), pods=webs(5, spreads=(a_spread(labels.HOSTNAME, 2),)))
    assert sorted(len(claim.pods) for claim in plan.claims) == [1, 2, 2]


def test_min_domains_hold_pods_back_until_there_are_enough() -> None:
    """With fewer zones than required, the minimum counts as zero, so one zone takes maxSkew pods at most."""
    pool = a_pool("default", Requirement.one_of(labels.ZONE, *ZONES[:2]))
    plan = plan_of(types=(TYPE,), node_pools=(pool,), pods=webs(4, spreads=(a_spread(min_domains=3),)))
    assert per_zone(plan) == [1, 1]
    assert set(reasons_of(plan).values()) == {PodReason.TOPOLOGY_SPREAD}


def test_min_domains_hold_pods_back_that_may_use_some_zones_only() -> None:
    """The zones that count are those of the pod itself, and they are too few, whatever others the NodePool has."""
    two = {"node_selector": (Requirement.one_of(labels.ZONE, *ZONES[:2]),)}
    plan = plan_of(types=(TYPE,), pods=webs(4, spreads=(a_spread(min_domains=3),), **two))
    assert per_zone(plan) == [1, 1]
    assert set(reasons_of(plan).values()) == {PodReason.TOPOLOGY_SPREAD}


@pytest.mark.parametrize(("policy", "expected"), [({}, {"p0": "n1"}), ({"node_affinity_policy": IGNORE}, {})])
def test_zones_that_a_pod_cannot_use_are_the_least_loaded_ones_under_ignore(
    policy: dict[str, str], expected: dict[str, str]
) -> None:
    """Kubernetes counts every domain that has nodes then, so the pod's own zone is one too full."""
    nodes = (a_node("n1", ZONES[0], pods="9"), a_node("n2", ZONES[1]))
    here = {"node_selector": (Requirement.one_of(labels.ZONE, ZONES[0]),), "spreads": (a_spread(**policy),)}
    plan = plan_of(types=(TYPE,), node_pools=(), nodes=nodes, pods=(running("r1", "n1"), *webs(1, **here)))
    assert places(plan) == expected


@pytest.mark.parametrize(("policy", "expected"), [({}, {ZONES[0]}), ({"node_affinity_policy": IGNORE}, {ZONES[1]})])
def test_the_affinity_policy_says_whether_unsuitable_nodes_count(policy: dict[str, str], expected: set[str]) -> None:
    """Pods on nodes that the new pod cannot use must count only under Ignore."""
    pool = a_pool("default", Requirement.one_of(labels.ZONE, *ZONES[:2]), labels={"side": "left"})
    crowded = a_node("n1", ZONES[0], labels={"side": "right"})
    quiet = a_node("n2", ZONES[1], labels={"side": "left"}, taints=(Taint("x", NO_SCHEDULE),))
    pods = (running("r1", "n1"), running("r2", "n1"), running("r3", "n2"))
    left = {"node_selector": (Requirement.one_of("side", "left"),), "spreads": (a_spread(**policy),)}
    plan = plan_of(types=(TYPE,), node_pools=(pool,), nodes=(crowded, quiet), pods=(*pods, *webs(1, **left)))
    assert set(zones(plan)["p0"]) == expected


def test_a_new_node_counts_once_its_type_is_certain() -> None:
    """While it might become a type that the spread ignores it counts nowhere, and a pod that it makes room for is left over."""
    large = a_type("large", cpu="16", zones=ZONES[:1])
    fits, ignored = (a_type(name, cpu=cpu, zones=ZONES[1:2]) for name, cpu in (("fits", "2"), ("ignored", "1")))
    choosy = {"node_selector": (Requirement.of(labels.INSTANCE_TYPE, "NotIn", ["ignored"]),), "spreads": (a_spread(),)}
    there = a_pod("w", cpu="1500m", labels={"app": "web"}, node_selector=(Requirement.one_of(labels.ZONE, ZONES[1]),))
    pool = a_pool("default", Requirement.one_of(labels.ZONE, *ZONES[:2]))
    plan = plan_of(types=(large, fits, ignored), node_pools=(pool,), pods=(*webs(2, **{**choosy, "cpu": "4"}), there))
    assert reasons_of(plan) == {}
    assert {name: found[0] for name, found in zones(plan).items()} == {"p0": ZONES[0], "p1": ZONES[0], "w": ZONES[1]}


def test_match_label_keys_distinguish_revisions() -> None:
    """Otherwise, during a rollout the old revision's pods would count against the new one."""
    old = running("old", "n1", labels={"app": "web", "rev": "1"})
    new = webs(3, labels={"app": "web", "rev": "2"}, spreads=(a_spread(match_label_keys=("rev",)),))
    plan = plan_of(types=(TYPE,), nodes=(a_node("n1", ZONES[0]),), pods=(old, *new))
    assert per_zone(plan) == [1, 1, 1]


def test_a_soft_spread_is_kept_if_possible_and_dropped_if_necessary() -> None:
    """Otherwise, a preference would be ignored, or would hold up pods."""
    soft = a_spread(when_unsatisfiable=SCHEDULE_ANYWAY)
    assert per_zone(plan_of(types=(ONE_POD,), pods=webs(3, spreads=(soft,)))) == [1, 1, 1]
    pool = a_pool("default", Requirement.one_of(labels.ZONE, ZONES[0]))
    busy = (a_node("n1", ZONES[1]), a_node("n2", ZONES[0]))
    plan = plan_of(types=(TYPE,), node_pools=(pool,), nodes=busy, pods=(running("r", "n2"), *webs(2, spreads=(soft,))))
    assert plan.unschedulable == ()


def test_with_preferences_ignored_soft_rules_never_shape_the_plan() -> None:
    """Otherwise, `--preference-policy Ignore` would still open a node for each pod."""
    soft = WeightedPodAffinityTerm(10, PodAffinityTerm(labels.HOSTNAME, WEB))
    pods = webs(4, preferred_anti_affinity=(soft,))
    assert len(plan_of(types=(TYPE,), pods=pods).claims) == 4
    assert len(plan_of(types=(TYPE,), pods=pods, options=Options(preference_policy="Ignore")).claims) == 1


def test_the_alternatives_of_a_node_affinity_all_count_as_domains() -> None:
    """With only the first alternative, all replicas would pile up in its zone."""
    terms = tuple(NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)) for zone in ZONES[:2])
    plan = plan_of(types=(TYPE,), pods=webs(4, spreads=(a_spread(),), required_terms=terms))
    assert per_zone(plan) == [2, 2]


def test_an_alternative_that_needs_a_preference_dropped_is_tried_again() -> None:
    """Karpenter drops alternatives before preferences and would leave such pods pending."""
    terms = (
        NodeSelectorTerm((Requirement.one_of(labels.ZONE, ZONES[0]),)),
        NodeSelectorTerm((Requirement.one_of(labels.ZONE, "nowhere"),)),
    )
    away = WeightedPodAffinityTerm(1, PodAffinityTerm(labels.ZONE, WEB))
    plan = plan_of(types=(ONE_POD,), pods=webs(2, required_terms=terms, preferred_anti_affinity=(away,)))
    assert plan.unschedulable == ()


def test_followers_join_the_zone_of_a_pod_placed_in_the_same_plan() -> None:
    """Otherwise, they would wait for the next round although the zone is known."""
    follow = PodAffinityTerm(labels.ZONE, a_selector(app="db"))
    pods = (a_pod("db", labels={"app": "db"}), *webs(3, affinity=(follow,)))
    assert len(set(zones(plan_of(types=(ONE_POD,), pods=pods)).values())) == 1


def test_a_pod_is_placed_where_the_pods_that_need_it_can_go() -> None:
    """The cheapest zone is useless if the pods that must be near cannot run there."""
    follow = PodAffinityTerm(labels.ZONE, a_selector(app="db"))
    tied = {"affinity": (follow,), "node_selector": (Requirement.one_of(labels.ZONE, ZONES[2]),)}
    plan = plan_of(types=(ONE_POD,), pods=(a_pod("db", labels={"app": "db"}), *webs(1, **tied)))
    assert plan.unschedulable == ()
    assert claim_of(plan, "db").zones == (ZONES[2],)


def test_pods_with_affinity_to_their_own_group_start_in_one_place_only() -> None:
    """Otherwise, each starts in a zone of its own."""
    own = PodAffinityTerm(labels.ZONE, WEB)
    assert len(set(zones(plan_of(types=(ONE_POD,), pods=webs(4, affinity=(own,)))).values())) == 1


def test_a_pod_of_the_group_elsewhere_forbids_a_new_start() -> None:
    """kube-scheduler refuses a pod whose group runs where it may not go; Karpenter launches a node for it nevertheless."""
    own = {
        "affinity": (PodAffinityTerm(labels.ZONE, WEB),),
        "node_selector": (Requirement.one_of(labels.ZONE, ZONES[1]),),
    }
    plan = plan_of(types=(TYPE,), nodes=(a_node("n1", ZONES[0]),), pods=(running("r", "n1"), *webs(1, **own)))
    assert reasons_of(plan) == {"p0": PodReason.POD_AFFINITY}


def test_each_affinity_term_may_be_met_by_another_pod() -> None:
    """In the API's words, the nodes of each term are intersected: each of two services meets one term."""
    terms = tuple(PodAffinityTerm(labels.ZONE, a_selector(app=app)) for app in ("web", "db"))
    node, seeker = a_node("n", ZONES[0], pods="9"), a_pod("seeker", cpu="100m", affinity=terms)
    both = (running("w", "n"), running("d", "n", app="db"))
    assert places(plan_of(types=(TYPE,), nodes=(node,), pods=(*both, seeker))) == {"seeker": "n"}
    half = plan_of(types=(TYPE,), nodes=(node,), pods=(both[0], seeker))
    assert reasons_of(half) == {"seeker": PodReason.POD_AFFINITY}


def test_anti_affinity_keeps_zones_apart_and_uses_all_of_them() -> None:
    """Karpenter leaves the first claim's zone open and defers the rest; no pod needs to wait."""
    apart = PodAffinityTerm(labels.ZONE, WEB)
    plan = plan_of(types=(TYPE,), pods=webs(4, anti_affinity=(apart,)))
    assert per_zone(plan) == [1, 1, 1]
    assert set(reasons_of(plan).values()) == {PodReason.POD_ANTI_AFFINITY}


def test_a_flexible_pod_leaves_another_pods_only_zone_free() -> None:
    """Otherwise, a pod that can go anywhere takes the only place of the other."""
    apart = (PodAffinityTerm(labels.ZONE, WEB),)
    tied = a_pod(
        "tied",
        cpu="50m",
        labels={"app": "web"},
        anti_affinity=apart,
        node_selector=(Requirement.one_of(labels.ZONE, ZONES[0]),),
    )
    plan = plan_of(types=(TYPE,), pods=(*webs(2, anti_affinity=apart), tied))
    assert plan.unschedulable == ()


def test_running_pods_keep_new_pods_away() -> None:
    """kube-scheduler enforces anti-affinity in both directions."""
    guard = running("guard", "n1", app="x", anti_affinity=(PodAffinityTerm(labels.ZONE, WEB),))
    plan = plan_of(types=(TYPE,), nodes=(a_node("n1", ZONES[0]),), pods=(guard, *webs(1)))
    assert len(zones(plan)["p0"]) == 1
    assert ZONES[0] not in zones(plan)["p0"]


def test_namespaces_are_listed_or_selected() -> None:
    """Otherwise, a rule counts pods of other namespaces, or misses those that it selects."""
    there = Namespace(name="there", labels={"team": "b"})
    target = running("target", "n1", app="db", namespace="there")
    terms = {
        "own": PodAffinityTerm(labels.ZONE, a_selector(app="db")),
        "listed": PodAffinityTerm(labels.ZONE, a_selector(app="db"), namespaces=("there",)),
        "selected": PodAffinityTerm(labels.ZONE, a_selector(app="db"), namespace_selector=a_selector(team="b")),
        "all": PodAffinityTerm(labels.ZONE, a_selector(app="db"), namespace_selector=LabelSelector()),
    }
    pods = tuple(a_pod(name, affinity=(term,)) for name, term in terms.items())
    plan = plan_of(types=(TYPE,), nodes=(a_node("n1", ZONES[1]),), namespaces=(there,), pods=(target, *pods))
    assert reasons_of(plan) == {"own": PodReason.POD_AFFINITY}
    assert {zone for one in zones(plan).values() for zone in one} == {ZONES[1]}


def test_mismatch_label_keys_exclude_the_own_tenant() -> None:
    """Otherwise, a tenant's pods would repel each other instead of other tenants'."""
    rule = PodAffinityTerm(labels.HOSTNAME, LabelSelector(), mismatch_label_keys=("tenant",))
    pods = tuple(a_pod(f"{t}{n}", cpu="100m", labels={"tenant": t}, anti_affinity=(rule,)) for t in "ab" for n in "12")
    found = places(plan_of(types=(TYPE,), pods=pods))
    assert found["a1"] == found["a2"] != found["b1"] == found["b2"]


def test_a_pod_that_another_pods_rule_selects_gets_one_zone() -> None:
    """Otherwise, its zone is unknown, and so is the skew."""
    plan = plan_of(types=(ONE_POD,), pods=(*webs(1, spreads=(a_spread(),)), a_pod("plain", labels={"app": "web"})))
    assert len(claim_of(plan, "plain").zones) == 1


def test_a_rule_along_another_key_restricts_the_claim_to_one_value() -> None:
    """Otherwise, spot and on-demand are counted together."""
    spread = a_spread(labels.CAPACITY_TYPE)
    plan = plan_of(types=(TYPE,), pods=webs(2, spreads=(spread,)))
    assert sorted(claim.capacity_types for claim in plan.claims) == [("on-demand",), ("spot",)]


def test_a_misspelt_topology_key_is_met_nowhere() -> None:
    """Otherwise, a node is launched for the pod, and the pod is never bound."""
    plan = plan_of(types=(TYPE,), pods=webs(1, spreads=(a_spread("topology.kubernetes.io/zones"),)))
    assert reasons_of(plan) == {"p0": PodReason.TOPOLOGY_SPREAD}


def test_anti_affinity_along_a_label_that_no_node_has_keeps_no_pod_away() -> None:
    """A node without the label is in no domain, so kube-scheduler binds the pod to it; Karpenter launches no node for it."""
    apart = PodAffinityTerm("rack", WEB)
    assert len(plan_of(types=(TYPE,), pods=webs(2, anti_affinity=(apart,))).claims) == 1


def test_default_spreads_follow_services_and_controllers() -> None:
    """Otherwise, pods without constraints of their own would not get the cluster's."""
    default = TopologySpread(labels.ZONE, 1)
    options = Options(default_spreads=(default,))
    owned = {"owners": (Owner("ReplicaSet", "rs", is_controller=True),)}
    selectors = (WorkloadSelector(namespace="default", kind="ReplicaSet", name="rs", selector=WEB),)
    by_owner = plan_of(types=(TYPE,), pods=webs(3, **owned), options=options, workload_selectors=selectors)
    service = Service(namespace="default", name="web", selector={"app": "web"})
    by_service = plan_of(types=(TYPE,), pods=webs(3), options=options, services=(service,))
    assert per_zone(by_owner) == per_zone(by_service) == [1, 1, 1]
    assert len(plan_of(types=(TYPE,), pods=webs(3), options=options).claims) == 1


def test_with_several_default_spreads_a_node_with_all_their_labels_counts() -> None:
    """kube-scheduler ignores a node that lacks one of the labels; pods there would keep the others from its zone."""
    options = Options(default_spreads=(TopologySpread(labels.ZONE, 1), TopologySpread("rack", 9)))
    service = Service(namespace="default", name="web", selector={"app": "web"})
    nodes = (a_node("n1", ZONES[0], pods="3"),)
    pods = (*(running(f"r{n}", "n1") for n in range(3)), *webs(3))
    pool = a_pool(labels={"rack": "r1"})
    plan = plan_of(types=(TYPE,), nodes=nodes, pods=pods, options=options, services=(service,), node_pools=(pool,))
    assert per_zone(plan) == [1, 1, 1]


def test_a_pod_goes_where_the_pods_that_must_be_near_it_fit() -> None:
    """Otherwise, a cheaper family without accelerators is chosen, where the pods that must follow do not fit."""
    plain = a_type("plain", family="c")
    gpu = a_type("gpu", price=1.0, extra={"nvidia.com/gpu": "1"}, family="g")
    near = PodAffinityTerm("family", a_selector(app="db"))
    follower = a_pod("learner", cpu="500m", extra={"nvidia.com/gpu": "1"}, affinity=(near,))
    plan = plan_of(types=(plain, gpu), pods=(a_pod("db", labels={"app": "db"}), follower))
    assert claim_of(plan, "db").instance_types == ("gpu",)
    assert reasons_of(plan) == {}


def test_only_requirements_of_pods_are_hard() -> None:
    """Otherwise, repacking keeps counts without need, or breaks required ones."""
    soft = a_spread(labels.HOSTNAME, when_unsatisfiable="ScheduleAnyway")
    context = context_of(types=(a_type("m"),), pods=(a_pod("w", labels={"app": "web"}, spreads=(a_spread(), soft)),))
    topology, group = context.topology, group_of(context, "w")
    assert isinstance(topology, Topology)
    rules = topology.rules(group.signature, group.steps[0].demands)
    assert [(rule.kind, rule.key, rule.selects_self) for rule in rules] == [
        (SPREAD, labels.ZONE, True),
        (SPREAD, labels.HOSTNAME, True),
    ]
    assert [topology.is_hard(rule.group) for rule in rules] == [True, False]
    assert list(topology.counted(rules[0].group)) == [group.signature]
