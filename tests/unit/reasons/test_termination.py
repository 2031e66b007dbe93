"""Termination reasons in rows of other versions."""

from __future__ import annotations

from core.brakes.brake import Action, action_of
from core.lifecycle.draining.cancellation import VOLUNTARY
from core.reasons.termination import BUDGETED, TerminationReason


def test_reasons_stored_by_another_version_can_be_read() -> None:
    assert TerminationReason.stored("Expired") is TerminationReason.EXPIRED
    assert TerminationReason.stored("FromTheFuture") is TerminationReason.OTHER


def test_an_unknown_reason_is_mandatory() -> None:
    """Only voluntary disruptions wait for brakes and budgets."""
    assert TerminationReason.OTHER not in VOLUNTARY
    assert action_of(TerminationReason.OTHER) is Action.EVACUATE
    assert all(action_of(reason) is Action.DISRUPT for reason in BUDGETED)
