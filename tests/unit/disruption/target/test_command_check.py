"""A target may be valid as a whole while one of its commands is not valid alone."""

from __future__ import annotations

from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.command_check import holding
from core.model.plan import Command, Move
from tests.builders import a_node_of
from tests.unit.disruption.nodes_for_tests import MIDDLE, pod_on, world


def deleting(node: str, to: str) -> Command:
    """Delete one node and move its pod to another."""
    return Command(reason="Underutilized", method="repack", nodes=(node,), claims=(f"default-{node}",),
                   moves=(Move(f"default/on-{node}", to),), savings=2 * 10**8)  # fmt: skip


def test_a_second_command_is_invalid_if_the_first_took_its_room() -> None:
    nodes = [a_node_of(MIDDLE, name) for name in "abc"]
    this_pass = DisruptionPass(world(*nodes, pods=tuple(pod_on(name, cpu="1500m") for name in "abc")))
    first, second = deleting("a", "c"), deleting("b", "c")
    assert holding([first, second], this_pass, worthwhile=20) == [first]


def test_a_node_that_is_no_candidate_does_not_go() -> None:
    this_pass = DisruptionPass(world(a_node_of(MIDDLE, "a"), pods=(pod_on("a"),)))
    assert holding([deleting("gone", "a")], this_pass, worthwhile=20) == []
