"""Required pod affinity and anti-affinity at binding."""

from __future__ import annotations

from core import labels
from core.lifecycle.binding.placed_pods import PlacedPods
from core.lifecycle.binding.pod_affinity import is_attracted, is_repelled
from tests.builders import a_pod
from tests.unit.lifecycle.binding.cases import a_held_node, a_term, web

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
