"""Reads a period of a ledger once, and simulates our fleet beside the recorded one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from cli.answers.shadow_document import shadow_document
from cli.ledger.opening import opened_ledger
from cli.ledger.period_reader import PeriodReader
from cli.terminal.progress import Steps
from core.api.objects import JsonObject
from core.counterfactual.fleet_minimum import fleet_minimum
from core.counterfactual.fleet_simulation import simulated_periods
from core.counterfactual.recorded_fleet import RecordedFleet
from core.counterfactual.simulated_period import SimulationRules
from core.model.snapshot import Snapshot
from core.pools.observed_pools import as_acting

BOUND_EVERY: Final = timedelta(minutes=15)
"""The shortest time between snapshots with a bound: a proof takes as long as a plan for all pods."""


class _Bounds:
    """The proven minimum at some of the snapshots."""

    def __init__(self) -> None:
        self._last: datetime | None = None

    def of(self, snapshot: Snapshot) -> int | None:
        """Return the bound, None for a skipped snapshot."""
        if self._last is not None and snapshot.now - self._last < BOUND_EVERY:
            return None
        self._last = snapshot.now
        return fleet_minimum(as_acting(snapshot))


def shadow_report(arguments: argparse.Namespace, steps: Steps) -> JsonObject:
    """Return the requested report; `steps` counts the snapshots.

    Raises:
        InputError: If the ledger has nothing of that time.
        InvalidInputError: If something in it cannot be read.
    """
    period = PeriodReader(opened_ledger(arguments), arguments, reaches_back=True)
    fleet, bounds = RecordedFleet(), _Bounds()
    steps.total = len(period)

    def seen() -> Iterator[Snapshot]:
        for decision in steps.over(period.decisions()):
            snapshot = decision.snapshot
            fleet.see(snapshot, bounds.of(snapshot))
            yield snapshot

    recorded, (simulated,) = simulated_periods(seen(), (SimulationRules(change=as_acting),), period.until)
    return shadow_document(recorded, fleet.finish(period.until), simulated)
