"""What another provisioner did beside what we would have done: the answer of `fleetwright shadow report`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from cli.answers import money
from cli.answers.plan_document import API_VERSION
from cli.answers.written_tables import html_page, html_table, markdown_table
from cli.terminal import output
from cli.terminal.output import counted, rfc3339
from core.api.objects import JsonObject
from core.counterfactual.play import PlayResult, RecordedPeriod
from core.counterfactual.recorded_fleet import RecordedFleetResult
from core.model.values.quantity import dollars

LONG_WAIT: Final = timedelta(minutes=2)
"""A pod that waited longer is counted as one that waited long."""

BOOT: Final = timedelta(seconds=60)
"""Assumed for a new node where no node of the period shows how long one takes."""

NAMED_MAX: Final = 20
"""Pods that are named; all are counted."""

_HEADINGS: Final = ("", "KARPENTER DID", "WE WOULD HAVE", "DIFFERENCE")


def shadow_document(recorded: RecordedPeriod, fleet: RecordedFleetResult, played: PlayResult) -> JsonObject:
    """`kind: ShadowReport`. `worse`: everything in which the recorded fleet did better than ours would have."""
    boot = fleet.boot or BOOT
    ours = _our_waits(fleet, played, boot)
    did = _recorded(fleet, recorded)
    would = _played(played, recorded, ours)
    document: JsonObject = {
        "apiVersion": API_VERSION,
        "kind": "ShadowReport",
        "from": rfc3339(recorded.since),
        "to": rfc3339(recorded.until),
        "snapshots": recorded.snapshots,
        "recorded": did,
        "played": would,
        "difference": {
            "dollars": round(would["dollars"] - did["dollars"], 6),
            "share": _share(would["dollars"] - did["dollars"], did["dollars"]),
            "monthly": round(would["monthly"] - did["monthly"], 2),
            "evictions": would["evictions"] - did["evictions"],
            "waitedLong": would["waits"]["long"] - did["waits"]["long"],
        },
        "violations": [
            {"time": rfc3339(found.at), "rule": found.rule, "subject": found.subject} for found in played.broken
        ],
        "provenMinimum": _minimum(fleet),
        "bootSeconds": boot / timedelta(seconds=1),
    }
    document["worse"] = _worse(document, fleet, played, ours)
    document["assumptions"] = _assumptions(fleet)
    return document


def shadow_table(document: JsonObject) -> str:
    """The report for a terminal."""
    parts = [_head(document), output.table(_HEADINGS, _rows(document)), _worse_text(document)]
    return "\n\n".join([*parts, output.wrapped("\n".join(["assumed:", *document["assumptions"]]))])


def shadow_markdown(document: JsonObject) -> str:
    """The report for a wiki."""
    lines = ["### Fleetwright beside Karpenter", "", _head(document), ""]
    lines += markdown_table([heading.capitalize() for heading in _HEADINGS], _rows(document))
    lines += ["", "Where we would have been worse:", "", *(f"- {found}" for found in _worse_lines(document))]
    return "\n".join([*lines, "", "Assumed:", "", *(f"- {assumed}" for assumed in document["assumptions"])]) + "\n"


def shadow_html(document: JsonObject) -> str:
    """The report as one page that loads nothing."""
    sections = [html_table([heading.capitalize() for heading in _HEADINGS], _rows(document))]
    sections.append(html_table(("where we would have been worse",), [(found,) for found in _worse_lines(document)]))
    notes = ("Assumed", document["assumptions"])
    return html_page("Fleetwright beside Karpenter", _head(document), sections, notes)


def _our_waits(fleet: RecordedFleetResult, played: PlayResult, boot: timedelta) -> dict[str, timedelta]:
    """How long each pod that came would have waited; one that took the place of a pod that left did not wait."""
    found = {}
    for pod, since in fleet.arrived.items():
        placement = played.placements.get(pod)
        if placement is not None:
            booting = boot if placement.is_on_new_node else timedelta(0)
            found[pod] = max(timedelta(0), placement.at - since) + booting
        elif pod not in played.unplaced:
            found[pod] = timedelta(0)
    return found


def _recorded(fleet: RecordedFleetResult, recorded: RecordedPeriod) -> JsonObject:
    never = sorted(fleet.arrived.keys() - fleet.waits.keys())
    return {
        **_cost(fleet.cost, recorded),
        "nodeHours": round(fleet.hours, 4),
        "nodesLaunched": fleet.launched,
        "nodesAtEnd": fleet.nodes,
        "evictions": fleet.evicted,
        "otherEvictions": fleet.displaced,
        "waits": _waits(fleet.waits, never),
    }


def _played(played: PlayResult, recorded: RecordedPeriod, ours: Mapping[str, timedelta]) -> JsonObject:
    return {
        **_cost(played.cost, recorded),
        "nodeHours": round(played.hours, 4),
        "nodesLaunched": played.launched,
        "nodesAtEnd": played.nodes,
        "evictions": played.moves,
        "commands": played.commands,
        "waits": _waits(ours, sorted(played.unplaced)),
    }


def _cost(cost: int, recorded: RecordedPeriod) -> JsonObject:
    hours = (recorded.until - recorded.since) / timedelta(hours=1)
    spent = dollars(cost)
    return {"dollars": round(spent, 6), "monthly": round(money.a_month(spent / hours), 2) if hours else 0.0}


def _waits(waits: Mapping[str, timedelta], never: Sequence[str]) -> JsonObject:
    """Of the pods that came in the period."""
    seconds = sorted(wait / timedelta(seconds=1) for wait in waits.values())
    return {
        "pods": len(seconds),
        "p50": seconds[len(seconds) // 2] if seconds else None,
        "max": seconds[-1] if seconds else None,
        "long": sum(wait > LONG_WAIT for wait in waits.values()),
        "withoutPlace": list(never),
    }


def _minimum(fleet: RecordedFleetResult) -> JsonObject | None:
    if fleet.minimum is None:
        return None
    return {
        "dollars": round(dollars(fleet.minimum), 6),
        "spentMeanwhile": round(dollars(fleet.minimum_cost), 6),
        "hours": round(fleet.minimum_over / timedelta(hours=1), 4),
    }


def _worse(
    document: JsonObject, fleet: RecordedFleetResult, played: PlayResult, ours: Mapping[str, timedelta]
) -> list[JsonObject]:
    did, would = document["recorded"], document["played"]
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
    hours = _hours_of_higher_cost(fleet.series, played.series, document)
    if hours:
        found.append({"what": "dearerHours", "message": f"our fleet was the dearer one for {hours:.2f} h", "pods": []})
    late = [pod for pod, wait in ours.items() if wait > LONG_WAIT and fleet.waits.get(pod, wait) <= LONG_WAIT]
    without = set(would["waits"]["withoutPlace"]) - set(did["waits"]["withoutPlace"])
    for what, pods, text in (
        ("waits", late, f"waited more than {LONG_WAIT // timedelta(minutes=1)} minutes only with us"),
        ("withoutPlace", sorted(without), "had no place at the end only with us"),
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


def _assumptions(fleet: RecordedFleetResult) -> list[str]:
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
        "violations are looked for by code that decides nothing: budgets, PodDisruptionBudgets, do-not-disrupt",
    ]


def _head(document: JsonObject) -> str:
    period = f"{document['from'][:16].replace('T', ' ')} to {document['to'][:16].replace('T', ' ')} UTC"
    difference = document["difference"]
    share = "" if difference["share"] is None else f" ({difference['share']:+.1%})"
    minimum = document["provenMinimum"]
    proven = ""
    if minimum is not None:
        least, spent = f"{minimum['dollars']:,.4f}", f"{minimum['spentMeanwhile']:,.4f}"
        proven = f"; of ${spent} in {minimum['hours']:,.2f} h any fleet must spend ${least}"
    return (
        f"{period}, {counted(document['snapshots'], 'snapshot')}: {difference['dollars']:+,.4f} dollars{share}, "
        f"{difference['monthly']:+,.2f} a month{proven}"
    )


def _rows(document: JsonObject) -> list[tuple[str, str, str, str]]:
    did, would = document["recorded"], document["played"]
    rows = [
        _row("dollars", did["dollars"], would["dollars"], ",.4f"),
        _row("a month", did["monthly"], would["monthly"], ",.2f"),
        _row("node hours", did["nodeHours"], would["nodeHours"], ",.2f"),
        _row("nodes launched", did["nodesLaunched"], would["nodesLaunched"], "d"),
        _row("nodes at the end", did["nodesAtEnd"], would["nodesAtEnd"], "d"),
        _row("evictions by choice", did["evictions"], would["evictions"], "d"),
        ("evictions otherwise", str(did["otherEvictions"]), "-", ""),
    ]
    for key, name in (("long", "pods that waited > 2 min"), ("p50", "median wait, s"), ("max", "longest wait, s")):
        rows.append(_row(name, did["waits"][key], would["waits"][key], "d" if key == "long" else ",.0f"))
    without = (len(did["waits"]["withoutPlace"]), len(would["waits"]["withoutPlace"]))
    rows.append(_row("pods without a place at the end", *without, "d"))
    rows.append(("rules that would be violated", "-", str(len(document["violations"])), ""))
    return rows


def _row(name: str, did: Any, would: Any, form: str) -> tuple[str, str, str, str]:
    if did is None or would is None:
        return name, "-" if did is None else f"{did:{form}}", "-" if would is None else f"{would:{form}}", ""
    return name, f"{did:{form}}", f"{would:{form}}", f"{would - did:+{form}}"


def _worse_lines(document: JsonObject) -> list[str]:
    lines = []
    for found in document["worse"]:
        named = f": {', '.join(found['pods'])}" if found["pods"] else ""
        lines.append(f"{found['message']}{named}")
    return lines or ["nowhere, in what is compared here"]


def _worse_text(document: JsonObject) -> str:
    return output.wrapped("\n".join(["where we would have been worse:", *_worse_lines(document)]))


def _share(part: float, whole: float) -> float | None:
    return round(part / whole, 6) if whole else None
