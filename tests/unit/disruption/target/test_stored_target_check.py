"""A target under way continues wave by wave, without a new search, as long as it is valid."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from core.disruption import disrupt
from core.disruption.apply_command import carried_out
from core.disruption.stored_targets import after_commands
from core.disruption.target.stored_target_check import AGE_MAX
from core.disruption.target.target_search import TargetSearch
from core.model.plan import DisruptionPlan
from core.model.snapshot import Options, Snapshot
from tests.unit.disruption.nodes_for_tests import pod_on
from tests.unit.disruption.target.fleets_for_tests import half_full

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
    assert plan.target_reason in ("TargetDearer", "TargetOutgrown", "TargetFinished")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"options": Options(moves="gentle")}, "TargetSettingsChanged"),
        ({}, "TargetTooOld"),
    ],
)
def test_changed_settings_and_age_end_a_target(changes: dict[str, Any], reason: str) -> None:
    snapshot, _ = under_way(half_full(8, at_once=2))
    assert snapshot.stored_target is not None
    if not changes:
        made_at = snapshot.now - AGE_MAX - timedelta(seconds=1)
        changes = {"stored_target": msgspec.structs.replace(snapshot.stored_target, made_at=made_at)}
    plan = disrupt(msgspec.structs.replace(snapshot, **changes))
    assert plan.target_reason == reason
    assert plan.cost.lower_bound is not None


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
