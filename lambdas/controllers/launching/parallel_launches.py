"""Launches the claims of a plan in parallel: EC2 takes seconds for each request.

The first request for each EC2NodeClass is sent alone: a denial of it would apply to all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import msgspec

from adapters.ports import Clock, JsonObject
from adapters.run_report import RunReport
from adapters.runtime.parallel_tasks import RunTasks
from core.lifecycle.launching.shared_launch import in_launches
from core.lifecycle.records import ClaimRecord
from core.model.catalogue import Catalogue
from lambdas.controllers.boundary import Boundary
from lambdas.controllers.launching.launch_answer import LaunchAnswer
from lambdas.controllers.launching.launch_answer_writer import SettledClaims
from lambdas.controllers.launching.launch_requests import LaunchRequests
from lambdas.controllers.launching.launching import Launcher

MARGIN: Final = timedelta(seconds=15)
"""No launch is begun with less time than this left."""


class LaunchResults(SettledClaims):
    """The results of several launches.

    Attributes:
        launched, refused: As for one request.
        left: Names of claims whose launch was not started.
        unclear: Names of claims whose launch failed midway, or did not end in time.
    """

    left: list[str] = []

    def add(self, other: LaunchResults) -> None:
        """Merge another result."""
        self.add_settled(other)
        self.left += other.left

    def add_settled(self, settled: SettledClaims) -> None:
        """Add what the answer to one request means."""
        self.launched += settled.launched
        self.refused += settled.refused
        self.unclear += settled.unclear


class _Attempt(msgspec.Struct):
    records: list[ClaimRecord]
    report: RunReport
    result: LaunchResults


class ParallelLaunches:
    """Launches many claims, up to a limit per run."""

    def __init__(
        self, requests: LaunchRequests, launcher: Launcher, run_tasks: RunTasks, clock: Clock, *, at_most: int
    ) -> None:
        self._requests = requests
        self._launcher = launcher
        self._run_tasks = run_tasks
        self._clock = clock
        self._at_most = at_most

    def launch(
        self,
        records: Sequence[ClaimRecord],
        node_classes: Mapping[str, JsonObject],
        catalogue: Catalogue,
        report: RunReport,
        deadline: datetime,
    ) -> LaunchResults:
        """Launch as many as time permits. A failure of one claim does not affect the others."""
        result = LaunchResults()
        known = [record for record in records if record.plan.node_class.name in node_classes]
        begun = _begun(in_launches(known), self._at_most)
        names = {record.name for launch in begun for record in launch}
        result.left += [record.name for record in records if record.name not in names]
        for launches in _first_of_each_class(begun):
            attempts = [_Attempt(launch, report.part(), LaunchResults()) for launch in launches]
            tasks = [partial(self._attempt, attempt, node_classes, catalogue, deadline) for attempt in attempts]
            ended = self._run_tasks(tasks, max(deadline - self._clock.now(), timedelta(0)))
            for attempt, has_ended in zip(attempts, ended, strict=True):
                if has_ended:
                    report.add(attempt.report)
                    result.add(attempt.result)
                else:
                    report.count("unfinishedLaunches", len(attempt.records))
                    result.unclear += [record.name for record in attempt.records]
        return result

    def _attempt(
        self, attempt: _Attempt, node_classes: Mapping[str, JsonObject], catalogue: Catalogue, deadline: datetime
    ) -> None:
        records, result = attempt.records, attempt.result
        if self._clock.now() + MARGIN > deadline:
            result.left += [record.name for record in records]
            return
        if len(records) < records[0].shares:
            self._attempt_alone(attempt, node_classes, catalogue, deadline)
            return
        answers: list[LaunchAnswer] = []

        def ask() -> None:
            node_class = node_classes[records[0].plan.node_class.name]
            answers.append(self._requests.ask(records, node_class, catalogue, self._clock.now(), attempt.report))

        boundary = Boundary(attempt.report)
        if not boundary.attempt(records[0].name, ask):
            result.unclear += [record.name for record in records]
            return
        writer, now = self._launcher.answer_writer, self._clock.now()
        result.add_settled(writer.settle_each(records, answers[0], catalogue, now, attempt.report))

    def _attempt_alone(
        self, attempt: _Attempt, node_classes: Mapping[str, JsonObject], catalogue: Catalogue, deadline: datetime
    ) -> None:
        """Launch, one by one, claims whose shared launch lost members because a limit had no room for these."""
        boundary = Boundary(attempt.report)
        for record in attempt.records:
            own: list[ClaimRecord] = []
            if boundary.attempt(record.name, partial(self._part, record, own)):
                self._attempt(_Attempt(own, attempt.report, attempt.result), node_classes, catalogue, deadline)
            else:
                attempt.result.unclear.append(record.name)

    def _part(self, record: ClaimRecord, own: list[ClaimRecord]) -> None:
        own.append(self._launcher.alone(record))


def _begun(launches: Sequence[list[ClaimRecord]], at_most: int) -> list[list[ClaimRecord]]:
    """Return the launches to start: as many as have at most `at_most` claims together."""
    begun, claims = list[list[ClaimRecord]](), 0
    for launch in launches:
        claims += len(launch)
        if claims <= at_most:
            begun.append(launch)
    return begun


def _first_of_each_class(
    launches: Sequence[list[ClaimRecord]],
) -> tuple[list[list[ClaimRecord]], list[list[ClaimRecord]]]:
    """Return the first launch of each EC2NodeClass, then the others."""
    first: dict[str, list[ClaimRecord]] = {}
    for launch in launches:
        first.setdefault(launch[0].plan.node_class.name, launch)
    ahead = [launch for launch in launches if first[launch[0].plan.node_class.name] is launch]
    return ahead, [launch for launch in launches if first[launch[0].plan.node_class.name] is not launch]
