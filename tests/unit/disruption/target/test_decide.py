"""One target for all nodes, and the moves of it that may begin now; the cases are those that users ask for."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.command import carried_out
from core.disruption.consolidation_nodes import WORTHWHILE
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target import decide
from core.disruption.target.decide import awaited_budgets, joined, kept_by
from core.disruption.target.fleet import target_fleet
from core.disruption.target.landing import Landing
from core.disruption.target.move_price import settings_digest
from core.disruption.target.search import TargetSearch
from core.disruption.target.stored import after_commands
from core.model.catalogue import Catalogue
from core.model.node_pool import BALANCED, Budget, Disruption
from core.model.plan import Command, DisruptionPlan, StoredDrain, StoredNewNode, StoredSlots, StoredTarget
from core.model.pod import TopologySpread
from core.model.snapshot import TARGET_AGE_MAX, FeatureGates, Options, PodDisruptionBudget, Snapshot
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_stored_target, a_type
from tests.unit.disruption.nodes_for_tests import (
    KARPENTER,
    LARGE,
    MIDDLE,
    ON_DEMAND,
    SMALL,
    blocked,
    checked,
    drifted,
    pod_on,
    world,
)
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY, fleet_of, half_full


def with_types(snapshot: Snapshot, *prices: tuple[str, str, float]) -> Snapshot:
    """The same cluster, with these types (name, vCPU, dollars) available."""
    types = tuple(a_type(name, cpu=cpu, price=price) for name, cpu, price in prices)
    return msgspec.structs.replace(snapshot, catalogue=a_snapshot(types=types).catalogue)


def nodes_gone(plan: DisruptionPlan) -> set[str]:
    return {name for command in plan.commands for name in command.nodes}


def test_one_node_becomes_two_where_they_are_cheaper() -> None:
    """Karpenter never turns one node into two; we do unless we are configured to follow Karpenter."""
    expensive = a_type("expensive", cpu="8", price=9.0)
    pods = tuple(pod_on("node-1", f"p{n}", cpu="900m") for n in range(4))
    snapshot = with_types(world(a_node_of(expensive), pods=pods), ("expensive", "8", 9.0), ("two", "2", 0.3))
    (command,) = disrupt(snapshot).commands
    assert (command.method, len(command.replacements), command.wave) == ("repack", 2, 1)
    assert checked(command, snapshot) == command
    assert disrupt(msgspec.structs.replace(snapshot, options=KARPENTER)).commands == ()


@pytest.mark.parametrize("cpu", ["4500m", "12"])
def test_a_pod_that_waits_for_a_node_of_its_own_takes_no_saving(cpu: str) -> None:
    """Whatever its node costs: it is launched with and without the moves."""
    running = world(a_node_of(MIDDLE, "n"), pods=(pod_on("n", cpu="400m"),), options=WHOLE_WAY)
    waiting = a_pod("waits", cpu=cpu, is_marked_unschedulable=True)
    snapshot = msgspec.structs.replace(running, pods=(*running.pods, waiting))
    (command,), (alone,) = disrupt(snapshot).commands, disrupt(running).commands
    assert command.savings == alone.savings > 0
    assert [claim.pods for claim in command.replacements] == [("default/on-n",)]
    assert checked(command, snapshot) == command


def test_a_node_goes_whose_pod_may_not_return_to_its_zone() -> None:
    """A scale-in left 4, 2 and 2 pods of one service in three zones; its spread admits none in the first."""
    even = TopologySpread(labels.ZONE, 1, selector=a_selector(app="web"))
    zones = {"a1": ZONES[0], "a2": ZONES[0], "b": ZONES[1], "c": ZONES[2]}
    counts = {"a1": 1, "a2": 3, "b": 2, "c": 2}
    pods = tuple(
        pod_on(name, f"{name}-{number}", cpu="100m", labels={"app": "web"}, spreads=(even,))
        for name, count in counts.items()
        for number in range(count)
    )
    others = tuple(pod_on(name, cpu="3") for name in ("a2", "b", "c"))
    snapshot = world(*(a_node_of(MIDDLE, name, zone=zone) for name, zone in zones.items()), pods=(*pods, *others))
    (command,) = disrupt(snapshot).commands
    assert (command.nodes, command.replacements) == (("a1",), ())
    assert [move.to in ("b", "c") for move in command.moves] == [True]
    assert checked(command, snapshot) == command


def test_three_nodes_become_two_of_another_type() -> None:
    """Two half-full nodes of one type and one of another are best replaced by two of a third."""
    kinds = (("a", "4", 0.4), ("b", "8", 0.8), ("c", "5", 0.42))
    a, b = (a_type(name, cpu=cpu, price=price) for name, cpu, price in kinds[:2])
    sizes = {"a1": "2200m", "a2": "2200m", "b1": "4500m"}
    pods = tuple(pod_on(node, cpu=cpu) for node, cpu in sizes.items())
    snapshot = with_types(world(a_node_of(a, "a1"), a_node_of(a, "a2"), a_node_of(b, "b1"), pods=pods), *kinds)
    plan = disrupt(snapshot)
    assert nodes_gone(plan) == set(sizes)
    assert [claim.instance_types[0] for command in plan.commands for claim in command.replacements] == ["c", "c"]


def test_a_node_is_never_replaced_by_an_equal_one() -> None:
    pods = (pod_on("a", cpu="3"), pod_on("b", cpu="3"))
    plan = disrupt(world(a_node_of(MIDDLE, "a"), a_node_of(MIDDLE, "b"), pods=pods))
    assert plan.commands == ()
    assert set(blocked(plan).values()) == {"NoCheaperOption"}


def test_a_saving_smaller_than_the_price_of_its_moves_is_not_made() -> None:
    """A tenth of the price for ten pods: the setting decides whether that is worth it."""
    pods = tuple(pod_on("a", f"p{n}", cpu="300m") for n in range(10))
    snapshot = with_types(world(a_node_of(MIDDLE, "a"), pods=pods), ("t-4", "4", 0.2), ("other", "4", 0.18))
    assert disrupt(snapshot).commands == ()
    thorough = msgspec.structs.replace(snapshot, options=Options(moves="thorough"))
    assert nodes_gone(disrupt(thorough)) == {"a"}


def test_fluctuating_prices_move_nothing() -> None:
    """Prices vary by two per cent in each direction: a settled cluster stays as it is."""
    pods = tuple(pod_on(node, f"{node}-{n}", cpu="1700m") for node in "abc" for n in range(2))
    nodes = [a_node_of(MIDDLE, name) for name in "abc"]
    for look in range(30):
        wavering = [("t-4", "4", 0.2 * (1 + 0.02 * (-1) ** look)), ("u-4", "4", 0.2 * (1 - 0.02 * (-1) ** look))]
        assert disrupt(with_types(world(*nodes, pods=pods), *wavering)).commands == ()


def test_drifted_nodes_go_first_and_never_receive_pods() -> None:
    """All nodes have drifted: each pod moves once, to a new node, whatever room the others have."""
    nodes = [drifted(a_node_of(MIDDLE, f"n{n}")) for n in range(6)]
    pods = tuple(pod_on(f"n{n}", cpu="1500m") for n in range(6))
    plan = disrupt(world(*nodes, pods=pods, options=WHOLE_WAY))
    moves = Counter(move.pod for command in plan.commands for move in command.moves)
    assert len(moves) == 6
    assert set(moves.values()) == {1}
    assert not {move.to for command in plan.commands for move in command.moves} & {f"n{n}" for n in range(6)}
    assert {command.reason for command in plan.commands} == {"Drifted"}


def test_the_whole_plan_goes_in_waves_within_budgets_and_no_pod_moves_twice() -> None:
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("2"),)))
    nodes = [a_node_of(MIDDLE, f"n{n}") for n in range(8)]
    pods = tuple(pod_on(f"n{n}", cpu="400m") for n in range(8))
    plan = disrupt(world(*nodes, pods=pods, node_pools=(pool,), options=WHOLE_WAY))
    assert nodes_gone(plan) == {f"n{n}" for n in range(8)} - {
        to for c in plan.commands for to in [m.to for m in c.moves]
    }
    per_wave = Counter(command.wave for command in plan.commands for _ in command.nodes)
    assert max(per_wave.values()) <= 2
    assert max(Counter(move.pod for c in plan.commands for move in c.moves).values()) == 1
    assert plan.cost.after == plan.cost.before - sum(command.savings for command in plan.commands)
    assert plan.cost.lower_bound is not None
    assert plan.cost.lower_bound <= plan.cost.after


def test_within_budgets_only_the_first_wave_is_planned() -> None:
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("2"),)))
    nodes = [a_node_of(MIDDLE, f"n{n}") for n in range(8)]
    plan = disrupt(world(*nodes, pods=tuple(pod_on(f"n{n}", cpu="400m") for n in range(8)), node_pools=(pool,)))
    assert len(nodes_gone(plan)) == 2
    assert {command.wave for command in plan.commands} == {1}
    assert "Budget" in blocked(plan).values()


@pytest.mark.parametrize(
    "budgets",
    [
        (Budget("1"),),
        (Budget("1", reasons=("Empty", "Underutilized")), Budget("0", reasons=("Drifted",))),
        (Budget("1", reasons=("Empty", "Underutilized")),),
    ],
    ids=["any reason", "by reason", "one without a limit"],
)
def test_if_the_first_wave_does_not_pay_the_best_possible_command_is_chosen(budgets: tuple[Budget, ...]) -> None:
    """Three nodes are best merged into one, but one may go at a time: only the first is replaced by a cheaper one."""
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=budgets))
    kinds = (("old", "4", 0.4), ("one", "12", 0.5), ("new", "4", 0.2))
    nodes = [a_node_of(a_type("old", cpu="4", price=0.4), f"n{n}") for n in range(3)]
    pods = tuple(pod_on(f"n{n}", cpu="3500m") for n in range(3))
    plan = disrupt(with_types(world(*nodes, pods=pods, node_pools=(pool,)), *kinds))
    assert len(nodes_gone(plan)) == 1
    assert plan.cost.after < plan.cost.before


def test_a_balanced_pool_keeps_nodes_whose_saving_is_small_for_their_pods() -> None:
    """Moving one pod saves little, and most of the pool's cost is in the other node."""
    balanced = a_pool("default", ON_DEMAND, disruption=Disruption(policy=BALANCED, budgets=(Budget("100%"),)))
    expensive = a_type("expensive", cpu="16", price=100.0)
    pods = (*(pod_on("a", f"a{n}", cpu="100m") for n in range(9)), pod_on("b", cpu="8"))
    snapshot = with_types(
        world(a_node_of(SMALL, "a"), a_node_of(expensive, "b"), pods=pods, node_pools=(balanced,)),
        ("t-1", "1", 0.05),
        ("expensive", "16", 100.0),
    )
    assert nodes_gone(disrupt(snapshot)) == set()
    plan = disrupt(msgspec.structs.replace(snapshot, options=Options(moves="thorough")))
    assert (plan.commands, plan.target) == ((), None), "a target is stored that its pool's policy never lets begin"


def test_replacements_name_the_pods_that_move_to_them() -> None:
    expensive = a_type("expensive", cpu="8", price=9.0)
    pods = tuple(pod_on("node-1", f"p{n}", cpu="900m") for n in range(4))
    snapshot = with_types(world(a_node_of(expensive), pods=pods), ("expensive", "8", 9.0), ("two", "2", 0.3))
    for command in disrupt(snapshot).commands:
        for claim in command.replacements:
            assert claim.pods == tuple(sorted(move.pod for move in command.moves if move.to == claim.name))
            assert claim.resources["cpu"] == 900 * len(claim.pods)


def test_spot_pods_get_no_new_spot_node_while_the_gate_is_off() -> None:
    pool = a_pool("default", disruption=Disruption(budgets=(Budget("100%"),)))
    spot = a_node_of(MIDDLE, "a", capacity_type=labels.SPOT)
    plan = disrupt(world(spot, pods=(pod_on("a"),), node_pools=(pool,)))
    assert plan.commands == ()
    assert blocked(plan) == {"a": "SpotToSpot"}


def test_a_replacement_must_save_a_twentieth() -> None:
    pods = (pod_on("a", cpu="3"),)
    price = 0.2 - 0.2 / WORTHWHILE / 2
    snapshot = with_types(world(a_node_of(MIDDLE, "a"), pods=pods), ("t-4", "4", 0.2), ("other", "4", price))
    plan = disrupt(msgspec.structs.replace(snapshot, options=Options(moves="thorough")))
    assert (plan.commands, plan.target) == ((), None), "a target is stored that is never worth its first step"


def test_while_a_wave_goes_and_after_it_the_nodes_of_later_waves_await_budgets_and_the_others_stay() -> None:
    """Otherwise, people read of a node that goes in minutes that nothing cheaper is known for its pods."""
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("2"),)))
    nodes = [a_node_of(MIDDLE, f"n{n}") for n in range(8)]
    snapshot = world(*nodes, pods=tuple(pod_on(f"n{n}", cpu="400m") for n in range(8)), node_pools=(pool,))
    first = disrupt(snapshot)
    assert first.target is not None
    rest = after_commands(first.target, first.commands, snapshot.pods, {})
    assert rest is not None
    later = {drain.node: drain.worth for drain in rest.drains}

    def awaiting(plan: DisruptionPlan) -> dict[str, int]:
        return {block.node: block.savings for block in plan.blocked if block.reason == "Budget"}

    leaving = tuple(claim for command in first.commands for claim in command.claims)
    during = disrupt(msgspec.structs.replace(snapshot, stored_target=rest, marked_for_deletion=leaving))
    assert (during.commands, during.target, set(awaiting(during))) == ((), rest, set(later))

    moved = {move.pod: move.to for command in first.commands for move in command.moves}
    pods = tuple(msgspec.structs.replace(p, node_name=moved.get(p.key, p.node_name)) for p in snapshot.pods)
    left = [pair for pair in nodes if pair[1].name not in nodes_gone(first)]
    second = disrupt(world(*left, pods=pods, node_pools=(pool,), stored_target=rest))
    assert len(nodes_gone(second)) == 2
    assert nodes_gone(second) < set(later)
    assert awaiting(second) == {name: worth for name, worth in later.items() if name not in nodes_gone(second)}


THOROUGH = Options(moves="thorough")


def test_a_lone_node_may_get_its_own_type_where_that_is_cheaper_and_one_of_several_may_not() -> None:
    """Of several, the others may be deleted instead, which saves as much."""
    home, away = (
        a_type("t-4", cpu="4", price=price, zones=(zone,)) for price, zone in ((0.2, ZONES[0]), (0.1, ZONES[1]))
    )
    both = msgspec.structs.replace(home, offerings=(*home.offerings, *away.offerings))
    market = Catalogue(default=(both,))
    alone, two = (
        world(*(a_node_of(home, name) for name in names), pods=tuple(pod_on(name, cpu="3") for name in names))
        for names in ("a", "ab")
    )
    (command,) = disrupt(msgspec.structs.replace(alone, catalogue=market, options=THOROUGH)).commands
    assert [(claim.instance_types, claim.zones) for claim in command.replacements] == [(("t-4",), (ZONES[1],))]
    plan = disrupt(msgspec.structs.replace(two, catalogue=market, options=THOROUGH))
    assert all(len(command.nodes) == 1 for command in plan.commands)


def test_no_type_is_launched_that_costs_as_much_as_what_goes_unless_something_must_go() -> None:
    """EC2 takes any of the types that are named."""
    kinds = (("t-4", "4", 0.2), ("new", "4", 0.15), ("dearer", "4", 0.21))
    pair = a_node_of(MIDDLE, "a")
    chosen, must = (
        with_types(world(node, pods=(pod_on("a", cpu="3"),), options=THOROUGH), *kinds)
        for node in (pair, drifted(pair))
    )
    (command,), (drift,) = disrupt(chosen).commands, disrupt(must).commands
    assert [claim.instance_types for claim in command.replacements] == [("new",)]
    assert [claim.instance_types for claim in drift.replacements] == [("new", "t-4", "dearer")]


def test_a_drifted_node_goes_although_pods_that_wait_share_its_new_node() -> None:
    """Nothing is saved, and nothing has to be."""
    waits = a_pod("waits", cpu="600m", is_marked_unschedulable=True)
    pods = (pod_on("a", cpu="600m"), waits)
    plan = disrupt(with_types(world(drifted(a_node_of(SMALL, "a")), pods=pods), ("t-4", "4", 0.2)))
    (command,) = plan.commands
    assert (command.reason, command.nodes) == ("Drifted", ("a",))
    assert [claim.pods for claim in command.replacements] == [("default/on-a",)]


# A target under way continues wave by wave, without a new search, as long as it is valid.


ROUNDS_MAX = 10


def under_way(snapshot: Snapshot) -> tuple[Snapshot, DisruptionPlan]:
    """The world after the first wave, with the rest of its target; and the plan of that wave."""
    plan = disrupt(snapshot)
    assert plan.target is not None
    rest = after_commands(plan.target, plan.commands, snapshot.pods, {})
    after = carried_out(snapshot, *plan.commands)
    return msgspec.structs.replace(after, stored_target=rest), plan


def never(*_: Any) -> Any:
    raise AssertionError("the program is solved")


def test_a_target_is_followed_to_its_end_and_no_pod_moves_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, plan = under_way(half_full(8, at_once=2))
    assert plan.target_reason == "TargetMade"
    drains = {drain.node for drain in plan.target.drains} if plan.target else set()
    gone = [node for command in plan.commands for node in command.nodes]
    moves = [move.pod for command in plan.commands for move in command.moves]
    with monkeypatch.context() as patched:
        patched.setattr(TargetSearch, "found", never)
        for _ in range(ROUNDS_MAX):
            if snapshot.stored_target is None:
                break
            snapshot, plan = under_way(snapshot)
            assert plan.target_reason == "TargetContinued"
            assert plan.cost.lower_bound is None
            gone += [node for command in plan.commands for node in command.nodes]
            moves += [move.pod for command in plan.commands for move in command.moves]
    assert set(gone) == drains
    assert max(Counter(moves).values()) == 1


def test_a_target_whose_budgets_are_used_up_waits_without_a_new_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, each run during a drain searches again, and the target never gets old enough to go on at once."""
    snapshot = half_full(8, at_once=2)
    first = disrupt(snapshot)
    assert first.target is not None
    going = tuple(claim for command in first.commands for claim in command.claims)
    rest = after_commands(first.target, first.commands, snapshot.pods, {})
    later = msgspec.structs.replace(
        snapshot, now=snapshot.now + timedelta(seconds=10), marked_for_deletion=going, stored_target=rest
    )
    monkeypatch.setattr(TargetSearch, "found", never)
    plan = disrupt(later)
    assert (plan.commands, plan.target_reason) == ((), "TargetContinued")
    assert plan.target is not None
    assert plan.target.made_at == snapshot.now


def guarded(allowed: int) -> tuple[PodDisruptionBudget, ...]:
    """The budget of half of the pods, with so many disruptions allowed now."""
    selected = {"selector": a_selector(app="db"), "max_unavailable": "1", "expected_pods": 4}
    return (PodDisruptionBudget(namespace="default", name="db", disruptions_allowed=allowed, **selected),)


def test_a_node_whose_budget_allows_no_eviction_for_now_stays_in_its_target() -> None:
    """While the pods of one wave start elsewhere, it left the target for good, or the target was replaced."""
    pods = tuple(pod_on(f"n{n}", cpu="400m", labels={"app": "db" if n % 2 else "web"}) for n in range(8))
    snapshot, plan = under_way(half_full(8, at_once=3, pods=pods, budgets=guarded(1)))
    assert plan.target is not None
    drains, begun = ({drain.node for drain in plan.target.drains}, {n for c in plan.commands for n in c.nodes})
    waiting = {node for node in drains - begun if int(node[1:]) % 2}
    assert waiting
    closed = disrupt(msgspec.structs.replace(snapshot, budgets=guarded(0)))
    assert closed.target_reason == "TargetContinued"
    assert closed.target is not None
    assert waiting <= {drain.node for drain in closed.target.drains}
    assert not waiting & {node for command in closed.commands for node in command.nodes}
    assert {block.reason for block in closed.blocked if block.node in waiting} == {"PodDisruptionBudget"}
    never = msgspec.structs.replace(guarded(0)[0], max_unavailable="0")
    final = disrupt(msgspec.structs.replace(snapshot, budgets=(never,)))
    assert final.target is None or not waiting & {drain.node for drain in final.target.drains}


@pytest.mark.parametrize(("grace", "reason"), [(timedelta(hours=1), "Drifted"), (None, "Underutilized")])
def test_a_drifted_node_with_a_termination_grace_period_goes_although_its_budget_is_closed(
    grace: timedelta | None, reason: str
) -> None:
    """Drift overrides the budget there, in the first wave and in later ones: it came last, after all consolidation."""
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    pairs = [a_node_of(MIDDLE, f"n{n}") for n in range(6)]
    outdated = [drifted((msgspec.structs.replace(claim, termination_grace_period=grace), n)) for claim, n in pairs[:2]]
    pods = tuple(pod_on(f"n{n}", cpu="400m", labels={"app": "db" if n < 2 else "web"}) for n in range(6))
    snapshot = world(*outdated, *pairs[2:], pods=pods, node_pools=(pool,), budgets=guarded(1))
    snapshot, first = under_way(snapshot)
    assert [command.reason for command in first.commands] == ["Drifted"]
    second = disrupt(msgspec.structs.replace(snapshot, budgets=guarded(0)))
    assert ([command.reason for command in second.commands], second.target_reason) == ([reason], "TargetContinued")


def test_nodes_that_are_gone_do_not_invalidate_a_target() -> None:
    snapshot, plan = under_way(half_full(8, at_once=2))
    snapshot = msgspec.structs.replace(snapshot, stored_target=plan.target)
    assert disrupt(snapshot).target_reason == "TargetContinued"


def test_a_target_that_no_longer_pays_is_replaced() -> None:
    """New pods fill the planned places: half of the saving is lost."""
    snapshot, _ = under_way(half_full(8, at_once=2))
    new = tuple(
        pod_on(node.name, f"new-{node.name}", cpu="3")
        for node in snapshot.nodes
        if node.name not in {move.pod.split("-")[-1] for command in _.commands for move in command.moves}
    )
    plan = disrupt(msgspec.structs.replace(snapshot, pods=(*snapshot.pods, *new)))
    assert plan.target_reason in ("TargetSavesLess", "TargetOutgrown", "TargetFinished")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (Options(moves="gentle"), "TargetSettingsChanged"),
        (Options(move_price=1), "TargetSettingsChanged"),
        (Options(feature_gates=FeatureGates(spot_to_spot_consolidation=True)), "TargetSettingsChanged"),
        (Options(improve_iterations=7), "TargetContinued"),
    ],
)
def test_a_target_ends_with_the_settings_that_it_was_decided_under(options: Options, reason: str) -> None:
    snapshot, _ = under_way(half_full(8, at_once=2))
    assert disrupt(msgspec.structs.replace(snapshot, options=options)).target_reason == reason


def test_a_target_ends_where_a_pool_gets_its_own_price_of_moves() -> None:
    snapshot, _ = under_way(half_full(8, at_once=2))
    (pool,) = snapshot.node_pools
    gentle = msgspec.structs.replace(pool, own_annotations={labels.MOVES: "gentle"})
    plan = disrupt(msgspec.structs.replace(snapshot, node_pools=(gentle,)))
    assert plan.target_reason == "TargetSettingsChanged"
    assert plan.cost.lower_bound is not None


def reason_with(snapshot: Snapshot, **changes: Any) -> str:
    """What becomes of the target that is under way if it had been stored like this."""
    assert snapshot.stored_target is not None
    target = msgspec.structs.replace(snapshot.stored_target, **changes)
    return disrupt(msgspec.structs.replace(snapshot, stored_target=target)).target_reason


def test_a_target_leaves_the_nodes_that_it_does_not_drain_and_no_target_leaves_all() -> None:
    snapshot, _ = under_way(half_full(8, at_once=2))
    fleet, target = fleet_of(snapshot), snapshot.stored_target
    assert target is not None
    drained = {drain.node for drain in target.drains}
    assert kept_by(target, fleet).tolist() == [candidate.name not in drained for candidate in fleet.candidates]
    assert kept_by(None, fleet).all()


def test_a_target_is_followed_for_six_hours() -> None:
    snapshot, _ = under_way(half_full(8, at_once=2))
    six = snapshot.now - timedelta(hours=6)
    assert reason_with(snapshot, made_at=six) == "TargetContinued"
    assert reason_with(snapshot, made_at=six - timedelta(seconds=1)) == "TargetTooOld"


def test_what_stays_may_grow_by_a_tenth_of_what_all_nodes_cost() -> None:
    snapshot, plan = under_way(half_full(8, at_once=2))
    grown = plan.target.kept_price if plan.target else 0
    tenth = disrupt(snapshot).cost.before // 10
    assert reason_with(snapshot, kept_price=grown - tenth) == "TargetContinued"
    assert reason_with(snapshot, kept_price=grown - tenth - 1) == "TargetOutgrown"


def test_a_twentieth_of_the_saving_may_be_lost_on_the_way() -> None:
    """Prices waver; what nodes save that are gone already counts on neither side."""
    snapshot, _ = under_way(half_full(8, at_once=2))
    target = snapshot.stored_target
    assert target is not None
    assert target.new_price == 0, "what remains saves what its nodes cost"
    most = target.drained_price * 20 // 19
    assert reason_with(snapshot, drained_price=most) == "TargetContinued"
    assert reason_with(snapshot, drained_price=most + 1) == "TargetSavesLess"
    gone = StoredDrain("gone-since", 5 * most, 1)
    assert reason_with(snapshot, drains=(*target.drains, gone), drained_price=6 * most) == "TargetContinued"
    assert reason_with(snapshot, drains=(*target.drains, gone), drained_price=6 * most + 1) == "TargetSavesLess"


def at_once(snapshot: Snapshot) -> tuple[DisruptionPlan, StoredTarget]:
    """A plan and its target."""
    plan = disrupt(snapshot)
    assert plan.target is not None
    return plan, plan.target


def test_a_target_is_stored_with_its_prices_and_with_a_slot_for_each_pod_that_moves() -> None:
    """Some go to a node that exists, some to a new one; `other` is not part of any slot, for it stays where it is."""
    nodes = [a_node_of(LARGE, "a"), a_node_of(LARGE, "b"), a_node_of(MIDDLE, "c")]
    pods = [pod_on(name, f"{name}{n}", cpu="900m") for name in "ab" for n in range(3)]
    stays = pod_on("c", "other", cpu="100m", annotations={labels.DO_NOT_DISRUPT: "true"})
    plan, target = at_once(world(*nodes, pods=(*pods, stays)))
    moves = [move for command in plan.commands for move in command.moves]
    new = {claim.name: claim for command in plan.commands for claim in command.replacements}
    assert sorted(move.pod for move in moves) == [pod.key for pod in pods]
    assert target.made_at == plan.now
    assert {drain.node for drain in target.drains} == {"a", "b"}
    assert target.drained_price == sum(drain.price for drain in target.drains) == 2 * 800_000_000
    assert target.kept_price == 0, "c may not go, so nobody decided that it stays"
    assert target.new_price == sum(claim.price for claim in new.values())
    assert Counter({slot.node: slot.pods for slot in target.slots}) == Counter(m.to for m in moves if m.to == "c")
    stored_new = {node.name: sum(node.pods.values()) for node in target.new_nodes}
    assert stored_new == Counter(move.to for move in moves if move.to in new)
    assert all(drain.worth > 0 for drain in target.drains)


def test_the_next_best_command_goes_where_the_pods_of_the_best_find_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """One fleet stayed at twice its price: the best command was the only one that was tried."""
    tried: list[tuple[str, ...]] = []

    def refused_at_first(commands: list[Command], *_: object) -> Landing:
        if commands[0].method == "repack":
            return Landing(())
        tried.append(commands[0].nodes)
        return (
            Landing((), dict.fromkeys(commands[0].nodes, "default/p")) if len(tried) < 3 else Landing(tuple(commands))
        )

    monkeypatch.setattr(decide, "landed", refused_at_first)
    (command,) = disrupt(half_full(8, at_once=2)).commands
    assert command.nodes == tried[-1]
    assert len(set(tried)) == len(tried) == 3


def test_additional_nodes_cause_a_new_target() -> None:
    snapshot, _ = under_way(half_full(8, at_once=2))
    grown = half_full(12, at_once=2)
    more = {
        "nodes": (*snapshot.nodes, *grown.nodes[8:]),
        "node_claims": (*snapshot.node_claims, *grown.node_claims[8:]),
        "pods": (*snapshot.pods, *grown.pods[8:]),
    }
    assert disrupt(msgspec.structs.replace(snapshot, **more)).target_reason == "TargetOutgrown"


def test_a_plan_for_the_whole_sequence_follows_no_stored_target() -> None:
    snapshot, _ = under_way(half_full(8, at_once=2))
    plan = disrupt(msgspec.structs.replace(snapshot, options=Options(ignore_budgets=True)))
    assert plan.target_reason == "TargetMade"


def test_what_a_target_keeps_and_what_it_drains_is_all_that_could_have_gone() -> None:
    snapshot = half_full(8, at_once=2)
    plan, target = at_once(snapshot)
    assert target.settings == settings_digest(snapshot)
    assert target.kept_price > 0
    assert target.kept_price + target.drained_price == plan.cost.before


def test_exactly_the_share_that_may_be_lost_may_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of the promise, so that the amounts are whole."""
    monkeypatch.setattr(decide, "SAVING_LOST", (1, 5))
    snapshot, _ = under_way(half_full(8, at_once=2))
    assert snapshot.stored_target is not None
    promised, rest = divmod(snapshot.stored_target.drained_price * 5, 4)
    assert rest == 0
    assert reason_with(snapshot, drained_price=promised) == "TargetContinued"
    assert reason_with(snapshot, drained_price=promised + 1) == "TargetSavesLess"


def test_two_targets_are_joined_into_one_that_has_the_nodes_places_and_prices_of_both() -> None:
    """The older one says when it was made; what neither drains is what both keep."""
    fleet = fleet_of(half_full(4, at_once=2))
    each = fleet.prices[0]
    waiting = a_stored_target(
        StoredDrain("n0", 7, 3),
        settings="s",
        new_price=10,
        kept_price=1,
        slots=(StoredSlots("web", "n3", 1), StoredSlots("api", "n3", 2)),
        new_nodes=(StoredNewNode(name="x", pods={"web": 1}),),
    )
    made = a_stored_target(
        StoredDrain("n1", 5, 2),
        settings="t",
        new_price=100,
        kept_price=2,
        made_at=waiting.made_at + timedelta(1),
        slots=(StoredSlots("web", "n3", 4), StoredSlots("web", "n2", 8)),
        new_nodes=(StoredNewNode(name="y", pods={"api": 1}),),
    )
    assert joined(waiting, made, fleet) == StoredTarget(
        made_at=waiting.made_at,
        settings="s",
        drains=(StoredDrain("n0", 7, 3), StoredDrain("n1", 5, 2)),
        kept_price=2 * each,
        kept_by_pool={"default": 2 * each},
        drained_price=12,
        new_price=110,
        slots=(StoredSlots("api", "n3", 2), StoredSlots("web", "n2", 8), StoredSlots("web", "n3", 5)),
        new_nodes=(StoredNewNode(name="x", pods={"web": 1}), StoredNewNode(name="y", pods={"api": 1})),
    )
    assert joined(waiting, None, fleet) == waiting
    kept = {"kept_price": 3 * each, "kept_by_pool": {"default": 3 * each}}
    assert joined(None, made, fleet) == msgspec.structs.replace(made, **kept)
    assert joined(None, None, fleet) is None


BOTH = frozenset({("default", "Underutilized"), ("default", "Drifted")})


@pytest.mark.parametrize(
    ("leaving", "lost", "begun", "at_once", "changes", "expected"),
    [
        (("default-n0",), 0, False, "1", {}, BOTH),
        (("default-n0",), 0, False, "2", {}, frozenset()),
        ((), 1, False, "1", {}, frozenset()),
        ((), 1, True, "1", {}, BOTH),
        (("other-o",), 1, False, "1", {}, frozenset()),
        (("other-o", "default-n0"), 1, False, "2", {}, BOTH),
        (("default-n0",), 0, False, "1", {"made_at": NOW - TARGET_AGE_MAX}, BOTH),
        (("default-n0",), 0, False, "1", {"made_at": NOW - TARGET_AGE_MAX - timedelta(seconds=1)}, frozenset()),
        (("default-n0",), 0, False, "1", {"settings": "others"}, frozenset()),
        (("default-n0",), 0, False, "1", {"drains": (StoredDrain("n1", 1, 1), StoredDrain("o", 1, 1))}, frozenset()),
        (("default-n0",), 0, False, "1", None, frozenset()),
    ],
)
def test_a_target_waits_while_leaving_nodes_of_its_pools_use_up_all_budgets_that_it_needs(
    leaving: tuple[str, ...],
    lost: int,
    begun: bool,
    at_once: str,
    changes: dict[str, Any] | None,
    expected: frozenset[tuple[str, str]],
) -> None:
    """Budgets that broken nodes use up may stay closed for days; a target of other settings or of yesterday is replaced."""
    pools = (
        a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget(at_once),))),
        a_pool("other", ON_DEMAND, disruption=Disruption(budgets=(Budget("100%"),))),
    )
    pairs = [a_node_of(MIDDLE, f"n{n}") for n in range(3)] + [a_node_of(MIDDLE, "o", pool="other")]
    pairs += [a_node_of(MIDDLE, f"lost{n}", is_ready=False) for n in range(lost)]
    pods = tuple(pod_on(name) for name in ("n0", "n1", "n2", "o"))
    snapshot = world(*pairs, pods=pods, node_pools=pools, marked_for_deletion=leaving)
    target = None
    if changes is not None:
        target = a_stored_target("n1", **{"settings": settings_digest(snapshot), **changes})
    this_pass = DisruptionPass(msgspec.structs.replace(snapshot, stored_target=target))
    if begun:
        this_pass.commands = [Command(reason="Empty", method="emptiness", nodes=("x",), claims=("x",))]
    fleet = target_fleet(this_pass, target)
    assert fleet is not None
    assert awaited_budgets(this_pass, fleet) == expected
