"""A target that waits for budgets keeps only nodes of these; others go on beside it, and both are one target afterwards."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core import labels
from core.disruption import disrupt
from core.disruption.commands.apply_command import carried_out
from core.disruption.stored_targets import after_commands
from core.model.node_pool import Budget, Disruption
from core.model.plan import DisruptionPlan, StoredNewNode
from core.model.pod import Owner
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from tests.builders import a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, ON_DEMAND, SMALL, drifted, pod_on
from tests.unit.disruption.target.fleets_for_tests import half_full
from tests.unit.disruption.target.test_stored_target_check import under_way

ROUNDS_MAX = 10
OTHER = (Owner("ReplicaSet", "other"),)
POOLS = tuple(a_pool(name, ON_DEMAND, disruption=Disruption(budgets=(Budget("2"),))) for name in ("default", "other"))


def beside(snapshot: Snapshot, *, nodes: int, blocked_in: str = "default") -> Snapshot:
    """The cluster with half-full nodes of another NodePool, two of which may go at a time, and a node whose drain is blocked.

    Two nodes that are not ready take the rest of the first NodePool's budget.
    """
    leaving = a_node_of(SMALL, "leaving", pool=blocked_in)
    lost = [a_node_of(MIDDLE, name, is_ready=False) for name in ("x", "y")]
    more = [a_node_of(MIDDLE, f"o{n}", pool="other") for n in range(nodes)]
    pairs = [leaving, *lost, *more]
    guard = pod_on("leaving", cpu="900m", annotations={labels.DO_NOT_DISRUPT: "true"})
    return msgspec.structs.replace(
        snapshot,
        nodes=(*snapshot.nodes, *(node for _, node in pairs)),
        node_claims=(*snapshot.node_claims, *(claim for claim, _ in pairs)),
        pods=(*snapshot.pods, guard, *(pod_on(f"o{n}", cpu="400m", owners=OTHER) for n in range(nodes))),
        marked_for_deletion=(leaving[0].name,),
    )


def blocked(*, nodes: int, blocked_in: str = "default") -> Snapshot:
    """A stored target of one NodePool that a blocked drain keeps from going on."""
    return beside(under_way(half_full(8, at_once=2, node_pools=POOLS))[0], nodes=nodes, blocked_in=blocked_in)


def without_blocked(snapshot: Snapshot) -> Snapshot:
    """The same after the drain has ended, without the nodes that were not ready."""
    ended = ("leaving", "x", "y")
    return msgspec.structs.replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.name not in ended),
        node_claims=tuple(claim for claim in snapshot.node_claims if claim.node_name not in ended),
        pods=tuple(pod for pod in snapshot.pods if pod.node_name not in ended),
        marked_for_deletion=(),
    )


def gone(plan: DisruptionPlan) -> set[str]:
    """The nodes of its commands."""
    return {node for command in plan.commands for node in command.nodes}


@pytest.mark.parametrize("blocked_in", ["default", "other"])
@pytest.mark.parametrize("later", [timedelta(0), timedelta(hours=5), timedelta(hours=6, seconds=1)])
def test_a_blocked_drain_keeps_no_node_of_other_pools(later: timedelta, blocked_in: str) -> None:
    """A drain may be blocked for days, and nodes of pools that the target does not drain waited for up to six hours."""
    snapshot = blocked(nodes=4, blocked_in=blocked_in)
    plan = disrupt(msgspec.structs.replace(snapshot, now=snapshot.now + later))
    assert gone(plan)
    assert all(name.startswith("o") for name in gone(plan))


def test_a_blocked_drain_of_drifted_nodes_keeps_no_node_of_other_pools_where_no_target_is_stored() -> None:
    """Nothing bounded that time: only a stored target gets too old."""
    snapshot = beside(half_full(3, at_once=2, node_pools=POOLS), nodes=4)
    claims, nodes = snapshot.node_claims, snapshot.nodes
    outdated = drifted((claims[0], nodes[0]))
    plan = disrupt(msgspec.structs.replace(snapshot, node_claims=(outdated[0], *claims[1:])))
    assert gone(plan)
    assert all(name.startswith("o") for name in gone(plan))
    assert plan.target is not None
    assert {drain.node for drain in plan.target.drains} >= gone(plan)


def one_drifted(snapshot: Snapshot, *budgets: Budget) -> Snapshot:
    """The cluster after its first node has drifted, with these budgets of the first NodePool."""
    claims, nodes = snapshot.node_claims, snapshot.nodes
    outdated = drifted((claims[0], nodes[0]))
    pool = msgspec.structs.replace(snapshot.node_pools[0], disruption=Disruption(budgets=budgets or (Budget("2"),)))
    return msgspec.structs.replace(
        snapshot, node_claims=(outdated[0], *claims[1:]), node_pools=(pool, *snapshot.node_pools[1:])
    )


@pytest.mark.parametrize("others", [0, 4])
@pytest.mark.parametrize("later", [timedelta(0), timedelta(hours=48)])
def test_a_blocked_drain_keeps_no_node_whose_reason_has_a_budget(later: timedelta, others: int) -> None:
    """One drifted node without a place in the budget for Drifted stopped all consolidation of its NodePool, with no end."""
    budgets = (Budget("1", reasons=("Drifted",)), Budget("100%"))
    snapshot = one_drifted(beside(half_full(6, at_once=2, node_pools=POOLS), nodes=others), *budgets)
    snapshot = msgspec.structs.replace(snapshot, now=snapshot.now + later)
    moves, order = list[str](), list[str]()
    for turn in range(ROUNDS_MAX):
        plan = disrupt(snapshot)
        assert turn == 0 or plan.target_reason == "TargetContinued"
        if not plan.commands:
            break
        moves += [move.pod for command in plan.commands for move in command.moves]
        order += sorted(gone(plan))
        assert plan.target is not None
        rest = after_commands(plan.target, plan.commands, snapshot.pods, {})
        snapshot = msgspec.structs.replace(carried_out(snapshot, *plan.commands), stored_target=rest)
    assert {name[0] for name in order} - {"x", "y"} == ({"n", "o"} if others else {"n"})
    assert "n0" not in order
    assert len(moves) == len(set(moves))


@pytest.mark.parametrize("is_stored", [True, False])
def test_nodes_that_wait_say_for_which_nodes(*, is_stored: bool) -> None:
    """They were told that no place for their pods costs less, though none was looked for."""
    fleet = half_full(3, at_once=2, node_pools=POOLS)
    plan = disrupt(blocked(nodes=0) if is_stored else one_drifted(beside(fleet, nodes=0)))
    waiting = [block for block in plan.blocked if block.reason == "TargetWaits"]
    assert waiting
    assert all(
        block.message.startswith("nothing is decided about it while the current target waits") for block in waiting
    )
    assert all("NodePool default" in block.message and "leaving" in block.message for block in waiting)
    assert all(block.reason != "NoCheaperOption" for block in plan.blocked)


def test_what_goes_beside_a_waiting_target_leaves_its_nodes_and_places_as_they_are() -> None:
    snapshot = blocked(nodes=4)
    waiting = snapshot.stored_target
    assert waiting is not None
    reserved = {drain.node for drain in waiting.drains} | {slot.node for slot in waiting.slots}
    assert reserved
    plan = disrupt(snapshot)
    assert not reserved & ({move.to for command in plan.commands for move in command.moves} | gone(plan))
    assert plan.target is not None
    assert set(waiting.drains) < set(plan.target.drains)
    assert set(waiting.slots) < set(plan.target.slots)
    assert plan.target.made_at == waiting.made_at
    assert plan.target.saving > waiting.saving
    later = {drain.node for drain in plan.target.drains} - {drain.node for drain in waiting.drains} - gone(plan)
    saved = {block.node: block.savings for block in plan.blocked}
    assert later
    assert {name: saved[name] for name in later} == dict.fromkeys(later, MIDDLE.offerings[0].price)


def test_both_are_one_target_that_is_followed_to_its_end_and_no_pod_moves_twice() -> None:
    """First the other pool's waves, beside the blocked drain; once that has ended, the waves that waited."""
    snapshot = blocked(nodes=8)
    assert snapshot.stored_target is not None
    moves, order = list[str](), list[str]()
    for _ in range(ROUNDS_MAX):
        plan = disrupt(snapshot)
        if plan.target is None:
            break
        assert plan.target_reason == "TargetContinued"
        moves += [move.pod for command in plan.commands for move in command.moves]
        order += sorted(gone(plan))
        rest = after_commands(plan.target, plan.commands, snapshot.pods, {})
        snapshot = msgspec.structs.replace(carried_out(snapshot, *plan.commands), stored_target=rest)
        if not plan.commands:
            snapshot = without_blocked(snapshot)
    assert order == [*(f"o{n}" for n in range(8)), *(f"n{n}" for n in range(2, 7))]
    assert len(moves) == len(set(moves))


def test_a_target_beside_drifted_nodes_that_wait_is_followed_wave_by_wave() -> None:
    """The nodes that waited counted as grown, so the target was planned again in the next pass."""
    snapshot = one_drifted(beside(half_full(16, at_once=2, node_pools=POOLS), nodes=12))
    first = disrupt(snapshot)
    assert first.target is not None
    rest = after_commands(first.target, first.commands, snapshot.pods, {})
    second = disrupt(msgspec.structs.replace(carried_out(snapshot, *first.commands), stored_target=rest))
    assert second.target_reason == "TargetContinued"
    assert gone(second)


def test_new_nodes_of_both_targets_have_names_of_their_own() -> None:
    """Two large nodes of the other pool become one new one; the waiting target has new nodes of the same pool."""
    snapshot = blocked(nodes=0)
    pairs = [a_node_of(LARGE, f"b{n}", pool="other") for n in range(2)]
    own = {"node_selector": (Requirement.one_of(labels.NODEPOOL, "other"),), "owners": OTHER}
    pods = (pod_on(f"b{n}", f"b{n}-{m}", cpu="900m", **own) for n in range(2) for m in range(2))
    assert snapshot.stored_target is not None
    planned = tuple(StoredNewNode(name=f"other-{n}", pods={}) for n in range(2))
    plan = disrupt(
        msgspec.structs.replace(
            snapshot,
            nodes=(*snapshot.nodes, *(node for _, node in pairs)),
            node_claims=(*snapshot.node_claims, *(claim for claim, _ in pairs)),
            pods=(*snapshot.pods, *pods),
            stored_target=msgspec.structs.replace(snapshot.stored_target, new_nodes=planned),
        )
    )
    assert gone(plan) == {"b0", "b1"}
    assert [claim.name for command in plan.commands for claim in command.replacements] == ["other-2"]
    assert plan.target is not None
    assert [node.name for node in plan.target.new_nodes] == ["other-0", "other-1", "other-2"]
