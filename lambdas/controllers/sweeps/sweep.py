"""The protocol of sweeps, and the observations and time that the sweeps of one round share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final, TypeVar

import msgspec

from adapters.observation.cluster_state import ClusterState
from adapters.ports import Clock, Instance, TransientError
from adapters.run_report import RunReport
from core.reasons.code import ReasonCode
from core.reasons.run import RunReason
from lambdas.controllers.boundary import Boundary

T = TypeVar("T")

EACH_ROUND: Final = timedelta(0)

MARGIN: Final = timedelta(seconds=20)
"""No work begins with less remaining time: the next call may take four attempts, and the round must be reported."""


class Sweep(ABC):
    """Repairs one kind of inconsistency.

    Attributes:
        name: Its name in the log, camel case.
        every: The longest pause after a clean run.
        is_urgent: Whether its delay costs pods or money.
    """

    name: str
    every: timedelta = EACH_ROUND
    is_urgent: bool = False

    @abstractmethod
    def run(self, round_: ReconcileRound) -> None:
        """Repair what is wrong now; idempotent.

        Work on one object goes through `attempt` or `each` of the round, so that its failure does not affect others.
        """


class Seen(msgspec.Struct, frozen=True):
    """The observations at the start of a round; None for one that failed.

    Instances are listed before claims are read, so that a missing claim is really gone.
    """

    instances: tuple[Instance, ...] | None
    view: ClusterState | None


class ReconcileRound:
    """One sweep's part of one round: the observations, and the sweep's progress."""

    def __init__(self, seen: Seen, report: RunReport, deadline: datetime, clock: Clock) -> None:
        self._seen = seen
        self._deadline = deadline
        self._boundary = Boundary(report)
        self.clock = clock
        self.report = report

    @property
    def view(self) -> ClusterState:
        """The observation. Raises TransientError if it failed."""
        if self._seen.view is None:
            raise TransientError("observer:observe", "the cluster could not be observed in this round")
        return self._seen.view

    @property
    def instances(self) -> tuple[Instance, ...]:
        """Our instances. Raises TransientError if they could not be listed."""
        if self._seen.instances is None:
            raise TransientError("ec2:DescribeInstances", "the instances could not be listed in this round")
        return self._seen.instances

    def saw_no_rows(self) -> bool:
        """Whether the observation succeeded and found neither claims nor commands."""
        view = self._seen.view
        return view is not None and not view.claims and not view.commands

    @property
    def failed(self) -> tuple[str, ...]:
        """Subjects that were skipped or failed, in order."""
        return tuple(self._boundary.failed)

    def has_time(self) -> bool:
        """Whether new work may begin."""
        return self.clock.now() + MARGIN <= self._deadline

    def attempt(self, subject: str, work: Callable[[], object]) -> bool:
        """Run one piece of work; return whether it succeeded. An error is reported under `subject`."""
        return self._boundary.attempt(subject, work)

    def each(self, items: Iterable[T], work: Callable[[T], object], *, subject: Callable[[T], str]) -> None:
        """Run the work for each item, independently, while there is time."""
        for item in items:
            if not self.has_time():
                self.leave(subject(item), RunReason.TIME_SHORT, "this and all further work is left to the next round")
                return
            self.attempt(subject(item), lambda item=item: work(item))  # type: ignore[misc]  # bound now

    def leave(self, subject: str, reason: ReasonCode, message: str) -> None:
        """Report that work was skipped; the sweep then is not clean."""
        self._boundary.leave(subject, reason, message)
