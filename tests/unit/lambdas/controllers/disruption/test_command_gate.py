"""Commands that a brake stops, or that failed a while ago, are not stored."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from adapters.observation.cluster_state import ClusterState
from adapters.run_report import RunReport
from core.brakes.brake import Brake, BrakeKind, EngagedBrakes
from core.disruption.move_history import FIRST_PAUSE
from core.model.plan import Command
from lambdas.controllers.disruption.command_gate import CommandGate
from tests.builders import NOW, a_snapshot
from tests.fakes.store import MemoryMoves, Rows
from tests.unit.lifecycle.records_for_tests import a_command, a_plan, a_record


def command(name: str, reason: str = "Underutilized") -> Command:
    return Command(reason=reason, method="single", nodes=(f"n-{name}", "m"), claims=(name,))


A, B = command("a"), command("b")
RECORDS = tuple(
    msgspec.structs.replace(a_record(), name=name, plan=a_plan(node_pool=pool))
    for name, pool in (("a", "one"), ("b", "two"), ("c", "one"))
)


def admitted(
    *commands: Command,
    brakes: tuple[Brake, ...] = (),
    rows: Rows | None = None,
    under_way: tuple[Command, ...] = (),
    later: timedelta = timedelta(0),
) -> tuple[list[Command], RunReport]:
    report = RunReport()
    view = ClusterState(
        snapshot=a_snapshot(),
        claims={},
        commands=tuple(a_command(command=one) for one in under_way),
        node_pools={},
        node_classes={},
    )
    gate = CommandGate(MemoryMoves(rows or Rows()))
    return list(gate.admit(commands, view, RECORDS, EngagedBrakes(brakes), NOW + later, report)), report


def test_commands_that_nothing_stops_are_admitted_in_order() -> None:
    found, report = admitted(B, A)
    assert found == [B, A]
    assert report.decisions == []


def test_a_brake_of_a_pool_stops_commands_about_its_nodes() -> None:
    found, report = admitted(A, B, brakes=(Brake(BrakeKind.PAUSE, "paused", node_pool="one"),))
    assert found == [B]
    (decision,) = report.decisions
    assert (decision.kind, decision.subject, decision.reason) == ("skip", "n-a, m", BrakeKind.PAUSE)


def test_a_brake_stops_a_command_of_which_one_claim_is_in_its_pool() -> None:
    both = Command(reason="Underutilized", method="multi", nodes=("x", "y"), claims=("b", "a"))
    found, _ = admitted(both, brakes=(Brake(BrakeKind.PAUSE, "paused", node_pool="one"),))
    assert found == []


def test_a_half_open_breaker_stops_repair_and_admits_one_other_command_at_a_time() -> None:
    probe = Brake(BrakeKind.POOL_PROBE, "half open", node_pool="one")
    found, _ = admitted(command("a", "Unhealthy"), A, command("c"), B, brakes=(probe,))
    assert found == [A, B]
    found, _ = admitted(A, B, brakes=(probe,), under_way=(command("c"),))
    assert found == [B]


def test_a_command_that_failed_its_validation_waits() -> None:
    rows = Rows()
    moves = MemoryMoves(rows)
    moves.write(moves.read(NOW).after_failure(A, NOW), NOW)
    found, report = admitted(A, B, rows=rows)
    assert found == [B]
    (decision,) = report.decisions
    assert (decision.subject, decision.reason) == ("n-a, m", "FailedBefore")
    assert admitted(A, rows=rows, later=FIRST_PAUSE)[0] == [A]


def test_without_commands_no_history_is_read() -> None:
    """An idle run reads as little as it can."""
    rows, calls = Rows(), list[str]()
    rows.before_call = calls.append
    assert (admitted(rows=rows)[0], calls) == ([], [])
