"""Compares what another provisioner did with what we would have done: the answer of `fleetwright shadow report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from cli.answers import money
from cli.answers.pace import pace
from cli.answers.plan_document import API_VERSION
from cli.answers.proven_minimum import minimum_answer
from cli.terminal.output import counted, rfc3339
from core.api.objects import JsonObject
from core.counterfactual.recorded_fleet import RecordedFleetResult
from core.counterfactual.simulated_period import RecordedPeriod, SimulatedPeriod
from core.model.values.quantity import dollars

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
            "dollars": money.amount(would["dollars"] - did["dollars"]),
            "share": money.share(would["dollars"] - did["dollars"], did["dollars"]),
            "monthly": money.cents(would["monthly"] - did["monthly"]),
            "evictions": would["evictions"] - did["evictions"],
            "waitedLong": would["waits"]["long"] - did["waits"]["long"],
        },
        "violations": [
            {"time": rfc3339(found.at), "rule": found.rule, "subject": found.subject} for found in simulated.broken
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
    found, never = {}, frozenset(simulated.never_placed)
    for pod, since in fleet.arrived.items():
        placement = simulated.placements.get(pod)
        if placement is not None:
            booting = boot if placement.is_on_new_node else timedelta(0)
            found[pod] = max(timedelta(0), placement.at - since) + booting
        elif pod not in simulated.unplaced and pod not in never:
            found[pod] = timedelta(0)
    return found


def _recorded(fleet: RecordedFleetResult, recorded: RecordedPeriod) -> JsonObject:
    never = sorted(fleet.arrived.keys() - fleet.waits.keys())
    return {
        **_cost(fleet.cost, recorded),
        "nodeHours": money.hours(fleet.hours),
        "nodesLaunched": fleet.launched,
        "nodesAtEnd": fleet.nodes,
        "evictions": fleet.evicted,
        "otherEvictions": fleet.displaced,
        "waits": _waits(fleet.waits, never),
    }


def _simulated(simulated: SimulatedPeriod, recorded: RecordedPeriod, ours: Mapping[str, timedelta]) -> JsonObject:
    return {
        **_cost(simulated.cost, recorded),
        "nodeHours": money.hours(simulated.hours),
        "nodesLaunched": simulated.launched,
        "nodesAtEnd": simulated.nodes,
        "evictions": simulated.moves,
        "commands": simulated.commands,
        "waits": _waits(ours, sorted({*simulated.unplaced, *simulated.never_placed})),
    }


def _cost(cost: int, recorded: RecordedPeriod) -> JsonObject:
    hours = (recorded.until - recorded.since) / timedelta(hours=1)
    spent = dollars(cost)
    return {"dollars": money.amount(spent), "monthly": money.cents(money.a_month(spent / hours)) if hours else 0.0}


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
    found = [
        {"what": what, "message": f"{text}: {would[key]:,} instead of {did[key]:,}", "pods": []}
        for what, key, text in (("dollars", "dollars", "it cost more dollars"), ("evictions", "evictions", "evictions"))
        if would[key] > did[key]
    ]
    for key, name in (("p50", "median"), ("max", "longest")):
        theirs, ours_waited = did["waits"][key], would["waits"][key]
        if theirs is not None and ours_waited is not None and ours_waited > theirs:
            message = f"the {name} wait: {ours_waited:,.0f} s instead of {theirs:,.0f} s"
            found.append({"what": "waits", "message": message, "pods": []})
    hours = _hours_of_higher_cost(fleet.series, simulated.series, document)
    if hours:
        found.append({"what": "hoursOfHigherCost", "message": f"our fleet cost more for {hours:.2f} h", "pods": []})
    late = [pod for pod, wait in ours.items() if wait > LONG_WAIT and fleet.waits.get(pod, wait) <= LONG_WAIT]
    without = set(would["waits"]["withoutPlace"]) - set(did["waits"]["withoutPlace"])
    for what, pods, text in (
        ("waits", late, f"waited more than {LONG_WAIT // timedelta(minutes=1)} minutes only with us"),
        ("withoutPlace", sorted(without), "had no place only with us"),
    ):
        if pods:
            message = f"{counted(len(pods), 'pod')} {text}"
            found.append({"what": what, "message": message, "pods": sorted(pods)[:NAMED_MAX]})
    if document["violations"]:
        number = counted(len(document["violations"]), "rule")
        found.append({"what": "violations", "message": f"{number} would have been violated", "pods": []})
    return found


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
