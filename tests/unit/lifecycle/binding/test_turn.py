"""A turn binds every pod that it can."""

from __future__ import annotations

import msgspec

from core.lifecycle.binding.placed_pods import PlacedPods
from core.lifecycle.binding.turn import next_turn
from core.lifecycle.records import ClaimPhase, ClaimRecord
from core.model.node import Node
from core.model.pod import Pod
from core.reasons.binding import BindingReason
from tests.builders import a_pod
from tests.unit.lifecycle.binding.cases import a_held_node, a_spread, web
from tests.unit.lifecycle.records_for_tests import a_plan, a_record


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
