"""One target for all nodes, and the moves of it that may begin now; the cases are those that users ask for."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.consolidation.payback import WORTHWHILE
from core.disruption.stored_targets import after_commands
from core.model.catalogue import Catalogue
from core.model.node_pool import BALANCED, Budget, Disruption
from core.model.plan import DisruptionPlan
from core.model.pod import TopologySpread
from core.model.snapshot import Options, Snapshot
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.unit.disruption.nodes_for_tests import (
    KARPENTER,
    MIDDLE,
    ON_DEMAND,
    SMALL,
    blocked,
    checked,
    drifted,
    pod_on,
    world,
)
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY


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
        return {one.node: one.savings for one in plan.blocked if one.reason == "Budget"}

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
