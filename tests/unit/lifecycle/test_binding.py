"""Which pods we bind, and to which nodes; the rest is left to kube-scheduler."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pytest

from core import labels
from core.lifecycle.binding import (
    HOLD_AT_MOST,
    QUIET_FOR,
    SETTLES_WITHIN,
    DecidedBinding,
    PlacedPods,
    PodSelection,
    accepts_bindings,
    affinity_selection,
    apart_from_scheduler,
    covers_plan,
    in_chains,
    is_attracted,
    is_hold_over,
    is_left_to_scheduler,
    is_repelled,
    is_seen_by_kubelet,
    keeps_skew,
    lacking_resource,
    may_have_a_turn,
    may_hold,
    next_turn,
    objection,
    objection_of_node,
    opening_nodes,
    outranking,
    plan_stamp,
    spread_selection,
    unconnected,
)
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion, Moments
from core.model.pod import (
    IGNORE,
    SCHEDULE_ANYWAY,
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    TopologySpread,
    VolumeUse,
)
from core.model.snapshot import Node
from core.model.values.requirements import Requirement
from core.model.values.taints import HELD, NO_SCHEDULE, PREFER_NO_SCHEDULE, UNREGISTERED, Taint, Toleration
from core.reasons.pods import BindingReason
from tests.builders import NOW, a_pod
from tests.unit.lifecycle.binding.cases import OF_WEB, WEB, a_held_node, a_spread, a_term, web
from tests.unit.lifecycle.records_for_tests import PROVIDER_ID, a_plan, a_record

# Whether a pod may be bound to a node now: no rule is broken, and no preferred pod loses its room.


ADMISSION_NODES = [a_held_node("a1"), a_held_node("b1", zone="b")]


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (a_pod("p"), None),
        (a_pod("p", is_gated=True), BindingReason.LEFT_TO_SCHEDULER),
        (a_pod("p", cpu="9"), BindingReason.NO_ROOM),
        (web("p", spreads=(a_spread(),)), BindingReason.TOPOLOGY_SPREAD),
        (a_pod("p", anti_affinity=(a_term(),)), BindingReason.POD_ANTI_AFFINITY),
        (a_pod("p", nominated_node_name="b1"), BindingReason.LEFT_TO_SCHEDULER),
        (a_pod("p", nominated_node_name="a1"), None),
    ],
)
def test_the_first_rule_that_keeps_a_pod_out_is_reported(pod: Pod, reason: BindingReason | None) -> None:
    assert objection(pod, ADMISSION_NODES[0], PlacedPods(ADMISSION_NODES, [web("old", "a1")])) is reason


def test_a_pod_with_unmet_affinity_waits_for_others() -> None:
    pod = a_pod("p", affinity=(a_term(),))
    assert (
        objection(pod, ADMISSION_NODES[1], PlacedPods(ADMISSION_NODES, [web("old", "a1")]))
        is BindingReason.POD_AFFINITY
    )


def test_a_pending_pod_of_higher_priority_comes_first_where_it_fits() -> None:
    placed = PlacedPods(ADMISSION_NODES, [])
    waiting = [a_pod("high", priority=10), a_pod("higher", priority=20, cpu="9"), a_pod("low", priority=1)]
    assert outranking(waiting, set(), ADMISSION_NODES[0], placed) == 10
    assert outranking(waiting, {"default/high"}, ADMISSION_NODES[0], placed) == 1
    assert outranking([], set(), ADMISSION_NODES[0], placed) is None
    gated = a_pod("gated", priority=30, is_gated=True)
    assert outranking([gated, *waiting], set(), ADMISSION_NODES[0], placed) == 10, (
        "it is not scheduled before its gate is gone"
    )


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(volumes=(VolumeUse("data"),)),
        a_pod(resource_claims=("gpu",)),
        a_pod(workload="train"),
        a_pod(is_gated=True),
        a_pod(scheduler_name="batch"),
        a_pod(unreadable="spec.affinity"),
        a_pod(problem="spec.affinity: no node can have it"),
        a_pod(anti_affinity=(a_term(), a_term(namespace_selector=LabelSelector()))),
        a_pod(extra={"nvidia.com/gpu": "1"}),
        a_pod(affinity=(a_term(namespace_selector=LabelSelector()),)),
    ],
)
def test_pods_that_need_the_scheduler_are_left_to_it(pod: Pod) -> None:
    assert is_left_to_scheduler(pod)


def test_an_ordinary_pod_is_bound_by_us() -> None:
    assert not is_left_to_scheduler(a_pod(affinity=(a_term(),)))


@pytest.mark.parametrize(
    ("plan", "held"),
    [
        ({}, True),
        ({"pods": ()}, False),
        ({"startup_taints": (Taint("cilium", NO_SCHEDULE),)}, False),
        ({"resources": {"cpu": 1, "nvidia.com/gpu": 1}}, False),
        ({"resources": {"cpu": 1, "nvidia.com/gpu": 0}}, True),
    ],
)
def test_a_node_that_other_agents_must_prepare_is_not_held(plan: dict[str, Any], held: bool) -> None:
    """Agents that remove startup taints or set up a device may not tolerate our taint: the node would never start."""
    assert may_hold(a_record(ClaimPhase.REGISTERED, plan=a_plan(**plan))) is held


def test_a_replacement_is_open_at_once() -> None:
    """Its pods run until they are evicted, which waits for it."""
    assert not may_hold(a_record(ClaimPhase.REGISTERED, command="one"))


@pytest.mark.parametrize(
    ("node", "accepts"),
    [
        (a_held_node(), True),
        (a_held_node(is_ready=False), False),
        (a_held_node(taints=()), False),
        (a_held_node(taints=(HELD, UNREGISTERED)), False),
        (a_held_node(deleted_at=NOW), False),
        (a_held_node(ready_changed_at=NOW), False),
        (a_held_node(ready_changed_at=NOW - SETTLES_WITHIN), True),
    ],
)
def test_bindings_wait_until_the_kubelet_has_seen_that_the_node_is_open(node: Node, accepts: bool) -> None:
    """It fails a pod for a NoExecute taint in its cache, and a failed pod does not come back."""
    assert accepts_bindings(node, NOW + timedelta(0)) is accepts


def test_a_node_smaller_than_planned_takes_no_bindings() -> None:
    record = a_record(ClaimPhase.REGISTERED, plan=a_plan(resources={"cpu": 4001}))
    assert not covers_plan(record, a_held_node())
    exact = a_record(ClaimPhase.REGISTERED, plan=a_plan(resources={"cpu": 4000, "memory": 1 << 34, "pods": 10}))
    assert covers_plan(exact, a_held_node())
    for lacking in ({"cpu": 1, "example.com/gpu": 1}, {"example.com/gpu": 1}, {"cpu": 4001, "pods": 1}):
        assert not covers_plan(a_record(ClaimPhase.REGISTERED, plan=a_plan(resources=lacking)), a_held_node())
    assert covers_plan(a_record(ClaimPhase.REGISTERED, plan=a_plan(resources={"example.com/gpu": 0})), a_held_node())


@pytest.mark.parametrize(
    ("written", "is_seen"),
    [(None, False), (NOW - SETTLES_WITHIN + timedelta(microseconds=1), False), (NOW - SETTLES_WITHIN, True)],
)
def test_a_kubelet_has_seen_what_was_written_long_enough_ago(written: datetime | None, is_seen: bool) -> None:
    record = a_record(ClaimPhase.REGISTERED, moments=Moments(usable_at=written))
    assert is_seen_by_kubelet(record, NOW) == is_seen


@pytest.mark.parametrize(
    ("resources", "lacks"),
    [({"gpu": 1, "cpu": 1}, "gpu"), ({"gpu": 0, "cpu": 1}, None), ({"cpu": 9000}, None), ({"b": 1, "a": 1}, "a")],
)
def test_a_node_lacks_what_was_requested_and_is_not_there_at_all(resources: dict[str, int], lacks: str | None) -> None:
    record = a_record(ClaimPhase.REGISTERED, plan=a_plan(resources=resources))
    assert lacking_resource(record, a_held_node()) == lacks


# Why a node does not admit a pod; the kubelet would fail such a pod.


IN_B = Requirement.one_of(labels.ZONE, "b")


@pytest.mark.parametrize(
    ("pod", "node", "reason"),
    [
        ({}, {}, None),
        ({}, {"taints": (HELD, Taint("t", NO_SCHEDULE))}, BindingReason.UNTOLERATED_TAINT),
        ({"tolerations": (Toleration("t", "Exists"),)}, {"taints": (HELD, Taint("t", NO_SCHEDULE))}, None),
        ({}, {"taints": (HELD, Taint("t", PREFER_NO_SCHEDULE))}, None),
        ({"node_selector": (IN_B,)}, {}, BindingReason.NODE_AFFINITY),
        ({"required_terms": (NodeSelectorTerm((IN_B,)),)}, {}, BindingReason.NODE_AFFINITY),
        ({"required_terms": (NodeSelectorTerm(()),)}, {}, BindingReason.NODE_AFFINITY),
        ({"required_terms": (NodeSelectorTerm((IN_B,)), NodeSelectorTerm((Requirement(labels.ZONE),)))}, {}, None),
        ({"cpu": "3500m"}, {}, BindingReason.NO_ROOM),
        ({"cpu": "3001m"}, {}, BindingReason.NO_ROOM),
        ({"cpu": "3"}, {}, None),
        ({"cpu": "3", "extra": {"gpu": "0"}}, {}, None),
        ({"cpu": "3", "extra": {"gpu": "1"}}, {}, BindingReason.NO_ROOM),
        ({"host_ports": (HostPort(80),)}, {}, BindingReason.HOST_PORT_TAKEN),
        ({"host_ports": (HostPort(81),)}, {}, None),
        ({"host_ports": (HostPort(81), HostPort(80))}, {}, BindingReason.HOST_PORT_TAKEN),
        (
            {"required_terms": (NodeSelectorTerm((Requirement(labels.ZONE),), uses_fields=True),)},
            {},
            BindingReason.NODE_AFFINITY,
        ),
        ({"cpu": "0", "memory": "0"}, {"allocatable": {"memory": 1 << 34, "pods": 10}}, None),
        ({"extra": {"gpu": "1"}}, {"allocatable": {"cpu": 4000, "memory": 1 << 34, "pods": 10, "gpu": 1}}, None),
    ],
)
def test_each_node_property_can_keep_a_pod_out(
    pod: dict[str, Any], node: dict[str, Any], reason: BindingReason | None
) -> None:
    there: Node = a_held_node(**node)
    other: Pod = web("other", "n", host_ports=(HostPort(80),))
    assert objection_of_node(a_pod(**pod), there, PlacedPods([there], [other])) is reason


def test_what_no_pod_uses_yet_is_all_there() -> None:
    there = a_held_node()
    assert objection_of_node(a_pod("p", cpu="4"), there, PlacedPods([there], [])) is None
    assert objection_of_node(a_pod("p", cpu="4001m"), there, PlacedPods([there], [])) is BindingReason.NO_ROOM


# The pods on nodes, with those that the turn itself has bound.


def test_bound_pods_count_and_undone_ones_do_not() -> None:
    placed = PlacedPods([a_held_node()], [web("old", "n"), web("done", "n", phase="Succeeded")])
    selection = spread_selection(web("p"), a_spread())
    assert dict(placed.counted(selection)) == {"n": 1}
    pod = web("p", host_ports=(HostPort(80),), anti_affinity=(a_term(),))
    placed.place(pod, "n")
    assert dict(placed.counted(selection)) == {"n": 2}
    assert placed.used("n")["cpu"] == 2000
    assert [port.port for port in placed.host_ports("n")] == [80]
    assert [key for key, _ in placed.repelling(web("q"))] == [labels.ZONE]
    placed.remove(pod, "n")
    assert dict(placed.counted(selection)) == {"n": 1}
    assert placed.used("n")["cpu"] == 1000
    assert list(placed.repelling(web("q"))) == []
    placed.remove(pod, "n")
    assert placed.used("n")["cpu"] == 1000


def test_labels_are_known_for_existing_nodes() -> None:
    placed = PlacedPods([a_held_node()], [])
    assert (placed.value("n", labels.ZONE), placed.value("gone", labels.ZONE)) == ("a", None)


def test_domains_are_computed_once() -> None:
    """Otherwise, each of a thousand pods checks each of a thousand nodes."""
    placed, asked = PlacedPods([], []), list[str]()

    def domains() -> dict[str, str]:
        asked.append("once")
        return {"n": "a"}

    assert placed.remembered("k", domains) == placed.remembered("k", domains) == {"n": "a"}
    assert asked == ["once"]


def test_a_pod_that_waits_is_on_no_node() -> None:
    """Not even on one without a name."""
    placed = PlacedPods([a_held_node("")], [web("waits")])
    assert placed.used("") == {}
    assert dict(placed.counted(spread_selection(web("p"), a_spread()))) == {}


def test_only_pods_that_an_anti_affinity_selects_are_repelled() -> None:
    placed = PlacedPods([a_held_node()], [a_pod("old", node_name="n", anti_affinity=(a_term(),))])
    assert [key for key, _ in placed.repelling(web("p"))] == [labels.ZONE]
    assert list(placed.repelling(a_pod("q", labels={"app": "db"}))) == []


# Required pod affinity and anti-affinity at binding.


NODES = [a_held_node("a1"), a_held_node("a2"), a_held_node("b1", zone="b")]


def test_a_pod_follows_the_pods_of_its_affinity() -> None:
    placed = PlacedPods(NODES, [web("old", "a1")])
    pod = a_pod("p", affinity=(a_term(),))
    assert [is_attracted(pod, node, placed) for node in NODES] == [True, True, False]
    pod = a_pod("p", affinity=(a_term(labels.HOSTNAME),))
    assert [is_attracted(pod, node, placed) for node in NODES] == [True, False, False]


def test_the_first_of_a_group_may_go_anywhere() -> None:
    placed = PlacedPods(NODES, [])
    assert is_attracted(web("p", affinity=(a_term(),)), NODES[2], placed)
    assert not is_attracted(a_pod("p", affinity=(a_term(),)), NODES[2], placed)


def test_a_node_without_the_key_does_not_satisfy_affinity() -> None:
    assert not is_attracted(web("p", affinity=(a_term("rack"),)), NODES[0], PlacedPods(NODES, []))


def test_anti_affinity_holds_both_ways() -> None:
    placed = PlacedPods(NODES, [web("old", "a1")])
    pod = a_pod("p", anti_affinity=(a_term(),))
    assert [is_repelled(pod, node, placed) for node in NODES] == [True, True, False]
    placed = PlacedPods(NODES, [a_pod("old", node_name="a1", anti_affinity=(a_term(labels.HOSTNAME),))])
    assert [is_repelled(web("p"), node, placed) for node in NODES] == [True, False, False]


def test_a_node_without_the_key_does_not_violate_anti_affinity() -> None:
    placed = PlacedPods(NODES, [web("old", "a1")])
    assert not is_repelled(a_pod("p", anti_affinity=(a_term("rack"),)), NODES[0], placed)


def test_every_term_of_an_affinity_must_hold() -> None:
    """kube-scheduler: each topology key on the node, and a pod in each of the domains."""
    placed = PlacedPods(NODES, [web("old", "a1")])
    both = a_pod("p", affinity=(a_term(), a_term(labels.HOSTNAME)))
    assert [is_attracted(both, node, placed) for node in NODES] == [True, False, False]
    lacking = web("p", affinity=(a_term(), a_term("rack")))
    assert not is_attracted(lacking, NODES[0], placed)
    assert not is_attracted(lacking, NODES[0], PlacedPods(NODES, []))


def test_a_group_that_has_begun_somewhere_is_not_begun_again() -> None:
    """Its second pod would stand alone in another zone."""
    placed = PlacedPods(NODES, [web("old", "a1")])
    assert not is_attracted(web("p", affinity=(a_term(),)), NODES[2], placed)


# Which pods a rule counts.


def test_a_spread_counts_pods_of_its_namespace_that_are_not_terminating() -> None:
    selection = spread_selection(web("p"), a_spread())
    assert selection.counts(web("q"))
    assert not selection.counts(web("q", deleted_at=NOW))
    assert not selection.counts(web("q", namespace="other"))
    assert not selection.counts(a_pod("q"))


def test_affinity_counts_terminating_pods_too() -> None:
    """kube-scheduler considers deletion for spreads only."""
    assert affinity_selection(web("p"), (a_term(),)).counts(web("q", deleted_at=NOW))


def test_all_terms_must_select_a_pod() -> None:
    blue = PodAffinityTerm("zone", selector=LabelSelector(()), namespaces=("blue",))
    assert not affinity_selection(web("p"), (a_term(), blue)).selects(web("q"))


@pytest.mark.parametrize(("version", "selected"), [("1", True), ("2", False)])
def test_match_label_keys_narrow_to_the_pods_own_values(version: str, selected: bool) -> None:
    pod = a_pod("p", labels={"app": "web", "v": "1"})
    other = a_pod("q", labels={"app": "web", "v": version})
    assert spread_selection(pod, a_spread(match_label_keys=("v",))).selects(other) is selected
    assert affinity_selection(pod, (a_term(match_label_keys=("v",)),)).selects(other) is selected
    assert affinity_selection(pod, (a_term(mismatch_label_keys=("v",)),)).selects(other) is not selected


def test_a_rule_without_a_selector_selects_no_pod() -> None:
    assert not spread_selection(web("p"), TopologySpread("zone", 1)).selects(web("q"))


def test_a_namespace_selector_selects_all_namespaces() -> None:
    """Labels of namespaces are unknown here: a pod too many is left to the scheduler, which knows them."""
    term = PodAffinityTerm("zone", selector=OF_WEB, namespace_selector=LabelSelector())
    assert affinity_selection(web("p"), (term,)).selects(web("q", namespace="anywhere"))


def test_a_rule_without_a_selector_stays_so_whatever_labels_it_names() -> None:
    pod = a_pod("p", labels={"v": "1"})
    assert not spread_selection(pod, TopologySpread("zone", 1, match_label_keys=("v",))).selects(pod)
    assert not affinity_selection(pod, (PodAffinityTerm("zone", match_label_keys=("v",)),)).selects(pod)
    named = a_spread(match_label_keys=("absent",))
    assert spread_selection(web("p"), named) == spread_selection(web("p"), a_spread())


# Topology spread at binding.


IN_A = (Requirement.one_of(labels.ZONE, "a"),)


@pytest.mark.parametrize(
    ("rule", "pod", "holds"),
    [
        ({}, {}, False),
        ({"max_skew": 2}, {}, True),
        ({"when_unsatisfiable": SCHEDULE_ANYWAY}, {}, True),
        ({}, {"node_selector": IN_A}, True),
        ({"node_affinity_policy": IGNORE}, {"node_selector": IN_A}, False),
        ({"max_skew": 2, "min_domains": 3}, {}, True),
        ({"min_domains": 3}, {"node_selector": IN_A}, False),
        ({"key": "rack"}, {}, False),
    ],
)
def test_the_fullest_domain_waits_for_the_emptiest(rule: dict[str, Any], pod: dict[str, Any], holds: bool) -> None:
    """One pod is in zone a, none in zone b; the pod would go to zone a."""
    nodes = [a_held_node("a1"), a_held_node("b1", zone="b")]
    placed = PlacedPods(nodes, [web("old", "a1")])
    assert keeps_skew(web("p", spreads=(a_spread(**rule),), **pod), nodes[0], placed) is holds


def test_it_may_enter_once_the_other_domain_has_one() -> None:
    nodes = [a_held_node("a1"), a_held_node("b1", zone="b")]
    placed = PlacedPods(nodes, [web("old", "a1")])
    pod = web("p", spreads=(a_spread(),))
    assert keeps_skew(pod, nodes[1], placed)
    placed.place(web("q"), "b1")
    assert keeps_skew(pod, nodes[0], placed)


def test_a_domain_closed_to_the_pod_does_not_count_if_taints_are_honored() -> None:
    """The taint of held nodes closes no domain: it is removed in a moment."""
    nodes = [a_held_node("a1"), a_held_node("b1", zone="b", taints=(HELD, Taint("t", NO_SCHEDULE)))]
    placed = PlacedPods(nodes, [web("old", "a1")])
    assert keeps_skew(web("p", spreads=(a_spread(node_taints_policy="Honor"),)), nodes[0], placed)
    nodes = [a_held_node("a1"), a_held_node("b1", zone="b")]
    placed = PlacedPods(nodes, [web("old", "a1")])
    assert not keeps_skew(web("p", spreads=(a_spread(node_taints_policy="Honor"),)), nodes[0], placed)


def test_a_node_counts_only_with_the_keys_of_all_constraints() -> None:
    """kube-scheduler: where one key is missing, the pod cannot go, so its domain is none of the emptiest."""
    nodes = [a_held_node("a1", labels={labels.ZONE: "a", "rack": "1"}), a_held_node("b1", zone="b")]
    placed = PlacedPods(nodes, [web("old", "a1")])
    by_zone, by_rack = a_spread(), a_spread(max_skew=9, key="rack")
    one, both = web("p", spreads=(by_zone,)), web("q", spreads=(by_zone, by_rack))
    assert not keeps_skew(one, nodes[0], placed)
    assert [keeps_skew(both, node, placed) for node in nodes] == [True, False]


def test_a_tainted_domain_counts_unless_taints_are_honored() -> None:
    nodes = [a_held_node("a1"), a_held_node("b1", zone="b", taints=(HELD, Taint("t", NO_SCHEDULE)))]
    placed = PlacedPods(nodes, [web("old", "a1")])
    assert not keeps_skew(web("p", spreads=(a_spread(),)), nodes[0], placed)


def test_a_pod_that_its_own_rule_does_not_count_may_enter() -> None:
    nodes = [a_held_node("a1"), a_held_node("b1", zone="b")]
    placed = PlacedPods(nodes, [web("old", "a1")])
    assert keeps_skew(a_pod("p", spreads=(a_spread(),)), nodes[0], placed)


# A turn binds every pod that it can.


def a_claim(name: str, node: Node, *pods: Pod) -> tuple[ClaimRecord, Node]:
    """A claim for these pods, with its node."""
    record = a_record(ClaimPhase.REGISTERED, plan=a_plan(pods=tuple(pod.key for pod in pods)))
    return msgspec.structs.replace(record, name=name), node


def test_pods_of_one_claim_enable_those_of_another() -> None:
    """Zone a gets its second pod only after zone b has its first."""
    first, second = a_held_node("a1"), a_held_node("b1", zone="b")
    pods = [web(name, spreads=(a_spread(),)) for name in ("p", "q", "r", "s")]
    claims = [a_claim("x", first, pods[0], pods[1]), a_claim("y", second, pods[2], pods[3])]
    turn = next_turn(claims, {pod.key: pod for pod in pods}, {pod.key for pod in pods}, PlacedPods([first, second], []))
    assert [(binding.pod.name, binding.claim) for binding in turn.bindings] == [
        ("p", "x"),
        ("r", "y"),
        ("s", "y"),
        ("q", "x"),
    ]
    assert not any(turn.left.values())


def test_a_pod_that_cannot_be_bound_is_left_with_its_reason() -> None:
    node, pods = a_held_node("a1"), [a_pod("p", cpu="3"), a_pod("q", cpu="3"), a_pod("gone")]
    claim = a_claim("x", node, *pods)
    turn = next_turn([claim], {pod.key: pod for pod in pods[:2]}, set(), PlacedPods([node], []))
    assert [binding.pod.name for binding in turn.bindings] == ["p"]
    assert [(pod.name, reason) for pod, reason in turn.left["x"]] == [("q", BindingReason.NO_ROOM)]


def test_no_pod_is_bound_before_one_that_the_scheduler_prefers() -> None:
    node, ours, other = a_held_node("a1"), a_pod("p"), a_pod("high", priority=10)
    waiting = {pod.key: pod for pod in (ours, other)}
    turn = next_turn([a_claim("x", node, ours)], waiting, {ours.key}, PlacedPods([node], []))
    assert (turn.bindings, turn.left["x"]) == ((), ((ours, BindingReason.OUTRANKED),))


# kube-scheduler places pods on a node that opens while a turn binds others: no rule may break between the two.


# Bindings that must keep their order, so that no rule is broken even for a moment.


def chains(*pods: Pod) -> list[list[str]]:
    """The names of the pods of each chain."""
    found = in_chains([DecidedBinding("c", pod, "n") for pod in pods])
    return sorted([binding.pod.name for binding in chain] for chain in found)


def test_pods_without_rules_are_bound_concurrently() -> None:
    assert chains(a_pod("p"), a_pod("q"), a_pod("r")) == [["p"], ["q"], ["r"]]


def test_pods_that_a_rule_connects_keep_their_order() -> None:
    spread = a_pod("s", spreads=(a_spread(),))
    assert chains(web("p"), spread, a_pod("q"), web("r")) == [["p", "s", "r"], ["q"]]


def test_rules_that_share_pods_make_one_chain() -> None:
    apart, spread = a_pod("a", anti_affinity=(a_term(),)), web("s", spreads=(a_spread(),))
    assert chains(apart, web("p"), spread) == [["a", "p", "s"]]


def test_a_rule_without_pods_here_connects_none() -> None:
    first, second = (a_pod(name, affinity=(a_term(),), labels={"app": "db"}) for name in ("p", "q"))
    assert chains(first, second, web("w", namespace="other")) == [["p"], ["q"], ["w"]]


def with_own_labels(count: int, pod: Pod) -> list[Pod]:
    """Pods of a StatefulSet, or of an indexed Job: each has a label of its own."""
    return [
        msgspec.structs.replace(pod, name=f"s-{number}", labels={**WEB, "apps.kubernetes.io/pod-index": str(number)})
        for number in range(count)
    ]


@pytest.mark.parametrize("rules", [{}, {"match_label_keys": ("apps.kubernetes.io/pod-index",)}])
def test_each_pod_is_compared_with_few_selections(
    rules: dict[str, tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pod's rule was compared with each pod: 18 s for 5,000 pods, with a lease of 20."""
    pods = with_own_labels(2000, web("s", spreads=(a_spread(**rules),)))
    compared, selects = [], PodSelection.selects
    monkeypatch.setattr(PodSelection, "selects", lambda one, pod: bool(compared.append(pod)) or selects(one, pod))
    unconnected_bindings = unconnected([DecidedBinding("c", pod, "n") for pod in pods], pods[:1])
    assert len(unconnected_bindings) == (len(pods) - 1 if rules else 0)
    assert len(compared) <= 2 * len(pods)


@pytest.mark.parametrize("seed", range(30))
def test_chains_are_those_of_all_comparisons(seed: int) -> None:
    """Which pods are compared must not change which are connected."""
    pods = random_pods(np.random.default_rng(seed))
    together = [{pod.name} for pod in pods]
    for pod in pods:
        for rule in pod.spec.anti_affinity:
            selected = {
                other.name for other in pods if rule.selector is not None and rule.selector.matches(other.labels)
            }
            joined = [chain for chain in together if chain & (selected | {pod.name})] if selected else []
            if joined:
                together = [*(chain for chain in together if chain not in joined), set().union(*joined)]
    assert chains_of(pods) == sorted(map(sorted, together))


def chains_of(pods: list[Pod]) -> list[list[str]]:
    return sorted(sorted(chain) for chain in chains(*pods))


def random_pods(dice: np.random.Generator) -> list[Pod]:
    """Pods with labels of three keys, each with or without an anti-affinity whose selector uses any operator."""
    values, operators = ("x", "y", "z"), ("In", "NotIn", "Exists", "DoesNotExist")
    pods = []
    for number in range(int(dice.integers(2, 14))):
        labels = {key: str(dice.choice(values)) for key in "abc" if dice.random() < 0.5}
        operator = str(dice.choice(operators))
        chosen = [str(value) for value in dice.choice(values, 2)] if "In" in operator else []
        selector = LabelSelector((Requirement.of(str(dice.choice(list("abc"))), operator, chosen),))
        term = msgspec.structs.replace(a_term(), selector=selector)
        pods.append(a_pod(f"p{number}", labels=labels, anti_affinity=(term,) if dice.random() < 0.5 else ()))
    return pods


def test_a_rule_that_two_workloads_share_makes_one_chain() -> None:
    """Neither is selected by it: their pods wait for the same pod, or keep apart from it."""
    db, cache = (a_pod(name, labels={"app": name}, affinity=(a_term(),)) for name in ("db", "cache"))
    assert chains(db, cache, web("w"), a_pod("q")) == [["db", "cache", "w"], ["q"]]
    assert chains(web("w"), db, cache) == [["w", "db", "cache"]]


# How long a node is held for its turn.


SECOND = timedelta(seconds=1)
LONG_AGO = NOW - QUIET_FOR


def a_held_claim(name: str = "default-x-0", phase: ClaimPhase = ClaimPhase.REGISTERED, **changes: Any) -> ClaimRecord:
    """A claim of plan `x` whose node has been usable for some time."""
    fields = {"moments": Moments(usable_at=LONG_AGO), **changes}
    return msgspec.structs.replace(a_record(phase), name=name, **fields)


OWN = a_held_claim()


@pytest.mark.parametrize(
    ("other", "may"),
    [
        (a_held_claim("default-x-1"), False),
        (a_held_claim("default-x-1", moments=Moments()), True),
        (a_held_claim("default-x-1", ClaimPhase.LAUNCHED, moments=Moments()), True),
        (a_held_claim("default-x-1", ClaimPhase.REQUESTED, moments=Moments()), True),
        (a_held_claim("default-x-1", moments=Moments(usable_at=NOW - SECOND)), True),
        (a_held_claim("default-x-1", moments=Moments(usable_at=LONG_AGO, bound_at=NOW - SECOND)), True),
        (a_held_claim("default-x-1", moments=Moments(usable_at=LONG_AGO, bound_at=LONG_AGO)), False),
        (a_held_claim("default-x-1", moments=Moments(), is_bound=True), False),
        (a_held_claim("default-x-1", ClaimPhase.INITIALIZED, moments=Moments(), initialized_at=NOW), False),
        (a_held_claim("default-x-1", moments=Moments(), deletion=Deletion(reason="r", asked_at=NOW)), False),
        (a_held_claim("default-y-1", moments=Moments()), False),
    ],
)
def test_a_turn_comes_while_others_of_the_plan_come(other: ClaimRecord, may: bool) -> None:
    assert may_have_a_turn(OWN, [OWN, other], NOW) is may


def test_a_hold_ends() -> None:
    assert not is_hold_over(OWN, NOW)
    assert is_hold_over(a_held_claim(moments=Moments(usable_at=NOW - HOLD_AT_MOST)), NOW)
    assert not is_hold_over(a_held_claim(moments=Moments()), NOW)


def test_claims_of_one_plan_have_one_stamp() -> None:
    """Names of NodePools may contain dashes."""
    assert plan_stamp(a_held_claim("my-pool-x-12")) == plan_stamp(a_held_claim("other-x-3")) == "x"


OPENED = a_held_node("opened", taints=())
SPREAD = web("s", spreads=(a_spread(),))


def bound(*pods: Pod, beside: Pod, on: Node = OPENED) -> list[str]:
    """The pods that are bound now, while this one waits for a node that was just opened."""
    bindings = [DecidedBinding("c", pod, "n") for pod in pods]
    placed = PlacedPods([on, a_held_node()], [])
    return [binding.pod.name for binding in apart_from_scheduler(bindings, [beside, *pods], [on], placed)]


def test_a_pod_waits_while_a_rule_connects_it_with_one_that_the_scheduler_may_place() -> None:
    """Each binding kept the skew by what it knew, and both together broke it."""
    lone = a_pod("p", cpu="8")
    assert bound(SPREAD, lone, beside=web("w")) == ["p"]


def test_a_rule_of_the_other_pod_counts_too() -> None:
    plain, other = web("p"), a_pod("x", cpu="8")
    assert bound(plain, other, beside=a_pod("w", anti_affinity=(a_term(),))) == ["x"]


@pytest.mark.parametrize("beside", [a_pod("w", labels={"app": "db"}), web("w", cpu="8"), web("w", is_gated=True)])
def test_a_pod_does_not_wait_for_one_that_no_rule_counts_or_that_has_no_room_there(beside: Pod) -> None:
    assert bound(web("s", cpu="8", spreads=(a_spread(),)), beside=beside) == ["s"]


def test_nothing_waits_while_no_node_opens() -> None:
    bindings = [DecidedBinding("c", SPREAD, "n")]
    assert apart_from_scheduler(bindings, [SPREAD, web("w")], [], PlacedPods([], [])) == tuple(bindings)


@pytest.mark.parametrize(
    ("ago", "node", "counts"),
    [
        (timedelta(0), OPENED, True),
        (SETTLES_WITHIN, OPENED, False),
        (timedelta(hours=-1), OPENED, False),
        (timedelta(0), a_held_node("opened", taints=(HELD,)), True),
        (timedelta(0), a_held_node("opened", taints=(), is_ready=False), False),
        (timedelta(0), a_held_node("other", taints=()), False),
    ],
)
def test_a_node_counts_as_just_opened_until_its_first_bindings_are_visible(
    ago: timedelta, node: Node, *, counts: bool
) -> None:
    """A sandbox whose clock is an hour ahead would stop all bindings for an hour.

    A node that was opened since nodes were listed is still held in the list.
    """
    record = a_record(node_name="opened", moments=Moments(opened_at=NOW - ago))
    assert opening_nodes([record, a_record()], PlacedPods([node], []), NOW) == ([node] if counts else [])


LACKS_A_DEVICE = a_record(ClaimPhase.REGISTERED, node_name="opened", plan=a_plan(resources={"amd.com/gpu": 1}))
JUST_READY = a_held_node("opened", taints=(), ready_changed_at=NOW - timedelta(seconds=1))


@pytest.mark.parametrize(
    ("record", "node", "counts"),
    [
        (a_record(ClaimPhase.REGISTERED, node_name="opened"), OPENED, True),
        (a_record(ClaimPhase.LAUNCHED), msgspec.structs.replace(OPENED, provider_id=PROVIDER_ID), True),
        (a_record(ClaimPhase.REQUESTED), OPENED, False),
        (LACKS_A_DEVICE, OPENED, False),
        (LACKS_A_DEVICE, JUST_READY, True),
    ],
)
def test_a_node_counts_while_it_is_open_and_its_row_does_not_say_so(
    record: ClaimRecord, node: Node, *, counts: bool
) -> None:
    """Its row is stored after the node and after each nomination; a node that is never held is open from ready on.

    A node that waits for its device plugin is open for minutes, in which no binding would be written.
    """
    assert opening_nodes([record], PlacedPods([node], []), NOW) == ([node] if counts else [])


@pytest.mark.parametrize(
    ("is_bound", "ago", "counts"),
    [(True, SETTLES_WITHIN, True), (True, timedelta(seconds=1), False), (False, SETTLES_WITHIN, False)],
)
def test_a_held_node_counts_once_it_is_due_to_open(ago: timedelta, *, is_bound: bool, counts: bool) -> None:
    """Another run may be opening it, two seconds after its last binding: earlier, bursts would take seconds longer."""
    moments = Moments(bound_at=NOW - ago)
    record = a_record(ClaimPhase.REGISTERED, node_name="n", is_bound=is_bound, moments=moments)
    node = a_held_node()
    assert opening_nodes([record], PlacedPods([node], []), NOW) == ([node] if counts else [])


def test_one_opening_node_with_room_is_enough() -> None:
    """kube-scheduler takes whichever has room."""
    full = a_held_node("full", taints=(), allocatable={"cpu": 0, "memory": 0, "pods": 0})
    bindings = [DecidedBinding("c", SPREAD, "n")]
    placed = PlacedPods([full, OPENED, a_held_node()], [])
    for opening in ([full, OPENED], [OPENED, full]):
        assert apart_from_scheduler(bindings, [web("w"), SPREAD], opening, placed) == ()
    assert apart_from_scheduler(bindings, [web("w"), SPREAD], [full], placed) == tuple(bindings)


def test_a_held_node_whose_pods_were_bound_at_no_known_time_is_due_to_open() -> None:
    """An adopted or restored row has none."""
    record = a_record(ClaimPhase.REGISTERED, node_name="n", is_bound=True, moments=Moments())
    node = a_held_node()
    assert opening_nodes([record], PlacedPods([node], []), NOW) == [node]
