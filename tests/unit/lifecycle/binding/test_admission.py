"""Whether a pod may be bound to a node now: no rule is broken, and no preferred pod loses its room."""

from __future__ import annotations

import pytest

from core.lifecycle.binding.admission import objection, outranking
from core.lifecycle.binding.placed_pods import PlacedPods
from core.model.pod import Pod
from core.reasons.binding import BindingReason
from tests.builders import a_pod
from tests.unit.lifecycle.binding.cases import a_held_node, a_spread, a_term, web

NODES = [a_held_node("a1"), a_held_node("b1", zone="b")]


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
    assert objection(pod, NODES[0], PlacedPods(NODES, [web("old", "a1")])) is reason


def test_a_pod_with_unmet_affinity_waits_for_others() -> None:
    pod = a_pod("p", affinity=(a_term(),))
    assert objection(pod, NODES[1], PlacedPods(NODES, [web("old", "a1")])) is BindingReason.POD_AFFINITY


def test_a_pending_pod_of_higher_priority_comes_first_where_it_fits() -> None:
    placed = PlacedPods(NODES, [])
    waiting = [a_pod("high", priority=10), a_pod("higher", priority=20, cpu="9"), a_pod("low", priority=1)]
    assert outranking(waiting, set(), NODES[0], placed) == 10
    assert outranking(waiting, {"default/high"}, NODES[0], placed) == 1
    assert outranking([], set(), NODES[0], placed) is None
    gated = a_pod("gated", priority=30, is_gated=True)
    assert outranking([gated, *waiting], set(), NODES[0], placed) == 10, "it is not scheduled before its gate is gone"
