"""Commands are stored once the ledger has their decision, and checked when they are due."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from adapters.ledger.writer import LedgerWriter
from adapters.messages import work_on_command
from adapters.ports import ConflictError, DeniedError, PortError, TooLargeError, TransientError
from adapters.run_report import RunReport
from core.ledger.search_time import RecordedTime
from core.lifecycle.commands import VERIFY_AFTER
from core.lifecycle.records import CommandPhase
from core.model.plan import Command, DisruptionPlan
from core.reasons.command import CommandReason
from lambdas.controllers.approval.approvals import CommandsByApproval
from lambdas.controllers.disruption.command_writer import CommandWriter, command_id
from tests.builders import NOW, a_snapshot, a_stored_target
from tests.fakes.store import MemoryCommands, Rows
from tests.fakes.world import FakeClock, FakeQueue, MemoryObjects

EMPTY = Command(reason="Empty", method="emptiness", nodes=("n", "m"), claims=("c", "d"), savings=120_000_000)
UNHEALTHY = msgspec.structs.replace(EMPTY, reason="Unhealthy", method="repair")


class World:
    """The table, the queue and the ledger."""

    def __init__(self) -> None:
        self.clock, self.rows, self.work, self.report = FakeClock(NOW), Rows(), FakeQueue(), RunReport()
        self.bucket = MemoryObjects()
        ledger = LedgerWriter(self.bucket, "test", self.clock)
        self.writer = CommandWriter(MemoryCommands(self.rows), ledger, self.work, self.clock)

    def decide(self, *commands: Command) -> list[str]:
        """Write a decision with these commands to the ledger; return the ids of those that may be stored."""
        split = CommandsByApproval([(command.reason, command) for command in commands], [])
        plan = DisruptionPlan(now=NOW, commands=commands)
        time = RecordedTime(lambda: 0.0)
        found = self.writer.write_decision(a_snapshot(), plan, split, time, self.report)
        return [name for name, _ in found.startable]

    def refuse(self, error: PortError) -> None:
        def fail(call: str) -> None:
            if call == "write":
                raise error

        self.rows.before_call = fail


@pytest.fixture
def world() -> World:
    return World()


def test_a_command_is_stored_with_the_id_of_its_decision_and_checked_when_it_is_due(world: World) -> None:
    assert world.decide(EMPTY) == ["Empty"]
    world.writer.write("x", EMPTY, world.report)
    record = world.rows.commands["x"]
    assert (record.command, record.phase, record.decision) == (EMPTY, CommandPhase.VERIFYING, world.report.decision_id)
    assert (record.created_at, record.phase_since, record.verify_at) == (NOW, NOW, NOW + VERIFY_AFTER)
    assert world.work.sent == [(work_on_command("x", NOW), VERIFY_AFTER)]
    assert record.decision
    assert world.bucket.objects


def test_a_command_of_a_target_that_has_waited_is_checked_at_once(world: World) -> None:
    target = a_stored_target(*EMPTY.nodes, made_at=NOW - timedelta(minutes=5))
    world.writer.write("x", EMPTY, world.report, target)
    assert world.rows.commands["x"].verify_at == NOW
    assert [delay for _, delay in world.work.sent] == [timedelta(0)]


def test_each_node_is_reported_with_what_its_command_saves(world: World) -> None:
    world.writer.write("x", EMPTY, world.report)
    message = (
        "emptiness, saves 0.1200 USD/h with 0 replacements and 0 moved pods, paid for in 0 minutes, validated first"
    )
    assert [(one.kind, one.subject, one.reason, one.message) for one in world.report.decisions] == [
        ("disrupt", node, "Empty", message) for node in ("n", "m")
    ]


def test_a_command_that_an_earlier_attempt_stored_is_checked_too(world: World) -> None:
    """That attempt may have died before it requested the check."""
    world.refuse(ConflictError("dynamodb:PutItem", "exists"))
    world.writer.write("x", EMPTY, world.report)
    assert (world.report.decisions[0].kind, world.report.decisions[0].reason) == ("skip", CommandReason.ALREADY_DECIDED)
    assert len(world.work.sent) == 1


def test_a_command_that_is_too_large_is_reported_and_not_checked(world: World) -> None:
    world.refuse(TooLargeError("dynamodb:PutItem", "Item size has exceeded the maximum allowed size"))
    world.writer.write("x", EMPTY, world.report)
    assert [(one.kind, one.subject, one.reason) for one in world.report.decisions] == [
        ("skip", "x", CommandReason.COMMAND_REFUSED)
    ]
    assert (world.report.counts, world.work.sent) == ({"refusedCommands": 1}, [])


def test_a_command_that_may_not_be_stored_ends_the_run(world: World) -> None:
    """No command was ever stored without permission for the table or its key, and the runs succeeded."""
    world.refuse(DeniedError("dynamodb:PutItem", "AccessDeniedException: KMS key access denied"))
    with pytest.raises(DeniedError):
        world.writer.write("x", EMPTY, world.report)
    assert (world.report.counts, world.work.sent) == ({}, [])


def test_without_a_ledger_only_unhealthy_nodes_go(world: World) -> None:
    """A decision that nobody can look up later must not remove working nodes."""
    world.bucket.broken = TransientError("s3:PutObject", "503")
    assert world.decide(EMPTY, UNHEALTHY) == ["Unhealthy"]


def test_ids_differ_by_time_reason_and_nodes() -> None:
    others = [
        command_id(EMPTY, NOW + timedelta(seconds=1)),
        command_id(UNHEALTHY, NOW),
        command_id(msgspec.structs.replace(EMPTY, claims=("c",)), NOW),
    ]
    assert command_id(EMPTY, NOW) not in others
    assert command_id(EMPTY, NOW) == command_id(EMPTY, NOW)
    assert [len(name) for name in others] == [10] * 3


def test_whether_decisions_are_kept_is_known() -> None:
    """The proof of what the fleet would cost at least is computed for the ledger alone."""
    clock = FakeClock(NOW)
    for bucket, kept in ((MemoryObjects(), True), (None, False)):
        ledger = LedgerWriter(bucket, "test", clock)
        assert CommandWriter(MemoryCommands(Rows()), ledger, FakeQueue(), clock).keeps_decisions is kept
