"""The order of the methods, what a deadline leaves out, what the plan costs, and commands that depend on others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, ClassVar, Final

import msgspec
import pytest

from core import labels
from core.disruption import disrupt, startable
from core.disruption.command import carried_out
from core.disruption.decision import default_steps, divided, run, with_groups
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.search import FoundTarget, TargetSearch
from core.disruption.target.stored import after_commands
from core.gangs import Gang
from core.model.node_pool import Budget, Disruption
from core.model.plan import Command, DisruptionPlan, Move, NodeClaim, StoredTarget
from core.model.pod import NodeSelectorTerm, Pod, PodAffinityTerm, TopologySpread, VolumeUse
from core.model.snapshot import Node, Options, PodDisruptionBudget, Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint, Toleration
from core.packing.settings import SearchBudget
from core.reasons.code import TargetReason, TerminationReason
from core.reasons.nodes import NodeReason
from core.scheduling.context import SchedulingContext
from core.scheduling.planner import Planner
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector
from tests.unit.disruption.nodes_for_tests import (
    KARPENTER,
    LARGE,
    MIDDLE,
    ON_DEMAND,
    OPEN,
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


def test_members_are_looked_up_and_not_searched_for_each_command() -> None:
    """A search takes 46 ms for a command among 20,000 members, and there are hundreds of commands."""
    notes = {labels.GROUP: "g", labels.GROUP_MINIMUM: "2"}
    nodes = [a_node_of(LARGE, name) for name in ("a", "b")]
    context = SchedulingContext(world(*nodes, pods=tuple(pod_on(name, annotations=notes) for name in ("a", "b"))))
    context.gangs = Looked(context.gangs)
    Looked.looks.clear()
    commands = [
        Command(reason=TerminationReason.DRIFTED, method="drift", nodes=(name,), claims=(f"c{name}",)) for name in "ab"
    ]
    named = with_groups(commands, context)
    assert [[(group.name, group.leaving) for group in command.groups] for command in named] == [[("default/g", 1)]] * 2
    assert len(Looked.looks) == 1


class Looked(tuple[Gang, ...]):
    """Groups that count how often anybody goes through them."""

    __slots__ = ()
    looks: ClassVar[list[str]] = []

    def __iter__(self) -> Iterator[Gang]:
        self.looks.append("look")
        return super().__iter__()


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


@pytest.mark.parametrize(("ignores_budgets", "is_over"), [(False, True), (True, False)])
def test_the_search_leaves_time_for_the_first_wave(
    ignores_budgets: bool, is_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, a decision takes its time, and then as long as its pods' places take."""
    elapsed, ends, found = 0.0, list[bool](), TargetSearch.found

    def late(search: TargetSearch, budget: SearchBudget, drains_max: dict[str, int] | None = None) -> FoundTarget:
        nonlocal elapsed
        elapsed = 0.8
        ends.append(budget.time_is_over)
        return found(search, budget, drains_max)

    monkeypatch.setattr(TargetSearch, "found", late)
    snapshot = half_full(8, at_once=2)
    options = msgspec.structs.replace(snapshot.options, ignore_budgets=ignores_budgets)
    disrupt(msgspec.structs.replace(snapshot, options=options), out_of_time=lambda: elapsed)
    assert ends[0] is is_over


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
    decision = run(world(*nodes, pods=pods, options=options))
    assert [command.method for command in decision.commands] == expected
    assert [candidate.name for candidate in decision.survey.candidates] == sorted({*names} - {*expected})


def test_the_search_has_the_steps_that_are_asked_for_and_its_own_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.disruption.target.decide.TargetDecision", FixedTarget)
    monkeypatch.setattr(FixedTarget, "budgets", [])
    snapshot = world(a_node_of(SMALL, "single"))
    guarded = msgspec.structs.replace(snapshot, pods=(pod_on("single"),))
    search, deadline = (lambda: 0.5), (lambda: 0.25)
    run(guarded, None, search, deadline=deadline)
    run(msgspec.structs.replace(guarded, options=Options(improve_iterations=7)), deadline=deadline)
    assert [(budget.steps_max, budget.out_of_time) for budget in FixedTarget.budgets] == [(40, search), (7, deadline)]


# A cluster in parts: what couples NodePools, what keeps it whole, and what becomes of parts without time.


TEAMS: Final = ("blue", "green", "red")


def tolerates(*teams: str) -> tuple[Toleration, ...]:
    """Tolerations of the taints of these teams' nodes."""
    return tuple(Toleration(key="team", operator="Equal", value=team, effect="NoSchedule") for team in teams)


def machine(team: str, number: int, zone: str = ZONES[0]) -> tuple[NodeClaim, Node]:
    """A node with its team's taint."""
    return a_node_of(MIDDLE, f"{team}-{number}", pool=team, zone=zone, taints=(Taint("team", "NoSchedule", team),))


def teams(*pods: Pod, number: int = 3, **changes: Any) -> Snapshot:
    """A NodePool for each team. Each node has one pod, which uses a tenth of it and may use nodes of its team only."""
    pairs = [machine(team, n) for team in TEAMS for n in range(number)]
    running = [on(team, n) for team in TEAMS for n in range(number)]
    pools = [a_pool(team, ON_DEMAND, taints=(Taint("team", "NoSchedule", team),), disruption=OPEN) for team in TEAMS]
    return world(*pairs, **{"pods": (*running, *pods), "node_pools": tuple(pools), **changes})


def on(team: str, number: int, name: str = "", **changes: Any) -> Pod:
    """A pod on a node of its team."""
    return pod_on(f"{team}-{number}", name, **{"cpu": "400m", "tolerations": tolerates(team), **changes})


def pools_of_parts(snapshot: Snapshot, most: int = 1) -> list[list[str]]:
    """The NodePools of each part; those of the whole cluster where it is not divided."""
    parts = divided(snapshot, Planner(snapshot).context, most).parts or (snapshot,)
    return sorted(sorted(pool.name for pool in part.node_pools) for part in parts)


def in_parts(snapshot: Snapshot, most: int = 1) -> Snapshot:
    """The same with the option that divides it."""
    return msgspec.structs.replace(snapshot, options=msgspec.structs.replace(snapshot.options, part_nodes=most))


def test_nodepools_with_taints_are_apart_and_small_ones_share_a_part() -> None:
    assert pools_of_parts(teams()) == [["blue"], ["green"], ["red"]]
    assert pools_of_parts(teams(), 6) == [["blue", "green"], ["red"]]
    assert pools_of_parts(teams(), 9) == [list(TEAMS)]


AFFINITY: Final = PodAffinityTerm(labels.ZONE, a_selector(app="db"))


@pytest.mark.parametrize(
    "coupling",
    [
        lambda: teams(on("blue", 0, "both", tolerations=tolerates("blue", "red"))),
        lambda: teams(a_pod("waits", tolerations=tolerates("blue", "red"))),
        lambda: teams(
            on("blue", 0, "a", labels={"app": "web"}),
            on("red", 0, "b", labels={"app": "web"}),
            budgets=(PodDisruptionBudget(namespace="default", name="web", selector=a_selector(app="web")),),
        ),
        lambda: teams(on("blue", 0, "a", affinity=(AFFINITY,)), on("red", 0, "b", labels={"app": "db"})),
        lambda: teams(on("blue", 0, "a", labels={"app": "db"}), on("red", 0, "b", anti_affinity=(AFFINITY,))),
        lambda: teams(
            on("blue", 0, "a", volumes=(VolumeUse("data"),)),
            on("red", 0, "b", volumes=(VolumeUse("data"),)),
        ),
    ],
    ids=["running pod", "waiting pod", "budget", "affinity", "anti-affinity", "volume"],
)
def test_what_pods_of_two_nodepools_share_keeps_both_in_one_part(coupling: Callable[[], Snapshot]) -> None:
    assert pools_of_parts(coupling()) == [["blue", "red"], ["green"]]


def test_a_spread_whose_domains_are_those_of_other_nodes_too_keeps_all_together() -> None:
    """Without the other nodes, the zone with the fewest pods would be another one, and the spread would allow more."""
    spread = TopologySpread(labels.ZONE, 1, selector=a_selector(app="web"))
    spreads = on("blue", 0, "a", labels={"app": "web"}, spreads=(spread,))
    apart = teams(spreads)
    elsewhere = msgspec.structs.replace(
        apart,
        nodes=tuple(_moved(node) if node.name.startswith("red") else node for node in apart.nodes),
    )
    everywhere = [machine("blue", 5, zone) for zone in ZONES]
    assert pools_of_parts(elsewhere) == [list(TEAMS)]
    nodes = [msgspec.structs.replace(node, name=f"blue-{n}") for n, (_, node) in enumerate(everywhere, 5)]
    assert pools_of_parts(msgspec.structs.replace(elsewhere, nodes=(*elsewhere.nodes, *nodes))) == [
        ["blue"],
        ["green"],
        ["red"],
    ]


def _moved(node: Node) -> Node:
    return msgspec.structs.replace(node, labels={**node.labels, labels.ZONE: ZONES[1]})


def test_a_node_without_a_nodepool_couples_the_pods_that_may_use_it() -> None:
    _, bare = a_node_of(MIDDLE, "bare")
    without = {key: value for key, value in bare.labels.items() if key != labels.NODEPOOL}
    snapshot = teams()
    shared = msgspec.structs.replace(snapshot, nodes=(*snapshot.nodes, msgspec.structs.replace(bare, labels=without)))
    assert pools_of_parts(shared) == [list(TEAMS)]


@pytest.mark.parametrize(
    ("changes", "shared"),
    [
        ({"options": Options(karpenter_moves_only=True)}, "Karpenter's order of nodes"),
        ({"options": Options(evictions_per_hour=9)}, "a limit on evictions per hour"),
        ({"subnet_addresses": {"subnet-1": 3}}, "subnets with few free addresses"),
        ({"vcpu_quotas": {"L-1216C47A": 71}}, "EC2 quotas that are half used"),
    ],
)
def test_what_all_nodepools_share_keeps_the_cluster_whole(changes: dict[str, Any], shared: str) -> None:
    snapshot = teams(**changes)
    assert divided(snapshot, Planner(snapshot).context, 1).undivided == f"all NodePools share {shared}"
    assert disrupt(in_parts(snapshot), proves=False).undivided.endswith(shared)


def test_a_quota_with_room_for_as_much_again_is_not_shared() -> None:
    assert len(pools_of_parts(teams(vcpu_quotas={"L-1216C47A": 72}))) == len(TEAMS)


def gone(plan: DisruptionPlan) -> set[str]:
    """The nodes that commands remove."""
    return {node for command in plan.commands for node in command.nodes}


def test_parts_that_share_nothing_are_decided_about_as_the_whole_is() -> None:
    whole, parts = disrupt(teams()), disrupt(in_parts(teams()))
    assert (whole.parts, parts.parts) == (1, len(TEAMS))
    assert gone(whole) == gone(parts)
    assert (whole.cost.before, whole.cost.after) == (parts.cost.before, parts.cost.after)
    assert (whole.blocked, whole.budgets) == (parts.blocked, parts.budgets)
    assert whole.target is not None
    assert parts.target is not None
    numbers = ("settings", "kept_price", "kept_by_pool", "drained_price", "new_price")
    assert [getattr(whole.target, name) for name in numbers] == [getattr(parts.target, name) for name in numbers]
    assert parts.cost.lower_bound == pytest.approx(whole.cost.lower_bound, abs=len(TEAMS))  # each is rounded
    assert gone(parts)


class Clock:
    """Time is up after this many readings."""

    def __init__(self, readings: int = 10**6) -> None:
        self.read = 0
        self._most = readings

    def __call__(self) -> float:
        self.read += 1
        return 0.0 if self.read <= self._most else 0.8


def test_a_part_without_time_is_left_alone_and_has_its_turn_in_a_later_minute() -> None:
    """Each run has time for one part. A run's time is a minute after that of the one before."""
    snapshot, whole = in_parts(teams()), Clock()
    disrupt(snapshot, proves=False, deadline=whole)
    examined = []
    for minute in range(len(TEAMS)):
        later = msgspec.structs.replace(snapshot, now=NOW + timedelta(minutes=minute))
        plan = disrupt(later, proves=False, deadline=Clock(whole.read // len(TEAMS)))
        left_alone = {block.node for block in plan.blocked if block.reason == NodeReason.NOT_TRIED}
        [team] = {node.partition("-")[0] for node in gone(plan)}
        assert left_alone == {node.name for node in snapshot.nodes if not node.name.startswith(team)}
        examined.append(team)
    assert sorted(examined) == sorted(TEAMS)


def slow(number: int = 6, **changes: Any) -> Snapshot:
    """The same teams; a node of each may go at a time."""
    one_at_a_time = Disruption(budgets=(Budget("1"),))
    snapshot = teams(number=number, **changes)
    pools = tuple(msgspec.structs.replace(pool, disruption=one_at_a_time) for pool in snapshot.node_pools)
    return in_parts(msgspec.structs.replace(snapshot, node_pools=pools))


def teams_of(target: StoredTarget | None) -> set[str]:
    """The teams whose nodes the target drains."""
    return {drain.node.partition("-")[0] for drain in target.drains} if target is not None else set()


def test_each_part_continues_its_part_of_the_stored_target() -> None:
    snapshot = slow()
    first = disrupt(snapshot, proves=False)
    assert (first.target_reason, teams_of(first.target), len(gone(first))) == (TargetReason.MADE, set(TEAMS), 3)
    kept = after_commands(first.target, first.commands, snapshot.pods, {}) if first.target is not None else None
    assert teams_of(kept) == set(TEAMS)
    assert kept is not None
    assert kept.kept_price == sum(kept.kept_by_pool.values())
    then = carried_out(snapshot, *first.commands)
    again = disrupt(msgspec.structs.replace(then, stored_target=kept), proves=False)
    assert (again.target_reason, len(gone(again))) == (TargetReason.CONTINUED, 3)
    assert again.target is not None
    assert again.target.made_at == kept.made_at


def test_a_target_of_an_older_release_or_of_other_settings_is_planned_again() -> None:
    snapshot = slow()
    target = disrupt(snapshot, proves=False).target
    assert target is not None
    for older in ({"kept_by_pool": {}}, {"settings": "other"}):
        stored = msgspec.structs.replace(target, **{"kept_price": 1, **older})
        again = disrupt(msgspec.structs.replace(snapshot, stored_target=stored), proves=False)
        assert again.target_reason == TargetReason.MADE


def test_a_part_left_alone_keeps_its_part_of_the_target() -> None:
    snapshot = slow()
    target = disrupt(snapshot, proves=False).target
    late = disrupt(msgspec.structs.replace(snapshot, stored_target=target), proves=False, deadline=Clock(0))
    assert late.commands == ()
    assert late.target == target
