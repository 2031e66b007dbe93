"""Defines which savings are worth a move, and computes how long they take to pay for it (docs/adr/0150)."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from core.model.plan import Command
from core.reasons.termination import TerminationReason

BOTH_RUN: Final = timedelta(minutes=3)
"""How long both nodes are paid for: the replacement boots, then the old node drains and ends."""

RESTARTS: Final = timedelta(minutes=1)
"""How long moved pods do no work while their capacity is paid for: images are pulled and containers start."""

WORTHWHILE: Final = 20
"""Nodes are replaced by choice only if that saves at least 1/`WORTHWHILE` of their cost."""

_MINUTE: Final = timedelta(minutes=1)


def payback_minutes(command: Command) -> int | None:
    """Return the minutes, rounded up; None if nothing is saved or a node goes regardless of cost."""
    if command.savings <= 0 or command.reason not in (TerminationReason.EMPTY, TerminationReason.UNDERUTILIZED):
        return None
    launched = sum(claim.price for claim in command.replacements)
    moved = command.savings + launched if command.moves else 0
    # In nano-dollars an hour times minutes: (launched · BOTH_RUN + price of the nodes that go · RESTARTS) / savings.
    return -(-(launched * (BOTH_RUN // _MINUTE) + moved * (RESTARTS // _MINUTE)) // command.savings)
