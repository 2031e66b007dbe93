"""A simulated fleet counts each saving once, however many snapshots show it."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from core import labels
from core.counterfactual.overrides import Overrides
from core.counterfactual.simulated_fleet import SimulatedFleet
from core.counterfactual.simulation import (
    FleetSimulation,
    SimulatedPeriod,
    SimulationRules,
    broken_rules,
    simulated_periods,
    tick_of,
)
from core.errors import InvalidInputError
from core.model.node_pool import Budget, Disruption
from core.model.plan import INITIALIZED, Command, Condition, Move, StoredDrain, StoredTarget
from core.model.pod import Owner, Pod
from core.model.snapshot import Options, PodDisruptionBudget, Snapshot
from core.model.values.commitment import ReservedInstances
from core.reasons.code import TerminationReason
from core.scheduling.planner import Planner
from tests.builders import NOW, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type

# A command that violates a rule is found by whoever did not decide it.


BROKEN_RULES_TYPE = a_type("m5.large", cpu="4", memory="16Gi", price=0.1)


def a_world(budget: str = "100%", *, allowed: int = 2, **pod: Any) -> Snapshot:
    pairs = [a_node_of(BROKEN_RULES_TYPE, name) for name in ("a", "b")]
    pods = [
        a_pod(f"p{n}", node_name=name, phase="Running", labels={"app": "web"}, **pod) for n, name in enumerate("ab")
    ]
    protecting = PodDisruptionBudget(
        namespace="default", name="web", selector=a_selector(app="web"), disruptions_allowed=allowed
    )
    return a_snapshot(
        types=(BROKEN_RULES_TYPE,),
        node_pools=(a_pool(disruption=Disruption(budgets=(Budget(budget),))),),
        node_claims=tuple(claim for claim, _ in pairs),
        nodes=tuple(node for _, node in pairs),
        pods=tuple(pods),
        budgets=(protecting,),
    )


def protected_node(world: Snapshot) -> Snapshot:
    first, second = world.nodes
    protected = msgspec.structs.replace(first, annotations={labels.DO_NOT_DISRUPT: "true"})
    return msgspec.structs.replace(world, nodes=(protected, second))


def both(world: Snapshot, reason: str = TerminationReason.UNDERUTILIZED) -> list[Command]:
    return [
        Command(
            reason=reason,
            method="multi",
            nodes=(name,),
            claims=tuple(claim.name for claim in world.node_claims if claim.node_name == name),
            moves=(Move(pod=f"default/p{number}", to="elsewhere"),),
        )
        for number, name in enumerate("ab")
    ]


def test_nothing_is_found_where_all_rules_hold() -> None:
    assert broken_rules(both(a_world()), a_world()) == ()


@pytest.mark.parametrize(
    ("world", "rule", "subject"),
    [
        (a_world("1"), "Budget", "NodePool default"),
        (a_world("nonsense"), "Budget", "NodePool default"),
        (a_world(allowed=1), "PodDisruptionBudget", "default/web"),
        (a_world(annotations={labels.DO_NOT_DISRUPT: "true"}), "DoNotDisrupt", "pod default/p0"),
        (protected_node(a_world()), "DoNotDisrupt", "node a"),
    ],
)
def test_each_rule_is_found(world: Snapshot, rule: str, subject: str) -> None:
    found = broken_rules(both(world), world)
    assert (found[0].at, found[0].rule, found[0].subject) == (NOW, rule, subject)


def test_drift_may_drain_protected_pods_within_a_grace_period() -> None:
    world = a_world(annotations={labels.DO_NOT_DISRUPT: "true"})
    bounded = tuple(msgspec.structs.replace(claim, termination_grace_period=NOW - NOW) for claim in world.node_claims)
    bounded_world = msgspec.structs.replace(world, node_claims=bounded)
    assert broken_rules(both(bounded_world, TerminationReason.DRIFTED), bounded_world) == ()
    assert broken_rules(both(world, TerminationReason.DRIFTED), world) != ()


def test_drift_drains_no_protected_pod_of_a_node_without_a_grace_period() -> None:
    """One command may have nodes of both kinds: the drain of the one would never end."""
    world = a_world(annotations={labels.DO_NOT_DISRUPT: "true"})
    first, second = world.node_claims
    mixed = msgspec.structs.replace(
        world, node_claims=(msgspec.structs.replace(first, termination_grace_period=NOW - NOW), second)
    )
    one, other = both(mixed, TerminationReason.DRIFTED)
    together = msgspec.structs.replace(one, nodes=(*one.nodes, *other.nodes), claims=(*one.claims, *other.claims))
    assert {found.rule for found in broken_rules([together], mixed)} == {"DoNotDisrupt"}
    assert broken_rules([one], mixed) == ()
    assert [found.subject for found in broken_rules([other], mixed)] == ["pod default/p1"]


def test_a_pod_that_is_going_anyway_protects_nothing() -> None:
    protected = {labels.DO_NOT_DISRUPT: "true"}
    for changes in ({"deleted_at": NOW}, {"phase": "Succeeded"}):
        world = a_world(annotations=protected)
        pods = tuple(msgspec.structs.replace(pod, **changes) for pod in world.pods)
        assert broken_rules(both(world), msgspec.structs.replace(world, pods=pods)) == ()


@pytest.mark.parametrize("allowed", [0, 1, 2])
@pytest.mark.parametrize("nodes", ["0", "1", "2", "50%", "100%"])
def test_a_rule_holds_as_long_as_no_more_go_than_it_allows(nodes: str, allowed: int) -> None:
    """Two nodes go, each with a pod of the budget."""
    found = [
        broken.rule for broken in broken_rules(both(a_world(nodes, allowed=allowed)), a_world(nodes, allowed=allowed))
    ]
    expected = ["Budget"] if nodes in ("0", "1", "50%") else []
    assert found == expected + (["PodDisruptionBudget"] if allowed < 2 else [])


def test_a_pod_or_a_node_that_the_snapshot_lacks_breaks_nothing() -> None:
    """A node may have left between the decision and the look."""
    world = a_world(allowed=0)
    gone = msgspec.structs.replace(world, nodes=(), pods=())
    assert broken_rules(both(world), gone) == ()


def test_pods_elsewhere_and_budgets_of_others_break_nothing() -> None:
    world = protected_node(a_world(annotations={labels.DO_NOT_DISRUPT: "true"}))
    (one,) = [command for command in both(world) if command.nodes == ("b",)]
    assert [broken.subject for broken in broken_rules([one], world)] == ["pod default/p1"]
    calm = a_world(allowed=0)
    others = msgspec.structs.replace(calm.budgets[0], selector=a_selector(app="other"))
    assert broken_rules(both(calm), msgspec.structs.replace(calm, budgets=(others,))) == ()


def test_a_budget_without_a_number_breaks_nothing() -> None:
    """A hand-written PodDisruptionBudget of a file has no status yet."""
    world = a_world()
    unknown = msgspec.structs.replace(world.budgets[0], disruptions_allowed=None)
    assert broken_rules(both(world), msgspec.structs.replace(world, budgets=(unknown,))) == ()


@pytest.mark.parametrize(
    ("budget", "holds"),
    [
        (Budget("0", reasons=("Drifted",)), True),
        (Budget("0", reasons=("Underutilized",)), False),
        (Budget("0", schedule="@yearly", duration=timedelta(minutes=1)), True),
        (Budget("0", schedule="* * * * *", duration=timedelta(hours=1)), False),
    ],
)
def test_only_a_budget_of_this_reason_and_of_this_hour_is_broken(budget: Budget, *, holds: bool) -> None:
    world = a_world()
    pool = msgspec.structs.replace(world.node_pools[0], disruption=Disruption(budgets=(budget,)))
    changed = msgspec.structs.replace(world, node_pools=(pool,))
    assert (broken_rules(both(changed), changed) == ()) is holds


MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
WEEK = timedelta(days=7)
KEPT = SimulationRules(consolidates=False)
TYPE = a_type("m5.large", cpu="4", memory="16Gi", price=0.1, capacity_types=("on-demand",))
LARGE = a_type("m5.xlarge", cpu="8", memory="32Gi", price=0.2, capacity_types=("on-demand",))


def owned(name: str, **more: object) -> Pod:
    return a_pod(name, owners=(Owner(kind="ReplicaSet", name="web", is_controller=True),), **more)


def a_look(minute: int = 0, *, budgets: tuple[Budget, ...] = (Budget(nodes="100%"),), **changes: object) -> Snapshot:
    """Two on-demand nodes; one is empty."""
    pairs = [a_node_of(TYPE, "busy"), a_node_of(TYPE, "idle")]
    disruption = Disruption(budgets=budgets)
    fields = {
        "now": NOW + minute * MINUTE,
        "node_pools": (a_pool(disruption=disruption),),
        "node_claims": tuple(claim for claim, _ in pairs),
        "nodes": tuple(node for _, node in pairs),
        "pods": (owned("a", cpu="3", node_name="busy", phase="Running"),),
    }
    return a_snapshot(types=(TYPE, LARGE), **{**fields, **changes})


def simulated(rules: SimulationRules, *looks: Snapshot, minutes: int) -> SimulatedPeriod:
    simulation = FleetSimulation(rules, looks[0])
    for look in looks[1:]:
        simulation.see(look)
    return simulation.finish(NOW + minutes * MINUTE)


def test_a_saving_counts_once_however_often_it_is_observed() -> None:
    """Karpenter keeps its empty node here; ten snapshots would count it ten times."""
    ten = [a_look(minute) for minute in range(0, 60, 6)]
    found = simulated(SimulationRules(), *ten, minutes=60)
    assert (found.nodes, sum(found.commands.values())) == (1, 1)
    assert found.cost == 100_000_000
    assert found.cost == simulated(SimulationRules(), ten[0], minutes=60).cost


def test_what_commitments_cover_is_not_charged() -> None:
    """The recorded side never was charged for it, so that an unchanged period seemed to cost more when it was simulated."""
    options = Options(commitments=(ReservedInstances(name="ri", instance_type="m5.large", count=1),))
    look = a_look(options=options)
    recorded, (found,) = simulated_periods([look], [SimulationRules(consolidates=False)], NOW + HOUR)
    assert recorded.cost == found.cost == 100_000_000
    assert simulated_periods([look], [SimulationRules()], NOW + HOUR)[1][0].cost == 0
    assert simulated_periods([a_look()], [SimulationRules()], NOW + HOUR)[1][0].cost == 100_000_000


def test_without_consolidation_each_node_costs_until_the_end() -> None:
    found = simulated(SimulationRules(consolidates=False), a_look(), minutes=90)
    assert found.cost == 3 * 100_000_000
    assert (found.hours, found.moves, found.commands, found.by_pool) == (3.0, 0, {}, {"default": 300_000_000})


def test_new_pods_get_nodes_and_nodes_without_pods_are_removed() -> None:
    new = tuple(owned(f"new-{number}", cpu="3") for number in range(3))
    looks = [a_look(), a_look(10, pods=(*a_look().pods, *new)), a_look(20)]
    found = simulated(SimulationRules(), *looks, minutes=30)
    assert found.waited >= 2
    assert found.launched >= 1
    assert (found.nodes, found.unplaced) == (1, ())


def test_a_successor_replaces_the_pod_that_really_moved() -> None:
    """In the record Karpenter evicted it; in the simulated fleet it did not move."""
    looks = [a_look(), a_look(5, pods=(owned("renamed", cpu="3", node_name="other", phase="Running"),))]
    assert simulated(SimulationRules(), *looks, minutes=10).waited == 0


def test_a_closed_budget_keeps_the_node_until_its_window_ends() -> None:
    """No record has the time at which the window ends; the simulation adds it."""
    window = Budget(nodes="0", schedule=f"{NOW.minute} {NOW.hour} * * *", duration=30 * MINUTE)
    found = simulated(SimulationRules(), a_look(budgets=(window,)), minutes=60)
    assert found.cost == 100_000_000 + 50_000_000


@pytest.mark.parametrize("karpenter", [False, True])
def test_the_alternative_options_are_simulated(karpenter: bool) -> None:
    asked = a_pool(disruption=Disruption(budgets=(Budget(nodes="0"),)))
    rules = SimulationRules(change=Overrides(node_pools=(asked,)).applied_to, karpenter_moves_only=karpenter)
    assert simulated(rules, a_look(), minutes=60).nodes == 2
    assert simulated(SimulationRules(karpenter_moves_only=karpenter), a_look(), minutes=60).nodes == 1


def test_parallel_simulations_do_not_affect_each_other() -> None:
    looks = [a_look(), a_look(30)]
    period, (kept, let_go) = simulated_periods(
        looks, (SimulationRules(consolidates=False), SimulationRules()), NOW + HOUR
    )
    assert (period.snapshots, period.cost) == (2, 200_000_000)
    assert (kept.cost, let_go.cost) == (200_000_000, 100_000_000)
    with pytest.raises(InvalidInputError, match="no snapshot"):
        simulated_periods([], (SimulationRules(),), NOW)


def test_a_recorded_fleet_costs_nothing_where_its_prices_were_not_recorded() -> None:
    recorded, _ = simulated_periods([a_look(), a_look(30)], (KEPT,), NOW + HOUR, prices_recorded=False)
    assert (recorded.cost, recorded.snapshots, recorded.since, recorded.until) == (0, 2, NOW, NOW + HOUR)


@pytest.mark.parametrize(("event", "quiet"), [(None, 3), (10, 10)])
def test_an_empty_node_is_quiet_since_its_last_pod_or_since_it_booted(event: int | None, quiet: int) -> None:
    """Its `consolidateAfter` of fifteen minutes ends between two snapshots, and nothing else happens."""
    pair, waits = a_node_of(TYPE, "idle"), a_pool(disruption=Disruption(consolidate_after=15 * MINUTE))
    booted = {INITIALIZED: Condition("True", changed_at=NOW + 3 * MINUTE)}
    last = NOW + event * MINUTE if event is not None else None
    claim = msgspec.structs.replace(pair[0], created_at=NOW, conditions=booted, last_pod_event_at=last)
    look = a_look(node_pools=(waits,), node_claims=(claim,), nodes=(pair[1],), pods=())
    found = simulated(SimulationRules(), look, minutes=60)
    assert found.nodes == 0
    assert [at for at, _ in found.series] == [NOW, NOW + (15 + quiet) * MINUTE]
    assert found.cost == 100_000_000 * (15 + quiet) // 60


@pytest.mark.parametrize(("recorded", "left"), [(8, 8), (None, 10)])
def test_a_pod_that_leaves_restarts_the_wait_of_its_node(recorded: int | None, left: int) -> None:
    """The node has been quiet for an hour; its pod leaves when its real node says, or by the snapshot of minute ten."""
    pair, waits = a_node_of(TYPE, "idle"), a_pool(disruption=Disruption(consolidate_after=15 * MINUTE))
    claim = msgspec.structs.replace(pair[0], created_at=NOW - HOUR, last_pod_event_at=NOW - HOUR)
    fields = {"node_pools": (waits,), "nodes": (pair[1],)}
    full = a_look(**fields, node_claims=(claim,), pods=(owned("a", cpu="3", node_name="idle", phase="Running"),))
    seen = msgspec.structs.replace(claim, last_pod_event_at=None if recorded is None else NOW + recorded * MINUTE)
    found = simulated(SimulationRules(), full, a_look(10, **fields, node_claims=(seen,), pods=()), minutes=60)
    assert [at for at, _ in found.series] == [NOW, NOW + (left + 15) * MINUTE]


def test_a_fleet_starts_without_leaving_nodes_and_keeps_unmanaged_ones() -> None:
    look = a_look()
    going = msgspec.structs.replace(look.node_claims[1], deleted_at=NOW)
    fleet = SimulatedFleet(msgspec.structs.replace(look, node_claims=(look.node_claims[0], going)))
    assert list(fleet.claims) == ["busy"]
    foreign = msgspec.structs.replace(look, node_claims=look.node_claims[:1])
    simulated = SimulatedFleet(foreign).in_snapshot(foreign, NOW, karpenter_moves_only=False)
    assert sorted(node.name for node in simulated.nodes) == ["busy", "idle"]


def two_nodes(*pods: Pod, **changes: object) -> Snapshot:
    """Two on-demand nodes of one pool, each as old as the first snapshot."""
    return a_look(pods=pods, **changes)


def test_pods_of_a_node_that_goes_move_and_do_not_wait() -> None:
    """Both pods fit on one node: one of them moves there, and nobody launches or waits for anything."""
    look = two_nodes(*(owned(name, cpu="1", node_name=name, phase="Running") for name in ("busy", "idle")))
    found = simulated(SimulationRules(), look, minutes=60)
    assert (found.nodes, found.moves, found.launched, found.waited) == (1, 1, 0, 0)
    assert (found.placements, found.unplaced, found.broken) == ({}, (), ())


def test_pods_move_to_the_node_that_replaces_theirs() -> None:
    """A replacement has a name that no node has had: its pods must be on it, or another node is launched for them."""
    claim, node = a_node_of(LARGE, "large")
    pod = owned("a", cpu="1", node_name="large", phase="Running")
    found = simulated(SimulationRules(), a_look(node_claims=(claim,), nodes=(node,), pods=(pod,)), minutes=60)
    assert (found.nodes, found.moves, found.launched, found.waited) == (1, 1, 1, 0)
    assert (found.cost, found.placements, found.unplaced) == (100_000_000, {}, ())


@pytest.mark.parametrize(("wait", "paid_minutes"), [(0, 0), (10, 10), (25, 25), (60, 60), (61, 60)])
def test_an_empty_node_costs_until_it_has_been_quiet_for_long_enough(wait: int, paid_minutes: int) -> None:
    """No snapshot shows the moment: the simulation adds it, unless the period has ended by then."""
    disruption = Disruption(budgets=(Budget(nodes="100%"),), consolidate_after=wait * MINUTE)
    created = [msgspec.structs.replace(claim, created_at=NOW, last_pod_event_at=NOW) for claim in a_look().node_claims]
    look = a_look(node_pools=(a_pool(disruption=disruption),), node_claims=tuple(created))
    found = simulated(SimulationRules(), look, minutes=60)
    assert found.cost == 100_000_000 + 100_000_000 * paid_minutes // 60


def test_a_pool_that_never_consolidates_keeps_its_empty_nodes() -> None:
    disruption = Disruption(budgets=(Budget(nodes="100%"),), consolidate_after=None)
    found = simulated(SimulationRules(), a_look(node_pools=(a_pool(disruption=disruption),)), minutes=60)
    assert (found.nodes, found.commands, found.cost) == (2, {}, 200_000_000)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("consolidates", [True, False])
def test_the_totals_of_a_period_agree_with_each_other(seed: int, consolidates: bool) -> None:
    """Pods come and go at random: each is placed or named as unplaced, and the bill is the area under the hourly price."""
    draw = random.Random(seed)  # noqa: S311 - a world
    alive: list[Pod] = list(a_look().pods)
    looks = [a_look()]
    for number in range(1, 6):
        alive = [pod for pod in alive if draw.random() < 0.7]
        for one in range(draw.randrange(3)):
            owner = Owner(kind="ReplicaSet", name=f"{number}-{one}", is_controller=True)  # nobody's successor
            alive.append(a_pod(f"{number}-{one}", owners=(owner,), cpu=draw.choice(["1", "3", "99"])))
        looks.append(a_look(10 * number, pods=tuple(alive)))
    found = simulated(SimulationRules(consolidates=consolidates), *looks, minutes=90)

    ends = [moment for moment, _ in found.series[1:]] + [NOW + 90 * MINUTE]
    area = sum(price * ((end - begun) // MINUTE) for (begun, price), end in zip(found.series, ends, strict=True))
    assert found.cost == found.by_pool["default"] == area // 60
    assert all(price != after for (_, price), (_, after) in pairwise(found.series))
    assert found.series[0][0] == NOW
    assert found.series[-1][1] == 100_000_000 * found.nodes or found.launched
    placed, impossible = set(found.placements), {pod.key for pod in alive if pod.spec.requests["cpu"] > 8_000}
    assert set(found.unplaced) == impossible
    assert placed >= {pod.key for pod in alive} - impossible - {pod.key for pod in looks[0].pods}
    assert sum(one.is_on_new_node for one in found.placements.values()) <= found.waited
    assert found.broken == ()
    if not consolidates:
        assert (found.moves, found.commands, found.nodes) == (0, {}, 2 + found.launched)


def seen_by(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Minutes at which a simulation decides which nodes go."""
    found: list[float] = []
    decides = FleetSimulation._let_go

    def noted(simulation: FleetSimulation, snapshot: Snapshot, planner: Planner) -> None:
        found.append((snapshot.now - NOW) / MINUTE)
        decides(simulation, snapshot, planner)

    monkeypatch.setattr(FleetSimulation, "_let_go", noted)
    return found


def test_nodes_are_let_go_once_in_a_tick_and_pods_get_places_at_each_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each snapshot of a busy cluster was decided on, and each moment between them at which a node's consolidateAfter ended."""
    decided = seen_by(monkeypatch)
    looks = [a_look(minute, budgets=(Budget(nodes="0"),)) for minute in (0, 1, 2, 7, 8)]
    new = (*looks[2].pods, owned("new", cpu="1"))
    looks[2:] = [msgspec.structs.replace(look, pods=new) for look in looks[2:]]
    found = simulated(SimulationRules(), *looks, minutes=30)
    assert decided == [0, 5, 10]
    assert (found.placements["default/new"].at, found.unplaced) == (NOW + 2 * MINUTE, ())


@pytest.mark.parametrize(
    ("days", "tick"), [(0.01, 5), (0.8, 5), (7, 40), (21, 120)], ids=["minutes", "day", "week", "three"]
)
def test_a_long_period_is_decided_less_often(days: float, tick: float) -> None:
    assert tick_of(timedelta(days=days)) / MINUTE == pytest.approx(tick)


def in_a_week(*looks: Snapshot, rules: SimulationRules = SimulationRules()) -> SimulatedPeriod:  # noqa: B008 - frozen
    _, (found,) = simulated_periods(looks, (rules,), NOW + WEEK)
    return found


def a_job(minute: int, pods: int, *, is_bound: bool = True) -> Snapshot:
    """The node that stays, and one for each pod of a Job where they are bound."""
    names = [f"job-{minute // 60}-{number}" for number in range(pods)]
    pairs = [a_node_of(TYPE, "busy"), *(a_node_of(LARGE, name) for name in names if is_bound)]
    job = (Owner(kind="Job", name="j", is_controller=True),)
    state = {"phase": "Running" if is_bound else "Pending"}
    return a_look(
        minute,
        node_claims=tuple(claim for claim, _ in pairs),
        nodes=tuple(node for _, node in pairs),
        pods=(
            owned("a", cpu="3", node_name="busy", phase="Running"),
            *(a_pod(name, cpu="7", owners=job, node_name=name if is_bound else "", **state) for name in names),
        ),
    )


def test_what_is_recorded_before_a_gap_does_not_last_until_the_next_snapshot() -> None:
    """The ledger has nothing while nothing changes: the end of a Job was left out, and its nodes cost money for days."""
    recorded, (found,) = simulated_periods(
        [a_job(0, 0), a_job(60, 10), a_job(70, 0), a_job(6 * 24 * 60, 0)], (SimulationRules(),), NOW + WEEK
    )
    assert recorded.cost == 168 * 100_000_000 + 10 * 200_000_000 // 6
    assert found.cost == recorded.cost
    assert (found.launched, found.nodes) == (10, 1)


@pytest.mark.ci
def test_nodes_without_pods_do_not_wait_for_the_tick_of_a_long_period() -> None:
    """The nodes of an hourly Job of nine minutes were paid for forty."""
    hours = range(1, 160)
    found = in_a_week(
        a_job(0, 0),
        *(
            look
            for hour in hours
            for look in (a_job(60 * hour, 2, is_bound=False), a_job(60 * hour + 1, 2), a_job(60 * hour + 9, 0))
        ),
    )
    assert found.launched == 2 * len(hours)
    assert found.cost == 168 * 100_000_000 + len(hours) * 2 * 200_000_000 * 9 // 60


def test_a_window_that_is_shorter_than_a_tick_is_used() -> None:
    """Nodes may go in ten minutes of a day: one decision came before them, and the next one after them."""
    closed = [(NOW, 10 * MINUTE), (NOW + 20 * MINUTE, 23 * HOUR + 40 * MINUTE)]
    budgets = [Budget(nodes="0", schedule=f"{at.minute} {at.hour} * * *", duration=long) for at, long in closed]
    pods = tuple(owned(name, cpu="1", node_name=name, phase="Running") for name in ("busy", "idle"))
    found = in_a_week(a_look(budgets=tuple(budgets), pods=pods))
    assert found.series == ((NOW, 200_000_000), (NOW + 10 * MINUTE, 100_000_000))


@pytest.mark.parametrize("budget", ["1", "100%"])
def test_waves_of_a_target_follow_each_other_as_soon_as_in_a_short_period(budget: str) -> None:
    """A budget of one node let one go every forty minutes."""
    names = [f"n{number}" for number in range(6)]
    pairs = [a_node_of(TYPE, name) for name in names]
    look = a_look(
        budgets=(Budget(nodes=budget),),
        node_claims=tuple(claim for claim, _ in pairs),
        nodes=tuple(node for _, node in pairs),
        pods=tuple(owned(name, cpu="500m", node_name=name, phase="Running") for name in names),
    )
    found = in_a_week(look)
    assert found.nodes == 1
    assert found.series[-1][0] == NOW + (20 * MINUTE if budget == "1" else timedelta(0))
    assert found.series == simulated(SimulationRules(), look, minutes=7 * 24 * 60).series


def test_a_fleet_without_nodes_has_nothing_to_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the last node went, the same moment was simulated two hundred times between two snapshots."""
    moments: list[float] = []
    steps = FleetSimulation._step

    def noted(simulation: FleetSimulation, now: datetime) -> None:
        moments.append((now - NOW) / MINUTE)
        steps(simulation, now)

    monkeypatch.setattr(FleetSimulation, "_step", noted)
    found = simulated(SimulationRules(), a_look(pods=()), a_look(60, pods=()), minutes=120)
    assert (found.nodes, moments) == (0, [0, 60])


def test_nodes_go_in_the_last_of_many_windows_of_a_quiet_time() -> None:
    """After two hundred changes of budgets between two snapshots, nothing was decided."""
    hourly = Budget(nodes="0", schedule="@hourly", duration=59 * MINUTE)
    disruption = Disruption(budgets=(hourly,), consolidate_after=6 * 24 * HOUR)
    claims = [msgspec.structs.replace(claim, created_at=NOW, last_pod_event_at=NOW) for claim in a_look().node_claims]
    found = in_a_week(a_look(node_pools=(a_pool(disruption=disruption),), node_claims=tuple(claims)))
    assert (found.nodes, found.series[-1][0] - NOW >= 6 * 24 * HOUR) == (1, True)


def test_a_pod_that_left_before_it_had_a_place_is_named() -> None:
    impossible, late = owned("impossible", cpu="99"), owned("late", cpu="99")
    looks = [a_look(), a_look(5, pods=(*a_look().pods, impossible)), a_look(6, pods=(*a_look().pods, late))]
    found = simulated(SimulationRules(), *looks, minutes=10)
    assert (found.never_placed, found.unplaced) == (("default/impossible", "default/late"), ("default/late",))


def test_the_simulated_fleet_goes_on_with_its_own_target() -> None:
    """It followed that of the real fleet, which the recorded snapshots have."""
    own = (
        a_pod("a", cpu="1", node_name="busy", phase="Running"),
        a_pod("b", cpu="1", node_name="idle", phase="Running"),
    )
    real = StoredTarget(
        made_at=NOW,
        settings="other",
        drains=(StoredDrain("busy", 1, 1),),
        kept_price=0,
        drained_price=1,
        new_price=0,
        slots=(),
        new_nodes=(),
    )
    look = a_look(pods=own, stored_target=real)
    with_target = simulated(SimulationRules(), look, minutes=60)
    assert with_target == simulated(SimulationRules(), msgspec.structs.replace(look, stored_target=None), minutes=60)
    assert with_target.nodes == 1


def test_each_pool_is_planned_again_at_its_own_time() -> None:
    """The first of several moments counts: a later one would charge for nodes that went long before."""
    pools = tuple(
        a_pool(name, disruption=Disruption(budgets=(Budget(nodes="100%"),), consolidate_after=wait * MINUTE))
        for name, wait in (("soon", 10), ("late", 40))
    )
    pairs = [a_node_of(TYPE, f"n-{pool.name}", pool=pool.name) for pool in pools]
    claims = [msgspec.structs.replace(claim, created_at=NOW, last_pod_event_at=NOW) for claim, _ in pairs]
    look = a_look(node_pools=pools, node_claims=tuple(claims), nodes=tuple(node for _, node in pairs), pods=())
    found = simulated(SimulationRules(), look, minutes=60)
    assert found.by_pool == {"late": 100_000_000 * 40 // 60, "soon": 100_000_000 * 10 // 60}
    assert [moment for moment, _ in found.series] == [NOW, NOW + 10 * MINUTE, NOW + 40 * MINUTE]


def test_a_pod_on_a_new_node_waits_for_its_boot_and_one_on_an_old_node_does_not() -> None:
    large = owned("large", cpu="7")
    small = a_pod("small", cpu="500m", owners=(Owner(kind="ReplicaSet", name="small", is_controller=True),))
    found = simulated(SimulationRules(), a_look(), a_look(10, pods=(*a_look().pods, large, small)), minutes=20)
    assert {name: one.is_on_new_node for name, one in found.placements.items()} == {
        "default/large": True,
        "default/small": False,
    }
    assert {one.at for one in found.placements.values()} == {NOW + 10 * MINUTE}


# Without other rules, a period is simulated as it was recorded.


def test_rules_change_no_snapshot_by_default() -> None:
    """Otherwise, every comparison with the recorded period is wrong."""
    snapshot = a_snapshot()
    assert SimulationRules().change(snapshot) is snapshot
