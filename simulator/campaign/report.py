"""Reports a campaign: the JSON for programs, and the lines for people."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from simulator.campaign.call_sites import Meetings, Site, recorded
from simulator.campaign.trial import Outcome, Plan
from simulator.invocation import calls


def report(outcomes: Sequence[Outcome], directed: Sequence[Outcome] = ()) -> dict[str, Any]:
    """Return the fields of `build/sim.json`: seeds in order, each law once per world with its first message.

    Args:
        outcomes: Those of the seeds.
        directed: Those of the worlds that were played for call sites at which no seed crashed.
    """
    ordered = sorted(outcomes, key=lambda outcome: outcome.plan.seed)
    by_seeds = Meetings().join(outcome.meetings for outcome in ordered)
    together = Meetings().join([by_seeds, *(outcome.meetings for outcome in directed)])
    sites = set(together.met) | recorded().sites()
    cpu = sum(outcome.cpu_seconds for outcome in ordered)
    return {
        "seeds": len(ordered),
        "violated": [violated for outcome in (*ordered, *directed) for violated in _violated(outcome)],
        "callSites": {
            "total": len(sites),
            "before": len(sites) - len(_left(sites, together, calls.CRASH_BEFORE)),
            "after": len(sites) - len(_left(sites, together, calls.CRASH_AFTER)),
            "notBefore": _left(sites, together, calls.CRASH_BEFORE),
            "notAfter": _left(sites, together, calls.CRASH_AFTER),
            "directedWorlds": len(directed),
            "notBeforeBySeeds": _left(sites, by_seeds, calls.CRASH_BEFORE),
            "notAfterBySeeds": _left(sites, by_seeds, calls.CRASH_AFTER),
        },
        "cpuSecondsPerSeed": round(cpu / max(1, len(ordered)), 2),
        "heavy": sum(outcome.plan.intensity.name == "heavy" for outcome in ordered),
        "faults": sum(outcome.injected for outcome in ordered),
        "calls": sum(by_seeds.met.values()),
    }


def _left(sites: Collection[Site], meetings: Meetings, kind: str) -> list[str]:
    return sorted(" ".join(site) for site in sites if (site, kind) not in meetings.crashed)


def line(outcome: Outcome) -> str:
    """Return one line for people."""
    plan = outcome.plan
    laws = sorted({violation.law for violation in outcome.violations})
    figures = f"{outcome.cpu_seconds:.1f} s, {outcome.injected} faults, {len(plan.crashes)} call sites"
    again = f", {_aim(plan)}" if plan.directed_at else ""
    return (
        f"seed {plan.seed} (world {plan.world}, {plan.intensity.name}{again}): {figures}: {', '.join(laws) or 'clean'}"
    )


def _aim(plan: Plan) -> str:
    """Return the call site and the crash for which a world was played again, empty for a seed's own plan."""
    if plan.directed_at is None:
        return ""
    site, kind = plan.directed_at
    return f"{kind} at {' '.join(site)}"


def _violated(outcome: Outcome) -> list[dict[str, Any]]:
    first = {violation.law: violation.message for violation in reversed(outcome.violations)}
    aim = {"directed": _aim(outcome.plan)} if outcome.plan.directed_at else {}
    return [{"seed": outcome.plan.seed, "law": law, "message": first[law], **aim} for law in sorted(first)]
