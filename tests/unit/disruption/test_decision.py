"""The order of the methods, what a deadline leaves out, what the plan costs, and commands that depend on others."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import pytest

from core import labels
from core.disruption import disrupt, startable
from core.disruption.decision import default_steps, run
from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import Command, DisruptionPlan, Move
from core.model.pod import NodeSelectorTerm
from core.model.snapshot import Options
from core.model.values.requirements import Requirement
from core.packing.settings import SearchBudget
from core.reasons.code import TargetReason, TerminationReason
from core.scheduling.planner import Planner
from tests.builders import NOW, a_node_of
from tests.unit.disruption.nodes_for_tests import (
    KARPENTER,
    LARGE,
    SMALL,
    pod_on,
    world,
)
from tests.unit.disruption.target.fleets_for_tests import half_full


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
    assert startable(plan.commands) == (launch, free)


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


def methods(plan: DisruptionPlan) -> set[str]:
    return {command.method for command in plan.commands}


def test_empty_nodes_go_before_a_target_decides_about_the_others() -> None:
    """An empty node needs no program to be solved, and is no room that the target should count on."""
    nodes = [a_node_of(SMALL, "empty"), a_node_of(LARGE, "half")]
    plan = disrupt(world(*nodes, pods=(pod_on("half"),)))
    assert [(command.method, command.nodes) for command in plan.commands] == [
        ("emptiness", ("empty",)),
        ("repack", ("half",)),
    ]


@pytest.mark.parametrize(("elapsed", "found"), [(0.74, {"repack"}), (0.75, set())])
def test_no_target_is_begun_in_the_last_quarter_of_the_time(elapsed: float, found: set[str]) -> None:
    """Its program cannot be interrupted, and a function that is cut off carries out none of its commands."""
    assert methods(disrupt(half_full(4, at_once=4), deadline=lambda: elapsed)) == found


def test_a_stored_target_for_which_there_is_no_time_is_kept_for_the_next_run() -> None:
    first = half_full(8, at_once=2)
    target = disrupt(first).target
    assert target is not None
    later = msgspec.structs.replace(first, stored_target=target)
    assert disrupt(later, deadline=lambda: 0.9).target == target
    assert disrupt(msgspec.structs.replace(later, options=KARPENTER), deadline=lambda: 0.9).target is None


def test_the_search_ends_at_its_own_time_or_at_the_deadline() -> None:
    asked: list[str] = []

    def clock(name: str) -> float:
        asked.append(name)
        return 0

    disrupt(half_full(8, at_once=2), out_of_time=lambda: clock("search"))
    assert "search" in asked
    asked.clear()
    disrupt(half_full(8, at_once=2), deadline=lambda: clock("deadline"))
    outside = len(asked)
    asked.clear()
    disrupt(half_full(8, at_once=2), out_of_time=lambda: clock("search"), deadline=lambda: clock("deadline"))
    assert asked.count("search") > 0
    assert asked.count("deadline") < outside


@pytest.mark.parametrize(("nodes", "steps"), [(1, 40), (40, 40), (75, 75), (104, 104), (9_000, 104)])
def test_the_steps_of_the_search_grow_with_the_fleet(nodes: int, steps: int) -> None:
    """A small fleet is packed well with few, and in a large one each takes hundredths of a second."""
    assert default_steps(nodes) == steps


def test_the_plan_says_what_the_fleet_costs_before_and_after_and_what_it_must_cost() -> None:
    fleet = half_full(4, at_once=4)
    cost = disrupt(fleet).cost
    assert cost.before == 4 * 200_000_000
    assert cost.lower_bound is not None
    assert 0 < cost.lower_bound <= cost.after < cost.before
    assert disrupt(fleet, proves=False).cost.lower_bound is None


def test_without_a_node_that_may_go_there_is_no_target_and_no_reason() -> None:
    guarded = pod_on("held", annotations={labels.DO_NOT_DISRUPT: "true"})
    plan = disrupt(world(a_node_of(SMALL, "held"), pods=(guarded,)))
    assert (plan.commands, plan.target, plan.target_reason) == ((), None, "")
    assert disrupt(half_full(4, at_once=1)).target_reason == "TargetMade"


def test_a_planner_that_exists_is_not_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads every pod of the cluster, which takes seconds in a large one."""
    snapshot = world(a_node_of(SMALL, "a"), pods=(pod_on("a"),))
    planner = Planner(snapshot)
    expected = disrupt(snapshot)
    monkeypatch.setattr("core.disruption.decision.Planner", None)
    assert disrupt(snapshot, planner) == expected


def test_the_minimum_is_proved_for_a_new_target_and_for_a_continued_one_only_if_asked() -> None:
    first = half_full(8, at_once=2)
    plan = disrupt(first)
    gone = {node for command in plan.commands for node in command.nodes}
    later = msgspec.structs.replace(
        first,
        stored_target=plan.target,
        marked_for_deletion=tuple(claim for command in plan.commands for claim in command.claims),
    )
    assert gone
    again = disrupt(later, proves_continued=True)
    assert (again.target_reason, again.cost.lower_bound is None) == ("TargetContinued", False)
    unproved = disrupt(later)
    assert (unproved.target_reason, unproved.cost.lower_bound) == ("TargetContinued", None)


class FixedTarget:
    """Takes the place of the decision about the target: it finds what a test says, and notes its budget."""

    found: tuple[Command, ...] = ()
    budgets: ClassVar[list[SearchBudget]] = []

    def __init__(self, disruption_pass: DisruptionPass, budget: SearchBudget) -> None:
        self.kept, self.reason = None, TargetReason.MADE
        self.budgets.append(budget)

    def commands(self) -> list[Command]:
        return list(self.found)

    def single(self) -> list[Command]:
        return [command_for("single")]


def command_for(name: str) -> Command:
    return Command(reason="Drifted", method=name, nodes=(name,), claims=(f"default-{name}",))


@pytest.mark.parametrize(
    ("by_target", "by_drift", "options", "expected"),
    [
        (("target",), ("drift",), Options(), ["target"]),
        ((), ("drift",), Options(), ["drift"]),
        ((), (), Options(), ["single"]),
        ((), ("drift",), Options(ignore_budgets=True), ["single"]),
        (("target",), ("drift",), Options(ignore_budgets=True), ["target"]),
    ],
)
def test_drift_and_one_node_are_tried_where_the_target_lets_none_go(
    by_target: tuple[str, ...],
    by_drift: tuple[str, ...],
    options: Options,
    expected: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FixedTarget, "found", tuple(map(command_for, by_target)))
    monkeypatch.setattr("core.disruption.target.decide.TargetDecision", FixedTarget)
    monkeypatch.setattr("core.disruption.methods.find_left", lambda _: list(map(command_for, by_drift)))
    guard = {"annotations": {labels.DO_NOT_DISRUPT: "true"}}
    names = ("target", "drift", "single")
    nodes, pods = (a_node_of(SMALL, name) for name in names), tuple(pod_on(name, **guard) for name in names)
    found = run(world(*nodes, pods=pods, options=options))
    assert [command.method for command in found.commands] == expected
    assert [candidate.name for candidate in found.survey.candidates] == sorted({*names} - {*expected})


def test_the_search_has_the_steps_that_are_asked_for_and_its_own_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.disruption.target.decide.TargetDecision", FixedTarget)
    monkeypatch.setattr(FixedTarget, "budgets", [])
    snapshot = world(a_node_of(SMALL, "single"))
    guarded = msgspec.structs.replace(snapshot, pods=(pod_on("single"),))
    search, deadline = (lambda: 0.5), (lambda: 0.25)
    run(guarded, None, search, deadline=deadline)
    run(msgspec.structs.replace(guarded, options=Options(improve_iterations=7)), deadline=deadline)
    assert [(budget.steps_max, budget.out_of_time) for budget in FixedTarget.budgets] == [(40, search), (7, deadline)]
