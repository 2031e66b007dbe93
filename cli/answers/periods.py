"""Answers about recorded periods: `report`, `shadow report`, `what-if` and `forecast`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import msgspec

from cli.answers import plan
from cli.answers.plan import API_VERSION, minimum_answer
from cli.terminal import output
from cli.terminal.output import counted, rfc3339
from core.api.objects import JsonObject
from core.cost_report import CostReport
from core.counterfactual.simulated_fleet import RecordedFleetResult
from core.counterfactual.simulation import TICK, RecordedPeriod, SimulatedPeriod, tick_of
from core.forecast import LEAD_TIME, WEEKDAYS, ForecastRules, Ramp, clock_text, pays, ramp_sentence, room_requests
from core.ledger.entry import DISRUPT, LogEntry
from core.model.node_pool import NodePool
from core.model.values.quantity import dollars

# Says how often a simulation of a recorded period decides which nodes go.


SECOND: Final = timedelta(seconds=1)


def pace(period: timedelta) -> str:
    """Return the assumption of each answer with a simulation of so long a period."""
    tick = tick_of(period)
    if tick <= TICK:
        return f"nodes are let go every {minutes(TICK)} at most"
    return (
        f"nodes are let go every {minutes(tick)} at most; every {minutes(TICK)} at most where they have no pods, "
        "are left for a later wave, or a budget changes"
    )


def pace_warnings(node_pools: Iterable[NodePool], recorded: Iterable[NodePool], period: timedelta) -> list[str]:
    """Return a warning for each changed `consolidateAfter` that ends between two decisions."""
    tick, before = tick_of(period), {pool.name: pool.disruption.consolidate_after for pool in recorded}
    return [
        f"NodePool {pool.name}: consolidateAfter of {wait // SECOND} s is shorter than the {minutes(tick)} "
        "between two decisions, so the simulation shows less of its effect"
        + ("; a period of less than 21 hours has more decisions" if tick > TICK else "")
        for pool in node_pools
        if (wait := pool.disruption.consolidate_after) is not None and wait < tick and wait != before.get(pool.name)
    ]


def minutes(span: timedelta) -> str:
    """Return the rounded minutes in words."""
    return counted(max(1, round(span / timedelta(minutes=1))), "minute")


# A period's report as data: the answer of `fleetwright report`.


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
        "dollars": plan.amount(spent),
        "instanceHours": plan.hours(report.hours),
        "instances": report.instances,
        "covered": None if report.covered is None else plan.amount(covered),
        "baselines": {
            "onDemand": None if report.on_demand is None else plan.amount(dollars(report.on_demand)),
            "withoutConsolidation": None if kept is None else plan.amount(kept),
        },
        "provenMinimum": minimum_answer(report.minimum),
        "consolidation": {
            "commands": len(commands),
            "podsMoved": moves,
            "hourlySaved": dollars(saved),
            "hourlySavedPerMove": plan.amount(dollars(saved) / moves) if moves else None,
        },
        "by": {name: {key: plan.amount(dollars(part)) for key, part in report.by[name].items()} for name in by},
        "idle": {
            "dollars": plan.amount(dollars(report.idle)),
            "causes": _causes(report),
        },
        "assumptions": [*ASSUMPTIONS, *([] if baseline is None else [f"with consolidation, {pace(baseline.period)}"])],
    }


def _causes(report: CostReport) -> list[JsonObject]:
    """Return the idle dollars by reason, the highest first, each with its most expensive sentences, which name the objects."""
    by_reason: dict[str, list[JsonObject]] = {}
    for cause, part in report.causes:
        if part:
            entry = {"message": cause.message, "dollars": plan.amount(dollars(part))}
            by_reason.setdefault(cause.reason, []).append(entry)
    sums = {reason: plan.amount(sum(obj["dollars"] for obj in objects)) for reason, objects in by_reason.items()}
    return [
        {"reason": reason, "dollars": sums[reason], "objects": by_reason[reason][:OBJECTS_SHOWN]}
        for reason in sorted(by_reason, key=lambda reason: (-sums[reason], reason))
    ]


LONG_WAIT: Final = timedelta(minutes=2)
"""The wait from which a pod counts as having waited long."""

BOOT: Final = timedelta(seconds=60)
"""The assumed boot time of a node if no node of the period shows one."""

NAMED_MAX: Final = 20
"""The most pods that are named; all are counted."""


def shadow_document(recorded: RecordedPeriod, fleet: RecordedFleetResult, simulated: SimulatedPeriod) -> JsonObject:
    """Return `kind: ShadowReport`. `worse` lists everything in which the recorded fleet did better than ours."""
    boot = fleet.boot or BOOT
    ours = _our_waits(fleet, simulated, boot)
    did = _recorded(fleet, recorded)
    would = _simulated(simulated, recorded, ours)
    document: JsonObject = {
        "apiVersion": API_VERSION,
        "kind": "ShadowReport",
        "from": rfc3339(recorded.since),
        "to": rfc3339(recorded.until),
        "snapshots": recorded.snapshots,
        "recorded": did,
        "simulated": would,
        "difference": {
            "dollars": plan.amount(would["dollars"] - did["dollars"]),
            "share": plan.share(would["dollars"] - did["dollars"], did["dollars"]),
            "monthly": plan.cents(would["monthly"] - did["monthly"]),
            "evictions": would["evictions"] - did["evictions"],
            "waitedLong": would["waits"]["long"] - did["waits"]["long"],
        },
        "violations": [
            {"time": rfc3339(broken.at), "rule": broken.rule, "subject": broken.subject} for broken in simulated.broken
        ],
        "provenMinimum": minimum_answer(fleet.minimum),
        "bootSeconds": boot / timedelta(seconds=1),
    }
    document["worse"] = _worse(document, fleet, simulated, ours)
    document["assumptions"] = _assumptions(fleet, recorded.until - recorded.since)
    return document


def _our_waits(fleet: RecordedFleetResult, simulated: SimulatedPeriod, boot: timedelta) -> dict[str, timedelta]:
    """Return how long each new pod would have waited.

    One that took the place of a pod that left did not wait; one that never had a place has no wait.
    """
    waits, never = {}, frozenset(simulated.never_placed)
    for pod, since in fleet.arrived.items():
        placement = simulated.placements.get(pod)
        if placement is not None:
            booting = boot if placement.is_on_new_node else timedelta(0)
            waits[pod] = max(timedelta(0), placement.at - since) + booting
        elif pod not in simulated.unplaced and pod not in never:
            waits[pod] = timedelta(0)
    return waits


def _recorded(fleet: RecordedFleetResult, recorded: RecordedPeriod) -> JsonObject:
    never = sorted(fleet.arrived.keys() - fleet.waits.keys())
    return {
        **_cost(fleet.cost, recorded),
        "nodeHours": plan.hours(fleet.hours),
        "nodesLaunched": fleet.launched,
        "nodesAtEnd": fleet.nodes,
        "evictions": fleet.evicted,
        "otherEvictions": fleet.displaced,
        "waits": _waits(fleet.waits, never),
    }


def _simulated(simulated: SimulatedPeriod, recorded: RecordedPeriod, ours: Mapping[str, timedelta]) -> JsonObject:
    return {
        **_cost(simulated.cost, recorded),
        "nodeHours": plan.hours(simulated.hours),
        "nodesLaunched": simulated.launched,
        "nodesAtEnd": simulated.nodes,
        "evictions": simulated.moves,
        "commands": simulated.commands,
        "waits": _waits(ours, sorted({*simulated.unplaced, *simulated.never_placed})),
    }


def _cost(cost: int, recorded: RecordedPeriod) -> JsonObject:
    hours = (recorded.until - recorded.since) / timedelta(hours=1)
    spent = dollars(cost)
    return {"dollars": plan.amount(spent), "monthly": plan.cents(plan.a_month(spent / hours)) if hours else 0.0}


def _waits(waits: Mapping[str, timedelta], never: Sequence[str]) -> JsonObject:
    """Summarize the waits of the pods that were created in the period."""
    seconds = sorted(wait / timedelta(seconds=1) for wait in waits.values())
    return {
        "pods": len(seconds),
        "p50": seconds[len(seconds) // 2] if seconds else None,
        "max": seconds[-1] if seconds else None,
        "long": sum(wait > LONG_WAIT for wait in waits.values()),
        "withoutPlace": list(never),
    }


def _worse(
    document: JsonObject, fleet: RecordedFleetResult, simulated: SimulatedPeriod, ours: Mapping[str, timedelta]
) -> list[JsonObject]:
    did, would = document["recorded"], document["simulated"]
    cases = [
        {"what": what, "message": f"{text}: {would[key]:,} instead of {did[key]:,}", "pods": []}
        for what, key, text in (("dollars", "dollars", "it cost more dollars"), ("evictions", "evictions", "evictions"))
        if would[key] > did[key]
    ]
    for key, name in (("p50", "median"), ("max", "longest")):
        theirs, ours_waited = did["waits"][key], would["waits"][key]
        if theirs is not None and ours_waited is not None and ours_waited > theirs:
            message = f"the {name} wait: {ours_waited:,.0f} s instead of {theirs:,.0f} s"
            cases.append({"what": "waits", "message": message, "pods": []})
    hours = _hours_of_higher_cost(fleet.series, simulated.series, document)
    if hours:
        cases.append({"what": "hoursOfHigherCost", "message": f"our fleet cost more for {hours:.2f} h", "pods": []})
    late = [pod for pod, wait in ours.items() if wait > LONG_WAIT and fleet.waits.get(pod, wait) <= LONG_WAIT]
    without = set(would["waits"]["withoutPlace"]) - set(did["waits"]["withoutPlace"])
    for what, pods, text in (
        ("waits", late, f"waited more than {LONG_WAIT // timedelta(minutes=1)} minutes only with us"),
        ("withoutPlace", sorted(without), "had no place only with us"),
    ):
        if pods:
            message = f"{counted(len(pods), 'pod')} {text}"
            cases.append({"what": what, "message": message, "pods": sorted(pods)[:NAMED_MAX]})
    if document["violations"]:
        number = counted(len(document["violations"]), "rule")
        cases.append({"what": "violations", "message": f"{number} would have been violated", "pods": []})
    return cases


def _hours_of_higher_cost(
    theirs: Sequence[tuple[datetime, int]], ours: Sequence[tuple[datetime, int]], document: JsonObject
) -> float:
    """Return for how many hours our fleet cost more than theirs."""
    end = datetime.fromisoformat(document["to"])
    changes = sorted({moment for series in (theirs, ours) for moment, _ in series if moment < end} | {end})
    hours = timedelta(0)
    for begin, until in pairwise(changes):
        if _at(ours, begin) > _at(theirs, begin):
            hours += until - begin
    return hours / timedelta(hours=1)


def _at(series: Sequence[tuple[datetime, int]], moment: datetime) -> int:
    return next((price for since, price in reversed(series) if since <= moment), 0)


def _assumptions(fleet: RecordedFleetResult, period: timedelta) -> list[str]:
    if fleet.boot is None:
        booted = f"a new node takes {BOOT // timedelta(seconds=1)} s: none of the period shows how long it takes here"
    else:
        booted = f"a new node takes {fleet.boot // timedelta(seconds=1)} s, the median of the recorded ones"
    return [
        "our fleet starts as the recorded one was; from then on only our decisions change it, so each saving counts once",
        booted,
        "EC2 has capacity for what was not refused, and takes no spot instance of ours back; prices are those of each snapshot",
        "pods come and go as recorded, seen at the next snapshot: within a minute, which counts as a wait with us",
        "evictions are those by choice (condition DisruptionReason, our commands); pods of nodes that vanished are apart",
        "violations are found by code that decides nothing: budgets, PodDisruptionBudgets, do-not-disrupt",
        f"with us, {pace(period)}",
    ]


# Compares a recorded period with its alternative: the answer of `fleetwright what-if`.


_NAMED_MAX: Final = 5

WHAT_IF_ASSUMPTIONS: Final = (
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
        "recorded": {"dollars": plan.amount(real)},
        "modelError": plan.share(first["dollars"] - real, real),
        "before": first,
        "after": second,
        "difference": {
            "dollars": plan.amount(second["dollars"] - first["dollars"]),
            "monthly": plan.cents(second["monthly"] - first["monthly"]),
            "share": plan.share(second["dollars"] - first["dollars"], first["dollars"]),
            "moves": after.moves - before.moves,
            "podsLost": sorted(set(after.unplaced) - set(before.unplaced)),
            "podsGained": sorted(set(before.unplaced) - set(after.unplaced)),
        },
        "assumptions": [*WHAT_IF_ASSUMPTIONS, pace(period)],
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
        "dollars": plan.amount(cost),
        "monthly": plan.cents(plan.a_month(cost / hours)) if hours else 0.0,
        "nodeHours": plan.hours(simulated.hours),
        "nodesLaunched": simulated.launched,
        "moves": simulated.moves,
        "podsOnNewNodes": simulated.waited,
        "unplaced": list(simulated.unplaced),
        "nodesAtEnd": simulated.nodes,
        "commands": simulated.commands,
        "byNodePool": {pool: plan.amount(dollars(part)) for pool, part in simulated.by_pool.items()},
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


# The forecast of ramps: their evidence, and the Calendars that keep room for them.


VALID_DAYS: Final = 14
"""How long the Calendars hold: without new evidence, the room goes by itself."""

_MINUTE: Final = timedelta(minutes=1)


def forecast_document(ramps: Sequence[Ramp], rules: ForecastRules, since: datetime, until: datetime) -> JsonObject:
    """Return the answer; the Calendars hold from the period's end on."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Forecast",
        "from": output.rfc3339(since),
        "until": output.rfc3339(until),
        "timeZone": rules.time_zone,
        "ramps": [_ramp_answer(ramp, rules) for ramp in ramps],
        "calendars": ramp_calendars(ramps, rules, until),
    }


def _ramp_answer(ramp: Ramp, rules: ForecastRules) -> JsonObject:
    return {
        "nodePool": ramp.pool,
        "days": [WEEKDAYS[weekday] for weekday in ramp.weekdays],
        "from": clock_text(ramp.starts),
        "to": clock_text(ramp.starts + ramp.lasts),
        "pods": ramp.pods,
        "requests": room_requests(ramp),
        "evidenceDays": ramp.days,
        "usedPercent": ramp.used_percent,
        "coveredPercent": ramp.covered_percent,
        "waitedSeconds": ramp.waited // SECOND,
        "hourly": dollars(ramp.hourly),
        "capped": ramp.is_capped,
        "pays": pays(ramp, rules),
        "message": ramp_sentence(ramp, rules),
    }


def ramp_calendars(ramps: Sequence[Ramp], rules: ForecastRules, until: datetime) -> list[JsonObject]:
    """Return a Calendar for each NodePool with ramps whose room pays."""
    kept = [ramp for ramp in ramps if pays(ramp, rules)]
    return [
        {
            "apiVersion": "fleetwright.dev/v1alpha1",
            "kind": "Calendar",
            "metadata": {"name": f"forecast-{pool}"},
            "spec": {
                "nodePools": {"names": [pool]},
                "timeZone": rules.time_zone,
                "rules": [_warm_rule(ramp, rules, until) for ramp in kept if ramp.pool == pool],
            },
        }
        for pool in sorted({ramp.pool for ramp in kept})
    ]


def _warm_rule(ramp: Ramp, rules: ForecastRules, until: datetime) -> JsonObject:
    first, last = f"{until:%Y-%m-%d}", f"{until + timedelta(days=VALID_DAYS):%Y-%m-%d}"
    coming = [day for day in sorted(rules.except_dates) if first <= day <= last]
    return {
        "name": f"ramp-{clock_text(ramp.starts).replace(':', '')}",
        "windows": [
            {
                "days": [WEEKDAYS[weekday] for weekday in ramp.weekdays],
                "from": clock_text(ramp.starts),
                "to": clock_text(ramp.starts + ramp.lasts),
            }
        ],
        **({"exceptDates": coming} if coming else {}),
        "validUntil": last,
        "settings": {
            "leadTime": f"{LEAD_TIME // _MINUTE}m",
            "warm": {"pods": ramp.places, "requests": room_requests(ramp), "refill": False},
        },
    }


def forecast_table(document: dict[str, Any]) -> str:
    """Format the answer for people."""
    rows = [
        (
            ramp["nodePool"],
            f"{', '.join(ramp['days'])} {ramp['from']}",
            ramp["pods"],
            f"{ramp['usedPercent']} %",
            f"{ramp['coveredPercent']} %",
            f"{ramp['hourly']:.4f}",
            "yes" if ramp["pays"] else "no",
        )
        for ramp in document["ramps"]
    ]
    if not rows:
        return "no ramp recurs: each weekday must be recorded three times, and grow on most of them in the same slot"
    table = output.table(("NODEPOOL", "WHEN", "PODS", "USED", "COVERED", "$/H", "PAYS"), rows)
    return "\n".join([table, "", *(f"{ramp['nodePool']}: {ramp['message']}" for ramp in document["ramps"])])
