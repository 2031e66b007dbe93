"""Nodes that share a new node form one command; other nodes go in small groups that fail independently."""

from __future__ import annotations

from core.disruption.target.target_fleet import TargetFleet
from core.disruption.target.wave_commands import DELETED_TOGETHER, components, wave_commands
from core.model.plan import Move, PlannedClaim
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


def two_nodes(**pods: str) -> TargetFleet:
    """A drifted node `n0` and a working node `n1`, with a pod each; `pods` are the cpu of these."""
    nodes = [drifted(a_node_of(MIDDLE, "n0")), a_node_of(MIDDLE, "n1")]
    running = tuple(pod_on(node, cpu=pods.get(node, "500m")) for node in ("n0", "n1"))
    return fleet_of(world(*nodes, pods=running, options=WHOLE_WAY))


def keys_of(fleet: TargetFleet) -> list[str]:
    return [pods[0].key for pods in fleet.rows.pods]


def test_of_two_reasons_the_drifted_nodes_go_first_and_launch_what_both_need() -> None:
    fleet = two_nodes()
    claim = a_plan(name="x", price=7)
    moves = {node: [Move(key, "x")] for node, key in enumerate(keys_of(fleet))}
    first, second = wave_commands(fleet, [claim], moves, {0: [0], 1: [0]}, 3)
    assert (first.reason, first.method, first.nodes) == ("Drifted", "drift", ("n0",))
    assert (second.reason, second.method, second.nodes) == ("Underutilized", "repack", ("n1",))
    assert [len(command.replacements) for command in (first, second)] == [1, 0]
    assert (first.awaits, second.awaits) == ({"n0": ("x",)}, {})
    prices = fleet.prices.tolist()
    assert (first.savings, second.savings) == (prices[0] - 7, prices[1])


def test_a_command_names_nodes_claims_and_moves_in_the_order_of_the_nodes() -> None:
    nodes = [a_node_of(MIDDLE, name) for name in ("n1", "n0", "n2")]
    fleet = fleet_of(world(*nodes, pods=tuple(pod_on(name) for name in ("n0", "n1", "n2"))))
    rows = {candidate.name: row for row, candidate in enumerate(fleet.candidates)}
    moves = {rows[name]: [Move(fleet.rows.pods[rows[name]][0].key, "n2")] for name in ("n1", "n0")}
    (command,) = wave_commands(fleet, (), moves, {row: [] for row in moves}, 1)
    assert command.nodes == ("n0", "n1")
    assert command.claims == tuple(fleet.candidates[rows[name]].claim.name for name in ("n0", "n1"))
    assert [move.pod for move in command.moves] == ["default/on-n0", "default/on-n1"]
    assert command.replacements == ()
    assert command.awaits == {}


class TestANewNode:
    """It is launched with the pods of the wave that needs it first; its types have room for the others."""

    def opened(self, *arriving: str, planned: tuple[str, ...], **plan: object) -> PlannedClaim:
        fleet = two_nodes(n0="500m", n1="700m")
        by_node = dict(zip(("n0", "n1"), keys_of(fleet), strict=True))
        pods = tuple(by_node.get(name, name) for name in planned)
        claim = a_plan(name="x", pods=pods, resources={"cpu": 2000, "memory": 2**30, "pods": 10}, **plan)
        moves = {0: [Move(by_node[name], "x") for name in arriving]}
        (command,) = wave_commands(fleet, [claim], moves, {0: [0]}, 1)
        (found,) = command.replacements
        return found

    def test_requests_nothing_for_pods_that_come_later(self) -> None:
        found = self.opened("n0", planned=("n0", "n1"))
        assert (found.pods, found.resources["cpu"], found.resources["pods"]) == (("default/on-n0",), 1300, 9)

    def test_requests_room_for_pods_that_were_planned_elsewhere(self) -> None:
        found = self.opened("n0", "n1", planned=("n0",))
        assert (found.pods, found.resources["cpu"]) == (("default/on-n0", "default/on-n1"), 2700)

    def test_keeps_pods_that_wait_for_a_node_anyway(self) -> None:
        found = self.opened("n0", planned=("n0", "default/waits"))
        assert (found.pods, found.resources["cpu"]) == (("default/on-n0", "default/waits"), 2000)


def test_nodes_without_pods_for_a_new_node_come_after_those_that_share_one() -> None:
    fleet = fleet_of(
        world(*(a_node_of(MIDDLE, f"n{n}") for n in range(3)), pods=tuple(pod_on(f"n{n}") for n in range(3)))
    )
    keys = keys_of(fleet)
    moves = {0: [Move(keys[0], "n2")], 1: [Move(keys[1], "x")]}
    found = wave_commands(fleet, [a_plan(name="x")], moves, {0: [], 1: [0]}, 1)
    assert [command.nodes for command in found] == [("n1",), ("n0",)]


def test_drifted_nodes_go_before_all_that_go_by_choice() -> None:
    """Budgets counted them first; a budget that is stricter for drift denied one that came after a node with a new one."""
    fleet = two_nodes()
    moves = {0: [Move(keys_of(fleet)[0], "n1")], 1: [Move(keys_of(fleet)[1], "x")]}
    found = wave_commands(fleet, [a_plan(name="x")], moves, {0: [], 1: [0]}, 1)
    assert [(command.reason, command.nodes) for command in found] == [("Drifted", ("n0",)), ("Underutilized", ("n1",))]
    assert [len(command.replacements) for command in found] == [0, 1]
