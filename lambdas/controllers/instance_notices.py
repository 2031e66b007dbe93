"""Handles notices that `interrupt` passes on: about instances without a claim, and about ends of instances that never joined.

A claim that the table has lost, or whose row cannot be read, is first rebuilt from its instance's tags. `reconcile` rebuilds
lost claims too, but without the notice: a spot instance would end before its pods were evicted. For an instance that never
joined, launches learn why it ended.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from adapters.messages import InstanceNotice
from adapters.observation.observer import Observer
from adapters.ports import Clock, CloudProvider
from adapters.run_report import RunReport
from adapters.store import ClaimStore, UnreadableRow, UnreadableRowError
from core.launch.denials import termination_reason
from core.lifecycle.records import ClaimRecord
from core.reasons.code import DecisionKind, TerminationReason
from core.reasons.runs import RunReason
from lambdas.controllers.interruption import Interruption, Interruptions, has_ended_early
from lambdas.controllers.launch_answers import FailedStarts
from lambdas.controllers.sweeps.rebuilding import Rebuilding, untracked

_WITHIN_MINUTES: Final = frozenset({TerminationReason.SPOT_INTERRUPTED, TerminationReason.RESERVATION_INTERRUPTED})
"""Reasons of instances that end before a person could correct a row; a row that others wait for is left alone."""


class InstanceNotices:
    """Rebuilds the claim of an instance if it is missing, and begins its removal for the reason of the notice."""

    def __init__(
        self,
        cloud: CloudProvider,
        observer: Observer,
        claims: ClaimStore,
        rebuilding: Rebuilding,
        failed_starts: FailedStarts,
        interruptions: Interruptions,
        clock: Clock,
    ) -> None:
        self._cloud = cloud
        self._observer = observer
        self._claims = claims
        self._rebuilding = rebuilding
        self._failed_starts = failed_starts
        self._interruptions = interruptions
        self._clock = clock

    def act(self, notice: InstanceNotice, report: RunReport) -> None:
        """Rebuild the claim unless it exists by now, and act on the notice. Raises PortError; all steps can be repeated."""
        unreadable: UnreadableRow | None = None
        try:
            record = self._claims.of_instance(notice.instance_id)
        except UnreadableRowError as error:
            if notice.reason not in _WITHIN_MINUTES:
                report.decide(DecisionKind.SKIP, error.row.name, RunReason.CANNOT_BE_READ, error.row.problem)
                return
            record, unreadable = None, error.row
        if record is None:
            self._rebuild(notice, unreadable, report)
            record = self._claims.of_instance(notice.instance_id)
        if record is not None:
            self._interruptions.act(record, self._interruption(notice, record, report), report)

    def _interruption(self, notice: InstanceNotice, record: ClaimRecord, report: RunReport) -> Interruption:
        """Return the interruption of the notice, and for an instance that never joined, EC2's reason for its end."""
        announced = Interruption(notice.reason, (notice.instance_id,), notice.ends_at)
        if not has_ended_early(record, notice.reason):
            return announced
        end = self._failed_starts.learn(record, report)
        if end is None:
            return announced
        reason = termination_reason(end) or notice.reason
        return Interruption(reason, announced.instance_ids, None, end.said)

    def _rebuild(self, notice: InstanceNotice, unreadable: UnreadableRow | None, report: RunReport) -> None:
        """Store a claim for the instance; if that is impossible, report why and leave it to `reconcile`.

        `unreadable` is the row of its claim if that cannot be read; only a claim that can be rebuilt replaces it.
        """
        # Instances are read before claims: a claim that is missing then is really gone.
        instances = self._cloud.instances([notice.instance_id])
        view = self._observer.observe_without_pods()
        for record in view.claims.values():
            if record.instance_id == notice.instance_id:
                self._claims.index(record)
        row_name = unreadable and unreadable.name
        others = tuple(row for row in view.unreadable_rows if not row.is_claim or row.name != row_name)
        judged = msgspec.structs.replace(view, unreadable_rows=others)
        strays = untracked(instances, judged, self._clock.now(), min_age=timedelta(0))
        for instance, claim in strays.awaited:
            self._rebuilding.adopt(instance, claim, view, report)
        for unclaimed in strays.unclaimed:
            if unclaimed.problem:
                report.decide(DecisionKind.SKIP, notice.instance_id, notice.reason, unclaimed.problem)
                continue
            if unreadable:
                message = (
                    f"instance {notice.instance_id} ends within minutes, so the row is replaced: {unreadable.problem}"
                )
                report.decide(DecisionKind.SKIP, unreadable.name, RunReason.CANNOT_BE_READ, message)
                self._claims.discard_unreadable(unreadable.name)
            self._rebuilding.rebuild(unclaimed, view, report)
