"""Maps a claim's next steps to the actions that a brake may stop."""

from __future__ import annotations

from core.brakes.brake import Action, action_of
from core.lifecycle.records import ClaimRecord
from core.lifecycle.steps import BeginTermination, ClaimStep, Drain, Launch, TaintNode, TerminateInstance


def action_of_step(record: ClaimRecord, step: ClaimStep) -> Action | None:
    """Return the action of `step`; None for steps that no brake stops, since they complete what has ended or already works."""
    if isinstance(step, Launch):
        return Action.LAUNCH
    if isinstance(step, BeginTermination):
        return action_of(step.reason)
    if record.deletion is None or not isinstance(step, TaintNode | Drain | TerminateInstance):
        return None
    has_begun = record.deletion.tainted_at is not None or record.deletion.terminated_at is not None
    return Action.DRAIN if has_begun else action_of(record.deletion.reason)
