"""`disrupt` with `mode: shadow`: records which of another's nodes would go."""

from __future__ import annotations

from datetime import datetime

from lambdas.controllers.disruption.observed_commands import STORING, ObservedCommands
from lambdas.observation.observer import Observer
from lambdas.run_report import RunReport


class ShadowDisruption:
    """Decides about each new state of the cluster: these records are what a report plays on."""

    def __init__(self, observer: Observer, commands: ObservedCommands) -> None:
        self._observer = observer
        self._commands = commands

    def run(self, report: RunReport, *, deadline: datetime) -> None:
        """Record one decision. Raises PortError."""
        snapshot = self._observer.observe().snapshot
        report.count("claims", len(snapshot.node_claims))
        self._commands.record(snapshot, report, until=deadline - STORING)
