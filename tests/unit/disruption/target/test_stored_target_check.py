"""A target under way continues wave by wave, without a new search, as long as it is valid."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.commands.apply_command import carried_out
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.stored_targets import after_commands
from core.disruption.target import stored_target_check
from core.disruption.target.move_price import settings_digest
from core.disruption.target.stored_target_check import awaited_budgets, joined, kept_by
from core.disruption.target.target_fleet import target_fleet
from core.disruption.target.target_search import TargetSearch
from core.model.node_pool import Budget, Disruption
from core.model.plan import Command, DisruptionPlan, StoredDrain, StoredNewNode, StoredSlots, StoredTarget
from core.model.policy import PodDisruptionBudget
from core.model.snapshot import TARGET_AGE_MAX, FeatureGates, Options, Snapshot
from tests.builders import NOW, a_node_of, a_pool, a_selector, a_stored_target
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, ON_DEMAND, drifted, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import fleet_of, half_full

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
    monkeypatch.setattr(stored_target_check, "SAVING_LOST", (1, 5))
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
        drained_price=12,
        new_price=110,
        slots=(StoredSlots("api", "n3", 2), StoredSlots("web", "n2", 8), StoredSlots("web", "n3", 5)),
        new_nodes=(StoredNewNode(name="x", pods={"web": 1}), StoredNewNode(name="y", pods={"api": 1})),
    )
    assert joined(waiting, None, fleet) == waiting
    assert joined(None, made, fleet) == msgspec.structs.replace(made, kept_price=3 * each)
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
