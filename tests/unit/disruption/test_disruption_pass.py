"""Commands of one pass respect together what each respects alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption import disrupt, methods
from core.disruption.candidate import Candidate
from core.disruption.disruption_pass import (
    DisruptionPass,
    ReplacementNames,
    Simulation,
    Simulator,
    fleet_price,
    leaving_later,
    short_lived,
)
from core.model.node_pool import Budget, Disruption, RolloutGate
from core.model.plan import Command, Move
from core.model.pod import TopologySpread
from core.model.snapshot import CapacityBuffer, FeatureGates, Options, PodDisruptionBudget
from core.model.values.quantity import nanodollars
from core.model.values.requirements import Requirement
from core.reasons.code import Stated
from core.reasons.nodes import NodeReason, NotTried, PodOnUninitialized, PodUnplaced
from core.scheduling.planner import Planner
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector
from tests.unit.disruption.nodes_for_tests import (
    KARPENTER,
    LARGE,
    MIDDLE,
    ON_DEMAND,
    OPEN,
    SMALL,
    blocked,
    drifted,
    expiring,
    pod_on,
    world,
)
from tests.unit.lifecycle.records_for_tests import a_plan


def test_pods_of_a_shared_budget_go_one_node_at_a_time() -> None:
    """Two replicas that must not be down together are not evicted together."""
    guard = PodDisruptionBudget(namespace="default", name="web", selector=a_selector(app="web"), disruptions_allowed=1)
    pods = tuple(pod_on(node, labels={"app": "web"}) for node in ("a", "b"))
    plan = disrupt(world(a_node_of(LARGE, "a"), a_node_of(LARGE, "b"), pods=pods, budgets=(guard,)))
    assert [len(command.nodes) for command in plan.commands] == [1]
    assert set(blocked(plan).values()) == {NodeReason.POD_DISRUPTION_BUDGET}


def test_replacements_have_unique_names() -> None:
    """Otherwise, two commands of one pass request the same claim."""
    nodes = (drifted(a_node_of(SMALL)), drifted(a_node_of(SMALL, "node-2")))
    this_pass = DisruptionPass(world(*nodes, pods=(pod_on("node-1", cpu="900m"), pod_on("node-2", cpu="900m"))))
    commands = methods.find_left(this_pass)
    names = [claim.name for command in commands for claim in command.replacements]
    assert len(set(names)) == len(names) == 2


def test_a_pass_ends_with_its_time() -> None:
    for spent, is_over in ((0.99, False), (1.0, True)):
        assert DisruptionPass(world(a_node_of(SMALL)), deadline=lambda spent=spent: spent).is_exhausted is is_over  # type: ignore[misc]
    assert not DisruptionPass(world(a_node_of(SMALL))).is_exhausted


@pytest.mark.parametrize(
    ("allowed", "gone", "others", "passes"),
    [(0, 0, 0, False), (1, 0, 0, True), (1, 1, 0, False), (2, 1, 0, True), (1, 0, 1, True)],
)
def test_a_rollout_lets_so_many_go_and_no_more(allowed: int, gone: int, others: int, *, passes: bool) -> None:
    """Commands without replacements and moves, or for another reason, are no part of it."""
    nodes = (drifted(a_node_of(SMALL)), drifted(a_node_of(SMALL, "node-2")))
    pods = (pod_on("node-1"), pod_on("node-2"))
    gates = {"default": RolloutGate(allowed, "the rollout waits")}
    this_pass = DisruptionPass(world(*nodes, pods=pods, rollouts=gates))
    moves = (Move("default/on-node-2", "node-1"),)
    going = Command(reason="Drifted", method="drift", nodes=("node-2",), claims=("default-node-2",), moves=moves)
    empty = msgspec.structs.replace(going, moves=())
    saving = msgspec.structs.replace(going, reason="Underutilized")
    found = [going] * gone + [empty, saving] * others
    assert this_pass.passes_rollout(this_pass.survey.candidates[0], found) == passes
    without = DisruptionPass(world(*nodes, rollouts=gates))
    assert without.passes_rollout(without.survey.candidates[0], found), "a node without pods"


def test_a_pass_ends_with_its_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.disruption.disruption_pass.SIMULATIONS_MAX", 2)
    this_pass = DisruptionPass(world(a_node_of(SMALL)))
    ends = []
    for _ in range(3):
        ends.append(this_pass.is_exhausted)
        this_pass.simulate(this_pass.survey.candidates, consolidation=True)
    assert ends == [False, False, True]


@pytest.mark.parametrize(
    ("pods", "capacity_type", "gates", "options", "expected"),
    [
        (1, labels.ON_DEMAND, {}, Options(), True),
        (0, labels.ON_DEMAND, {}, Options(), False),
        (1, labels.RESERVED, {}, Options(), False),
        (1, labels.ON_DEMAND, {"default": RolloutGate(1, "")}, Options(), False),
        (1, labels.ON_DEMAND, {"other": RolloutGate(1, "")}, Options(), True),
        (1, labels.ON_DEMAND, {}, KARPENTER, False),
        (0, labels.RESERVED, {"default": RolloutGate(1, "")}, Options(ignore_budgets=True), True),
        (1, labels.ON_DEMAND, {}, Options(ignore_budgets=True, karpenter_moves_only=True), False),
    ],
)
def test_the_target_decides_about_drifted_nodes_whose_pods_move(
    pods: int, capacity_type: str, gates: dict[str, RolloutGate], options: Options, *, expected: bool
) -> None:
    node = drifted(a_node_of(SMALL, capacity_type=capacity_type))
    this_pass = DisruptionPass(world(node, pods=(pod_on("node-1"),) * pods, rollouts=gates, options=options))
    (candidate,) = this_pass.survey.candidates
    assert this_pass.goes_with_target(candidate) is expected


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_rollout_that_lets_no_more_go_says_why(*, is_stopped: bool) -> None:
    gates = {"default": RolloutGate(0, "the first new node is not ready", is_stopped)}
    this_pass = DisruptionPass(world(drifted(a_node_of(SMALL)), pods=(pod_on("node-1"),), rollouts=gates))
    assert not this_pass.passes_rollout(this_pass.survey.candidates[0])
    reason = NodeReason.ROLLOUT_STOPPED if is_stopped else NodeReason.ROLLOUT_CANARY
    assert this_pass.refusals == {"node-1": Stated(reason, "the first new node is not ready")}


def test_a_node_is_replaced_by_new_nodes_or_by_closed_ones_or_not_at_all() -> None:
    """Closed nodes leave later: pods that move there move again."""
    full = (a_pool("default", ON_DEMAND, disruption=OPEN, limits={"nodes": 1}),)
    nodes, pods = (a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b")), (pod_on("a", cpu="3"), pod_on("b", cpu="500m"))
    free, limited = (DisruptionPass(world(*nodes, pods=pods, **changes)) for changes in ({}, {"node_pools": full}))
    terms = {"reason": "Unhealthy", "method": "repair", "nodes": ("a",), "claims": ("default-a",)}
    (first, _), (other, _) = free.survey.candidates, limited.survey.candidates

    def found(this_pass: DisruptionPass, candidate: Candidate, *closed: str) -> Command | None:
        replaced = this_pass.replaced(candidate, "Unhealthy", "repair", closed=closed)
        return replaced.command if replaced else None

    beside = Command(**terms, moves=(Move("default/on-a", "b"),), savings=first.price)
    assert found(free, first) == found(limited, other) == found(limited, other, "b") == beside
    new = found(free, first, "b")
    assert new is not None
    (claim,) = new.replacements
    savings = first.price - claim.price
    moves = (Move("default/on-a", claim.name),)
    assert new == Command(**terms, replacements=(claim,), moves=moves, savings=savings)
    crowded = DisruptionPass(world(*nodes, pods=(*pods, pod_on("b", "more", cpu="3")), node_pools=full))
    candidate = crowded.survey.candidates[0]
    assert found(crowded, candidate, "b") is None
    refusal = crowded.refusals["a"]
    assert isinstance(refusal, PodUnplaced)
    assert refusal.pod == "default/on-a"


def test_adopted_commands_leave_the_survey_and_the_price() -> None:
    this_pass = DisruptionPass(world(a_node_of(SMALL, "a"), a_node_of(MIDDLE, "b")))
    before, (first, second) = this_pass.price_after, this_pass.survey.candidates
    this_pass.refuse(first, NotTried("a"))
    command = Command(reason="Empty", method="emptiness", nodes=("a",), claims=("default-a",), savings=first.price)
    this_pass.adopt([command])
    assert (this_pass.commands, this_pass.survey.candidates, this_pass.refusals) == ([command], (second,), {})
    assert this_pass.price_after == before - first.price == second.price


def test_nodes_on_which_pods_are_expected_are_no_candidates() -> None:
    """An earlier decision nominated them, or a pending pod goes there now."""
    nodes = (a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), a_node_of(MIDDLE, "c"))
    until = {"a": NOW + timedelta(seconds=1), "b": NOW}
    named = DisruptionPass(world(*nodes, nominated_until=until))
    assert [candidate.name for candidate in named.survey.candidates] == ["b", "c"]
    waiting = tuple(a_pod(name, cpu="3") for name in ("first", "second"))
    awaited = DisruptionPass(world(nodes[0], pods=waiting, nominated_until={"node-1": NOW}))
    assert [candidate.name for candidate in awaited.survey.candidates] == []


# The fleet's cost, the total against which savings are reported.


def test_all_nodes_with_a_claim_count_at_the_price_of_their_offering() -> None:
    _, unmanaged = a_node_of(LARGE, "node-3")
    snapshot = world(a_node_of(SMALL), a_node_of(LARGE, "node-2"))
    assert fleet_price(snapshot) == nanodollars(0.05) + nanodollars(0.8)
    claim, node = a_node_of(SMALL)
    assert fleet_price(world((claim, node), nodes=(node, unmanaged))) == nanodollars(0.05)


# Nodes that will leave soon take no moved pods.


def test_a_target_moves_no_pods_to_nodes_that_go_themselves() -> None:
    """Those that have drifted, expire soon, or are empty and may go; not one that no budget lets go, or that waits."""
    closed = Disruption(budgets=(Budget("0", reasons=("Empty",)), Budget("100%")))
    waiting = Disruption(budgets=(Budget("100%"),), consolidate_after=timedelta(hours=3))
    pools = (
        a_pool("default", ON_DEMAND, disruption=OPEN),
        a_pool("closed", ON_DEMAND, disruption=closed),
        a_pool("waiting", ON_DEMAND, disruption=waiting),
        a_pool("static", ON_DEMAND, disruption=OPEN, replicas=1),
    )
    nodes = [a_node_of(SMALL, f"empty-{pool.name}", pool=pool.name) for pool in pools]
    nodes += [drifted(a_node_of(SMALL, "drifted")), expiring(a_node_of(SMALL, "expiring")), a_node_of(SMALL, "full")]
    pods = tuple(pod_on(name) for name in ("drifted", "expiring", "full"))
    this_pass = DisruptionPass(world(*nodes, pods=pods, node_pools=pools))
    assert short_lived(this_pass) == {"drifted", "expiring"}
    assert leaving_later(this_pass) == {"drifted", "expiring", "empty-default"}


def test_an_empty_node_whose_room_a_buffer_uses_takes_pods() -> None:
    """It does not go: a target that expected it to was planned again in each pass."""
    spare = CapacityBuffer(namespace="shop", name="spare", pods=1, spec=a_pod("x", cpu="400m", memory="64Mi").spec)
    options = Options(feature_gates=FeatureGates(capacity_buffer=True))
    this_pass = DisruptionPass(world(a_node_of(SMALL), buffers=(spare,), options=options))
    assert leaving_later(this_pass) == frozenset()


# Where the pods of leaving nodes go.


def test_pods_of_a_leaving_node_move_to_what_has_room() -> None:
    snapshot = world(a_node_of(SMALL), a_node_of(LARGE, "node-2"), pods=(pod_on("node-1"), pod_on("node-2")))
    leaving, _ = DisruptionPass(snapshot).survey.candidates
    simulation = Simulator(Planner(snapshot)).simulate([leaving], consolidation=False)
    assert (simulation.claims, simulation.moves, simulation.stranded) == (
        (),
        (Move("default/on-node-1", "node-2"),),
        None,
    )


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
    simulation = Simulator(Planner(snapshot)).simulate([leaving], consolidation=False)
    assert simulation.stranded is None
    assert {pod for claim in simulation.claims for pod in claim.pods} >= {"default/on-node-1"}
    assert [move.pod for move in simulation.moves] == ["default/on-node-1"]
    assert {move.to for move in simulation.moves} == {claim.name for claim in simulation.claims}


def test_a_pod_without_a_place_is_named_with_its_reason() -> None:
    stuck = pod_on("node-1", node_selector=(Requirement.one_of("rack", "a"),))
    snapshot = world(a_node_of(SMALL), pods=(stuck,))
    (leaving,) = DisruptionPass(snapshot).survey.candidates
    found = Simulator(Planner(snapshot)).simulate([leaving], consolidation=False)
    assert isinstance(found.stranded, PodUnplaced)
    assert (found.stranded.pod, bool(found.stranded.why)) == ("default/on-node-1", True)


def test_a_node_that_is_not_initialized_may_never_be() -> None:
    claim, node = a_node_of(LARGE, "node-2")
    node_labels = {key: value for key, value in node.labels.items() if key != labels.INITIALIZED}
    boots = (claim, msgspec.structs.replace(node, labels=node_labels))
    snapshot = world(a_node_of(SMALL), boots, pods=(pod_on("node-1"),))
    leaving = next(c for c in DisruptionPass(snapshot).survey.candidates if c.name == "node-1")
    simulation = Simulator(Planner(snapshot)).simulate([leaving], consolidation=False)
    assert simulation.stranded == PodOnUninitialized("default/on-node-1")


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
        (move,) = self.moves(Move("default/on-node-2", "node-3"), Move("default/on-node-1", "gone"))
        assert move.pod == "default/on-node-1"

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
        renamed = names.renamed(Simulation((claim,), moves, PodUnplaced("default/p"), frozenset(), displaces=True))
        assert [claim.name for claim in renamed.claims] == ["default-1"]
        assert renamed.moves == (Move("default/p", "default-1"), Move("default/q", "default-0"))
        assert (renamed.stranded, renamed.displaces) == (PodUnplaced("default/p"), True)

    def test_two_claims_of_a_simulation_get_two_names(self) -> None:
        claims = (a_plan(name="x"), a_plan(name="y"))
        renamed = self.names().renamed(Simulation(claims, (), None, frozenset(), displaces=False))
        assert [claim.name for claim in renamed.claims] == ["default-0", "default-1"]


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
    simulation = Simulator(Planner(snapshot)).simulate([leaving], consolidation=True, planned_moves=[move])
    assert (simulation.claims, simulation.moves, simulation.stranded) == ((), (move,), None)


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
    simulation = Simulator(Planner(snapshot)).simulate(
        [leaving],
        consolidation=True,
        planned_moves=[Move("default/web-0", "new")],
        new_nodes=[a_plan(name="new", zones=(zone,))],
    )
    assert ([claim.zones for claim in simulation.claims], not simulation.stranded) == ([(zone,)] * has_place, has_place)
