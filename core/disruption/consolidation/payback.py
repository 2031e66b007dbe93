"""How long the savings of a command take to pay for the move itself (docs/adr/0150)."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from core.model.plan import Command
from core.reasons.termination import TerminationReason

BOTH_RUN: Final = timedelta(minutes=3)
"""How long a replacement is paid for beside the node that it replaces: it boots, then that node drains and ends."""

RESTARTS: Final = timedelta(minutes=1)
"""How long pods that move do no work: images are pulled and containers start, and what they ran on is paid for meanwhile."""

_MINUTE: Final = timedelta(minutes=1)


def payback_minutes(command: Command) -> int | None:
    """Return the minutes, rounded up; None where nothing is saved or a node goes whatever it costs."""
    if command.savings <= 0 or command.reason not in (TerminationReason.EMPTY, TerminationReason.UNDERUTILIZED):
        return None
    launched = sum(claim.price for claim in command.replacements)
    moved = command.savings + launched if command.moves else 0
    # In nano-dollars an hour times minutes: (launched · BOTH_RUN + price of the nodes that go · RESTARTS) / savings.
    return -(-(launched * (BOTH_RUN // _MINUTE) + moved * (RESTARTS // _MINUTE)) // command.savings)
