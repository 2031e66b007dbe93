"""When `disrupt` decides: not before its last decisions are carried out, and not again for what has not changed."""

from __future__ import annotations

from core.reasons.command import CommandReason
from tests.fakes.lab import Lab, a_pending_pod
from tests.unit.lambdas.controllers.disruption.execution.test_command_validator import fleet


def test_nothing_more_is_decided_before_what_was_decided_is_validated() -> None:
    """A second look at the same idle nodes would spend the budgets again."""
    lab = fleet("1", nodes=2)
    lab.disrupt()
    before = set(lab.rows.commands)
    lab.clock.advance(minutes=1)
    lab.app.provisioning.record_change()
    report = lab.disrupt()
    assert [decision.reason for decision in report.decisions] == [CommandReason.COMMAND_PENDING]
    assert set(lab.rows.commands) == before


def test_what_has_not_changed_is_not_planned_again() -> None:
    """A plan of a large cluster takes seconds; what it found is known as long as nothing else is observed."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p", cpu="3"))
    lab.settle()
    lab.bind("p")
    lab.clock.advance(minutes=1)
    counted = []
    for cpu in ("3", "3", "2"):
        lab.kubernetes.put(a_pending_pod("p", cpu=cpu))
        lab.bind("p")
        lab.app.provisioning.record_change()
        counted.append(lab.disrupt().counts.get("unchanged", 0))
        lab.clock.advance(minutes=1)
    assert counted == [0, 1, 0]
