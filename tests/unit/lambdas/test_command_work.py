"""Else commands of a large fleet are given up while their replacements are still being launched, or wait for ever."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.lifecycle.records import CommandPhase, CommandRecord
from core.model.plan import Command
from tests.fakes.lab import Lab, a_pending_pod

LATE = timedelta(minutes=11)


def a_late_command(lab: Lab, name: str, *claims: str, phase: CommandPhase = CommandPhase.REPLACING) -> CommandRecord:
    """A command about these claims that was decided eleven minutes ago."""
    at = lab.clock.now() - LATE
    command = Command(reason="Drifted", method="drift", nodes=claims, claims=claims)
    return CommandRecord(id=name, command=command, created_at=at, verify_at=at, phase_since=at, phase=phase)


@pytest.mark.parametrize(
    ("others", "phase", "is_done"),
    [
        (1, CommandPhase.REPLACING, False),
        (15_000, CommandPhase.REPLACING, True),
        (15_000, CommandPhase.VERIFYING, False),
    ],
)
def test_the_time_limit_counts_the_nodes_of_all_started_commands(
    others: int, phase: CommandPhase, is_done: bool
) -> None:
    """Karpenter: 80 ms for each node in the queue; what has not started is not in the queue."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    name = lab.claim.name
    commands = lab.app._stores.commands
    commands.add(a_late_command(lab, "late", name))
    names = tuple(f"other-{number}" for number in range(others))
    queued = a_late_command(lab, "queued", *names, phase=phase)
    commands.add(msgspec.structs.replace(queued, created_at=lab.clock.now(), verify_at=lab.clock.now() + LATE))
    lab.execute({"command": "late", "dueAt": lab.clock.now().isoformat()})
    assert commands.get("late") is None
    assert (lab.claim.deletion is not None) is is_done
