"""Where the pods of leaving nodes go."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.simulation import ReplacementNames, Simulation, Simulator
from core.model.plan import Move
from core.model.pod import TopologySpread
from core.model.values.requirements import Requirement
from core.scheduling.planner import Planner
from tests.builders import ZONES, a_node_of, a_pod, a_selector
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, SMALL, pod_on, world
from tests.unit.lifecycle.records_for_tests import a_plan


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


def test_pods_of_the_leaving_node_are_told_from_pods_that_wait() -> None:
    """Only the new nodes of the former belong to the command."""
    waiting = a_pod("waits", cpu="3", is_marked_unschedulable=True)
    snapshot = world(a_node_of(SMALL), pods=(pod_on("node-1", cpu="900m"), waiting))
    (leaving,) = DisruptionPass(snapshot).survey.candidates
    found = Simulator(Planner(snapshot)).simulate([leaving], consolidation=False)
    assert found.stranded == ""
    assert {pod for claim in found.claims for pod in claim.pods} >= {"default/on-node-1"}
    assert [move.pod for move in found.moves] == ["default/on-node-1"]
    assert {move.to for move in found.moves} == {claim.name for claim in found.claims}


def test_a_pod_without_a_place_is_named_with_its_reason() -> None:
    stuck = pod_on("node-1", node_selector=(Requirement.one_of("rack", "a"),))
    snapshot = world(a_node_of(SMALL), pods=(stuck,))
    (leaving,) = DisruptionPass(snapshot).survey.candidates
    found = Simulator(Planner(snapshot)).simulate([leaving], consolidation=False)
    assert found.stranded.startswith("pod default/on-node-1 would find no place: ")
    assert len(found.stranded) > len("pod default/on-node-1 would find no place: ")


def test_a_node_that_is_not_initialized_may_never_be() -> None:
    claim, node = a_node_of(LARGE, "node-2")
    own = {key: value for key, value in node.labels.items() if key != labels.INITIALIZED}
    boots = (claim, msgspec.structs.replace(node, labels=own))
    snapshot = world(a_node_of(SMALL), boots, pods=(pod_on("node-1"),))
    leaving = next(c for c in DisruptionPass(snapshot).survey.candidates if c.name == "node-1")
    found = Simulator(Planner(snapshot)).simulate([leaving], consolidation=False)
    assert found.stranded == "pod default/on-node-1 would have to wait for a node that is not initialized"


class TestIntendedPlaces:
    """A pod gets the node that was meant for it, if its rules still allow that."""

    SPARE = ("node-2", "node-3")

    def moves(self, *planned: Move, closed: tuple[str, ...] = ()) -> tuple[Move, ...]:
        pods = (pod_on("node-1"), *(pod_on(name) for name in self.SPARE))
        snapshot = world(a_node_of(SMALL), *(a_node_of(MIDDLE, name) for name in self.SPARE), pods=pods)
        leaving = next(c for c in DisruptionPass(snapshot).survey.candidates if c.name == "node-1")
        simulator = Simulator(Planner(snapshot))
        return simulator.simulate([leaving], consolidation=True, planned_moves=planned, closed=closed).moves

    def test_are_taken(self) -> None:
        for name in self.SPARE:
            planned = Move("default/on-node-1", name)
            assert self.moves(planned) == (planned,)

    def test_of_other_pods_and_on_other_nodes_are_ignored(self) -> None:
        (found,) = self.moves(Move("default/on-node-2", "node-3"), Move("default/on-node-1", "gone"))
        assert found.pod == "default/on-node-1"

    def test_on_closed_nodes_are_not_taken(self) -> None:
        assert self.moves(Move("default/on-node-1", "node-2"), closed=("node-2",)) == (
            Move("default/on-node-1", "node-3"),
        )


class TestNamesOfReplacements:
    """They are unique among nodes, claims and all commands of a pass."""

    def names(self, *nodes: str) -> ReplacementNames:
        return ReplacementNames(world(*(a_node_of(SMALL, name) for name in nodes)))

    def test_count_up_from_zero(self) -> None:
        assert self.names().new("default") == "default-0"

    def test_leave_out_what_exists_is_taken_or_is_used_beside(self) -> None:
        names = self.names("default-0")
        names.take([a_plan(name="default-1")])
        assert names.new("default", ["default-2"]) == "default-3"
        assert names.new("other") == "other-0"

    def test_a_new_name_is_free_until_it_is_taken(self) -> None:
        names = self.names()
        assert [names.new("default"), names.new("default")] == ["default-0", "default-0"]

    def test_moves_follow_the_claims_of_their_pods_and_not_equal_names_of_nodes(self) -> None:
        """The planner's name for a claim may be that of a node which an earlier command launches."""
        names = self.names()
        names.take([a_plan(name="default-0")])
        claim = a_plan(name="default-0", pods=("default/p",))
        moves = (Move("default/p", "default-0"), Move("default/q", "default-0"))
        found = names.renamed(Simulation((claim,), moves, "why", frozenset(), displaces=True))
        assert [one.name for one in found.claims] == ["default-1"]
        assert found.moves == (Move("default/p", "default-1"), Move("default/q", "default-0"))
        assert (found.stranded, found.displaces) == ("why", True)

    def test_two_claims_of_a_simulation_get_two_names(self) -> None:
        claims = (a_plan(name="x"), a_plan(name="y"))
        found = self.names().renamed(Simulation(claims, (), "", frozenset(), displaces=False))
        assert [one.name for one in found.claims] == ["default-0", "default-1"]


def test_a_pod_of_a_spread_takes_its_slot_in_another_zone() -> None:
    """Its zone had a pod too many when the slot was chosen, and no longer has: it was refused its slot, and stayed."""
    even = TopologySpread(labels.ZONE, 1, selector=a_selector(app="web"))
    pairs = [a_node_of(SMALL, name, zone=ZONES[0]) for name in ("node-0", "full")]
    pairs += [a_node_of(LARGE, f"node-{n}", zone=ZONES[n]) for n in (1, 2)]
    placed = ("node-0", "full", "full", *["node-1"] * 3, *["node-2"] * 2)
    pods = tuple(pod_on(node, f"web-{n}", labels={"app": "web"}, spreads=(even,)) for n, node in enumerate(placed))
    snapshot = world(*pairs, pods=pods)
    leaving = next(c for c in DisruptionPass(snapshot).survey.candidates if c.name == "node-0")
    move = Move("default/web-0", "node-2")
    found = Simulator(Planner(snapshot)).simulate([leaving], consolidation=True, planned_moves=[move])
    assert (found.claims, found.moves, found.stranded) == ((), (move,), "")


@pytest.mark.parametrize(("zone", "has_place"), [(ZONES[2], True), (ZONES[1], False)])
def test_a_pod_whose_new_node_is_in_another_zone_needs_a_place_there(zone: str, has_place: bool) -> None:
    """It was planned in its own zone again, where it may not be launched; its node then came where no rule admits the pod."""
    even = TopologySpread(labels.ZONE, 1, selector=a_selector(app="web"))
    pairs = [a_node_of(LARGE, "node-0", zone=ZONES[0])]
    pairs += [a_node_of(SMALL, f"full-{n}", zone=ZONES[n]) for n in range(3)]
    placed = ("node-0", "full-0", "full-0", *["full-1"] * 3, *["full-2"] * 2)
    fields: dict[str, Any] = {"cpu": "300m", "labels": {"app": "web"}, "spreads": (even,)}
    pods = [pod_on(node, f"web-{n}", **fields) for n, node in enumerate(placed)]
    pods += [pod_on(f"full-{n}", f"other-{n}", cpu="300m") for n in (0, 2)]
    snapshot = world(*pairs, pods=tuple(pods))
    leaving = next(c for c in DisruptionPass(snapshot).survey.candidates if c.name == "node-0")
    found = Simulator(Planner(snapshot)).simulate(
        [leaving],
        consolidation=True,
        planned_moves=[Move("default/web-0", "new")],
        new_nodes=[a_plan(name="new", zones=(zone,))],
    )
    assert ([claim.zones for claim in found.claims], not found.stranded) == ([(zone,)] * has_place, has_place)
