"""`python -m simulator.campaign`: plays seeds and reports violations."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from simulator.campaign import crashes
from simulator.campaign.crashes import CRASHES, NONE
from simulator.campaign.trial import (
    Outcome,
    Plan,
    directed,
    directed_plans,
    line,
    plan_of,
    play,
    play_all,
    recorded_plan,
    report,
)
from simulator.record import Event

RECORDED_WORLDS: Final = 90
"""Worlds without faults that are played to record which call sites exist; those with the rarest are kept."""

OPTIONS: Final = {"all": True, "none": False}

SITE_LEFT_OUT: Final = 4
"""Exit code of a campaign that violated nothing but left a call site out: 1 says that a law was violated."""


def main() -> int:
    """Parse the arguments and run. Exit code 1 if a law was violated, else 4 if `--every-site` left a site out."""
    parser = argparse.ArgumentParser(prog="python -m simulator.campaign", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--first", type=int, help="the first seed (1)")
    parser.add_argument("--processes", type=int, default=2, help="how many at once")
    parser.add_argument("--json", type=Path, default=Path("build/sim.json"), help="where the figures go")
    parser.add_argument("--record", type=Path, help="play the first seed alone and write what happened in its world")
    parser.add_argument("--ledger", type=Path, help="let every world keep a ledger, each in a folder of its own there")
    parser.add_argument(
        "--options", choices=OPTIONS, help="whether worlds have options and disturbances; by default the seed decides"
    )
    parser.add_argument(
        "--every-site", action="store_true", help="then crash at the call sites that no seed crashed at"
    )
    parser.add_argument(
        "--site", help="with --record: crash at this site, `FUNCTION CALL`; without --first, as recorded"
    )
    parser.add_argument("--kind", choices=CRASHES, default=CRASHES[0], help="whether to crash before or after the call")
    parser.add_argument("--record-sites", action="store_true", help="record again which call sites there are")
    arguments = parser.parse_args()
    if arguments.record_sites:
        return _record_sites(arguments.processes)
    first = 1 if arguments.first is None else arguments.first
    if arguments.record is not None:
        return _one(_chosen(arguments, first), arguments.record)
    plans = [plan_of(seed, opts_in=OPTIONS.get(arguments.options)) for seed in range(first, first + arguments.seeds)]
    began = time.monotonic()
    outcomes = _said(play_all(plans, arguments.processes, arguments.ledger))
    more = list(directed_plans(outcomes)) if arguments.every_site else []
    figures = report(outcomes, _said(play_all(more, arguments.processes)) if more else ())
    figures |= {
        "first": first,
        "options": arguments.options or "drawn",
        "processes": arguments.processes,
        "wallSeconds": round(time.monotonic() - began),
    }
    return _written(figures, arguments.json, every_site=arguments.every_site)


def _chosen(arguments: argparse.Namespace, first: int) -> Plan:
    """Return the plan of one seed, or that of a world directed at a call site."""
    if arguments.site is None:
        return plan_of(first, opts_in=OPTIONS.get(arguments.options))
    function, _, call = arguments.site.partition(" ")
    site = (function, call)
    plan = recorded_plan(site) if arguments.first is None else plan_of(first, opts_in=OPTIONS.get(arguments.options))
    return directed(plan, site, arguments.kind)


def _said(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Print a line for each outcome."""
    printed = []
    for outcome in outcomes:
        printed.append(outcome)
        _say(line(outcome))
    return printed


def _written(run: dict[str, Any], path: Path, *, every_site: bool) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(run, indent=1) + "\n")
    for violated in run["violated"]:
        aim = f" ({violated['directed']})" if "directed" in violated else ""
        _say(f"seed {violated['seed']}{aim}: {violated['law']}: {violated['message']}")
    sites = run["callSites"]
    unreached = sorted({*sites["notBefore"], *sites["notAfter"]}) if every_site else []
    for site in unreached:
        _say(
            f"no crash before or none after {site}: if no function calls there any more, `--record-sites` records the others"
        )
    _say(
        f"{run['seeds']} seeds, {len(run['violated'])} violations, {run['faults']} faults, call sites died at before "
        f"{sites['before']} and after {sites['after']} of {sites['total']}, {run['cpuSecondsPerSeed']} CPU-seconds a seed"
    )
    return 1 if run["violated"] else SITE_LEFT_OUT if unreached else 0


def _one(plan: Plan, record: Path) -> int:
    with record.open("wb") as file:
        outcome = play(plan, _writer(file.write))
    _say(line(outcome))
    for violation in outcome.violations:
        _say(f"{violation.at:%H:%M:%S.%f} {violation.law}: {violation.message}")
    for failure in dict.fromkeys(outcome.failures):
        _say(failure)
    return 1 if outcome.violations else 0


def _record_sites(processes: int) -> int:
    plans = [
        Plan(seed=seed, world=seed, chance=seed, intensity=NONE, crashes_at_unknown=False)
        for seed in range(1, RECORDED_WORLDS + 1)
    ]
    outcomes = list(play_all(plans, processes))
    crashes.write({outcome.plan.world: outcome.meetings for outcome in outcomes})
    crashes.recorded.cache_clear()
    _say(f"{len(crashes.recorded().sites())} call sites in {len(outcomes)} worlds, written to {crashes.FILE}")
    return 0


def _writer(write: Callable[[bytes], object]) -> Callable[[Event], None]:
    def take(event: Event) -> None:
        write(event.to_line() + b"\n")

    return take


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
