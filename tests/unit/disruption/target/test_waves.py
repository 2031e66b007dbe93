"""Places are final: a drained node never receives pods, and later waves use what earlier ones launched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.fleet import TargetFleet, target_fleet
from core.disruption.target.realization import SlotAssignment
from core.disruption.target.search import SMALL
from core.disruption.target.waves import (
    DELETED_TOGETHER,
    WAVES_MAX,
    Target,
    WavePlanner,
    approved_commands,
    components,
    paid_back,
    target_waves,
    valid_commands,
    wave_commands,
)
from core.model.catalogue import Catalogue, InstanceType
from core.model.node_pool import BALANCED, Budget, Disruption
from core.model.plan import Command, Move, PlannedClaim
from core.model.pod import NodeSelectorTerm, PodAffinityTerm, PreferredTerm, TopologySpread
from core.model.snapshot import Options, PodDisruptionBudget, Snapshot
from core.model.values.requirements import Requirement
from core.reasons.code import TerminationReason
from core.reasons.nodes import NO_SAVING, SLOT_CHANGED, SLOT_DENIED, TOO_DEAR, NodeReason, TargetBelowMoves
from tests.builders import CLASS_REF, ZONES, a_node_of, a_pool, a_selector, a_type
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, ON_DEMAND, OPEN, TYPES, drifted, pod_on, world
from tests.unit.disruption.nodes_for_tests import SMALL as WAVES_SMALL
from tests.unit.disruption.target.fleets_for_tests import (
    WHOLE_WAY,
    decided,
    drained,
    fleet_of,
    half_full,
    sharing_a_budget,
)
from tests.unit.lifecycle.records_for_tests import a_plan

# A target may be valid as a whole while one of its commands is not valid alone.


HOUR = timedelta(hours=1)


def deleting(node: str, to: str) -> Command:
    """Delete one node and move its pod to another."""
    return Command(reason="Underutilized", method="repack", nodes=(node,), claims=(f"default-{node}",),
                   moves=(Move(f"default/on-{node}", to),), savings=2 * 10**8)  # fmt: skip


def kept(commands: list[Command], this_pass: DisruptionPass, worthwhile: int = 20) -> list[Command]:
    """The commands that hold."""
    return valid_commands(commands, this_pass, worthwhile=worthwhile)[0]


def test_a_second_command_is_invalid_if_the_first_took_its_room() -> None:
    nodes = [a_node_of(MIDDLE, name) for name in "abc"]
    this_pass = DisruptionPass(world(*nodes, pods=tuple(pod_on(name, cpu="1500m") for name in "abc")))
    first, second = deleting("a", "c"), deleting("b", "c")
    valid, objections = valid_commands([first, second], this_pass, worthwhile=20)
    assert valid == [first]
    assert objections["b"].reason == NodeReason.NO_CHEAPER_OPTION


@pytest.mark.parametrize("prefers", [False, True])
def test_a_pod_has_its_slot_after_those_of_earlier_commands_moved(prefers: bool) -> None:
    """The second pod's spread counts the first, which has none: that order is none that kube-scheduler can keep to."""
    even = TopologySpread(labels.HOSTNAME, 1, selector=a_selector(app="web"))
    nearby = PreferredTerm(1, NodeSelectorTerm((Requirement.one_of(labels.HOSTNAME, "d"),)))
    spec = {"spreads": (even,), "preferred_terms": (nearby,) if prefers else ()}
    pods = (pod_on("a", labels={"app": "web"}), pod_on("b", labels={"app": "web"}, **spec), pod_on("c"), pod_on("d"))
    this_pass = DisruptionPass(world(*(a_node_of(MIDDLE, name) for name in "abcd"), pods=pods))
    counted, spread = deleting("a", "c"), deleting("b", "c")
    assert kept([spread, counted], this_pass) == [spread, counted]
    valid, objections = valid_commands([counted, spread], this_pass, worthwhile=20)
    assert (valid, objections) == ([counted], {"b": SLOT_DENIED})


@pytest.mark.parametrize("is_new", [False, True])
def test_a_pod_does_not_come_before_the_pods_that_it_must_be_near(is_new: bool) -> None:
    """A new node was launched by the command of a pod that may run there only beside a pod of a later command."""
    near = PodAffinityTerm(labels.HOSTNAME, a_selector(app="web"))
    pods = (
        pod_on("a", labels={"app": "web"}),
        pod_on("b", affinity=(near,)),
        pod_on("c"),
        pod_on("d", labels={"app": "web"}),
    )
    this_pass = DisruptionPass(world(*(a_node_of(MIDDLE, name) for name in "abcd"), pods=pods))
    place = "new" if is_new else "c"

    def moving(node: str, *, opens: bool) -> Command:
        return replacing(node, "new", price=10**8, saves=10**8) if opens and is_new else deleting(node, place)

    company, follower = moving("a", opens=True), moving("b", opens=False)
    assert kept([company, follower], this_pass) == [company, follower]
    early = moving("b", opens=True)
    assert valid_commands([early], this_pass, worthwhile=20) == ([], {"b": SLOT_DENIED})
    assert kept([deleting("b", "d")], this_pass) == [deleting("b", "d")], "it is there already"


@pytest.mark.parametrize(("others", "holds"), [((), True), (("d",), False)])
def test_the_first_pods_that_must_be_near_each_other_go_together(others: tuple[str, ...], holds: bool) -> None:
    """Kubernetes lets the first of them run anywhere, and no other."""
    web = {"app": "web"}
    near = PodAffinityTerm(labels.HOSTNAME, a_selector(**web))
    pods = (
        *(pod_on("a", f"pod-{number}", labels=web, affinity=(near,)) for number in range(2)),
        pod_on("c"),
        *(pod_on(name, labels=web) for name in others),
    )
    this_pass = DisruptionPass(world(*(a_node_of(MIDDLE, name) for name in ("a", "c", *others)), pods=pods))
    moves = tuple(Move(pod.key, "c") for pod in pods[:2])
    command = msgspec.structs.replace(deleting("a", "c"), moves=moves)
    assert (kept([command], this_pass) == [command]) is holds


def test_a_node_that_is_no_candidate_does_not_go() -> None:
    this_pass = DisruptionPass(world(a_node_of(MIDDLE, "a"), pods=(pod_on("a"),)))
    assert kept([deleting("gone", "a")], this_pass) == []


def replacing(node: str, new: str, *, price: int, saves: int) -> Command:
    """Replace a node by a new one of its own type."""
    where = {"zones": ZONES, "capacity_types": (labels.ON_DEMAND,), "instance_types": ("t-4",)}
    claim = PlannedClaim(name=new, node_pool="default", node_class=CLASS_REF, price=price, **where)
    return msgspec.structs.replace(deleting(node, new), replacements=(claim,), savings=saves)


def test_a_replacement_by_choice_saves_one_part_in_so_many() -> None:
    """What has to go is replaced whatever that costs."""
    this_pass = DisruptionPass(world(a_node_of(MIDDLE, "a"), pods=(pod_on("a", cpu="3"),)))
    price = 2 * 10**8
    enough, little = (replacing("a", "new", price=price - saves, saves=saves) for saves in (10**7, 10**7 - 1))
    assert kept([enough], this_pass) == [enough]
    assert kept([little], this_pass) == []
    assert kept([little], this_pass, worthwhile=19) == []
    assert kept([little], this_pass, worthwhile=21) == [little]
    drifts = msgspec.structs.replace(little, reason="Drifted", method="drift", savings=-1)
    assert kept([drifts], this_pass) == [drifts]


def test_what_needs_the_new_node_of_a_command_that_does_not_hold_does_not_hold_either() -> None:
    nodes = [a_node_of(MIDDLE, name) for name in "abc"]
    pods = (pod_on("a", cpu="1500m"), pod_on("b", cpu="1500m"), pod_on("c", cpu="3"))
    this_pass = DisruptionPass(world(*nodes, pods=pods))
    bad = replacing("a", "new", price=2 * 10**8, saves=0)
    needs = deleting("b", "new")
    valid, objections = valid_commands([bad, needs], this_pass, worthwhile=20)
    assert (valid, set(objections)) == ([], {"a", "b"})
    assert objections["a"] == objections["b"], "the second does not go for the reason of the first"
    assert kept([deleting("b", "a")], this_pass) == [deleting("b", "a")]


@pytest.mark.parametrize(("zone", "holds"), [(ZONES[0], False), (ZONES[1], True)])
def test_a_new_node_is_where_its_pods_may_go(zone: str, holds: bool) -> None:
    """Another new node in another zone would do, but the command does not launch that one: the pod stayed pending."""
    even = TopologySpread(labels.ZONE, 1, selector=a_selector(app="web"))
    crowded, other = (pod_on(name, labels={"app": "web"}) for name in "bc")
    pods = (pod_on("a", cpu="3", labels={"app": "web"}, spreads=(even,)), crowded, other)
    this_pass = DisruptionPass(world(*(a_node_of(MIDDLE, name) for name in "abc"), pods=pods))
    command = msgspec.structs.replace(replacing("a", "new", price=10**8, saves=10**8), reason="Drifted", method="drift")
    (claim,) = command.replacements
    new = msgspec.structs.replace(claim, zones=(zone,), pods=("default/on-a",))
    command = msgspec.structs.replace(command, replacements=(new,))
    valid, objections = valid_commands([command], this_pass, worthwhile=20)
    assert (valid == [command], [objection.reason for objection in objections.values()]) == (
        holds,
        [] if holds else [NodeReason.PODS_UNSCHEDULABLE],
    )


@pytest.mark.parametrize(("rests", "reason"), [(timedelta(0), "Drifted"), (HOUR, "Drifted"), (HOUR, "Underutilized")])
def test_consolidation_moves_no_pods_to_a_node_that_drift_launches_and_that_rests(
    rests: timedelta, reason: str
) -> None:
    """Both share a new node. Its consolidateAfter begins once it is there; another one would do, and passed the check."""
    pools = (a_pool("default", ON_DEMAND, disruption=msgspec.structs.replace(OPEN, consolidate_after=rests)),)
    nodes = (drifted(a_node_of(MIDDLE, "a")), drifted(a_node_of(MIDDLE, "b")))
    pods = (pod_on("a", cpu="1"), pod_on("b", cpu="1"), pod_on("b", "more", cpu="1"))
    this_pass = DisruptionPass(world(*nodes, pods=pods, node_pools=pools))
    first = msgspec.structs.replace(replacing("a", "new", price=10**8, saves=10**8), reason="Drifted", method="drift")
    second = replacing("b", "own", price=10**8, saves=10**8)
    second = msgspec.structs.replace(
        second, moves=(Move("default/more", "own"), Move("default/on-b", "new")), reason=reason
    )
    valid, objections = valid_commands([first, second], this_pass, worthwhile=20)
    if rests and reason == "Underutilized":
        assert (valid, objections) == ([first], {"b": SLOT_CHANGED})
    else:
        assert (valid, objections) == ([first, second], {})


def test_a_deletion_holds_however_little_it_saves_and_launches_nothing() -> None:
    """Nothing is started for it; a pod that would need a new node after all makes it another decision."""
    nodes = [a_node_of(MIDDLE, name) for name in "ab"]
    little = msgspec.structs.replace(deleting("a", "b"), savings=1)
    half_empty = DisruptionPass(world(*nodes, pods=(pod_on("a"), pod_on("b"))))
    assert kept([little], half_empty) == [little]
    full = DisruptionPass(world(*nodes, pods=(pod_on("a"), pod_on("b", cpu="4"))))
    assert valid_commands([little], full, worthwhile=20) == ([], {"a": NO_SAVING})
    held = (a_pool("default", ON_DEMAND, disruption=OPEN, limits={"cpu": 0}),)
    stuck = DisruptionPass(world(*nodes, pods=(pod_on("a"), pod_on("b", cpu="4")), node_pools=held))
    (objection,) = valid_commands([little], stuck, worthwhile=20)[1].values()
    assert objection.reason == NodeReason.PODS_UNSCHEDULABLE
    assert "pod default/on-a would find no place" in objection.message


BALANCED_POOL = a_pool("default", ON_DEMAND, disruption=Disruption(policy=BALANCED, budgets=(Budget("100%"),)))


def test_the_policy_balanced_approves_each_command_by_choice_and_what_needs_a_refused_one_stays() -> None:
    """In a large fleet nothing else is asked of a command, and without such a NodePool not even that."""
    nodes = [a_node_of(MIDDLE, name) for name in "abc"]
    pods = tuple(pod_on(name) for name in "abc")
    balanced = DisruptionPass(world(*nodes, pods=pods, node_pools=(BALANCED_POOL,)))
    whole, little = deleting("a", "c"), replacing("b", "new", price=2 * 10**8 - 1, saves=1)
    late = msgspec.structs.replace(deleting("c", "new"), reason="Drifted")
    objection = TargetBelowMoves("default")
    assert approved_commands([whole, little, late], balanced) == ([whole], {"b": objection, "c": objection})
    assert approved_commands([late], balanced) == ([late], {}), "it must go"
    assert valid_commands([msgspec.structs.replace(whole, savings=1)], balanced, worthwhile=20)[1] == {"a": objection}
    other = DisruptionPass(world(*nodes, pods=pods))
    assert approved_commands([whole, little, late], other) == ([whole, little, late], {})


# Which commands of a target may begin, and with budgets ignored, how all of a small fleet's nodes go.


def three_for_one(options: Options) -> Snapshot:
    """Three nodes at $0.40 become one at $0.50; one may go at a time, which does not pay on its own."""
    one_at_a_time = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    old, new = a_type("old", cpu="4", price=0.4), a_type("new", cpu="16", price=0.5)
    pairs = [a_node_of(old, f"n{n}") for n in range(3)]
    pods = tuple(pod_on(f"n{n}", cpu="3500m") for n in range(3))
    return world(
        *pairs, pods=pods, node_pools=(one_at_a_time,), options=options, catalogue=Catalogue(default=(old, new))
    )


@pytest.mark.parametrize(("options", "together"), [(Options(), []), (WHOLE_WAY, [("n0", "n1", "n2")])])
def test_nodes_that_pay_only_together_go_together_with_budgets_ignored(
    options: Options, together: list[tuple[str, ...]]
) -> None:
    """No node went: the first wave did not pay."""
    plan = disrupt(three_for_one(options))
    assert [command.nodes for command in plan.commands] == together
    assert plan.cost.before - plan.cost.after == (700_000_000 if together else 0)


@pytest.mark.parametrize(("options", "waves"), [(Options(), [1]), (WHOLE_WAY, [1, 2, 3])])
def test_one_wave_within_budgets_and_all_without(options: Options, waves: list[int]) -> None:
    snapshot = half_full(4, at_once=1, options=options)
    fleet = fleet_of(snapshot)
    found = drained(fleet, "n0", "n1", "n2")
    target = Target(fleet, found, found.claims, fleet.rows.problem.prices.astype(float))
    assert target.drains == {"n0", "n1", "n2"}
    these = target_waves(target, DisruptionPass(snapshot), is_gated=False)
    assert [command.wave for command in these.commands] == waves
    assert these.savings == 200_000_000 * len(waves)
    assert (these.objections, these.saved) == ({}, 0)


@pytest.mark.parametrize("ignore_budgets", [False, True])
def test_a_lone_spot_node_of_a_large_fleet_is_not_replaced_by_types_that_cost_more(*, ignore_budgets: bool) -> None:
    """Karpenter asks for fifteen cheaper types, and here are three; types at up to five times the price do not count."""
    old = a_type("old", cpu="16", memory="64Gi", price=0.8)
    cheaper = [a_type(f"cheaper-{n}", cpu="4", memory="16Gi", price=0.2 + n / 1000) for n in range(3)]
    expensive = [a_type(f"expensive-{n}", cpu="32", memory="128Gi", price=2 + n / 5) for n in range(20)]
    names = [f"n{n:02}" for n in range(SMALL + 5)]
    apart = (PodAffinityTerm(labels.HOSTNAME, a_selector(app="web")),)
    pods = tuple(pod_on(name, cpu="3500m", labels={"app": "web"}, anti_affinity=apart) for name in names)
    spot = Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT)
    gates = msgspec.structs.replace(Options().feature_gates, spot_to_spot_consolidation=True)
    snapshot = world(
        *(a_node_of(old, name, capacity_type=labels.SPOT) for name in names), pods=pods,
        node_pools=(a_pool("default", spot, disruption=Disruption(budgets=(Budget("10%"),))),),
        options=Options(feature_gates=gates, moves="thorough", ignore_budgets=ignore_budgets),
        catalogue=Catalogue(default=(old, *cheaper, *expensive)),
    )  # fmt: skip
    assert disrupt(snapshot).commands == ()


@pytest.mark.parametrize(
    ("options", "gone", "savings"), [(Options(), [], 0), (WHOLE_WAY, [("n0", "n1", "n2")], 7 * 10**8)]
)
def test_of_waves_one_by_one_and_all_nodes_together_the_cheaper_is_taken(
    options: Options, gone: list[tuple[str, ...]], savings: int
) -> None:
    snapshot = three_for_one(options)
    this_pass, fleet = DisruptionPass(snapshot), fleet_of(snapshot)
    found = drained(fleet, "n0", "n1", "n2")
    claims = this_pass.names.named_apart(found.claims)
    these = target_waves(Target(fleet, found, claims, fleet.prices.astype(float)), this_pass, is_gated=False)
    assert ([command.nodes for command in these.commands], these.savings) == (gone, savings)
    assert set(these.objections) == (set() if gone else {"n0", "n1", "n2"})


# Nodes that share a new node form one command; other nodes go in small groups that fail independently.


def test_nodes_that_share_new_nodes_form_one_command_also_indirectly() -> None:
    assert list(components({0: [1], 1: [2], 2: [1, 2], 3: []})) == [([0, 2, 1], [1, 2]), ([3], [])]


def test_each_node_awaits_the_new_nodes_of_its_own_pods() -> None:
    fleet = fleet_of(world(*(a_node_of(MIDDLE, n) for n in ("n0", "n1")), pods=(pod_on("n0"), pod_on("n1"))))
    claims = tuple(a_plan(name=name) for name in ("x", "y"))
    keys = [fleet.rows.pods[node][0].key for node in (0, 1)]
    moves = {0: [Move(keys[0], "x")], 1: [Move(keys[1], "y")]}
    (command,) = wave_commands(fleet, claims, moves, {0: [0], 1: [0, 1]}, 1)
    assert command.awaits == {"n0": ("x",), "n1": ("y",)}


def test_deletions_go_in_small_groups() -> None:
    count = DELETED_TOGETHER[TerminationReason.UNDERUTILIZED] + 3
    nodes = [a_node_of(MIDDLE, f"n{n:02}") for n in range(count + 1)]
    fleet = fleet_of(world(*nodes, pods=tuple(pod_on(f"n{n:02}") for n in range(count + 1))))
    moves = {n: [Move(fleet.rows.pods[n][0].key, f"n{count:02}")] for n in range(count)}
    commands = wave_commands(fleet, (), moves, {node: [] for node in moves}, 2)
    assert [len(command.nodes) for command in commands] == [count - 3, 3]
    assert {command.wave for command in commands} == {2}
    assert all(len(command.moves) == len(command.nodes) for command in commands)


def test_drifted_nodes_that_need_no_new_node_go_one_by_one() -> None:
    """Otherwise, one that may no longer go holds the others up: a command for drift has no part that goes without it."""
    nodes = [*(drifted(a_node_of(MIDDLE, f"n{n}")) for n in range(2)), a_node_of(MIDDLE, "n2")]
    fleet = fleet_of(world(*nodes, pods=tuple(pod_on(f"n{n}") for n in range(3)), options=WHOLE_WAY))
    moves = {n: [Move(fleet.rows.pods[n][0].key, "n2")] for n in range(2)}
    commands = wave_commands(fleet, (), moves, {node: [] for node in moves}, 1)
    assert [command.nodes for command in commands] == [("n0",), ("n1",)]


def two_nodes(**pods: str) -> TargetFleet:
    """A drifted node `n0` and a working node `n1`, with a pod each; `pods` are the cpu of these."""
    nodes = [drifted(a_node_of(MIDDLE, "n0")), a_node_of(MIDDLE, "n1")]
    running = tuple(pod_on(node, cpu=pods.get(node, "500m")) for node in ("n0", "n1"))
    return fleet_of(world(*nodes, pods=running, options=WHOLE_WAY))


def keys_of(fleet: TargetFleet) -> list[str]:
    return [pods[0].key for pods in fleet.rows.pods]


def test_of_two_reasons_the_drifted_nodes_go_first_and_launch_what_both_need() -> None:
    fleet = two_nodes()
    claim = a_plan(name="x", price=7)
    moves = {node: [Move(key, "x")] for node, key in enumerate(keys_of(fleet))}
    first, second = wave_commands(fleet, [claim], moves, {0: [0], 1: [0]}, 3)
    assert (first.reason, first.method, first.nodes) == ("Drifted", "drift", ("n0",))
    assert (second.reason, second.method, second.nodes) == ("Underutilized", "repack", ("n1",))
    assert [len(command.replacements) for command in (first, second)] == [1, 0]
    assert (first.awaits, second.awaits) == ({"n0": ("x",)}, {})
    prices = fleet.prices.tolist()
    assert (first.savings, second.savings) == (prices[0] - 7, prices[1])


def test_a_command_names_nodes_claims_and_moves_in_the_order_of_the_nodes() -> None:
    nodes = [a_node_of(MIDDLE, name) for name in ("n1", "n0", "n2")]
    fleet = fleet_of(world(*nodes, pods=tuple(pod_on(name) for name in ("n0", "n1", "n2"))))
    rows = {candidate.name: row for row, candidate in enumerate(fleet.candidates)}
    moves = {rows[name]: [Move(fleet.rows.pods[rows[name]][0].key, "n2")] for name in ("n1", "n0")}
    (command,) = wave_commands(fleet, (), moves, {row: [] for row in moves}, 1)
    assert command.nodes == ("n0", "n1")
    assert command.claims == tuple(fleet.candidates[rows[name]].claim.name for name in ("n0", "n1"))
    assert [move.pod for move in command.moves] == ["default/on-n0", "default/on-n1"]
    assert command.replacements == ()
    assert command.awaits == {}


class TestANewNode:
    """It is launched with the pods of the wave that needs it first; its types have room for the others."""

    def opened(self, *arriving: str, planned: tuple[str, ...], **plan: object) -> PlannedClaim:
        fleet = two_nodes(n0="500m", n1="700m")
        by_node = dict(zip(("n0", "n1"), keys_of(fleet), strict=True))
        pods = tuple(by_node.get(name, name) for name in planned)
        claim = a_plan(name="x", pods=pods, resources={"cpu": 2000, "memory": 2**30, "pods": 10}, **plan)
        moves = {0: [Move(by_node[name], "x") for name in arriving]}
        (command,) = wave_commands(fleet, [claim], moves, {0: [0]}, 1)
        (replacement,) = command.replacements
        return replacement

    def test_requests_nothing_for_pods_that_come_later(self) -> None:
        claim = self.opened("n0", planned=("n0", "n1"))
        assert (claim.pods, claim.resources["cpu"], claim.resources["pods"]) == (("default/on-n0",), 1300, 9)

    def test_requests_room_for_pods_that_were_planned_elsewhere(self) -> None:
        claim = self.opened("n0", "n1", planned=("n0",))
        assert (claim.pods, claim.resources["cpu"]) == (("default/on-n0", "default/on-n1"), 2700)

    def test_keeps_pods_that_wait_for_a_node_anyway(self) -> None:
        claim = self.opened("n0", planned=("n0", "default/waits"))
        assert (claim.pods, claim.resources["cpu"]) == (("default/on-n0", "default/waits"), 2000)


def test_nodes_without_pods_for_a_new_node_come_after_those_that_share_one() -> None:
    fleet = fleet_of(
        world(*(a_node_of(MIDDLE, f"n{n}") for n in range(3)), pods=tuple(pod_on(f"n{n}") for n in range(3)))
    )
    keys = keys_of(fleet)
    moves = {0: [Move(keys[0], "n2")], 1: [Move(keys[1], "x")]}
    commands = wave_commands(fleet, [a_plan(name="x")], moves, {0: [], 1: [0]}, 1)
    assert [command.nodes for command in commands] == [("n1",), ("n0",)]


def test_drifted_nodes_go_before_all_that_go_by_choice() -> None:
    """Budgets counted them first; a budget that is stricter for drift denied one that came after a node with a new one."""
    fleet = two_nodes()
    moves = {0: [Move(keys_of(fleet)[0], "n1")], 1: [Move(keys_of(fleet)[1], "x")]}
    commands = wave_commands(fleet, [a_plan(name="x")], moves, {0: [], 1: [0]}, 1)
    assert [(command.reason, command.nodes) for command in commands] == [
        ("Drifted", ("n0",)),
        ("Underutilized", ("n1",)),
    ]
    assert [len(command.replacements) for command in commands] == [0, 1]


def test_a_new_node_is_launched_once_and_filled_by_later_waves() -> None:
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    nodes = [drifted(a_node_of(MIDDLE, f"n{n}")) for n in range(4)]
    pods = tuple(pod_on(f"n{n}", cpu="900m") for n in range(4))
    decision = decided(DisruptionPass(world(*nodes, pods=pods, node_pools=(pool,), options=WHOLE_WAY)))
    launched = [claim.name for command in decision for claim in command.replacements]
    assert [command.wave for command in decision] == [1, 2, 3, 4]
    assert len(launched) == len(set(launched)) < 4
    born: set[str] = set()
    for command in decision:
        born |= {claim.name for claim in command.replacements}
        assert {move.to for move in command.moves} <= born
    assert set(Counter(move.pod for command in decision for move in command.moves).values()) == {1}


@pytest.mark.parametrize("seconds", [0, 30])
@pytest.mark.parametrize("number", [0, 1])
def test_later_waves_fill_a_node_whose_consolidate_after_is_over_by_then(number: int, seconds: int) -> None:
    """The whole way of a target is checked at one moment, at which each of its new nodes has just been launched."""
    disruption = Disruption(budgets=(Budget("100%"),), consolidate_after=timedelta(seconds=seconds))
    nodes = [a_node_of(LARGE, f"n{n}") for n in range(4)]
    nodes[:number] = [drifted(pair) for pair in nodes[:number]]
    pods = tuple(pod_on(f"n{n}", cpu="700m", labels={"app": "web"}) for n in range(4))
    budget = PodDisruptionBudget(
        namespace="default",
        name="web",
        selector=a_selector(app="web"),
        max_unavailable="1",
        disruptions_allowed=1,
        expected_pods=4,
    )
    pool = a_pool("default", ON_DEMAND, disruption=disruption)
    commands = disrupt(world(*nodes, pods=pods, node_pools=(pool,), budgets=(budget,), options=WHOLE_WAY)).commands
    assert [command.wave for command in commands][:3] == [1, 2, 3]
    (launched,) = [claim.name for command in commands for claim in command.replacements]
    assert {move.to for command in commands for move in command.moves} == {launched}


def cutter(snapshot: Snapshot, *going: str, worth: Mapping[str, int] = {}) -> WavePlanner:
    """Cuts the target in which these nodes go; `worth` of them, nothing where it is not named."""
    this_pass = DisruptionPass(snapshot)
    fleet = target_fleet(this_pass)
    assert fleet is not None
    found = drained(fleet, *going)
    slots = SlotAssignment(fleet, found, this_pass.names.named_apart(found.claims), is_gated=False)
    values = np.array([worth.get(candidate.name, 0) for candidate in fleet.candidates], dtype=float)
    return WavePlanner(this_pass, fleet, found, slots, values)


def going(commands: Iterable[Command]) -> list[tuple[int, str]]:
    """Wave and node, in order."""
    return [(command.wave, node) for command in commands for node in command.nodes]


def test_the_number_of_waves_is_bounded() -> None:
    assert WAVES_MAX >= 300
    assert (WavePlanner.commands.__kwdefaults__ or {})["waves_max"] == WAVES_MAX
    whole = half_full(4, at_once=1, options=WHOLE_WAY)
    assert going(cutter(whole, "n1", "n2", "n3").commands(waves_max=2)) == [(1, "n1"), (2, "n2")]
    assert going(cutter(whole, "n1", "n2", "n3").commands()) == [(1, "n1"), (2, "n2"), (3, "n3")]


def test_the_node_that_saves_most_for_each_pod_goes_first() -> None:
    """Equals go by name."""
    whole = half_full(5, at_once=1, options=WHOLE_WAY)
    more = pod_on("n3", "second", cpu="400m")
    whole = msgspec.structs.replace(whole, pods=(*whole.pods, more))
    cut = cutter(whole, "n1", "n2", "n3", "n4", worth={"n1": 10**10, "n2": 2 * 10**10, "n3": 29 * 10**9, "n4": 10**10})
    assert going(cut.commands()) == [(1, "n2"), (2, "n3"), (3, "n1"), (4, "n4")]


def test_a_budget_that_is_used_up_holds_back_its_own_pool_alone() -> None:
    one_at_a_time = Disruption(budgets=(Budget("1"),))
    pools = (
        a_pool("default", ON_DEMAND, disruption=one_at_a_time),
        a_pool("other", ON_DEMAND, disruption=one_at_a_time),
    )
    nodes = [
        a_node_of(MIDDLE, "a1"),
        a_node_of(MIDDLE, "a2"),
        a_node_of(MIDDLE, "b1", pool="other"),
        a_node_of(LARGE, "z"),
    ]
    pods = tuple(pod_on(name, cpu="400m") for name in ("a1", "a2", "b1", "z"))
    commands = cutter(world(*nodes, pods=pods, node_pools=pools, options=WHOLE_WAY), "a1", "a2", "b1").commands()
    assert [{node for wave, node in going(commands) if wave == number} for number in (1, 2)] == [{"a1", "b1"}, {"a2"}]


def test_a_new_node_may_cost_more_than_the_first_that_goes_for_it_where_later_waves_pay() -> None:
    """Three nodes become one, one at a time; on its own the first would pay more than it gave up."""
    one_at_a_time = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    old, new = a_type("old", cpu="4", price=0.4), a_type("one", cpu="12", price=0.5)
    nodes = [a_node_of(old, f"n{n}") for n in range(3)]
    pods = tuple(pod_on(f"n{n}", cpu="3500m") for n in range(3))
    market = Catalogue(default=(old, new))
    snapshot = world(*nodes, pods=pods, node_pools=(one_at_a_time,), options=WHOLE_WAY, catalogue=market)
    assert going(cutter(snapshot, "n0", "n1", "n2").commands()) == [(1, "n0"), (2, "n1"), (3, "n2")]
    assert cutter(snapshot, "n0", "n1", "n2").commands(waves_max=1) == []


DEARER = a_type("dearer", cpu="16", price=0.9)
"""Dearer than LARGE, and cheaper than it and MIDDLE together."""


def test_nodes_by_choice_that_share_a_new_node_with_a_drifted_one_pay_for_their_others() -> None:
    """Nothing in the drifted node's group had to pay: the other node got a new one at four times its price."""
    commands = cutter(a_drifted_node_beside_another(of_other=MIDDLE), "drifted", "other").commands(waves_max=1)
    assert going(commands) == [(1, "drifted")]
    assert [claim.instance_types for command in commands for claim in command.replacements] == [(MIDDLE.name,)]


def test_a_node_by_choice_goes_with_a_drifted_one_where_it_pays_for_its_other_new_node() -> None:
    """The drifted node's new node is launched in any case: the other node need not pay for that one."""
    commands = cutter(a_drifted_node_beside_another(of_other=DEARER), "drifted", "other").commands(waves_max=1)
    assert sorted(node for _, node in going(commands)) == ["drifted", "other"]


def test_a_node_by_choice_that_only_shares_a_drifted_nodes_new_node_goes() -> None:
    wave_planner = cutter(a_drifted_node_beside_another(of_other=WAVES_SMALL, other_pod=False), "drifted", "other")
    assert sorted(node for _, node in going(wave_planner.commands(waves_max=1))) == ["drifted", "other"]


def a_drifted_node_beside_another(*, of_other: InstanceType, other_pod: bool = True) -> Snapshot:
    """Pods of both nodes fit one new node of type MIDDLE; another pod of the second takes one of type LARGE."""
    pods = [
        pod_on("drifted", cpu="2", **only_on(MIDDLE)),
        pod_on("other", cpu="500m", **only_on(MIDDLE)),
        *([pod_on("other", "large", cpu="300m", **only_on(LARGE))] if other_pod else []),
    ]
    pairs = (drifted(a_node_of(MIDDLE, "drifted")), a_node_of(of_other, "other"))
    market = Catalogue(default=(*TYPES, DEARER))
    return world(*pairs, pods=tuple(pods), options=WHOLE_WAY, catalogue=market)


def only_on(instance_type: InstanceType) -> dict[str, Any]:
    return {"node_selector": (Requirement.one_of(labels.INSTANCE_TYPE, instance_type.name),)}


def test_a_spot_node_with_few_types_goes_together_with_another() -> None:
    """Alone it needs fifteen types to choose from; merged with a deleted node, two nodes become one, which needs none."""
    pairs = [
        a_node_of(LARGE, "spot", capacity_type=labels.SPOT),
        a_node_of(WAVES_SMALL, "a"),
        a_node_of(WAVES_SMALL, "b"),
    ]
    stays = pod_on("b", "stays", cpu="100m", annotations={labels.DO_NOT_DISRUPT: "true"})
    pods = (pod_on("spot", cpu="3950m"), pod_on("a", cpu="200m"), stays)
    gates = msgspec.structs.replace(Options().feature_gates, spot_to_spot_consolidation=True)
    pool = a_pool("default", disruption=OPEN)
    options = Options(ignore_budgets=True, feature_gates=gates)
    decision = decided(DisruptionPass(world(*pairs, pods=pods, node_pools=(pool,), options=options)))
    assert sorted(node for command in decision for node in command.nodes) == ["a", "spot"]
    assert [sorted(command.nodes) for command in decision if command.replacements] == [["a", "spot"]]


def one_that_pays_with_partners(price: float, *partners: InstanceType) -> WavePlanner:
    """A node at $0.80 whose pod needs a new node of this price; pods of its partners have room on a node that stays."""
    new = a_type("new", cpu="16", price=price)
    names = [f"p{number}" for number in range(len(partners))]
    pairs = [a_node_of(kind, name) for kind, name in zip(partners, names, strict=True)]
    kept = pod_on("stays", cpu="100m", annotations={labels.DO_NOT_DISRUPT: "true"})
    pods = (pod_on("x", cpu="15", **only_on(new)), kept, *(pod_on(name, cpu="200m") for name in names))
    snapshot = world(
        a_node_of(LARGE, "x"), a_node_of(LARGE, "stays"), *pairs,
        pods=pods, options=WHOLE_WAY, catalogue=Catalogue(default=(*TYPES, new)),
    )  # fmt: skip
    return cutter(snapshot, "x", *names)


def together(found: Iterable[Command]) -> list[tuple[str, ...]]:
    return sorted(tuple(sorted(command.nodes)) for command in found)


def test_the_most_expensive_partner_that_needs_no_new_node_is_tried_first() -> None:
    """Fewer nodes then wait for the launch: with the first by name, a third node would go in the command."""
    found = one_that_pays_with_partners(0.9, WAVES_SMALL, MIDDLE, WAVES_SMALL).commands(waves_max=1)
    assert together(found) == [("p0", "p2"), ("p1", "x")]


@pytest.mark.parametrize(("price", "goes"), [(0.79, True), (0.84, True), (0.94, True), (0.97, False)])
def test_at_most_three_partners_help_to_pay(price: float, *, goes: bool) -> None:
    """A fourth would have been enough for the last one; its node stays, and says that its new node is too dear."""
    planner = one_that_pays_with_partners(price, *[WAVES_SMALL] * 5)
    commands = planner.commands(waves_max=1)
    assert any("x" in command.nodes for command in commands) is goes
    assert {name for command in commands for name in command.nodes} >= {f"p{number}" for number in range(5)}
    partners = {name for command in commands for name in command.nodes if "x" in command.nodes} - {"x"}
    assert len(partners) == {0.79: 0, 0.84: 1, 0.94: 3, 0.97: 0}[price]
    assert planner.objections == ({} if goes else {"x": TOO_DEAR})


def two_groups(**changes: Any) -> Snapshot:
    """Nodes `a` and `b` become one that costs more than either; `c` becomes one that costs less. One may go at a time."""
    one_at_a_time = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    old, both, cheap = a_type("old", cpu="4", price=0.4), a_type("both", cpu="8", price=0.5), a_type("cheap", price=0.1)
    pairs = [a_node_of(old, name) for name in "abc"]
    pods = tuple(pod_on(name, cpu="3500m", **only_on(both)) for name in "ab")
    fields = {
        "node_pools": (one_at_a_time,),
        "options": WHOLE_WAY,
        "catalogue": Catalogue(default=(old, both, cheap)),
        **changes,
    }
    return world(*pairs, pods=(*pods, pod_on("c", cpu="200m", **only_on(cheap))), **fields)


def test_a_node_that_does_not_pay_now_does_not_hold_back_others() -> None:
    """The wave had the node that saves most per move, which pays together with another only, and nothing began."""
    planner = cutter(two_groups(), "a", "b", "c", worth={"a": 10**9, "b": 10**9, "c": 1})
    assert going(planner.commands(waves_max=1)) == [(1, "c")]
    assert planner.objections == {"a": TOO_DEAR, "b": TOO_DEAR}


def test_what_did_not_go_leaves_its_budgets_to_others() -> None:
    """Two may go, of which the first does not pay; limits have room for one new node beside it."""
    two = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)), limits={"nodes": 4})
    planner = cutter(two_groups(node_pools=(two,)), "a", "b", "c", worth={"a": 10**9, "b": 10**9, "c": 1})
    assert going(planner.commands(must_pay=True)) == [(1, "c")]


def test_nodes_that_only_pay_together_go_together_whatever_budgets_allow() -> None:
    planner = cutter(two_groups(), "a", "b", "c", worth={"a": 10**9})
    assert going(planner.commands(must_pay=True, together=("a", "b"))) == [(1, "a"), (1, "b"), (2, "c")]


@pytest.mark.parametrize("number", [4, SMALL + 8])
def test_nodes_whose_pods_share_a_budget_pay_for_a_new_node_together(number: int) -> None:
    """No node pays alone, and the budget lets one pod go: the drain of their command takes turns."""
    names = tuple(f"n{n:02}" for n in range(number))
    commands = cutter(sharing_a_budget(number), *names).commands(waves_max=1)
    assert [(command.nodes, len(command.replacements)) for command in commands] == [(names, 1)]


@pytest.mark.parametrize(("price", "goes"), [(1.5, True), (1.55, False)])
def test_the_rounds_of_a_slow_drain_count_in_the_price(price: float, *, goes: bool) -> None:
    """Nodes at $1.60 wait for a new one in three rounds of a minute: a twentieth of its price."""
    commands = cutter(sharing_a_budget(4, price=price), "n00", "n01", "n02", "n03").commands(waves_max=1)
    assert bool(commands) is goes


@pytest.mark.parametrize(
    ("leaving", "goes"), [((), True), (("n04", "n05"), True), (("n04", "n05", "n06", "n07"), False)]
)
def test_a_slow_drain_of_another_wave_counts_in_the_price(leaving: tuple[str, ...], *, goes: bool) -> None:
    """Eight rounds of a minute cost 7/60 of the new node's $1.45, five 4/60; the nodes cost $1.60."""
    marked = tuple(f"default-{name}" for name in leaving)
    snapshot = msgspec.structs.replace(sharing_a_budget(8, price=1.45), marked_for_deletion=marked)
    commands = cutter(snapshot, "n00", "n01", "n02", "n03").commands(waves_max=1)
    assert bool(commands) is goes


def test_a_percentage_applies_to_the_nodes_that_earlier_waves_left() -> None:
    half = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("50%"),)))
    whole = half_full(8, at_once=1, options=WHOLE_WAY, node_pools=(half,))
    waves = Counter(wave for wave, _ in going(cutter(whole, *(f"n{n}" for n in range(1, 8))).commands()))
    assert waves == {1: 4, 2: 2, 3: 1}


def a_costly_command(name: str, savings: int, *, to: str, launches: bool = False) -> Command:
    claim = PlannedClaim(name=to, node_pool="p", node_class=CLASS_REF)
    return Command(
        reason=TerminationReason.UNDERUTILIZED,
        method="repack",
        nodes=(name,),
        claims=(f"claim-{name}",),
        replacements=(claim,) if launches else (),
        moves=(Move(f"default/pod-{name}", to),),
        savings=savings,
    )


def test_no_command_of_all_waves_makes_the_cluster_more_expensive_by_itself() -> None:
    """Whoever stops after one has no more to pay: later commands that fill its new node come with it, and no others."""
    first = a_costly_command("a", -5, to="new", launches=True)
    fills = [a_costly_command("b", 3, to="new"), a_costly_command("c", 4, to="new"), a_costly_command("d", 4, to="new")]
    other = a_costly_command("e", 2, to="kept")
    found, objections = paid_back([first, other, *fills])
    assert [(command.nodes, command.savings) for command in found] == [(("a", "b", "c"), 2), (("e",), 2), (("d",), 4)]
    assert not objections


def test_a_command_that_nothing_pays_back_is_left_out_with_what_needs_it() -> None:
    """Pods cannot move to a node that is not launched."""
    first = a_costly_command("a", -5, to="new", launches=True)
    found, objections = paid_back([first, a_costly_command("b", 3, to="new"), a_costly_command("c", 1, to="kept")])
    assert [command.nodes for command in found] == [("c",)]
    assert sorted(objections) == ["a", "b"]
