"""Commands that depend on others do not start before them."""

from __future__ import annotations

import pytest

from core import labels
from core.disruption import disrupt, startable
from core.model.plan import Command, DisruptionPlan, Move
from core.model.pod import NodeSelectorTerm
from core.model.snapshot import Options
from core.model.values.requirements import Requirement
from core.reasons.termination import TerminationReason
from tests.builders import NOW, a_node_of
from tests.unit.disruption.nodes_for_tests import (
    KARPENTER,
    LARGE,
    SMALL,
    pod_on,
    world,
)


def test_commands_that_rely_on_others_wait() -> None:
    """A replacement must exist before another command's pods can move to it."""
    launch = disrupt(world(a_node_of(LARGE, "a"), pods=(pod_on("a"),))).commands[0]
    name = launch.replacements[0].name
    onto = Command(
        reason=TerminationReason.UNDERUTILIZED,
        method="single",
        nodes=("b",),
        claims=("cb",),
        moves=(Move("default/x", name),),
    )
    free = Command(reason=TerminationReason.EMPTY, method="emptiness", nodes=("c",), claims=("cc",))
    plan = DisruptionPlan(now=NOW, commands=(launch, onto, free))
    assert startable(plan) == (launch, free)


@pytest.mark.parametrize(("options", "gone"), [(Options(), ("n1",)), (KARPENTER, ())])
def test_a_pod_that_any_of_two_terms_admits_joins_the_node_that_exists(options: Options, gone: tuple[str, ...]) -> None:
    """Otherwise, a new node for its first term costs more than the node itself, which then stays, as with Karpenter."""
    terms = tuple(NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)) for zone in ("us-east-1a", "us-east-1b"))
    movable = pod_on("n1", cpu="200m", required_terms=terms)
    room = a_node_of(SMALL, "n2", zone="us-east-1b")
    held = pod_on("n2", cpu="300m", annotations={labels.DO_NOT_DISRUPT: "true"})
    plan = disrupt(world(a_node_of(SMALL, "n1"), room, pods=(movable, held), options=options))
    assert tuple(node for command in plan.commands for node in command.nodes) == gone
    assert not any(command.replacements for command in plan.commands)
