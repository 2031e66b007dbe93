"""Keeps EventBridge schedules in line with the NodePools' budget windows."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.ports import WindowSchedules
from core.disruption.budgets.window_schedules import window_schedules
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class BudgetWindowSchedules(Sweep):
    """Replaces the schedules if the NodePools need other ones than this sandbox wrote last."""

    name = "windows"

    def __init__(self, windows: WindowSchedules) -> None:
        self._windows = windows
        self._written: Mapping[str, str] | None = None

    def run(self, round_: ReconcileRound) -> None:
        """Write the schedules if they differ."""
        snapshot = round_.view.snapshot
        wanted = window_schedules(snapshot.node_pools, snapshot.now)
        if wanted != self._written:
            self._windows.replace(wanted)
            self._written = dict(wanted)
