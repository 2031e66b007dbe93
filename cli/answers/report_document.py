"""A period's report as data: the answer of `fleetwright report`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from cli.answers import money
from cli.answers.pace import pace
from cli.answers.plan_document import API_VERSION
from cli.answers.proven_minimum import minimum_answer
from cli.terminal.output import rfc3339
from core.api.objects import JsonObject
from core.cost_report.report import CostReport
from core.ledger.entry import DISRUPT
from core.ledger.log import LogEntry
from core.model.values.quantity import dollars

OBJECTS_SHOWN: Final = 5
"""The most sentences shown for one reason."""

ASSUMPTIONS: Final = (
    "instances cost the price of their launch from launch to termination; discounts, volumes and traffic are not in it",
    "namespaces share a node by requests, the larger share of processor and memory; what nobody requests is (idle)",
    "on demand: the same instances for the same hours at on-demand prices",
    "without consolidation: what was spent, times the ratio of two simulations of the period, without and with consolidation",
)


class BaselineSimulation(msgspec.Struct, frozen=True):
    """Two simulations of the recorded period: with the recorded settings, and with every node kept."""

    asked: int
    kept: int
    period: timedelta


def report_document(
    report: CostReport,
    log: Sequence[LogEntry],
    baseline: BaselineSimulation | None,
    *,
    period: tuple[datetime, datetime],
    by: Sequence[str],
) -> JsonObject:
    """`kind: Report`. Each table of `by` sums to `dollars`."""
    spent, covered = dollars(report.cost), dollars(report.covered or 0)
    commands = [line for line in log if line.function == DISRUPT and line.objects and line.moves | abs(line.hourly)]
    saved = -sum(line.hourly for line in commands)
    moves = sum(line.moves for line in commands)
    kept = None
    if baseline is not None and baseline.asked:
        kept = covered + (spent - covered) * baseline.kept / baseline.asked
    return {
        "apiVersion": API_VERSION,
        "kind": "Report",
        "from": rfc3339(period[0]),
        "to": rfc3339(period[1]),
        "dollars": money.amount(spent),
        "instanceHours": money.hours(report.hours),
        "instances": report.instances,
        "covered": None if report.covered is None else money.amount(covered),
        "baselines": {
            "onDemand": None if report.on_demand is None else money.amount(dollars(report.on_demand)),
            "withoutConsolidation": None if kept is None else money.amount(kept),
        },
        "provenMinimum": minimum_answer(report.minimum),
        "consolidation": {
            "commands": len(commands),
            "podsMoved": moves,
            "hourlySaved": dollars(saved),
            "hourlySavedPerMove": money.amount(dollars(saved) / moves) if moves else None,
        },
        "by": {name: {key: money.amount(dollars(part)) for key, part in report.by[name].items()} for name in by},
        "idle": {
            "dollars": money.amount(dollars(report.idle)),
            "causes": _causes(report),
        },
        "assumptions": [*ASSUMPTIONS, *([] if baseline is None else [f"with consolidation, {pace(baseline.period)}"])],
    }


def _causes(report: CostReport) -> list[JsonObject]:
    """Return the idle dollars by reason, the highest first, each with its most expensive sentences, which name the objects."""
    found: dict[str, list[JsonObject]] = {}
    for cause, part in report.causes:
        if part:
            entry = {"message": cause.message, "dollars": money.amount(dollars(part))}
            found.setdefault(cause.reason, []).append(entry)
    sums = {reason: money.amount(sum(one["dollars"] for one in objects)) for reason, objects in found.items()}
    return [
        {"reason": reason, "dollars": sums[reason], "objects": found[reason][:OBJECTS_SHOWN]}
        for reason in sorted(found, key=lambda reason: (-sums[reason], reason))
    ]
