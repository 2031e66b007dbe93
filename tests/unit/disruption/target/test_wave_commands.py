"""Nodes that share a new node form one command; other nodes go in small groups that fail independently."""

from __future__ import annotations

from core.disruption.target.wave_commands import DELETED_TOGETHER, components, wave_commands
from core.model.plan import Move
from core.reasons.termination import TerminationReason
from tests.builders import a_node_of
from tests.unit.disruption.nodes_for_tests import MIDDLE, drifted, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY, fleet_of
from tests.unit.lifecycle.records_for_tests import a_plan


def test_nodes_that_share_new_nodes_form_one_command_also_indirectly() -> None:
    assert list(components({0: [1], 1: [2], 2: [1, 2], 3: []})) == [([0, 2, 1], [1, 2]), ([3], [])]


def test_each_node_awaits_the_new_nodes_of_its_own_pods() -> None:
    fleet = fleet_of(world(*(a_node_of(MIDDLE, n) for n in ("n0", "n1")), pods=(pod_on("n0"), pod_on("n1"))))
    claims = tuple(a_plan(name=name) for name in ("x", "y"))
    keys = [fleet.rows.pods[node][0].key for node in (0, 1)]
    moves = {0: [Move(keys[0], "x")], 1: [Move(keys[1], "y")]}
    (command,) = wave_commands(fleet, claims, moves, {0: [0], 1: [0, 1]}, 1)
    assert command.awaits == {"n0": ("x",), "n1": ("y",)}


def test_deletions_go_in_small_groups() -> None:
    count = DELETED_TOGETHER[TerminationReason.UNDERUTILIZED] + 3
    nodes = [a_node_of(MIDDLE, f"n{n:02}") for n in range(count + 1)]
    fleet = fleet_of(world(*nodes, pods=tuple(pod_on(f"n{n:02}") for n in range(count + 1))))
    moves = {n: [Move(fleet.rows.pods[n][0].key, f"n{count:02}")] for n in range(count)}
    found = wave_commands(fleet, (), moves, {node: [] for node in moves}, 2)
    assert [len(command.nodes) for command in found] == [count - 3, 3]
    assert {command.wave for command in found} == {2}
    assert all(len(command.moves) == len(command.nodes) for command in found)


def test_drifted_nodes_that_need_no_new_node_go_one_by_one() -> None:
    """Otherwise, one that may no longer go holds the others up: a command for drift has no part that goes without it."""
    nodes = [*(drifted(a_node_of(MIDDLE, f"n{n}")) for n in range(2)), a_node_of(MIDDLE, "n2")]
    fleet = fleet_of(world(*nodes, pods=tuple(pod_on(f"n{n}") for n in range(3)), options=WHOLE_WAY))
    moves = {n: [Move(fleet.rows.pods[n][0].key, "n2")] for n in range(2)}
    found = wave_commands(fleet, (), moves, {node: [] for node in moves}, 1)
    assert [command.nodes for command in found] == [("n0",), ("n1",)]
