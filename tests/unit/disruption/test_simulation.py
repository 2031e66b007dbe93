"""Where the pods of leaving nodes go."""

from __future__ import annotations

from core.disruption.disruption_pass import DisruptionPass
from core.disruption.simulation import Simulator
from core.model.plan import Move
from core.scheduling.planner import Planner
from tests.builders import a_node_of, a_pod
from tests.unit.disruption.nodes_for_tests import LARGE, SMALL, pod_on, world


def test_pods_of_a_leaving_node_move_to_what_has_room() -> None:
    snapshot = world(a_node_of(SMALL), a_node_of(LARGE, "node-2"), pods=(pod_on("node-1"), pod_on("node-2")))
    leaving, _ = DisruptionPass(snapshot).survey.candidates
    found = Simulator(Planner(snapshot)).simulate([leaving], consolidation=False)
    assert (found.claims, found.moves, found.stranded) == ((), (Move("default/on-node-1", "node-2"),), "")


def test_a_pod_that_was_already_unschedulable_strands_nothing() -> None:
    """The command did not cause it."""
    huge = a_pod("huge", cpu="100")
    snapshot = world(a_node_of(SMALL), a_node_of(LARGE, "node-2"), pods=(pod_on("node-1"), pod_on("node-2"), huge))
    leaving, _ = DisruptionPass(snapshot).survey.candidates
    assert not Simulator(Planner(snapshot)).simulate([leaving], consolidation=False).stranded


def test_below_a_price_only_cheaper_nodes_are_launched() -> None:
    snapshot = world(a_node_of(LARGE), pods=(pod_on("node-1", cpu="2"),))
    (leaving,) = DisruptionPass(snapshot).survey.candidates
    simulator = Simulator(Planner(snapshot))
    assert simulator.simulate([leaving], consolidation=False).claims
    assert simulator.below(SMALL.offerings[0].price + 1).simulate([leaving], consolidation=False).stranded
