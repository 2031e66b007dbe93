"""What a sweep is, and what one round of `reconcile` lets all of them see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar

import msgspec

from core.reasons.code import ReasonCode
from core.reasons.run import RunReason
from lambdas.controllers.boundary import Boundary
from lambdas.observation.cluster_state import ClusterState
from lambdas.ports import Clock, Instance, TransientError
from lambdas.run_report import RunReport

T = TypeVar("T")

EACH_ROUND: Final = timedelta(0)

MARGIN: Final = timedelta(seconds=20)
"""Nothing new is begun with less time than this left: the next call may be tried four times, and the round has to be told."""


class Sweep(Protocol):
    """One kind of thing that is put right."""

    @property
    def name(self) -> str:
        """As it stands in the log, camel case."""
        ...

    @property
    def every(self) -> timedelta:
        """How long it may rest after it was clean."""
        ...

    @property
    def is_urgent(self) -> bool:
        """Whether pods or money are lost while it waits."""
        ...

    def run(self, round_: ReconcileRound) -> None:
        """Put right what is wrong now; doing it twice does no harm.

        What concerns one object goes through `attempt` or `each` of the round, so that the others do not suffer from it.
        """
        ...


class Seen(msgspec.Struct, frozen=True):
    """What was seen at the start of a round; None for what could not be looked at.

    Instances are listed before claims are read: then a claim that is missing is truly gone.
    """

    instances: tuple[Instance, ...] | None
    view: ClusterState | None


class ReconcileRound:
    """One sweep's part of one round: what was seen, and how far the sweep came."""

    def __init__(self, seen: Seen, report: RunReport, deadline: datetime, clock: Clock) -> None:
        self._seen = seen
        self._deadline = deadline
        self._clock = clock
        self._boundary = Boundary(report)
        self.report = report

    @property
    def view(self) -> ClusterState:
        """The look. Raises TransientError if it failed."""
        if self._seen.view is None:
            raise TransientError("observer:look", "the cluster could not be looked at in this round")
        return self._seen.view

    @property
    def instances(self) -> tuple[Instance, ...]:
        """Our instances. Raises TransientError if they could not be listed."""
        if self._seen.instances is None:
            raise TransientError("ec2:DescribeInstances", "the instances could not be listed in this round")
        return self._seen.instances

    @property
    def failed(self) -> tuple[str, ...]:
        """What was left or failed, in order."""
        return tuple(self._boundary.failed)

    def has_time(self) -> bool:
        """Whether something new may be begun."""
        return self._clock.now() + MARGIN <= self._deadline

    def attempt(self, subject: str, work: Callable[[], object]) -> bool:
        """Do one piece of work; whether it succeeded. What it raises is told under `subject`."""
        return self._boundary.attempt(subject, work)

    def each(self, items: Iterable[T], work: Callable[[T], object], *, subject: Callable[[T], str]) -> None:
        """Do the same for each of them, each on its own, while there is time."""
        for item in items:
            if not self.has_time():
                self.leave(subject(item), RunReason.TIME_SHORT, "this and what follows is left to the next round")
                return
            self.attempt(subject(item), lambda item=item: work(item))  # type: ignore[misc]  # bound now

    def leave(self, subject: str, reason: ReasonCode, message: str) -> None:
        """Tell that something is left undone; the sweep is not clean then."""
        self._boundary.leave(subject, reason, message)
