"""Drifted nodes and half-empty ones go together: each pod moves once, and no node that goes receives one."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec
import pytest

from core.disruption import disrupt, startable
from core.disruption.commands.apply_command import carried_out
from core.disruption.stored_targets import after_commands
from core.model.node_pool import BALANCED, Budget, Disruption, RolloutGate
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from tests.builders import a_node_of, a_pool, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import ON_DEMAND, OPEN, drifted, pod_on, world

ROUNDS_MAX = 20
TYPES = tuple(a_type(f"t-{cpu}", cpu=str(cpu), memory=f"{4 * cpu}Gi", price=cpu / 20) for cpu in (2, 4, 8, 16))


def half_empty(nodes: int, share: float, seed: int) -> Snapshot:
    """Nodes of which this share has drifted, each a tenth to seven tenths full; a fifth of them may go at one time."""
    draw = Random(seed)  # noqa: S311 - dice, not secrets
    pairs, pods = [], list[Pod]()
    for number in range(nodes):
        kind, name = draw.choice(TYPES), f"n{number:02}"
        pair = a_node_of(kind, name)
        pairs.append(drifted(pair) if draw.random() < share else pair)
        left = int(draw.uniform(0.1, 0.7) * kind.capacity["cpu"])
        while left > 0:
            cpu = draw.choice((200, 400, 700, 1100))
            pods.append(pod_on(name, f"p{len(pods)}", cpu=f"{cpu}m"))
            left -= cpu
    return a_snapshot(
        types=TYPES,
        nodes=tuple(node for _, node in pairs),
        node_claims=tuple(claim for claim, _ in pairs),
        node_pools=(a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("20%"),))),),
        pods=tuple(pods),
    )


@pytest.mark.parametrize(("nodes", "share", "seed"), [(24, 0.3, 2), (16, 0.4, 4), (16, 0.4, 7)])
def test_no_pod_moves_twice_and_no_node_that_goes_receives_one(nodes: int, share: float, seed: int) -> None:
    """Pods of drifted nodes went to nodes that consolidation removed later, and moved again for that reason."""
    snapshot = half_empty(nodes, share, seed)
    moves, receivers, gone = Counter[str](), set[str](), set[str]()
    for _ in range(ROUNDS_MAX):
        plan = disrupt(snapshot, proves=False)
        commands = startable(plan.commands)
        if not commands:
            break
        moves.update(move.pod for command in commands for move in command.moves)
        receivers |= {move.to for command in commands for move in command.moves}
        gone |= {node for command in commands for node in command.nodes}
        rest = after_commands(plan.target, commands, snapshot.pods, {}) if plan.target is not None else None
        snapshot = msgspec.structs.replace(carried_out(snapshot, *commands), stored_target=rest)
    assert not disrupt(snapshot, proves=False).commands, "the fleet does not come to rest"
    assert max(moves.values()) == 1
    assert not receivers & gone


def test_pods_of_several_drifted_nodes_share_a_new_node() -> None:
    """A new node for each would be consolidated afterwards: its pods would move twice."""
    nodes = [drifted(a_node_of(TYPES[1], f"n{n}")) for n in range(3)]
    snapshot = world(*nodes, pods=tuple(pod_on(f"n{n}", cpu="600m") for n in range(3)))
    snapshot = msgspec.structs.replace(snapshot, catalogue=a_snapshot(types=TYPES).catalogue)
    (command,) = disrupt(snapshot).commands
    assert (command.method, len(command.nodes), len(command.replacements)) == ("drift", 3, 1)
    gated = msgspec.structs.replace(snapshot, rollouts={"default": RolloutGate(1, "wait")})
    assert [command.nodes for command in disrupt(gated).commands] == [("n0",)], "the first goes alone"


def test_what_drift_launches_does_not_let_a_balanced_pool_move_pods_for_little() -> None:
    """The new nodes of drifted nodes are no saving of the others, and no reason against them either."""
    balanced = a_pool("default", ON_DEMAND, disruption=Disruption(policy=BALANCED, budgets=(Budget("100%"),)))
    small, expensive = a_type("t-1", cpu="1", price=0.05), a_type("expensive", cpu="16", price=100.0)
    pairs = (a_node_of(small, "a"), a_node_of(expensive, "b"), drifted(a_node_of(small, "old")))
    pods = (*(pod_on("a", f"a{n}", cpu="100m") for n in range(9)), pod_on("b", cpu="8"), pod_on("old", cpu="900m"))
    snapshot = world(*pairs, pods=pods, node_pools=(balanced,))
    plan = disrupt(msgspec.structs.replace(snapshot, catalogue=a_snapshot(types=(small, expensive)).catalogue))
    assert {node for command in plan.commands for node in command.nodes} == {"old"}


def test_a_drifted_node_without_a_place_in_the_target_goes_as_it_went_before() -> None:
    """At the limit, only another drifted node has room: a target never uses it."""
    pools = (a_pool("default", ON_DEMAND, disruption=OPEN, limits={"nodes": 2}),)
    nodes = (drifted(a_node_of(TYPES[3])), drifted(a_node_of(TYPES[3], "node-2")))
    pods = (pod_on("node-1", cpu="7"), pod_on("node-2", cpu="7"))
    snapshot = world(*nodes, pods=pods, node_pools=pools)
    plan = disrupt(msgspec.structs.replace(snapshot, catalogue=a_snapshot(types=TYPES).catalogue))
    assert [command.nodes for command in startable(plan.commands)] != []
