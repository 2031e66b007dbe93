"""Which replacements consolidation accepts, and the room that pending pods keep."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.consolidation import (
    blocked_nodes,
    blocks,
    consolidated,
    objection,
    single_commands,
    underutilized,
    with_domain_change,
)
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target import waves
from core.disruption.target.fleet import WaveBudgets
from core.disruption.target.waves import valid_commands
from core.model.catalogue import Catalogue, InstanceType
from core.model.node_pool import BALANCED, WHEN_EMPTY, Budget, Disruption, PoolHours, RolloutGate
from core.model.plan import Command, Move, NodeClaim
from core.model.pod import LabelSelector, Pod, PodAffinityTerm, TopologySpread
from core.model.snapshot import (
    CapacityBuffer,
    FeatureGates,
    MovedWorkload,
    Node,
    Options,
    PodDisruptionBudget,
    Snapshot,
)
from core.model.values.requirements import Requirement
from core.reasons.code import Refusal, Stated, TargetReason, TerminationReason
from core.reasons.nodes import (
    NO_CHEAPER_TYPE,
    NO_SAVING,
    BudgetShared,
    ConsolidatedLater,
    ConsolidatedWhenEmpty,
    ManyUnhealthy,
    NeverConsolidated,
    NodeReason,
    NotTried,
    PodsLeave,
    PriceUnknown,
    SavingsBelowMoves,
    SeveralNodesNeeded,
)
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import (
    KARPENTER,
    LARGE,
    MIDDLE,
    ON_DEMAND,
    OPEN,
    SMALL,
    blocked,
    checked,
    drifted,
    pod_on,
    world,
)
from tests.unit.disruption.nodes_for_tests import TYPES as SINGLE_COMMAND_TYPES
from tests.unit.disruption.target.fleets_for_tests import fleet_of


@pytest.mark.parametrize(("count", "gate", "expected"), [(14, True, 0), (15, True, 15), (20, True, 15), (20, False, 0)])
def test_spot_to_spot_needs_gate_and_flexibility(count: int, gate: bool, expected: int) -> None:
    """At least fifteen cheaper types, and only those are launched; otherwise, the market would move the node forever."""
    cheaper = tuple(a_type(f"c-{n:02}", cpu="1", price=0.01 + n / 10_000) for n in range(count))
    spot = Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT)
    snapshot = world(
        a_node_of(SMALL, capacity_type=labels.SPOT),
        pods=(pod_on("node-1"),),
        node_pools=(a_pool("default", spot, disruption=OPEN),),
        options=Options(karpenter_moves_only=True, feature_gates=FeatureGates(spot_to_spot_consolidation=gate)),
    )
    snapshot = msgspec.structs.replace(snapshot, catalogue=a_snapshot(types=(SMALL, *cheaper)).catalogue)
    plan = disrupt(snapshot)
    found = [len(claim.instance_types) for command in plan.commands for claim in command.replacements]
    assert found == ([expected] if expected else [])
    assert expected or blocked(plan) == {"node-1": NodeReason.SPOT_TO_SPOT}


def test_pending_pods_protect_the_node_that_they_need() -> None:
    """Deleting a node that a pending pod is about to use would only launch it again."""
    plan = disrupt(world(a_node_of(SMALL), pods=(a_pod("waiting", cpu="500m", memory="64Mi"),)))
    assert plan.commands == ()
    assert blocked(plan) == {"node-1": NodeReason.NOMINATED}


def test_moved_pods_leave_pending_pods_the_room_that_they_need() -> None:
    """Otherwise, a node goes, and a new one is launched for the pending pod that needed that room."""
    waits = a_pod("waits", cpu="1", memory="64Mi")
    pods = (pod_on("node-1", cpu="3500m"), pod_on("node-2", cpu="12"))
    pairs = (a_node_of(MIDDLE), a_node_of(LARGE, "node-2"))
    assert [c.nodes for c in disrupt(world(*pairs, pods=pods, options=KARPENTER)).commands] == [("node-1",)]
    plan = disrupt(world(*pairs, pods=(*pods, waits), options=KARPENTER))
    assert plan.commands == ()
    assert blocked(plan) == {"node-1": NodeReason.NO_CHEAPER_OPTION, "node-2": NodeReason.NOMINATED}


def test_a_nomination_expires() -> None:
    """Otherwise, the node is never consolidated again."""
    late, early = ({"node-1": NOW + timedelta(seconds=s)} for s in (1, 0))
    assert disrupt(world(a_node_of(SMALL), nominated_until=late)).commands == ()
    assert len(disrupt(world(a_node_of(SMALL), nominated_until=early)).commands) == 1


def test_a_refusal_says_why() -> None:
    this_pass = DisruptionPass(world(a_node_of(SMALL), pods=(pod_on("node-1"),)))
    consolidation = consolidated(this_pass.survey.candidates, this_pass, method="single")
    assert isinstance(consolidation, Refusal)
    assert consolidation.reason is NodeReason.NO_CHEAPER_OPTION


def test_a_replacement_that_may_be_spot_must_be_spot() -> None:
    """Cheaper at the price of spot alone, it would cost more than it replaces where EC2 launches on-demand."""
    both = a_pool("default", disruption=OPEN)
    (command,) = disrupt(
        world(a_node_of(LARGE), pods=(pod_on("node-1"),), node_pools=(both,), options=KARPENTER)
    ).commands
    (claim,) = command.replacements
    assert claim.capacity_types == (labels.SPOT,)


def test_several_nodes_are_not_replaced_by_one_of_their_own_types() -> None:
    """Deleting the others does the same with fewer moves, so only types cheaper than the cheapest of these count."""
    pods = (pod_on("a", cpu="1500m"), pod_on("b", cpu="1500m"))
    this_pass = DisruptionPass(world(a_node_of(MIDDLE, "a"), a_node_of(LARGE, "b"), pods=pods))
    consolidation = consolidated(this_pass.survey.candidates, this_pass, method="multi")
    assert isinstance(consolidation, Refusal)
    assert consolidation.reason is NodeReason.NO_CHEAPER_OPTION
    alone = [candidate for candidate in this_pass.survey.candidates if candidate.name == "b"]
    assert not isinstance(consolidated(alone, this_pass, method="single"), Refusal)


def test_too_few_cheaper_types_for_min_values_are_none() -> None:
    for least, says in (
        (2, ""),
        (3, "too few cheaper instance types for minValues of node.kubernetes.io/instance-type"),
    ):
        some = Requirement(labels.INSTANCE_TYPE, False, ("t-1", "t-16", "t-4"), min_values=least)
        pool = a_pool("default", ON_DEMAND, some, disruption=OPEN)
        this_pass = DisruptionPass(world(a_node_of(LARGE), pods=(pod_on("node-1"),), node_pools=(pool,)))
        consolidation = consolidated(this_pass.survey.candidates, this_pass, method="single")
        assert (consolidation.message if isinstance(consolidation, Refusal) else "") == says


@pytest.mark.parametrize(
    ("capacity_types", "kept"),
    [
        ((labels.ON_DEMAND,), True),
        ((labels.SPOT, labels.ON_DEMAND), True),
        ((labels.SPOT,), False),
        ((labels.SPOT, labels.SPOT), False),
    ],
)
def test_only_spot_nodes_alone_are_kept_from_spot(capacity_types: tuple[str, ...], *, kept: bool) -> None:
    """Spot to spot has rules of its own; a node among them that is on-demand makes it an ordinary replacement."""
    pool = a_pool("default", disruption=OPEN)
    pairs = [a_node_of(LARGE, f"node-{n}", capacity_type=kind) for n, kind in enumerate(capacity_types)]
    pods = tuple(pod_on(f"node-{n}", cpu="700m") for n in range(len(pairs)))
    this_pass = DisruptionPass(world(*pairs, pods=pods, node_pools=(pool,), options=KARPENTER))
    consolidation = consolidated(this_pass.survey.candidates, this_pass, method="multi")
    assert isinstance(consolidation, Refusal) != kept
    if not isinstance(consolidation, Refusal):
        assert [claim.capacity_types for claim in consolidation.replacements] == [(labels.SPOT,)]


def test_a_command_says_what_goes_where_and_what_that_saves() -> None:
    terms = {"reason": "Underutilized", "method": "single", "nodes": ("a",), "claims": ("default-a",)}
    beside = DisruptionPass(world(a_node_of(LARGE, "a"), a_node_of(MIDDLE, "b"), pods=(pod_on("a"), pod_on("b"))))
    first, _ = beside.survey.candidates
    moves = (Move("default/on-a", "b"),)
    assert consolidated([first], beside, method="single") == Command(**terms, moves=moves, savings=first.price)
    alone = DisruptionPass(world(a_node_of(LARGE, "a"), pods=(pod_on("a"),)))
    consolidation = consolidated(alone.survey.candidates, alone, method="single")
    assert isinstance(consolidation, Command)
    (new,) = consolidation.replacements
    moves, savings = (Move("default/on-a", new.name),), first.price - new.price
    assert consolidation == Command(**terms, replacements=(new,), moves=moves, savings=savings)
    assert savings > 0


def test_a_refusal_says_what_is_missing() -> None:
    """Operators read it at the node."""
    apart = PodAffinityTerm(labels.HOSTNAME, a_selector(app="web"))
    web_fields = {"labels": {"app": "web"}, "anti_affinity": (apart,)}
    pairs, pods = (a_node_of(LARGE, "a"), a_node_of(LARGE, "b")), (pod_on("a", **web_fields), pod_on("b", **web_fields))
    two = DisruptionPass(world(*pairs, pods=pods))
    both = two.survey.candidates
    assert consolidated(both, two, method="multi") == SeveralNodesNeeded(2)
    balanced = (a_pool("default", ON_DEMAND, disruption=Disruption(policy=BALANCED, budgets=(Budget("100%"),))),)
    pods = (pod_on("a", cpu="900m"), pod_on("b", "other"))
    guarded = DisruptionPass(world(a_node_of(SMALL, "a"), a_node_of(LARGE, "b"), pods=pods, node_pools=balanced))
    small = guarded.survey.candidates[:1]
    assert consolidated(small, guarded, method="single") == SavingsBelowMoves("default")


def test_the_cheapest_node_of_a_type_bounds_a_new_one_of_that_type() -> None:
    """A spot node and an on-demand node of one type: another spot node of it is what keeping the first would be."""
    pairs = (a_node_of(MIDDLE, "a", capacity_type=labels.SPOT), a_node_of(MIDDLE, "b"))
    pods = (pod_on("a", cpu="1500m"), pod_on("b", cpu="1500m"))
    this_pass = DisruptionPass(world(*pairs, pods=pods, node_pools=(a_pool("default", disruption=OPEN),)))
    for candidates in (this_pass.survey.candidates, this_pass.survey.candidates[::-1]):
        assert consolidated(candidates, this_pass, method="multi") == NO_CHEAPER_TYPE


# A target keeps pods with a zonal spread in their zone; one command of each pass may move them to a cheaper one.


HOME, AWAY = ZONES[:2]


def on_demand_type(name: str, price: float, *zones: str) -> InstanceType:
    """A type with room for one pod of the spread."""
    return a_type(name, cpu="2", price=price, zones=zones, capacity_types=(labels.ON_DEMAND,))


RUNNING = on_demand_type("running", 0.8, HOME, AWAY)
AT_HOME = on_demand_type("at-home", 0.2, HOME)
CHEAPER_AWAY = on_demand_type("away", 0.06, AWAY)
TYPES = (RUNNING, AT_HOME, CHEAPER_AWAY)


def spread_pod(node: str, skew: int, **changes: object) -> Pod:
    web = LabelSelector((Requirement.one_of("app", "web"),))
    spread = TopologySpread(labels.ZONE, skew, selector=web)
    return pod_on(node, cpu="1500m", labels={"app": "web"}, spreads=(spread,), **changes)


def protected_pod(node: str) -> Pod:
    return spread_pod(node, 1, annotations={labels.DO_NOT_DISRUPT: "true"})


def cluster(*pods: Pod, types: tuple[InstanceType, ...] = TYPES, options: Options | None = None) -> Snapshot:
    """Each pod on a large node of its own; those of nodes named `away` run in the other zone."""
    zones = {pod.node_name: AWAY if pod.node_name.startswith("away") else HOME for pod in pods}
    nodes = [a_node_of(RUNNING, name, zone=zone) for name, zone in zones.items()]
    snapshot = world(*nodes, pods=pods, options=options or Options())
    return msgspec.structs.replace(snapshot, catalogue=a_snapshot(types=types).catalogue)


def launches(commands: tuple[Command, ...]) -> list[tuple[str, ...]]:
    """The zones of every replacement."""
    return [claim.zones for command in commands for claim in command.replacements]


def test_a_pod_moves_to_a_cheaper_zone_that_its_spread_admits() -> None:
    snapshot = cluster(spread_pod("home", 1))
    (command,) = disrupt(snapshot).commands
    assert launches((command,)) == [(AWAY,)]
    assert command.savings == RUNNING.offerings[0].price - CHEAPER_AWAY.offerings[0].price
    assert checked(command, snapshot) == command


def test_the_stored_target_has_the_price_of_the_cheaper_zone() -> None:
    """With the price that it planned before, the next pass finds that the target saves less than it promised."""
    plan = disrupt(cluster(spread_pod("home", 1)))
    assert plan.target is not None
    assert plan.target.new_price == plan.commands[0].replacements[0].price == CHEAPER_AWAY.offerings[0].price


def test_it_saves_as_much_as_karpenters_own_moves() -> None:
    costs = [disrupt(cluster(spread_pod("home", 1), options=o)).cost.after for o in (Options(), KARPENTER)]
    assert costs[0] == costs[1]


@pytest.mark.parametrize(("others", "zone"), [(("away",), HOME), (("home-2", "away"), AWAY)])
def test_the_spread_holds_after_the_move(others: tuple[str, ...], zone: str) -> None:
    """Two pods in the cheaper zone are one too many while the other zone has none."""
    plan = disrupt(cluster(spread_pod("home", 1), *(protected_pod(node) for node in others)))
    assert launches(plan.commands) == [(zone,)]


def test_one_command_alone_leaves_its_domain() -> None:
    """Either pod may go to the other zone, both may not."""
    plan = disrupt(cluster(spread_pod("home-1", 1), spread_pod("home-2", 1), protected_pod("away")))
    assert launches(plan.commands) == [(AWAY,), (HOME,)]


def test_whatever_is_launched_costs_less_than_what_the_target_planned() -> None:
    costly_away = on_demand_type("costly-away", 0.5, AWAY)
    plan = disrupt(cluster(spread_pod("home", 1), types=(*TYPES, costly_away)))
    assert [claim.instance_types for command in plan.commands for claim in command.replacements] == [("away",)]


def test_a_command_of_the_first_wave_alone_is_changed_and_keeps_the_name_of_its_new_node() -> None:
    (planned,) = disrupt(cluster(spread_pod("home", 1), types=(RUNNING, AT_HOME))).commands
    this_pass = DisruptionPass(cluster(spread_pod("home", 1)))
    later = msgspec.structs.replace(planned, wave=2)
    assert with_domain_change([later], this_pass) == [later]
    (changed,) = with_domain_change([planned], this_pass)
    assert launches((changed,)) == [(AWAY,)]
    assert changed.replacements[0].name == planned.replacements[0].name


def test_no_node_of_another_command_stays_for_a_cheaper_zone() -> None:
    """A drifted pod avoids the other pod and may run in the cheaper zone alone: it stayed where it was, drifted."""
    avoids = PodAffinityTerm(labels.ZONE, LabelSelector((Requirement.one_of("app", "web"),)))
    moved, fleeing = spread_pod("home", 1), pod_on("drifts", "api", cpu="1500m", anti_affinity=(avoids,))
    snapshot = cluster(moved, fleeing)
    (home, drifts), (claim, away) = snapshot.nodes, drifted_away(snapshot)
    plan = disrupt(msgspec.structs.replace(snapshot, nodes=(home, away), node_claims=(snapshot.node_claims[0], claim)))
    assert drifts.name == away.name
    assert {command.reason: launches((command,)) for command in plan.commands} == {
        "Drifted": [(AWAY,)], "Underutilized": [(HOME,)],
    }  # fmt: skip


def test_a_node_that_stays_in_any_case_costs_no_cheaper_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a node of another command that would go without the cheaper zone is a reason to give it up."""
    nodes_tried: list[list[str]] = []

    def refusing(
        commands: Sequence[Command], disruption_pass: DisruptionPass, *, worthwhile: int
    ) -> tuple[list[Command], dict[str, Refusal]]:
        valid, objections = valid_commands(commands, disruption_pass, worthwhile=worthwhile)
        nodes_tried.append(sorted(name for command in valid for name in command.nodes))
        return [command for command in valid if command.nodes != ("other",)], {**objections, "other": NO_SAVING}

    monkeypatch.setattr(waves, "valid_commands", refusing)
    plan = disrupt(cluster(spread_pod("home", 1), pod_on("other", cpu="1500m")))
    assert nodes_tried[0] == ["home", "other"]
    assert [(command.nodes, launches((command,))) for command in plan.commands] == [(("home",), [(AWAY,)])]


def drifted_away(snapshot: Snapshot) -> tuple[NodeClaim, Node]:
    """The last node, drifted, in a zone in which nothing is launched."""
    claim, node = drifted((snapshot.node_claims[-1], snapshot.nodes[-1]))
    claim, node = (
        msgspec.structs.replace(state, labels={**state.labels, labels.ZONE: ZONES[2]}) for state in (claim, node)
    )
    return claim, node


# Which nodes consolidation may take: policies and capacity buffers.


class TestRoomForCapacityBuffers:
    """Nodes on which the virtual pods of buffers have places."""

    SPARE = CapacityBuffer(namespace="shop", name="spare", pods=2, spec=a_pod("x", cpu="400m", memory="64Mi").spec)
    OPTIONS = Options(feature_gates=FeatureGates(capacity_buffer=True))

    def test_an_empty_node_stays(self) -> None:
        """Otherwise, its room is launched again a minute later, removed, and launched again."""
        plan = disrupt(world(a_node_of(SMALL), buffers=(self.SPARE,), options=self.OPTIONS))
        assert plan.commands == ()
        assert blocked(plan) == {"node-1": NodeReason.CAPACITY_BUFFER}

    def test_a_drifted_node_goes_nevertheless(self) -> None:
        """Otherwise, a buffer keeps old images forever."""
        cluster = world(
            drifted(a_node_of(LARGE)), pods=(pod_on("node-1"),), buffers=(self.SPARE,), options=self.OPTIONS
        )
        (command,) = disrupt(cluster).commands
        assert command.reason == TerminationReason.DRIFTED
        assert command.replacements[0].buffer_pods

    def test_an_oversized_node_becomes_one_that_still_has_the_room(self) -> None:
        cluster = world(
            a_node_of(LARGE), pods=(pod_on("node-1", cpu="1"),), buffers=(self.SPARE,), options=self.OPTIONS
        )
        (command,) = disrupt(cluster).commands
        assert command.replacements[0].instance_types[0] == "t-4"


def test_the_most_expensive_node_for_its_pods_comes_first() -> None:
    """Empty nodes are handled by another method."""
    nodes = (a_node_of(SMALL), a_node_of(LARGE, "node-2"), a_node_of(SMALL, "node-3"))
    this_pass = DisruptionPass(world(*nodes, pods=(pod_on("node-1"), pod_on("node-2"))))
    assert [candidate.name for candidate in underutilized(this_pass)] == ["node-2", "node-1"]


def test_a_node_with_a_recently_moved_pod_stays() -> None:
    """Otherwise, a pod is evicted three times in a quarter of an hour to save cents."""
    moved = MovedWorkload(name="default/ReplicaSet/web", moving_since=NOW - timedelta(minutes=5), moved_at=NOW)
    pod = pod_on("node-1", started_at=NOW - timedelta(minutes=1))
    cluster = world(a_node_of(LARGE), pods=(pod,), moved_workloads={moved.name: moved})
    assert blocked(disrupt(cluster)) == {"node-1": NodeReason.RECENTLY_MOVED}
    settled = msgspec.structs.replace(moved, moved_at=NOW - timedelta(minutes=15))
    assert disrupt(msgspec.structs.replace(cluster, moved_workloads={moved.name: settled})).commands


@pytest.mark.parametrize("label", [labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE])
def test_a_node_without_a_known_price_stays(label: str) -> None:
    """Nobody can say that anything else is cheaper."""
    claim, node = a_node_of(LARGE)
    kept = {key: value for key, value in node.labels.items() if key != label}
    nameless = (
        msgspec.structs.replace(claim, labels=kept),
        msgspec.structs.replace(node, labels=kept),
    )
    this_pass = DisruptionPass(world(nameless, pods=(pod_on("node-1"),)))
    (candidate,) = this_pass.survey.candidates
    refusal = objection(candidate, this_pass)
    assert refusal == PriceUnknown("node-1", kept.get(labels.INSTANCE_TYPE, "(none)"))


@pytest.mark.parametrize(
    ("is_stopped", "reason"), [(True, NodeReason.ROLLOUT_STOPPED), (False, NodeReason.ROLLOUT_CANARY)]
)
def test_a_drifted_node_waits_for_the_rollout_of_its_pool(is_stopped: bool, reason: NodeReason) -> None:
    """Consolidation would replace it by a node of the same untried image."""
    gates = {"default": RolloutGate(0, "waits", is_stopped=is_stopped)}
    this_pass = DisruptionPass(
        world(
            drifted(a_node_of(LARGE)), a_node_of(LARGE, "same"), pods=(pod_on("node-1"), pod_on("same")), rollouts=gates
        )
    )
    refusals = {c.name: objection(c, this_pass) for c in this_pass.survey.candidates}
    assert refusals == {"node-1": Stated(reason, "waits"), "same": None}


@pytest.mark.parametrize(("minutes", "over"), [(31, True), (30, True), (29, False)])
def test_a_node_whose_last_pod_came_or_went_a_short_time_ago_waits_and_says_until_when(
    minutes: int, over: bool
) -> None:
    """From that moment on, not from when somebody asks: otherwise the moment that it names moves on forever."""
    claim, node = a_node_of(LARGE)
    busy = msgspec.structs.replace(claim, last_pod_event_at=NOW - timedelta(minutes=minutes))
    half_an_hour = msgspec.structs.replace(OPEN, consolidate_after=timedelta(minutes=30))
    pools = (a_pool("default", ON_DEMAND, disruption=half_an_hour),)
    this_pass = DisruptionPass(world((busy, node), pods=(pod_on("node-1"),), node_pools=pools))
    (candidate,) = this_pass.survey.candidates
    later = ConsolidatedLater("default", NOW + timedelta(minutes=1))
    assert objection(candidate, this_pass) == (None if over else later)


def test_a_node_whose_pool_never_consolidates_or_whose_pods_its_policy_leaves_says_so() -> None:
    for changes, says in (
        ({"consolidate_after": None}, NeverConsolidated("default")),
        ({"policy": WHEN_EMPTY}, ConsolidatedWhenEmpty("default", "default/on-node-1", "node-1")),
    ):
        pools = (a_pool("default", ON_DEMAND, disruption=msgspec.structs.replace(OPEN, **changes)),)
        this_pass = DisruptionPass(world(a_node_of(LARGE), pods=(pod_on("node-1"),), node_pools=pools))
        (candidate,) = this_pass.survey.candidates
        assert objection(candidate, this_pass) == says


@pytest.mark.parametrize("karpenter", [False, True])
def test_only_nodes_with_pods_stay_while_pods_of_the_node_pool_leave(karpenter: bool) -> None:
    """The reason is its own, with an end: nobody wrote a budget for it. Drift does not wait."""
    until = NOW + timedelta(minutes=20)
    pools = (a_pool("default", ON_DEMAND, disruption=OPEN, hours=PoolHours(occupied_until=until)),)
    pairs = (a_node_of(LARGE, "used"), a_node_of(LARGE, "empty"), drifted(a_node_of(LARGE, "old")))
    options = Options(karpenter_moves_only=karpenter)
    snapshot = world(*pairs, pods=(pod_on("used"), pod_on("old")), node_pools=pools, options=options)
    plan = disrupt(snapshot)
    assert sorted(name for command in plan.commands for name in command.nodes) == ["empty", "old"]
    assert [block.message for block in plan.blocked if block.node == "used"] == [PodsLeave("default", until).message]
    assert blocked(plan) == {"used": NodeReason.PODS_LEAVE}


# Where no part of a small fleet's target may go now, one node still goes that Karpenter's methods would remove.


THOROUGH: Final = Options(moves="thorough")


def found(snapshot: Snapshot) -> Command | None:
    """The command that saves the most."""
    this_pass, fleet = DisruptionPass(snapshot), fleet_of(snapshot)
    chosen = [candidate for candidate in fleet.candidates if not candidate.drift]
    prices = dict(zip((c.name for c in fleet.candidates), fleet.rows.problem.move_prices.tolist(), strict=True))
    commands = single_commands(this_pass, chosen, prices, WaveBudgets(this_pass).has_room_for)
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
    one_at_a_time = a_pool("default", disruption=Disruption(budgets=(Budget("1"),)))
    command = found(three(node_pools=(one_at_a_time,)))
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
        snapshot = msgspec.structs.replace(snapshot, catalogue=Catalogue(default=(*SINGLE_COMMAND_TYPES, new)))
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
    assert single_commands(late, fleet.candidates, prices, WaveBudgets(late).has_room_for) == []
    in_time = DisruptionPass(snapshot, deadline=lambda: 0.99)
    assert single_commands(in_time, fleet.candidates, prices, WaveBudgets(in_time).has_room_for)


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
    one_at_a_time = a_pool("default", disruption=Disruption(budgets=(Budget("1"),)))
    gates = msgspec.structs.replace(Options().feature_gates, spot_to_spot_consolidation=True)
    options = msgspec.structs.replace(THOROUGH, feature_gates=gates)
    pairs = (a_node_of(spot, "spot", capacity_type=labels.SPOT), a_node_of(MIDDLE, "other", capacity_type=labels.SPOT))
    pods = (pod_on("spot", cpu="8" if has_room else "14"), pod_on("other", cpu="3"))
    snapshot = world(*pairs, pods=pods, node_pools=(one_at_a_time,), options=options)
    snapshot = msgspec.structs.replace(snapshot, catalogue=Catalogue(default=(MIDDLE, spot, new)))
    plan = disrupt(snapshot)
    assert [command.nodes for command in plan.commands] == ([("other",)] if has_room else [])
    assert (plan.target is None) is has_room
    assert plan.target_reason == TargetReason.MADE


def test_one_node_of_several_makes_room_and_what_has_none_keeps_no_other_choice() -> None:
    """Both become one new node if the limits have room beside either; else the next best goes alone, and launches nothing."""
    this_pass, free = DisruptionPass(three()), dict.fromkeys("abc", 0)
    candidates = this_pass.survey.candidates
    both, *others = single_commands(this_pass, candidates, free, lambda _, beside: beside.name == "b")
    assert (both.method, both.nodes) == ("multi", ("b", "a"))
    savings = [command.savings for command in (both, *others)]
    assert savings == sorted(savings, reverse=True)
    alone, *others = single_commands(this_pass, candidates, free, lambda _, __: False)
    assert (alone.method, alone.nodes, alone.replacements) == ("single", ("b",), ())
    assert not any(command.replacements for command in others)


@pytest.mark.parametrize(("net", "goes"), [(1, True), (0, False)])
def test_a_command_pays_for_its_moves(net: int, *, goes: bool) -> None:
    this_pass = DisruptionPass(world(a_node_of(MIDDLE, "a"), a_node_of(LARGE, "b"), pods=(pod_on("a"), pod_on("b"))))
    first = this_pass.survey.candidates[:1]
    commands = single_commands(this_pass, first, {"a": first[0].price - net}, lambda _, __: True)
    assert [command.nodes for command in commands] == ([("a",)] if goes else [])


# Why a node stays, as operators read it.


def test_a_spent_budget_is_reported() -> None:
    """With a budget of one, one node goes and the other states why it stays."""
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    plan = disrupt(world(a_node_of(SMALL, "a"), a_node_of(SMALL, "b"), node_pools=(pool,)))
    assert [command.nodes for command in plan.commands] == [("a",)]
    assert blocked(plan) == {"b": NodeReason.BUDGET}
    ignoring = world(
        a_node_of(SMALL, "a"), a_node_of(SMALL, "b"), node_pools=(pool,), options=Options(ignore_budgets=True)
    )
    assert len(disrupt(ignoring).commands) == 2


def test_a_protected_pod_is_named_before_anything_else() -> None:
    pod = pod_on("node-1", annotations={labels.DO_NOT_DISRUPT: "true"})
    snapshot = world(a_node_of(SMALL), pods=(pod,))
    this_pass = DisruptionPass(snapshot)
    (candidate,) = this_pass.survey.candidates
    assert [block.reason for block in blocks(candidate, this_pass)] == [NodeReason.DO_NOT_DISRUPT]
    (block,) = blocked_nodes(this_pass, snapshot)
    assert (block.node, block.reason) == ("node-1", NodeReason.DO_NOT_DISRUPT)


def test_an_unreadable_schedule_is_named_at_each_node() -> None:
    """`let no more nodes go now` sounds like waiting; nothing ever goes until the schedule is corrected."""
    bad = Budget("1", schedule="0 25 * * *", duration=timedelta(hours=1))
    plan = disrupt(
        world(a_node_of(SMALL), node_pools=(a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(bad,))),))
    )
    (block,) = plan.blocked
    assert block.reason == NodeReason.BUDGET
    assert "spec.disruption.budgets[0]: '25' in the hour is not a range within 0 to 23" in block.message


def test_a_node_that_goes_later_says_what_it_saves_and_one_that_is_kept_does_not_blame_the_budget() -> None:
    """All nodes said that budgets let no more go, also those that the target keeps and no larger budget would move."""
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    nodes = [a_node_of(LARGE, name) for name in ("a", "b")]
    full = a_node_of(MIDDLE, "full")
    pods = (pod_on("a"), pod_on("b"), pod_on("full", cpu="3200m"))
    plan = disrupt(world(*nodes, full, pods=pods, node_pools=(pool,)))
    (gone,) = [name for command in plan.commands for name in command.nodes]
    blocks_by_node = {block.node: block for block in plan.blocked}
    (later,) = {"a", "b"} - {gone}
    assert blocks_by_node[later].reason == NodeReason.BUDGET
    assert blocks_by_node[later].message.endswith(
        f"let 1 of 3 nodes go for Underutilized now; their places are taken by {gone}"
    )
    assert blocks_by_node[later].savings > 0
    assert (blocks_by_node["full"].reason, blocks_by_node["full"].savings) == (NodeReason.NO_CHEAPER_OPTION, 0)


CLOSED = (a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("0"),))),)


def blocked_after(refusal: NodeReason, *, is_drifted: bool = False, **changes: Any) -> list[tuple[str, int]]:
    """Why a node with one pod stays, and its saving, after the methods refused it for this reason."""
    node = drifted(a_node_of(LARGE)) if is_drifted else a_node_of(LARGE)
    this_pass = DisruptionPass(world(node, pods=(pod_on("node-1"),), **changes))
    (candidate,) = this_pass.survey.candidates
    this_pass.refuse(candidate, Stated(refusal, "why"), savings=7)
    blocked = blocked_nodes(this_pass, this_pass.snapshot)
    assert [block.reason for block in blocked] == [why.reason for why in blocks(candidate, this_pass)]
    return [(block.reason, block.savings) for block in blocked]


def test_budgets_are_named_before_what_the_methods_found_except_where_the_target_keeps_the_node() -> None:
    """A larger budget would let the node go, unless the target keeps it anyway; Karpenter's methods have no target."""
    kept, later = NodeReason.NO_CHEAPER_OPTION, NodeReason.ROLLOUT_CANARY
    assert blocked_after(kept, node_pools=CLOSED) == [(kept, 7)]
    assert blocked_after(kept, node_pools=CLOSED, options=KARPENTER) == [(NodeReason.BUDGET, 7)]
    assert blocked_after(later, node_pools=CLOSED) == [(NodeReason.BUDGET, 7)]
    assert blocked_after(later) == [(later, 7)]
    assert blocked_after(later, is_drifted=True, node_pools=CLOSED) == [(NodeReason.BUDGET, 0)]
    assert blocked_after(later, is_drifted=True) == [(later, 7)]


def test_a_ceiling_on_evictions_and_a_shared_budget_are_named_like_budgets() -> None:
    later = NodeReason.ROLLOUT_CANARY
    assert blocked_after(later, options=Options(evictions_per_hour=0)) == [(NodeReason.EVICTION_RATE, 7)]
    none = PodDisruptionBudget(namespace="default", name="web", selector=a_selector(), disruptions_allowed=1)
    nodes = (a_node_of(LARGE, "a"), a_node_of(LARGE, "b"))
    this_pass = DisruptionPass(world(*nodes, pods=(pod_on("a"), pod_on("b")), budgets=(none,)))
    first, second = this_pass.survey.candidates
    this_pass.budgets.take(first, "Underutilized")
    assert blocks(second, this_pass) == [BudgetShared("b")]


def test_a_node_that_the_pass_did_not_reach_says_so() -> None:
    this_pass = DisruptionPass(world(a_node_of(LARGE), pods=(pod_on("node-1"),)))
    (candidate,) = this_pass.survey.candidates
    assert blocks(candidate, this_pass) == [NotTried("node-1")]
    this_pass.refuse_repair(candidate, ManyUnhealthy("default"))
    assert blocks(candidate, this_pass) == [ManyUnhealthy("default")]
