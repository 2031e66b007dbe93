"""Reads a period of a ledger once and makes its report."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime

from cli.answers.report_document import BaselineSimulation, report_document
from cli.ledger.decisions import outcomes
from cli.ledger.opening import opened_ledger
from cli.ledger.period_reader import PeriodReader
from cli.terminal.progress import Steps
from core.api.objects import JsonObject
from core.cost_report.instance_hours import lives
from core.cost_report.report import ReportBuilder, ReportedDecision
from core.counterfactual.fleet_simulation import simulated_periods
from core.counterfactual.simulated_period import SimulationRules
from core.ledger.log import LogEntry, by_decision, log_entry
from core.model.snapshot import Snapshot


def report_of_period(arguments: argparse.Namespace, steps: Steps) -> JsonObject:
    """Return the requested report; `steps` counts the decisions.

    Raises:
        InputError: If the ledger has nothing of that time.
        InvalidInputError: If something in it cannot be read.
    """
    place = opened_ledger(arguments)
    period = PeriodReader(place, arguments)
    steps.total = len(period)
    ended_instances = outcomes(place, arguments)
    ended = by_decision(ended_instances)
    since: datetime = arguments.since or period.since
    builder = ReportBuilder(lives(ended_instances), since, period.until)
    log: list[LogEntry] = []

    def seen() -> Iterator[Snapshot]:
        for decision in steps.over(period.decisions()):
            builder.see(ReportedDecision(decision.snapshot, decision.plan))
            log.append(log_entry(decision.entry, ended.get(decision.entry.id, ())))
            yield decision.snapshot

    rules = () if arguments.no_baseline else (SimulationRules(), SimulationRules(consolidates=False))
    recorded, simulated = simulated_periods(seen(), rules, period.until)
    baseline = None
    if simulated:
        with_moves, kept = simulated
        baseline = BaselineSimulation(with_moves.cost, kept.cost, recorded.until - recorded.since)
    return report_document(builder.report(), log, baseline, period=(since, period.until), by=arguments.by)
