"""The figures of a campaign for its page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def figures(run: Mapping[str, Any]) -> str:
    """The figures of a campaign (`simulator.campaign.trial`) in Markdown."""
    return "\n\n".join(_parts(run))


def _parts(run: Mapping[str, Any]) -> Iterator[str]:
    sites = run["callSites"]
    yield (
        f"`make sim SEEDS={run['seeds']} FIRST={run['first']}`, {run['heavy']} of the seeds heavy: {run['faults']:,} "
        f"faults in {run['calls']:,} calls, {run['cpuSecondsPerSeed']} CPU-seconds a seed, "
        f"{_span(run['wallSeconds'])} in {run['processes']} processes. "
        f"Functions died before {sites['before']} and after {sites['after']} of {sites['total']} call sites."
    )
    if run.get("drawn"):
        drawn = ", ".join(f"`{name}` {number:,}" for name, number in run["drawn"].items())
        yield f"{run['withOptions']:,} of the worlds had options and disturbances; so many had each: {drawn}."
    for when, names in (("before", sites["notBefore"]), ("after", sites["notAfter"])):
        if names:
            yield f"Not {when}: " + _listed(names) + "."
    if sites["directedWorlds"]:
        missed_parts = ((when, sites[f"not{when.title()}BySeeds"]) for when in ("before", "after"))
        missed = "; ".join(f"{when} {_listed(names)}" for when, names in missed_parts if names)
        yield f"The seeds alone left some out, at which functions died in {sites['directedWorlds']} directed worlds: {missed}."
    if not run["violated"]:
        yield "Nothing was violated."
        return
    rows = [f"| {row['seed']} | {row['law']} | {row['message'].replace('|', '/')} |" for row in run["violated"]]
    yield "\n".join(("| seed | law | first violation |", "| --- | --- | --- |", *rows))


def _listed(sites: Sequence[str]) -> str:
    return ", ".join(f"`{site}`" for site in sites)


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
