"""Launches the claims of a plan in parallel: EC2 takes seconds for each request.

The first claim of each EC2NodeClass goes ahead: a denial of it would apply to all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import msgspec

from core.lifecycle.records import ClaimRecord
from core.model.catalogue import Catalogue
from lambdas.controllers.boundary import Boundary
from lambdas.controllers.launching.launching import Launcher
from lambdas.ports import Clock, JsonObject
from lambdas.run_report import RunReport
from lambdas.side_by_side import RunTasks

MARGIN: Final = timedelta(seconds=15)
"""No launch is begun with less time than this left."""


class WaveResult(msgspec.Struct):
    """The results of several launches.

    Attributes:
        refused: Names of claims that EC2 refused, and that are forgotten.
        launched: Claims that EC2 launched, or may have.
        left: Names of claims whose launch was not begun.
        unclear: Names of claims whose launch failed midway, or did not end in time.
    """

    refused: list[str] = []
    launched: list[ClaimRecord] = []
    left: list[str] = []
    unclear: list[str] = []

    def add(self, other: WaveResult) -> None:
        """Merge another result."""
        self.refused += other.refused
        self.launched += other.launched
        self.left += other.left
        self.unclear += other.unclear


class _Attempt(msgspec.Struct):
    record: ClaimRecord
    report: RunReport
    result: WaveResult


class LaunchWaves:
    """Launches many claims, up to a limit per run."""

    def __init__(self, launcher: Launcher, run_tasks: RunTasks, clock: Clock, *, at_most: int) -> None:
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
    ) -> WaveResult:
        """Launch as many as time permits. A failure of one claim does not affect the others."""
        result = WaveResult()
        known = [record for record in records if record.plan.node_class.name in node_classes]
        begun, names = known[: self._at_most], {record.name for record in known[: self._at_most]}
        result.left += [record.name for record in records if record.name not in names]
        for wave in _waves(begun):
            attempts = [_Attempt(record, report.part(), WaveResult()) for record in wave]
            tasks = [partial(self._attempt, attempt, node_classes, catalogue, deadline) for attempt in attempts]
            ended = self._run_tasks(tasks, max(deadline - self._clock.now(), timedelta(0)))
            for attempt, has_ended in zip(attempts, ended, strict=True):
                if has_ended:
                    report.add(attempt.report)
                    result.add(attempt.result)
                else:
                    report.count("unfinishedLaunches")
                    result.unclear.append(attempt.record.name)
        return result

    def _attempt(
        self, attempt: _Attempt, node_classes: Mapping[str, JsonObject], catalogue: Catalogue, deadline: datetime
    ) -> None:
        record, result = attempt.record, attempt.result
        if self._clock.now() + MARGIN > deadline:
            result.left.append(record.name)
            return

        def launch() -> None:
            node_class = node_classes[record.plan.node_class.name]
            claim = self._launcher.launch(record, node_class, catalogue, self._clock.now(), attempt.report)
            if claim is None:
                result.refused.append(record.name)
            else:
                result.launched.append(claim)

        if not Boundary(attempt.report).attempt(record.name, launch):
            result.unclear.append(record.name)


def _waves(records: Sequence[ClaimRecord]) -> tuple[list[ClaimRecord], list[ClaimRecord]]:
    """Yield the first claim of each class, then the others."""
    first: dict[str, ClaimRecord] = {}
    for record in records:
        first.setdefault(record.plan.node_class.name, record)
    ahead = [record for record in records if first[record.plan.node_class.name] is record]
    return ahead, [record for record in records if first[record.plan.node_class.name] is not record]
