"""Requeues stalled claims and commands: their message may be lost, or they wait for something slow."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from adapters.messages import LAUNCHES_A_MESSAGE, work_on_claims, work_on_command
from adapters.observation.stores import Stores
from adapters.ports import Queue
from core.lifecycle.records import ClaimRecord
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep

STALLED_AFTER: Final = timedelta(minutes=1)

COMMAND_CHECKED_FOR: Final = timedelta(minutes=2)
"""How long a command's chain of checks from here lasts: until the next round begins another. A claim's chain may last longer,
since it replaces the previous one."""


class Requeue(Sweep):
    """Requests their next step."""

    name = "stalled"
    is_urgent = True

    def __init__(self, stores: Stores, work: Queue) -> None:
        self._stores = stores
        self._work = work

    def run(self, round_: ReconcileRound) -> None:
        """Send messages about them; this needs only the rows, so it works even if the observation fails."""
        if round_.saw_no_rows():
            return  # a row that was stored since is too recent
        now = round_.clock.now()
        stalled = [
            record
            for record in self._stores.claims.all()
            if not record.is_settled and _is_stalled(_last_moved(record), now)
        ]
        commands = [record for record in self._stores.commands.all() if _is_stalled(record.phase_since, now)]
        names = [record.name for record in stalled]
        self._work.send(work_on_claims(names, now, at_most=LAUNCHES_A_MESSAGE))
        self._work.send(work_on_command(record.id, now, checked_for=COMMAND_CHECKED_FOR) for record in commands)
        round_.report.count("resumed", len(stalled) + len(commands))


def _is_stalled(since: datetime, now: datetime) -> bool:
    """Whether a minute has passed; a moment that is more than a minute ahead is of a wrong clock, and says nothing."""
    return abs(now - since) >= STALLED_AFTER


def _last_moved(record: ClaimRecord) -> datetime:
    return max(record.phase_since, record.deletion.asked_at) if record.deletion else record.phase_since
