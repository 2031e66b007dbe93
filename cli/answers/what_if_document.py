"""Compares a recorded period with its alternative: the answer of `fleetwright what-if`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from cli.answers import money
from cli.answers.pace import pace
from cli.answers.plan_document import API_VERSION
from cli.terminal import output
from cli.terminal.output import counted, rfc3339
from core.api.objects import JsonObject
from core.counterfactual.simulated_period import RecordedPeriod, SimulatedPeriod
from core.model.values.quantity import dollars

_NAMED_MAX: Final = 5

ASSUMPTIONS: Final = (
    "launches and moves happen at once, EC2 has capacity for what was not refused then, and pods come and go as recorded",
    "prices are those of each snapshot; a change of pods is seen at the next snapshot",
    "what was spent is counted from snapshot to snapshot here, and from launch to end of each instance by `fleetwright report`",
)


def what_if_document(recorded: RecordedPeriod, before: SimulatedPeriod, after: SimulatedPeriod) -> JsonObject:
    """Return `kind: WhatIf`.

    `modelError`: the difference between the simulation with the recorded settings and the recorded dollars.
    """
    period, real = recorded.until - recorded.since, dollars(recorded.cost)
    first, second = _side(before, period), _side(after, period)
    return {
        "apiVersion": API_VERSION,
        "kind": "WhatIf",
        "from": rfc3339(recorded.since),
        "to": rfc3339(recorded.until),
        "snapshots": recorded.snapshots,
        "recorded": {"dollars": money.amount(real)},
        "modelError": money.share(first["dollars"] - real, real),
        "before": first,
        "after": second,
        "difference": {
            "dollars": money.amount(second["dollars"] - first["dollars"]),
            "monthly": money.cents(second["monthly"] - first["monthly"]),
            "share": money.share(second["dollars"] - first["dollars"], first["dollars"]),
            "moves": after.moves - before.moves,
            "podsLost": sorted(set(after.unplaced) - set(before.unplaced)),
            "podsGained": sorted(set(before.unplaced) - set(after.unplaced)),
        },
        "assumptions": [*ASSUMPTIONS, pace(period)],
    }


def what_if_table(document: JsonObject) -> str:
    """Format the difference for a terminal."""
    rows = [(what, before, after, change) for what, before, after, change in _rows(document)]
    lost, gained = document["difference"]["podsLost"], document["difference"]["podsGained"]
    parts = [output.wrapped(_head(document)), output.table(("", "AS THEN", "AS NOW", "CHANGE"), rows)]
    parts += [f"without a place now: {output.several(lost, _NAMED_MAX)}"] if lost else []
    parts += [f"with a place now: {output.several(gained, _NAMED_MAX)}"] if gained else []
    return "\n\n".join([*parts, output.wrapped("\n".join(["assumed:", *document["assumptions"]]))])


def what_if_markdown(document: JsonObject) -> str:
    """Format the difference as a comment on a pull request."""
    lines = ["### Fleetwright: what this would have done", "", _head(document), ""]
    lines += ["| | as then | as now | |", "| --- | ---: | ---: | ---: |"]
    lines += [f"| {what} | {before} | {after} | {change} |" for what, before, after, change in _rows(document)]
    return "\n".join([*lines, "", *(f"- {assumed}" for assumed in document["assumptions"])])


def _side(simulated: SimulatedPeriod, period: timedelta) -> JsonObject:
    cost, hours = dollars(simulated.cost), period / timedelta(hours=1)
    return {
        "dollars": money.amount(cost),
        "monthly": money.cents(money.a_month(cost / hours)) if hours else 0.0,
        "nodeHours": money.hours(simulated.hours),
        "nodesLaunched": simulated.launched,
        "moves": simulated.moves,
        "podsOnNewNodes": simulated.waited,
        "unplaced": list(simulated.unplaced),
        "nodesAtEnd": simulated.nodes,
        "commands": simulated.commands,
        "byNodePool": {pool: money.amount(dollars(part)) for pool, part in simulated.by_pool.items()},
    }


def _head(document: JsonObject) -> str:
    error = document["modelError"]
    missed = "" if error is None else f"; simulated: {abs(error):.1%} {'more' if error > 0 else 'less'}"
    period = f"{document['from'][:16].replace('T', ' ')} to {document['to'][:16].replace('T', ' ')} UTC"
    return f"{period}, {counted(document['snapshots'], 'snapshot')}: ${document['recorded']['dollars']:,.4f} were spent{missed}"


def _rows(document: JsonObject) -> list[tuple[str, str, str, str]]:
    before, after, difference = document["before"], document["after"], document["difference"]
    share = difference["share"]
    rows = [
        (
            "dollars",
            f"{before['dollars']:,.4f}",
            f"{after['dollars']:,.4f}",
            f"{difference['dollars']:+,.4f}" + ("" if share is None else f" ({share:+.1%})"),
        ),
        ("a month", f"{before['monthly']:,.2f}", f"{after['monthly']:,.2f}", f"{difference['monthly']:+,.2f}"),
    ]
    counts: tuple[tuple[str, str], ...] = (
        ("node hours", "nodeHours"),
        ("nodes launched", "nodesLaunched"),
        ("pods moved", "moves"),
        ("pods that waited for a new node", "podsOnNewNodes"),
        ("nodes at the end", "nodesAtEnd"),
    )
    return rows + [(what, *_numbers(before[key], after[key])) for what, key in counts]


def _numbers(before: Any, after: Any) -> tuple[str, str, str]:
    if isinstance(before, float) or isinstance(after, float):
        return f"{before:,.2f}", f"{after:,.2f}", f"{after - before:+,.2f}"
    return str(before), str(after), f"{after - before:+d}"
