"""Commands that are valid alone and break a rule together; found by seed 101120 of the random worlds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.independence import Independence, widened
from core.model.plan import Command, Move, PlannedClaim
from core.model.pod import LabelSelector, PodAffinityTerm
from core.model.values.requirements import Requirement
from tests.builders import CLASS_REF, a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, OPEN, pod_on, world

AWAY = PodAffinityTerm(labels.ZONE, LabelSelector((Requirement.one_of("app", "b"),)))


def candidates(*, limits: dict[str, int] | None = None, **first: Any) -> tuple[DisruptionPass, list[Candidate]]:
    """Two nodes with a pod each; `first` is the first pod's."""
    pods = (pod_on("node-1", labels={"app": "a"}, **first), pod_on("node-2", labels={"app": "b"}))
    pools = (a_pool("default", ON_DEMAND, disruption=OPEN, limits=limits or {}),)
    this_pass = DisruptionPass(world(a_node_of(MIDDLE), a_node_of(MIDDLE, "node-2"), pods=pods, node_pools=pools))
    return this_pass, list(this_pass.survey.candidates)


def a_command(node: str, to: str, *types: str, **claim: Any) -> Command:
    fields = {"node_class": CLASS_REF, "node_pool": "default", "instance_types": types, **claim}
    replacements = (PlannedClaim(name=to, **fields),) if types else ()
    return Command(
        reason="Drifted",
        method="drift",
        nodes=(node,),
        claims=(node,),
        replacements=replacements,
        moves=(Move(f"default/on-{node}", to),),
    )


@pytest.mark.parametrize(
    ("world_of", "first", "second", "are"),
    [
        ({}, a_command("node-1", "x"), a_command("node-2", "y"), True),
        ({}, a_command("node-1", "x"), a_command("node-2", "x"), False),
        ({}, a_command("node-1", "node-2"), a_command("node-2", "y"), False),
        ({}, a_command("node-1", "x"), a_command("node-2", "node-1"), False),
        ({"anti_affinity": (AWAY,)}, a_command("node-1", "x"), a_command("node-2", "y"), False),
        ({"limits": {"cpu": 9000}}, a_command("node-1", "x", "t-4"), a_command("node-2", "y", "t-4"), True),
        ({"limits": {"cpu": 9000}}, a_command("node-1", "x", "t-16"), a_command("node-2", "y", "t-16"), False),
        (
            {},
            a_command("node-1", "x", "t-4", capacity_types=(labels.RESERVED,)),
            a_command("node-2", "y", "t-4", capacity_types=(labels.RESERVED,)),
            False,
        ),
    ],
)
def test_two_commands(world_of: dict[str, Any], first: Command, second: Command, are: bool) -> None:
    this_pass, (one, two) = candidates(**world_of)
    together = Independence(this_pass.snapshot)
    assert together.takes(first, one)
    assert together.takes(second, two) is are


@pytest.mark.parametrize(("pools", "are"), [(("default",), True), (("default", "default"), False), (("other",), False)])
def test_commands_that_use_more_of_a_pools_limits_are_not_taken_together(pools: tuple[str, ...], are: bool) -> None:
    """Only one node for one of the same pool, and no larger, leaves as much of the limits as before."""
    this_pass, (one, two) = candidates(limits={"cpu": 9000})
    limited = a_pool("other", ON_DEMAND, disruption=OPEN, limits={"cpu": 9000})
    snapshot = msgspec.structs.replace(this_pass.snapshot, node_pools=(*this_pass.snapshot.node_pools, limited))
    together = Independence(snapshot)

    def command(node: str) -> Command:
        (claim,) = a_command(node, f"{node}-new", "t-1").replacements
        claims = [msgspec.structs.replace(claim, name=f"{claim.name}-{n}", node_pool=p) for n, p in enumerate(pools)]
        return msgspec.structs.replace(a_command(node, claims[0].name), replacements=tuple(claims))

    assert together.takes(command("node-1"), one)
    assert together.takes(command("node-2"), two) is are


def a_deletion(node: str, to: str) -> Command:
    moves = (Move(f"default/on-{node}", to),)
    return Command(reason="Underutilized", method="single", nodes=(node,), claims=(node,), moves=moves)


class TestWidened:
    def test_a_deletion_that_fills_a_node_becomes_part_of_that_nodes_own(self) -> None:
        merged = widened([a_deletion("node-1", "node-2")], a_deletion("node-2", "node-3"))
        assert [command.nodes for command in merged] == [("node-1", "node-2")]

    def test_a_deletion_that_another_command_builds_upon_keeps_its_place(self) -> None:
        """Merged, it would come after the command that moves its pods on; found by seed 500624 of the random worlds."""
        first = msgspec.structs.replace(
            a_deletion("node-1", "node-2"),
            moves=(Move("default/on-node-1", "node-2"), Move("default/other", "node-3")),
        )
        commands = [first, a_command("node-2", "x", "t-4")]
        assert widened(commands, a_deletion("node-3", "x")) == [*commands, a_deletion("node-3", "x")]
