"""Launches the claims of a plan, and requests the next check of each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from adapters.messages import LAUNCHES_A_MESSAGE, work_on_claims
from adapters.observation.cluster_state import ClusterState
from adapters.ports import Clock, Queue
from adapters.run_report import RunReport
from core.lifecycle.claims import BOOT_AT_LEAST
from core.lifecycle.records import ClaimRecord
from lambdas.controllers.boundary import Boundary
from lambdas.controllers.launching.parallel_launches import LaunchResults, ParallelLaunches
from lambdas.controllers.provisioning.pending_work import is_unlaunched

TRY_AGAIN: Final = timedelta(seconds=2)
"""Delay after a launch whose answer is unknown, or not stored."""


class PlanLaunches:
    """Launches as many claims as time permits; `execute` gets the others."""

    def __init__(self, launches: ParallelLaunches, work: Queue, clock: Clock) -> None:
        self._launches = launches
        self._work = work
        self._clock = clock

    def hand_over(self, view: ClusterState, report: RunReport) -> None:
        """Hand claims that an earlier run stored and did not launch to `execute`; their pods are not planned again."""
        stored = [record.name for record in view.claims.values() if is_unlaunched(record)]
        self._work.send(work_on_claims(stored, self._clock.now(), at_most=LAUNCHES_A_MESSAGE))
        report.count("handedOver", len(stored))

    def launch(
        self, records: Sequence[ClaimRecord], view: ClusterState, report: RunReport, deadline: datetime
    ) -> list[str]:
        """Launch as many as time permits; `execute` launches the others. Return the names of those that EC2 refused."""
        found = self._launches.launch(records, view.node_classes, view.snapshot.catalogue, report, deadline)
        self._request_runs(found, Boundary(report))
        return found.refused

    def _request_runs(self, found: LaunchResults, boundary: Boundary) -> None:
        """Send one message for all claims whose next step is at the same time, so that they are checked together."""
        now = self._clock.now()
        booting = [claim for claim in found.launched if claim.machine is not None]
        unclear = [*found.unclear, *(claim.name for claim in found.launched if claim.machine is None)]
        first = min((claim.phase_since for claim in booting), default=now)
        boot = max(timedelta(0), first + BOOT_AT_LEAST - now)
        for messages, delay in (
            (work_on_claims(found.left, now, at_most=LAUNCHES_A_MESSAGE), timedelta(0)),
            (work_on_claims(unclear, now, at_most=LAUNCHES_A_MESSAGE), TRY_AGAIN),
            (work_on_claims([claim.name for claim in booting], now), boot),
        ):
            if messages:
                boundary.attempt("work queue", partial(self._work.send, messages, delay=delay))
