"""Where no part of a small fleet's target may go now, one node still goes that Karpenter's methods would remove."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.consolidation.single_command import single_command
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.wave_budgets import WaveBudgets
from core.model.catalogue import Catalogue
from core.model.node_pool import Budget, Disruption
from core.model.plan import Command
from core.model.snapshot import Options, Snapshot
from core.reasons.target import TargetReason
from tests.builders import a_node_of, a_pool, a_type
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, OPEN, SMALL, TYPES, drifted, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import fleet_of

THOROUGH: Final = Options(moves="thorough")


def found(snapshot: Snapshot) -> Command | None:
    """The one command."""
    this_pass, fleet = DisruptionPass(snapshot), fleet_of(snapshot)
    chosen = [candidate for candidate in fleet.candidates if not candidate.drift]
    prices = dict(zip((c.name for c in fleet.candidates), fleet.rows.problem.move_prices.tolist(), strict=True))
    commands = single_command(this_pass, chosen, prices, WaveBudgets(this_pass).has_room_for)
    assert len(commands) <= 1
    return commands[0] if commands else None


def three(**changes: Any) -> Snapshot:
    """Two nodes with one small pod each, and a full one."""
    pods = (pod_on("a", cpu="100m"), pod_on("b", cpu="100m"), pod_on("c", cpu="3900m"))
    pairs = (a_node_of(MIDDLE, "a"), a_node_of(LARGE, "b"), a_node_of(MIDDLE, "c"))
    return world(*pairs, **{"pods": pods, "options": THOROUGH, **changes})


def test_the_command_that_saves_most_is_taken() -> None:
    """Both become one small node, which saves more than either alone."""
    command = found(three())
    assert command is not None
    assert (command.method, command.nodes, len(command.replacements)) == ("multi", ("b", "a"), 1)
    assert command.savings == 950_000_000


def test_budgets_let_one_node_go() -> None:
    one = a_pool("default", disruption=Disruption(budgets=(Budget("1"),)))
    command = found(three(node_pools=(one,)))
    assert command is not None
    assert (command.method, command.nodes, command.replacements) == ("single", ("b",), ())
    none = a_pool("default", disruption=Disruption(budgets=(Budget("1"),)))
    leaving = three(node_pools=(none,), marked_for_deletion=("default-c",))
    assert found(leaving) is None


def test_moves_cost_what_they_cost_in_a_target() -> None:
    """At a price above the node's, nothing goes."""
    high = msgspec.structs.replace(THOROUGH, move_price=2_000_000_000)
    assert found(three(options=high)) is None


def test_a_new_node_saves_a_twentieth_at_least() -> None:
    """A lone node is not replaced for less than a twentieth of its cost."""
    for price, goes in ((0.77, False), (0.76, True)):
        new = a_type("new", cpu="15", price=price)
        snapshot = world(a_node_of(LARGE, "a"), pods=(pod_on("a", cpu="14"),), options=THOROUGH)
        snapshot = msgspec.structs.replace(snapshot, catalogue=Catalogue(default=(*TYPES, new)))
        assert (found(snapshot) is not None) is goes


def test_no_pod_goes_to_a_node_that_goes_later() -> None:
    """The only node with room has drifted."""
    full = pod_on("b", cpu="100m", annotations={labels.DO_NOT_DISRUPT: "true"})
    pairs = (a_node_of(SMALL, "a"), drifted(a_node_of(LARGE, "b")))
    assert found(world(*pairs, pods=(pod_on("a", cpu="500m"), full), options=THOROUGH)) is None


def test_no_choice_is_simulated_after_the_deadline() -> None:
    snapshot = three()
    fleet, prices = fleet_of(snapshot), dict.fromkeys("abc", 0)
    late = DisruptionPass(snapshot, deadline=lambda: 1.0)
    assert single_command(late, fleet.candidates, prices, WaveBudgets(late).has_room_for) == []
    in_time = DisruptionPass(snapshot, deadline=lambda: 0.99)
    assert single_command(in_time, fleet.candidates, prices, WaveBudgets(in_time).has_room_for)


def test_limits_leave_room_for_the_new_node_beside_one_that_goes() -> None:
    for limit, goes in ((1_000, True), (999, False)):
        pool = a_pool("default", disruption=OPEN, limits={"cpu": limit})
        snapshot = world(a_node_of(MIDDLE, "a"), pods=(pod_on("a", cpu="500m"),), options=THOROUGH, node_pools=(pool,))
        assert (found(snapshot) is not None) is goes


@pytest.mark.parametrize("has_room", [True, False])
def test_a_node_goes_whose_target_may_not_begin(*, has_room: bool) -> None:
    """One may go at a time. The spot node has too few types to choose from, and alone the other does not pay for a new node.

    Both together would; the pods of the other also have room on the spot node.
    """
    new = a_type("new", cpu="15", price=0.6)
    spot = a_type("spot", cpu="16", price=3.0)
    one = a_pool("default", disruption=Disruption(budgets=(Budget("1"),)))
    gates = msgspec.structs.replace(Options().feature_gates, spot_to_spot_consolidation=True)
    options = msgspec.structs.replace(THOROUGH, feature_gates=gates)
    pairs = (a_node_of(spot, "spot", capacity_type=labels.SPOT), a_node_of(MIDDLE, "other", capacity_type=labels.SPOT))
    pods = (pod_on("spot", cpu="8" if has_room else "14"), pod_on("other", cpu="3"))
    snapshot = world(*pairs, pods=pods, node_pools=(one,), options=options)
    snapshot = msgspec.structs.replace(snapshot, catalogue=Catalogue(default=(MIDDLE, spot, new)))
    plan = disrupt(snapshot)
    assert [command.nodes for command in plan.commands] == ([("other",)] if has_room else [])
    assert (plan.target is None) is has_room
    assert plan.target_reason == TargetReason.MADE


def test_one_node_of_several_makes_room_and_what_has_none_keeps_no_other_choice() -> None:
    """Both become one new node if the limits have room beside either; else the next best goes alone, and launches nothing."""
    this_pass, free = DisruptionPass(three()), dict.fromkeys("abc", 0)
    candidates = this_pass.survey.candidates
    (both,) = single_command(this_pass, candidates, free, lambda _, beside: beside.name == "b")
    assert (both.method, both.nodes) == ("multi", ("b", "a"))
    (alone,) = single_command(this_pass, candidates, free, lambda _, __: False)
    assert (alone.method, alone.nodes, alone.replacements) == ("single", ("b",), ())


@pytest.mark.parametrize(("net", "goes"), [(1, True), (0, False)])
def test_a_command_pays_for_its_moves(net: int, *, goes: bool) -> None:
    this_pass = DisruptionPass(world(a_node_of(MIDDLE, "a"), a_node_of(LARGE, "b"), pods=(pod_on("a"), pod_on("b"))))
    first = this_pass.survey.candidates[:1]
    commands = single_command(this_pass, first, {"a": first[0].price - net}, lambda _, __: True)
    assert [command.nodes for command in commands] == ([("a",)] if goes else [])
