"""A command goes on without those of its nodes that may no longer go."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.validation.command_part import part_of, paying_part
from core.disruption.validation.validation import Validation, ValidCommand
from core.model.catalogue import Catalogue
from core.model.node_pool import BALANCED, Budget, Disruption
from core.model.plan import Command, Move, PlannedClaim
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.values.quantity import nanodollars
from core.reasons.command import CommandReason
from core.reasons.refusal import Refusal
from tests.builders import CLASS_REF, ZONES, a_node_of, a_pool, a_type
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, ON_DEMAND, SMALL, drifted, pod_on, world

GUARD = {"annotations": {labels.DO_NOT_DISRUPT: "true"}}


def rollout(nodes: int = 6, *, cpu: str = "1200m") -> tuple[Snapshot, Command]:
    """Drifted nodes with a pod each, and the command that replaces all of them by fewer."""
    pairs = [drifted(a_node_of(MIDDLE, f"n{n}")) for n in range(nodes)]
    snapshot = world(*pairs, pods=tuple(pod_on(f"n{n}", cpu=cpu) for n in range(nodes)))
    commands = disrupt(snapshot).commands
    merged = max(commands, key=lambda command: len(command.nodes))
    assert (merged.method, len(merged.nodes) > 1, bool(merged.replacements)) == ("drift", True, True)
    return snapshot, merged


def protected(snapshot: Snapshot, node: str) -> Snapshot:
    """The same cluster, with the pods of a node protected."""
    pods = (msgspec.structs.replace(p, **GUARD) if p.node_name == node else p for p in snapshot.pods)
    return msgspec.structs.replace(snapshot, pods=tuple(pods))


def checked(command: Command, snapshot: Snapshot) -> ValidCommand:
    """The command as it may go now."""
    found = Validation([command], snapshot).check(command)
    assert isinstance(found, ValidCommand)
    return found


def is_consistent(command: Command, pods: tuple[Pod, ...]) -> None:
    """Every move is of a pod on a node that goes, to a node that stays or is launched; each new node takes a pod."""
    places = {pod.key: pod.node_name for pod in pods}
    new = {claim.name for claim in command.replacements}
    assert {places[move.pod] for move in command.moves} <= set(command.nodes)
    assert {move.pod for move in command.moves if move.to in new} == {p for c in command.replacements for p in c.pods}
    assert all(claim.pods for claim in command.replacements)
    assert set(command.awaits) <= set(command.nodes)
    assert {name for awaited in command.awaits.values() for name in awaited} <= new


def test_a_rollout_goes_on_without_a_node_whose_pod_became_protected() -> None:
    """One annotation on one pod held up all nodes of the command, which failed as a whole again and again."""
    snapshot, command = rollout()
    for node in command.nodes:
        now = protected(snapshot, node)
        found = checked(command, now)
        assert found.command.nodes == tuple(name for name in command.nodes if name != node)
        assert found.left_out == {node: f"pod default/on-{node} has karpenter.sh/do-not-disrupt"}
        is_consistent(found.command, now.pods)
        moved = sum(1200 for _ in found.command.moves)
        assert sum(claim.resources["cpu"] for claim in found.command.replacements) == moved


def test_a_new_node_for_pods_that_stay_is_not_launched() -> None:
    snapshot, command = rollout()
    (first, *_) = command.replacements
    users = {move.pod.removeprefix("default/on-") for move in command.moves if move.to == first.name}
    now = snapshot
    for node in sorted(users):
        now = protected(now, node)
    if users == set(command.nodes):
        assert isinstance(Validation([command], now).check(command), Refusal)
        return
    found = checked(command, now).command
    assert first.name not in {claim.name for claim in found.replacements}
    is_consistent(found, now.pods)


def test_a_rollout_goes_on_within_a_budget_that_shrank() -> None:
    """Karpenter takes empty nodes until its budget is spent; the others of a command failed with it."""
    snapshot, command = rollout()
    two = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("2"),)))
    found = checked(command, msgspec.structs.replace(snapshot, node_pools=(two,)))
    assert found.command.nodes == command.nodes[:2]
    text = f"budgets let 2 of {len(command.nodes)} nodes go for Drifted now"
    assert found.left_out == dict.fromkeys(command.nodes[2:], text)
    is_consistent(found.command, snapshot.pods)


def test_a_node_whose_pod_finds_no_place_stays_alone() -> None:
    """A pod that came since fits no machine: only its own node waits."""
    snapshot, command = rollout()
    node = command.nodes[1]
    huge = pod_on(node, "huge", cpu="64")
    now = msgspec.structs.replace(snapshot, pods=(*snapshot.pods, huge))
    found = checked(command, now)
    assert found.left_out == {node: "pod default/huge would find no place"}
    assert found.command.nodes == (command.nodes[0], *command.nodes[2:])


def test_a_command_of_which_nothing_changed_is_the_same_object() -> None:
    snapshot, command = rollout()
    assert checked(command, snapshot) == ValidCommand(command)
    going = [c for c in DisruptionPass(snapshot).survey.candidates if c.name in command.nodes]
    assert part_of(command, going, snapshot) is command


def test_a_balanced_pool_asks_what_remains_for_its_saving_too() -> None:
    """The node that saves most stays: what the others save is little for the pods that they move."""
    nodes = (a_node_of(LARGE, "costly"), *(a_node_of(SMALL, f"s{n}") for n in range(2)), a_node_of(LARGE, "host"))
    pods = (
        pod_on("costly", cpu="100m"),
        *(pod_on(f"s{n}", f"p{n}-{i}", cpu="10m") for n in range(2) for i in range(9)),
        pod_on("host", cpu="100m", **GUARD),
    )
    balanced = a_pool("default", ON_DEMAND, disruption=Disruption(policy=BALANCED, budgets=(Budget("100%"),)))
    snapshot = world(*nodes, pods=pods, node_pools=(balanced,))
    fresh = DisruptionPass(snapshot)
    going = [c for c in fresh.survey.candidates if c.name in ("s0", "s1")]
    command = Command(
        reason="Underutilized",
        method="repack",
        nodes=("costly", "s0", "s1"),
        claims=("default-costly", "default-s0", "default-s1"),
    )
    part = part_of(command, going, snapshot)
    assert (part.nodes, part.savings) == (("s0", "s1"), sum(c.price for c in going))
    found = paying_part(part, going, fresh)
    assert isinstance(found, Refusal)
    assert "the policy Balanced of NodePool default" in found.message


LITTLE = "the nodes that may still go save too little"
LONE_SPOT = "spot node a is the only one left, and other rules apply to its replacement"
TOO_DEAR = "the nodes that may still go do not pay for their new nodes"


@pytest.mark.parametrize(
    ("nodes", "capacity_type", "price", "problem"),
    [
        ("a", labels.ON_DEMAND, 0.19, ""),
        ("a", labels.ON_DEMAND, 0.1901, LITTLE),
        ("a", labels.ON_DEMAND, 0.2, TOO_DEAR),
        ("ab", labels.ON_DEMAND, 0.38, ""),
        ("ab", labels.ON_DEMAND, 0.381, LITTLE),
        ("a", labels.SPOT, 0.01, LONE_SPOT),
        ("ab", labels.SPOT, 0.01, ""),
    ],
)
def test_what_remains_pays_for_its_new_node_with_a_twentieth_left(
    nodes: str, capacity_type: str, price: float, problem: str
) -> None:
    """A lone spot node has rules of its own, for the number of types that it may become."""
    new = a_type("new", cpu="8", price=price, capacity_types=(labels.ON_DEMAND,))
    pairs = [a_node_of(MIDDLE, name, capacity_type=capacity_type) for name in nodes]
    pods = tuple(pod_on(name, cpu="3") for name in nodes)
    pools = (a_pool("default", disruption=Disruption(budgets=(Budget("100%"),))),)
    snapshot = msgspec.structs.replace(world(*pairs, pods=pods, node_pools=pools), catalogue=Catalogue((MIDDLE, new)))
    fresh = DisruptionPass(snapshot)
    keys = tuple(pod.key for pod in pods)
    claim = PlannedClaim(
        name="x",
        node_pool="default",
        node_class=CLASS_REF,
        instance_types=("new",),
        zones=ZONES,
        capacity_types=(labels.ON_DEMAND,),
        pods=keys,
        price=nanodollars(price),
    )
    claims, moves = tuple(f"default-{name}" for name in nodes), tuple(Move(key, "x") for key in keys)
    command = Command(
        reason="Underutilized", method="repack", nodes=(*nodes,), claims=claims, replacements=(claim,), moves=moves
    )
    found = paying_part(command, fresh.survey.candidates, fresh)
    if problem:
        assert found == Refusal(CommandReason.VALIDATION_FAILED, problem)
        return
    assert isinstance(found, Command)
    savings = sum(candidate.price for candidate in fresh.survey.candidates) - claim.price
    assert (found.nodes, found.moves, found.savings) == (command.nodes, moves, savings)
    assert [(one.name, one.instance_types) for one in found.replacements] == [("x", ("new",))]
