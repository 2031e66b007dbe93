"""Commands that depend on others do not start before them."""

from __future__ import annotations

from core.disruption import disrupt, startable
from core.model.plan import Command, DisruptionPlan, Move
from core.reasons.termination import TerminationReason
from tests.builders import NOW, a_node_of
from tests.unit.disruption.nodes_for_tests import (
    LARGE,
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
