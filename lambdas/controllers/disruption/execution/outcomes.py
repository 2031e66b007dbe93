"""Builds the outcome of a command for the ledger."""

from __future__ import annotations

from datetime import datetime

from core.ledger.outcome import DecisionOutcome, OutcomeState
from core.lifecycle.records import CommandRecord


def done(record: CommandRecord, now: datetime) -> DecisionOutcome:
    """Return the outcome of a command whose replacements are ready and whose nodes go."""
    return DecisionOutcome(
        decision=record.decision, part=record.id, state=OutcomeState.DONE, at=now, reason=record.command.reason
    )


def abandoned(record: CommandRecord, reason: str, message: str, now: datetime) -> DecisionOutcome:
    """Return the outcome of an abandoned command, whose nodes stay."""
    return DecisionOutcome(
        decision=record.decision, part=record.id, state=OutcomeState.ABANDONED, at=now, reason=reason, message=message
    )
