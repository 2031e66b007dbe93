"""`disrupt` with `mode: shadow`: records which nodes of another provisioner would go."""

from __future__ import annotations

from datetime import datetime

from adapters.observation.observer import Observer
from adapters.run_report import RunReport
from lambdas.controllers.disruption.observed_commands import STORING, ObservedCommands


class ShadowDisruption:
    """Decides for each new state of the cluster; reports replay these records."""

    def __init__(self, observer: Observer, commands: ObservedCommands) -> None:
        self._observer = observer
        self._commands = commands

    def run(self, report: RunReport, *, deadline: datetime) -> None:
        """Record one decision. Raises PortError."""
        snapshot = self._observer.observe().snapshot
        report.count("claims", len(snapshot.node_claims))
        self._commands.record(snapshot, report, until=deadline - STORING)
