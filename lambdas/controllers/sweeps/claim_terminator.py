"""Begins the termination of claims for the sweeps, based on the current row instead of the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from adapters.brakes.ports import Brakes, skipped
from adapters.messages import work_on_claim
from adapters.ports import Clock, Queue
from adapters.run_report import RunReport
from adapters.store import ClaimStore
from core.brakes.brake import action_of
from core.lifecycle.draining.cancellation import VOLUNTARY, is_voluntary
from core.lifecycle.records import ClaimRecord
from core.reasons.termination import TerminationReason
from lambdas.controllers.node_lifecycle.claim_deletion import ClaimDeletion


class ClaimTerminator:
    """Begins terminations that brakes and budgets allow."""

    def __init__(self, claims: ClaimStore, deletion: ClaimDeletion, brakes: Brakes, work: Queue, clock: Clock) -> None:
        self._claims = claims
        self._deletion = deletion
        self._brakes = brakes
        self._work = work
        self._clock = clock

    def begin(
        self, name: str, reason: TerminationReason, message: str, report: RunReport, *, ends_at: datetime | None = None
    ) -> None:
        """Store that the claim must be removed, and request its next step; no error if it is gone or leaving. Raises PortError.

        A claim whose removal a brake stops is unchanged and reported. `ends_at`: until when the drain may wait for
        replacements.
        """
        record = self._staying(name, reason, report)
        if record is not None:
            self._deletion.begin(record, reason, message, report, ends_at=ends_at)
            self._work.send([work_on_claim(name, self._clock.now())])

    def begin_within(
        self,
        name: str,
        reason: TerminationReason,
        message: str,
        places: Callable[[], Mapping[str, int]],
        report: RunReport,
        *,
        ends_at: datetime | None = None,
    ) -> bool:
        """As `begin`, if the NodePool's budgets have a place for the claim; False if they have none.

        `places` is asked right before the place is taken, after the calls that read the claim and the brakes: a window may have
        opened during them.
        """
        record = self._staying(name, reason, report)
        if record is None:
            return True
        if not self._deletion.begin_within(record, reason, message, places(), report, ends_at=ends_at):
            return False
        self._work.send([work_on_claim(name, self._clock.now())])
        return True

    def _staying(self, name: str, reason: TerminationReason, report: RunReport) -> ClaimRecord | None:
        """Return the current claim, None if it is gone or leaving, or a brake stops the removal.

        A voluntarily leaving claim counts as staying if the reason is mandatory.
        """
        record = self._claims.get(name)
        if record is None:
            return None
        if record.deletion is not None and (reason in VOLUNTARY or not is_voluntary(record.deletion)):
            return None
        brake = self._brakes.engaged().stopping(action_of(reason), record.plan.node_pool)
        if brake is not None:
            skipped(brake, name, report)
            return None
        return record
