"""A rollout that fails is stored, reported and stopped."""

from __future__ import annotations

from datetime import timedelta

import pytest

from adapters.observation.cluster_state import ClusterState
from adapters.run_report import RunReport
from core.disruption.move_history import MoveHistory
from core.disruption.rollouts import Rollout
from core.lifecycle import steps
from core.lifecycle.facts import CommandFacts
from core.model.plan import Command
from core.model.snapshot import Snapshot
from core.reasons.command import CommandReason
from core.reasons.termination import TerminationReason
from installation.metric_names import ROLLOUTS_STOPPED
from lambdas.controllers.disruption.rollout_gates import failed_rollouts, with_rollouts
from tests.builders import NOW, a_node_of
from tests.fakes.store import MemoryMoves, Rows
from tests.unit.disruption.nodes_for_tests import SMALL, drifted, pod_on, world
from tests.unit.lifecycle.records_for_tests import a_command, a_record

GOING = Rollout(node_pool="default", target="t", started_at=NOW - timedelta(hours=1))


def view_of(snapshot: Snapshot) -> ClusterState:
    return ClusterState(snapshot=snapshot, claims={}, commands=(), node_pools={}, node_classes={})


def after(
    reason: CommandReason, *, command_reason: str = TerminationReason.DRIFTED, known: Rollout = GOING
) -> Rollout | None:
    """The stored rollout of the pool after a command was given up for the reason."""
    rows = Rows()
    rows.moves = MoveHistory(rollouts={known.node_pool: known})
    command = Command(reason=command_reason, method="drift", nodes=("n", "gone"), claims=("c", "gone"))
    facts = CommandFacts(claims={"c": a_record()})
    step = steps.Abandon(reason, "no replacement came")
    failed_rollouts(MemoryMoves(rows), a_command(command=command), facts, step, NOW)
    return rows.moves.rollouts.get("default")


@pytest.mark.parametrize("reason", [CommandReason.TIMEOUT, CommandReason.REPLACEMENT_LOST])
def test_replacements_that_do_not_come_stop_the_rollout(reason: CommandReason) -> None:
    found = after(reason)
    assert found is not None
    assert (found.failures, found.is_stopped(NOW)) == (1, True)
    assert found.message == "command x: no replacement came"


def test_other_commands_and_other_ends_do_not() -> None:
    assert after(CommandReason.BUDGET_SPENT) == GOING
    assert after(CommandReason.TIMEOUT, command_reason=TerminationReason.UNDERUTILIZED) == GOING


def test_a_pool_without_a_rollout_gets_none() -> None:
    other = Rollout(node_pool="other", target="t", started_at=NOW)
    assert after(CommandReason.TIMEOUT, known=other) is None


def test_a_new_rollout_is_stored_once_and_lets_one_node_go() -> None:
    rows, report = Rows(), RunReport()
    writes: list[str] = []
    rows.before_call = lambda call: writes.append(call) if call == "write" else None
    pair = drifted(a_node_of(SMALL))
    view = view_of(world(pair, pods=(pod_on("node-1"),)))
    found = with_rollouts(MemoryMoves(rows), view, report)
    gate = found.snapshot.rollouts["default"]
    assert (gate.allowed, gate.is_stopped) == (1, False)
    assert rows.moves.rollouts["default"].started_at == NOW
    with_rollouts(MemoryMoves(rows), view, report)
    assert writes == ["write"]
    assert (report.counts, report.decisions) == ({}, [])


def test_a_stopped_rollout_is_reported() -> None:
    rows, report = Rows(), RunReport()
    view = view_of(world(drifted(a_node_of(SMALL)), pods=(pod_on("node-1"),)))
    with_rollouts(MemoryMoves(rows), view, RunReport())
    failed = rows.moves.rollouts["default"].after_failure("command x: late", NOW)
    rows.moves = MoveHistory(rollouts={"default": failed})
    found = with_rollouts(MemoryMoves(rows), view, report)
    assert found.snapshot.rollouts["default"].is_stopped
    assert report.counts == {ROLLOUTS_STOPPED: 1}
    (decision,) = report.decisions
    assert (decision.kind, decision.subject, decision.reason) == ("skip", "default", "RolloutStopped")
    assert decision.message == found.snapshot.rollouts["default"].message


def test_without_drift_the_view_is_the_same_object() -> None:
    view = view_of(world(a_node_of(SMALL)))
    assert with_rollouts(MemoryMoves(Rows()), view, RunReport()) is view
