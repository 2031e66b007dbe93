"""A snapshot, prepared for planning."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.model.catalogue import InstanceType
from core.model.pod import (
    EBS_DRIVER,
    WAIT_FOR_FIRST_CONSUMER,
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    Owner,
    Pod,
    PodAffinityTerm,
    PreferredTerm,
    StorageClass,
    TopologySpread,
    VolumeUse,
)
from core.model.snapshot import Options, PodDisruptionBudget
from core.model.values.requirements import Requirement, Requirements
from core.model.values.taints import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint
from core.reasons.pods import PodReason
from core.scheduling.context import PodGroups, is_virtual, pending_pods
from core.scheduling.pods import TOLERATE_PREFERENCES
from core.scheduling.primitives import IMPOSSIBLE
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.unit.scheduling.reading import context_of, group_of, places, plan_of, reasons_of

# Which pods are planned for.


TYPE = a_type("m", cpu="4", memory="16Gi")


@pytest.mark.parametrize(
    "changes",
    [
        {"node_name": "gone"},
        {"nominated_node_name": "n"},
        {"is_gated": True},
        {"phase": "Succeeded"},
        {"deleted_at": NOW},
        {"owners": (Owner("DaemonSet", "d"),)},
        {"owners": (Owner("Node", "n"),)},
    ],
)
def test_pods_that_need_no_node_are_ignored(changes: dict[str, Any]) -> None:
    """Otherwise, a node would be launched for a pod that never comes."""
    plan = plan_of(types=(TYPE,), pods=(a_pod("p", **changes),))
    assert (plan.claims, plan.bindings, plan.unschedulable) == ((), (), ())


def test_in_a_live_cluster_only_pods_marked_unschedulable_are_planned_for() -> None:
    """Otherwise, nodes would be launched for pods that are about to be bound."""
    live = Options(requires_unschedulable_mark=True)
    pods = (a_pod("fresh", cpu="500m"), a_pod("marked", is_marked_unschedulable=True))
    assert set(places(plan_of(types=(TYPE,), pods=pods, options=live))) == {"marked"}


def selecting(key: str, operator: str = "Exists") -> Any:
    return a_pod("p", required_terms=(NodeSelectorTerm((Requirement.of(key, operator),)),))


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (selecting("karpenter.sh/custom"), PodReason.RESTRICTED_LABEL),
        (selecting(labels.HOSTNAME), PodReason.RESTRICTED_LABEL),
        (selecting(labels.NODEPOOL, "DoesNotExist"), PodReason.OPTED_OUT),
        (a_pod("p", required_terms=(NodeSelectorTerm(uses_fields=True),)), PodReason.UNSUPPORTED_AFFINITY),
        (a_pod("p", required_terms=(NodeSelectorTerm(),)), PodReason.UNSUPPORTED_AFFINITY),
        (a_pod("p", resource_claims=("gpu",)), PodReason.UNSUPPORTED_RESOURCE_CLAIM),
        (a_pod("p", problem="spec.nodeSelector[a]: 'b c' cannot be the value of a label"), PodReason.INVALID_POD),
    ],
)
def test_pods_that_cannot_be_planned_for_say_why(pod: Any, reason: str) -> None:
    """Otherwise, they would be reported as too large, or silently dropped."""
    plan = plan_of(types=(TYPE,), pods=(pod,))
    assert (reasons_of(plan), plan.claims) == ({"p": reason}, ())


@pytest.mark.parametrize("operator", ["In", "NotIn"])
def test_a_pod_that_names_its_node_joins_it_and_gets_no_new_one(operator: str) -> None:
    """kube-scheduler reads matchFields of the node's name; the node's label may be another."""
    nodes = tuple(a_node_of(TYPE, name) for name in ("a", "b"))
    fields = NodeSelectorTerm((Requirement(labels.NODE_NAME, operator == "NotIn", ("a",)),))
    pods = (a_pod("p", required_terms=(fields,)), a_pod("q", cpu="64", required_terms=(fields,)))
    snapshot = {"nodes": tuple(n for _, n in nodes), "node_claims": tuple(c for c, _ in nodes), "pods": pods}
    plan = plan_of(types=(TYPE,), **snapshot)
    assert places(plan) == {"p": "a" if operator == "In" else "b"}
    assert plan.claims == ()


def test_an_existing_node_for_any_alternative_comes_before_a_new_one() -> None:
    """Alternatives are ORed: kube-scheduler binds the pod at once, and a node for the first one stays empty."""
    claim, node = a_node_of(TYPE, "here", zone=ZONES[1])
    terms = tuple(NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)) for zone in ZONES[:2])
    plan = plan_of(types=(TYPE,), nodes=(node,), node_claims=(claim,), pods=(a_pod("p", required_terms=terms),))
    assert places(plan) == {"p": "here"}


def test_a_pod_that_no_new_node_suits_may_join_an_existing_one() -> None:
    """It is lost only if no node takes it."""
    claim, node = a_node_of(TYPE, "here")
    pods = (a_pod("p", node_selector=(Requirement.one_of(labels.HOSTNAME, "here"),)), selecting(labels.HOSTNAME))
    large = msgspec.structs.replace(pods[1].spec, requests={"cpu": 10**6})
    pods = (pods[0], msgspec.structs.replace(pods[1], name="q", spec=large))
    plan = plan_of(types=(TYPE,), nodes=(node,), node_claims=(claim,), pods=pods)
    assert places(plan) == {"p": "here"}
    assert reasons_of(plan) == {"q": PodReason.RESTRICTED_LABEL}


def test_a_nominated_pod_keeps_its_room_from_pods_that_do_not_outrank_it() -> None:
    """kube-scheduler has evicted others for it; a plan that gives its room away is refused."""
    claim, node = a_node_of(TYPE, "n")
    nominated = a_pod("first", cpu="3", nominated_node_name="n", priority=5)
    cluster = {"nodes": (node,), "node_claims": (claim,)}
    plan = plan_of(types=(TYPE,), pods=(nominated, a_pod("p", cpu="2", priority=5)), **cluster)
    assert len(plan.claims) == 1
    higher = plan_of(types=(TYPE,), pods=(nominated, a_pod("p", cpu="2", priority=6)), **cluster)
    assert places(higher) == {"p": "n"}


@pytest.mark.parametrize("who", ["the pod", "the nominated pod", "a spread"])
def test_rules_between_pods_count_a_nominated_pod_on_its_node(who: str) -> None:
    """kube-scheduler adds it to the node before it asks its plugins (runtime/framework.go)."""
    claim, node = a_node_of(TYPE, "n")
    apart = (PodAffinityTerm(labels.HOSTNAME, a_selector(app="web")),)
    even = (TopologySpread(labels.HOSTNAME, 1, selector=a_selector(app="web")),)
    rule = {"spreads": even} if who == "a spread" else {"anti_affinity": apart}
    own_rule, theirs = ({}, rule) if who == "the nominated pod" else (rule, {})
    nominated = a_pod("first", labels={"app": "web"}, nominated_node_name="n", priority=5, **theirs)
    cluster = {"nodes": (node,), "node_claims": (claim,)}
    for priority, beside in ((5, False), (6, True)):
        pod = a_pod("p", labels={"app": "web"}, priority=priority, **own_rule)
        plan = plan_of(types=(TYPE,), pods=(nominated, pod), **cluster)
        assert (places(plan) == {"p": "n"}) == beside


@pytest.mark.parametrize("key", [labels.ZONE, labels.HOSTNAME])
def test_a_nominated_pod_raises_the_least_that_a_spread_counts(key: str) -> None:
    """kube-scheduler counts it in its domain, which may be the one with the fewest pods (podtopologyspread/filtering.go)."""
    claim, node = a_node_of(TYPE, "n")
    even = (TopologySpread(key, 1, selector=a_selector(app="web")),)
    nominated = a_pod("first", labels={"app": "web"}, nominated_node_name="n")
    full = a_pool(limits={"cpu": 0})
    pod = a_pod("p", labels={"app": "web"}, spreads=even)
    cluster = {"nodes": (node,), "node_claims": (claim,), "node_pools": (full,)}
    assert places(plan_of(types=(TYPE,), pods=(nominated, pod), **cluster)) == {"p": "n"}
    at_least_two = msgspec.structs.replace(even[0], min_domains=2)
    pod = a_pod("p", labels={"app": "web"}, spreads=(at_least_two,))
    assert places(plan_of(types=(TYPE,), pods=(nominated, pod), **cluster)) == {}


@pytest.mark.parametrize(("skew", "namespace", "beside"), [(1, "default", False), (2, "default", True), (1, "x", True)])
def test_an_empty_selector_counts_nominated_pods_alone(skew: int, namespace: str, beside: bool) -> None:
    """kube-scheduler leaves running pods out, but not one that it adds to a node (podtopologyspread, updateWithPod)."""
    pairs = [a_node_of(TYPE, "n", zone=ZONES[0]), a_node_of(TYPE, "full", zone=ZONES[1])]
    nodes = {"nodes": tuple(node for _, node in pairs), "node_claims": tuple(claim for claim, _ in pairs)}
    others = (a_pod("r", cpu="4", node_name="full", phase="Running"), a_pod("s", node_name="n", phase="Running"))
    nominated = a_pod("first", namespace=namespace, nominated_node_name="n")
    pod = a_pod("p", spreads=(TopologySpread(labels.ZONE, skew, selector=LabelSelector()),))
    full = a_pool(limits={"cpu": 0})
    plan = plan_of(types=(TYPE,), pods=(*others, nominated, pod), node_pools=(full,), **nodes)
    assert places(plan) == ({"p": "n"} if beside else {})


def test_a_nominated_pods_volumes_count_on_its_node() -> None:
    """The node attaches one volume, which the nominated pod brings (nodevolumelimits)."""
    claim, node = a_node_of(TYPE, "n", attach_limits={EBS_DRIVER: 1})
    gp3 = StorageClass(name="gp3", provisioner=EBS_DRIVER, binding_mode=WAIT_FOR_FIRST_CONSUMER)
    volume = (VolumeUse("", ephemeral="scratch", storage_class="gp3"),)
    nominated = a_pod("first", nominated_node_name="n", volumes=volume)
    cluster = {"nodes": (node,), "node_claims": (claim,), "storage_classes": (gp3,)}
    plan = plan_of(types=(TYPE,), pods=(nominated, a_pod("p", volumes=volume), a_pod("q")), **cluster)
    assert places(plan) == {"p": "default-0", "q": "n"}


def test_an_overcommitted_resource_matters_to_pods_that_request_it_only() -> None:
    """A kubelet that reserves more after an update leaves a node with too little CPU for its pods."""
    claim, node = a_node_of(TYPE, "n")
    large = a_pod("large", cpu="5", node_name="n", phase="Running")
    pods = (large, a_pod("p", cpu="0", memory="1Gi"), a_pod("q", cpu="0", memory="1Gi"), a_pod("r", cpu="100m"))
    plan = plan_of(types=(TYPE,), pods=pods, nodes=(node,), node_claims=(claim,))
    assert places(plan) == {"p": "n", "q": "n", "r": plan.claims[0].name}


def test_one_impossible_pod_does_not_affect_the_others() -> None:
    """Otherwise, one bad object stops all others."""
    plan = plan_of(types=(TYPE,), pods=(selecting("karpenter.sh/custom"), a_pod("q")))
    assert set(places(plan)) == {"q"}


def test_pending_pods_are_sorted_by_name() -> None:
    """Otherwise, the plan depends on how the API server lists them."""
    pending = pending_pods(a_snapshot(pods=(a_pod("b"), a_pod("a"), a_pod("bound", node_name="n"))))
    assert [pod.name for pod in pending] == ["a", "b"]
    assert not any(map(is_virtual, pending))


SMALL, LARGE = a_type("small", cpu="2", price=0.1), a_type("large", cpu="8", price=0.4)


def test_pods_of_a_node_that_leaves_move_and_its_room_is_gone() -> None:
    """Otherwise, they wait until the node is gone, or are planned onto it."""
    claim, node = a_node_of(LARGE, "old")
    claim = msgspec.structs.replace(claim, deleted_at=NOW - timedelta(minutes=1))
    pods = (
        a_pod("waits"),
        a_pod("runs", node_name="old"),
        a_pod("daemon", node_name="old", owners=(Owner("DaemonSet", "d"),)),
    )
    context = context_of(types=(LARGE,), nodes=(node,), node_claims=(claim,), pods=pods)
    assert [pod.name for pod in context.pending] == ["waits"]
    assert [pod.name for pod in context.moving] == ["runs"]
    assert context.leaving == {context.positions["old"]} == {context.positions[claim.name]}


@pytest.mark.parametrize(
    ("ends_at", "moving"), [(None, ["free"]), (NOW + timedelta(minutes=2), ["free", "guarded", "held"])]
)
def test_pods_that_may_not_be_evicted_move_only_where_ec2_takes_the_instance(
    ends_at: datetime | None, moving: list[str]
) -> None:
    """Otherwise, they end with the instance, and nodes for their successors are launched only then."""
    claim, node = a_node_of(LARGE, "old")
    claim = msgspec.structs.replace(claim, deleted_at=NOW - timedelta(minutes=1), ends_at=ends_at)
    budget = PodDisruptionBudget(
        namespace="default", name="none", selector=a_selector(app="guarded"), max_unavailable="0"
    )
    pods = (
        a_pod("free", node_name="old"),
        a_pod("held", node_name="old", annotations={labels.DO_NOT_DISRUPT: "true"}),
        a_pod("guarded", node_name="old", labels={"app": "guarded"}, phase="Running"),
        a_pod("daemon", node_name="old", owners=(Owner("DaemonSet", "d"),)),
    )
    context = context_of(types=(LARGE,), nodes=(node,), node_claims=(claim,), pods=pods, budgets=(budget,))
    assert [pod.name for pod in context.moving] == moving


def test_a_price_restricts_a_copy_and_leaves_the_context_as_it_was() -> None:
    context = context_of(types=(SMALL, LARGE), pods=(a_pod(),))
    (cheap,), (whole,) = context.below(160_000_000).templates, context.templates
    assert cheap.types.names(cheap.mask) == ("small",)
    assert whole.types.names(whole.mask) == ("large", "small")


def test_only_pods_with_rules_along_shared_domains_are_pinned() -> None:
    """A pod that nothing holds to its zone may go to a cheaper one."""
    apart = PodAffinityTerm(labels.ZONE, a_selector(app="db"))
    claim, node = a_node_of(LARGE, zone=ZONES[1])
    free = a_pod("free", node_name="node-1")
    bound = a_pod("db", node_name="node-1", labels={"app": "db"}, anti_affinity=(apart,))
    world = {"types": (LARGE,), "nodes": (node,), "node_claims": (claim,)}
    alone = context_of(**world, pods=(free,))
    assert alone.pinned([0]) is alone
    both = context_of(**world, pods=(free, bound))
    pinned = both.pinned([0])
    (step, *_) = pinned.pod_groups.of(bound).steps
    zones = [both.table[number].get(labels.ZONE) for number in step.alternatives]
    assert [zone.values for zone in zones if zone is not None] == [(ZONES[1],)]
    assert pinned.pod_groups.of(free).steps == both.pod_groups.of(free).steps


# Groups of equal pods, and what each requests.


def test_equal_pods_are_one_group_and_sizes_share_their_steps() -> None:
    """Otherwise, each size of a pod is searched separately."""
    context = context_of(types=(a_type(),), pods=(a_pod("a"), a_pod("b"), a_pod("large", cpu="2")))
    assert isinstance(context.pod_groups, PodGroups)
    a, b, large = (group_of(context, name) for name in ("a", "b", "large"))
    assert a is b
    assert a is not large
    assert a.steps is large.steps


def test_a_step_has_the_numbers_of_its_requirements() -> None:
    """Otherwise, searches use other requirements than the pod's."""
    spread = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=a_selector(app="web"))
    near = PodAffinityTerm(labels.HOSTNAME, a_selector(app="web"))
    zone = (Requirement.one_of(labels.ZONE, ZONES[0]),)
    pods = (
        a_pod("held", node_selector=zone),
        a_pod("spread", labels={"app": "web"}, spreads=(spread,)),
        a_pod("near", labels={"app": "web"}, affinity=(near,)),
        a_pod("hopeless", resource_claims=("gpu",)),
    )
    context = context_of(types=(a_type(),), pods=pods)
    held, spread_, near_, hopeless = (group_of(context, pod.name) for pod in pods)
    (alternative,) = held.steps[0].alternatives
    assert alternative != IMPOSSIBLE
    assert context.table.single(alternative, labels.ZONE) == ZONES[0]
    assert [group.steps[0].is_monotone for group in (held, spread_, near_)] == [True, False, False]
    assert (spread_.steps[0].keys, len(spread_.steps[0].zone_rules)) == ((labels.ZONE,), 1)
    assert (len(near_.steps[0].host_rules), near_.steps[0].keys) == (1, (labels.ZONE,))
    assert hopeless.steps == ()
    assert hopeless.refusal is not None
    assert hopeless.refusal.reason == PodReason.UNSUPPORTED_RESOURCE_CLAIM


def test_only_affinity_and_spreads_over_shared_domains_may_become_easier() -> None:
    """A failure of other pods is final for a plan; these are asked again once others have been placed."""
    web = a_selector(app="web")
    rules = {
        "zones": {"spreads": (TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=web),)},
        "hosts": {"spreads": (TopologySpread(topology_key=labels.HOSTNAME, max_skew=1, selector=web),)},
        "near": {"affinity": (PodAffinityTerm(labels.ZONE, web),)},
        "close": {"affinity": (PodAffinityTerm(labels.HOSTNAME, web),)},
        "apart": {"anti_affinity": (PodAffinityTerm(labels.HOSTNAME, web),)},
        "far": {"anti_affinity": (PodAffinityTerm(labels.ZONE, web),)},
        "none": {},
    }
    reasons = {}
    for name, rule in rules.items():
        context = context_of(types=(a_type(),), pods=(a_pod(name, labels={"app": "web"}, **rule),))
        reasons[name] = group_of(context, name).steps[0].is_monotone
    assert [name for name, is_monotone in reasons.items() if not is_monotone] == ["zones", "near", "close"]
    assert set(map(type, reasons.values())) == {bool}


def test_a_pinned_pod_has_its_pin_and_others_have_none() -> None:
    """Otherwise, a pod that moves leaves the zone that a rule keeps it in."""
    pods = (a_pod("a"), a_pod("b"))
    context = context_of(types=(a_type(),), pods=pods)
    pin = Requirements((Requirement.one_of(labels.ZONE, ZONES[1]),))
    pinned = context.pod_groups.pinned({pods[0].key: pin})
    (own,), (other,) = (pinned.of(pod).steps[0].alternatives for pod in pods)
    assert context.table[own] == pin
    assert context.table[other] == Requirements()
    assert pinned.of(pods[1]) is context.pod_groups.of(pods[0]) is context.pod_groups.of(pods[1])


def test_a_pods_own_requirements_are_its_selector_first_alternative_and_heaviest_preference() -> None:
    """The next steps take the next alternative, then the next preference."""
    zones = [NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)) for zone in ZONES[:2]]
    arch = [NodeSelectorTerm((Requirement.one_of(labels.ARCH, arch),)) for arch in ("amd64", "arm64")]
    selector = (Requirement.one_of(labels.OS, "linux"),)
    pod = a_pod(
        node_selector=selector,
        required_terms=tuple(zones),
        preferred_terms=(PreferredTerm(1, arch[0]), PreferredTerm(9, arch[1])),
    )
    context = context_of(types=(a_type(),), pods=(pod,))
    steps = group_of(context, "p").steps
    wanted = [(zones[0], arch[1]), (zones[1], arch[1]), (zones[1], arch[0]), (zones[1],), (zones[0],)]
    assert [context.table[step.alternatives[0]] for step in steps] == [
        Requirements((*selector, *(requirement for term in terms for requirement in term.requirements)))
        for terms in wanted
    ]
    assert [step.number for step in steps] == [0, 1, 2, 3, 4]
    assert len({step.index for step in steps}) == len(steps)


def test_preferences_are_ignored_where_the_policy_says_so() -> None:
    term = NodeSelectorTerm((Requirement.one_of(labels.ARCH, "arm64"),))
    pod = a_pod(preferred_terms=(PreferredTerm(1, term),))
    for policy, steps in (("Respect", 2), ("Ignore", 1)):
        context = context_of(types=(a_type(),), pods=(pod,), options=Options(preference_policy=policy))
        assert len(group_of(context, "p").steps) == steps


def test_a_pod_tolerates_preferences_of_nodes_at_last_where_there_are_any() -> None:
    """The step costs a search of all nodes, so it is only made if any taint asks for it."""
    soft, hard = Taint("team", PREFER_NO_SCHEDULE, "a"), Taint("team", NO_SCHEDULE, "a")
    node_of = {taint: a_node_of(a_type(), taints=(taint,)) for taint in (soft, hard)}
    cases = (
        ({"node_pools": (a_pool(taints=(hard, soft)),)}, True),
        ({"node_pools": (a_pool(taints=(hard,)),)}, False),
        ({"nodes": (node_of[soft][1],), "node_claims": (node_of[soft][0],)}, True),
        ({"nodes": (node_of[hard][1],), "node_claims": (node_of[hard][0],)}, False),
    )
    for world, tolerates in cases:
        last = group_of(context_of(types=(a_type(),), pods=(a_pod(),), **world), "p").steps[-1]
        assert (TOLERATE_PREFERENCES in last.demands.tolerations) is tolerates


def test_a_group_is_plain_if_no_constraint_concerns_it() -> None:
    """Constraints are not asked about plain pods at all."""
    pods = (a_pod("plain"), a_pod("port", host_ports=(HostPort(80),)))
    context = context_of(types=(a_type(),), pods=pods)
    assert [group_of(context, pod.name).is_plain for pod in pods] == [True, False]


def test_a_pod_with_volumes_has_their_requirements() -> None:
    """Otherwise, it is placed in another zone than its volume."""
    storage = StorageClass(
        name="gp3",
        provisioner=EBS_DRIVER,
        binding_mode=WAIT_FOR_FIRST_CONSUMER,
        allowed_topologies=(NodeSelectorTerm((Requirement.one_of(labels.ZONE, ZONES[2]),)),),
    )
    pod = a_pod(volumes=(VolumeUse("", ephemeral="scratch", storage_class="gp3"),))
    context = context_of(types=(a_type(),), pods=(pod,), storage_classes=(storage,))
    group = group_of(context, "p")
    assert [context.table.single(way, labels.ZONE) for way in group.steps[0].alternatives] == [ZONES[2]]
    assert not group.is_plain


# Pods that may wait get room that is there, or spot nodes, until it is time for their deadline.


def waiting(name: str = "job", start: str = "8h", **annotations: str) -> Pod:
    return a_pod(name, cpu="1800m", annotations={labels.START_BEFORE: start, **annotations})


def spot_and_on_demand(*capacity_types: str) -> InstanceType:
    return a_type("m5.large", cpu="2", price=0.1, capacity_types=capacity_types or (labels.ON_DEMAND, labels.SPOT))


def test_a_pod_that_may_wait_gets_a_spot_node_but_none_on_demand() -> None:
    (claim,) = plan_of(types=(spot_and_on_demand(),), node_pools=(a_pool(),), pods=(waiting(),)).claims
    assert claim.capacity_types == (labels.SPOT,)
    (entry,) = plan_of(types=(spot_and_on_demand(),), node_pools=(a_pool(),), pods=(waiting(),)).waiting
    assert (entry.at_once, entry.cost) == (40_000_000, 40_000_000)
    plan = plan_of(types=(spot_and_on_demand(labels.ON_DEMAND),), node_pools=(a_pool(),), pods=(waiting(),))
    assert reasons_of(plan) == {"job": PodReason.HELD_BACK}
    assert "from 2026-" in plan.unschedulable[0].message
    assert [(entry.at_once, entry.cost) for entry in plan.waiting] == [(100_000_000, 0)]


def test_a_pod_that_waits_for_room_gets_no_new_node_and_takes_room_that_is_there() -> None:
    claim, node = a_node_of(spot_and_on_demand(), "there")
    pods = (waiting("first", **{labels.WAITS_FOR: "room"}), waiting("second", **{labels.WAITS_FOR: "room"}))
    plan = plan_of(
        types=(spot_and_on_demand(),), node_pools=(a_pool(),), nodes=(node,), node_claims=(claim,), pods=pods
    )
    assert [binding.pod for binding in plan.bindings] == ["default/first"]
    assert reasons_of(plan) == {"second": PodReason.HELD_BACK}


def test_a_node_is_bought_at_any_price_when_the_deadline_is_near() -> None:
    near = waiting(start="20m", **{labels.WAITS_FOR: "room"})
    plan = plan_of(types=(spot_and_on_demand(labels.ON_DEMAND),), node_pools=(a_pool(),), pods=(near,))
    assert [claim.pods for claim in plan.claims] == [("default/job",)]


def test_pods_that_may_wait_do_not_hold_back_others() -> None:
    plan = plan_of(
        types=(spot_and_on_demand(labels.ON_DEMAND),), node_pools=(a_pool(),), pods=(waiting(), a_pod("web", cpu="1"))
    )
    assert [claim.pods for claim in plan.claims] == [("default/web",)]
    assert reasons_of(plan) == {"job": PodReason.HELD_BACK}


def test_pods_that_may_wait_take_room_last() -> None:
    """Otherwise, a node is bought for a pod that cannot wait, and the other one is in its place."""
    claim, node = a_node_of(spot_and_on_demand(), "there")
    plan = plan_of(
        types=(spot_and_on_demand(labels.ON_DEMAND),),
        node_pools=(a_pool(),),
        nodes=(node,),
        node_claims=(claim,),
        pods=(waiting(), a_pod("web", cpu="1")),
    )
    assert [(binding.pod, binding.node) for binding in plan.bindings] == [("default/web", "there")]
    assert reasons_of(plan) == {"job": PodReason.HELD_BACK}
