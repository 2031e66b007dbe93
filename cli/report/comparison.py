"""Computes two lines of the page: the fleet's hourly cost with Karpenter's moves, and its proven minimum."""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime

import msgspec

from cli.ledger.period_reader import PeriodReader
from cli.ledger.storage import open_ledger
from cli.terminal.progress import Steps as Progress
from core.counterfactual.fleet_simulation import simulated_periods
from core.counterfactual.simulated_period import SimulationRules
from core.gc_pause import collector_paused
from core.model.values.quantity import dollars

Steps = tuple[tuple[datetime, int], ...]
"""Times, and nano-dollars per hour from each on."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two other costs of the same period.

    Attributes:
        karpenter: The fleet of the same pods when nodes go by Karpenter's moves alone; our planner launches for both.
        minimum: The proven lower bound of each decision of `disrupt`; no fleet for its pods costs less.
    """

    karpenter: Steps
    minimum: Steps


def compared(ledger: str, steps: Progress) -> Comparison:
    """Simulate the decisions in the ledger of a scenario again; `steps` counts them.

    Raises:
        InputError: If the ledger has no decision.
    """
    period = PeriodReader(open_ledger(ledger), argparse.Namespace(cluster=None, since=None, until=None))
    decisions = list(period.decisions())
    minimum = tuple(
        (decision.snapshot.now, decision.plan.cost.lower_bound)
        for decision in decisions
        if decision.plan is not None and decision.plan.cost.lower_bound is not None
    )
    snapshots = [decision.snapshot for decision in decisions]
    steps.total = len(snapshots)
    with collector_paused():
        _, (simulated,) = simulated_periods(
            steps.over(snapshots), (SimulationRules(karpenter_moves_only=True),), period.until
        )
    return Comparison(karpenter=simulated.series, minimum=minimum)


def sampled(steps: Steps, times: Sequence[datetime]) -> list[float | None]:
    """Return dollars per hour at each time: those of the last step up to then, None before the first."""
    moments = [moment for moment, _ in steps]
    places = [bisect_right(moments, time) for time in times]
    return [round(dollars(steps[place - 1][1]), 4) if place else None for place in places]
