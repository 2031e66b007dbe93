"""Determines which run of `disrupt` may decide now, and when the next one starts (docs/adr/0128)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from adapters.observation.cluster_state import ClusterState
from adapters.ports import Clock, Queue
from adapters.run_report import RunReport
from adapters.store import DECIDER, Lease, Leases
from core.disruption.resync import next_run_at
from core.lifecycle.records import CommandRecord
from core.model.snapshot import Snapshot
from lambdas.controllers.resync.run_requests import GATHERED, RunPace, RunRequests

LEASE_FOR: Final = timedelta(minutes=1)
"""Duration of the lease: most runs take seconds. A longer run may overlap with another; of equal commands, one is validated."""

FOLLOWED_AFTER: Final = timedelta(seconds=5)
"""Delay until the next run after one that met another run, or commands that are being validated."""


class RunCoordination:
    """Spaces runs of `disrupt`, lets one decide at a time, and requests the next one."""

    def __init__(self, leases: Leases, run_requests: Queue, clock: Clock) -> None:
        self._leases = leases
        self._requests = RunRequests(run_requests, clock)
        self._pace = RunPace()
        self._is_postponed = False
        self._clock = clock

    def is_too_early(self, report: RunReport) -> bool:
        """Whether a run that a message started is too soon after the last pass; requests a later one then."""
        now = self._clock.now()
        earliest = self._pace.earliest(now)
        if earliest <= now:
            return False
        self._requests.ask("spaced", earliest)
        report.count("spacedRuns")
        return True

    def take(self, owner: str, report: RunReport) -> Lease | None:
        """Take the lease; while another run holds it, request one more run and return None. Raises PortError."""
        lease = self._leases.acquire(DECIDER, owner, now=self._clock.now(), for_=LEASE_FOR)
        if lease is None:
            self._requests.ask("another run decides", self._clock.now() + FOLLOWED_AFTER)
            report.count("busyRuns")
        return lease

    def give_up(self, lease: Lease) -> None:
        """Release the lease. Raises PortError."""
        self._leases.release(lease)

    def ask_after_validation(self, commands: Iterable[CommandRecord]) -> None:
        """Request a run for the time when the waiting commands have been validated.

        If they are late, the next run comes after the same delay again: the validating run may have crashed and is repeated.
        """
        due = max((command.verify_at for command in commands if not command.has_started), default=None)
        if due is not None:
            now = self._clock.now()
            self._requests.ask("validated", max(due + FOLLOWED_AFTER, now + max(FOLLOWED_AFTER, now - due)))

    def is_postponed(self, snapshot: Snapshot, report: RunReport) -> bool:
        """Whether to decide some seconds later, when more nodes will be disruptable; if so, request that run.

        Nodes that are disruptable together go in the same waves; later ones need further waves, each with its validation. A
        decision is never postponed twice in a row: if pods change all the time, some node is always about to be disruptable.
        """
        moment = next_run_at(snapshot, GATHERED)
        if self._is_postponed or moment is None or moment - self._clock.now() > GATHERED:
            self._is_postponed = False
            return False
        self._is_postponed = True
        self._requests.ask("soon more", moment)
        report.count("postponedRuns")
        return True

    def ended(self, view: ClusterState, *, is_new: bool, found: bool) -> None:
        """Request a run for the next time at which a node may become disruptable without any event.

        Args:
            view: What was observed.
            is_new: Whether a decision was made; a pass over an unchanged cluster does not count as one without commands.
            found: Whether commands were decided.
        """
        is_moving = bool(view.commands) or any(claim.deletion is not None for claim in view.claims.values())
        if is_new:
            self._pace.ended(self._clock.now(), found=found or is_moving)
        moment = next_run_at(view.snapshot, GATHERED)
        self._pace.awaits(moment)
        if moment is not None:
            self._requests.ask("known moment", max(moment, self._pace.earliest(self._clock.now())))
