"""Topology spread at binding."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.lifecycle.binding.placed_pods import PlacedPods
from core.lifecycle.binding.spreading import keeps_skew
from core.model.pod import IGNORE, SCHEDULE_ANYWAY
from core.model.values.requirements import Requirement
from core.model.values.taints import HELD, NO_SCHEDULE, Taint
from tests.builders import a_pod
from tests.unit.lifecycle.binding.cases import a_held_node, a_spread, web

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
