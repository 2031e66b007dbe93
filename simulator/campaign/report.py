"""Reports a campaign: the JSON for programs, and the lines for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulator.campaign.call_sites import CRASHES, Meetings, recorded
from simulator.campaign.trial import Outcome
from simulator.invocation import calls


def report(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the fields of `build/sim.json`: seeds in order, each law once per seed with its first message."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.plan.seed)
    together = Meetings().join(outcome.meetings for outcome in ordered)
    sites = set(together.met) | recorded().sites()
    left = {kind: sorted(" ".join(site) for site in sites if (site, kind) not in together.crashed) for kind in CRASHES}
    cpu = sum(outcome.cpu_seconds for outcome in ordered)
    return {
        "seeds": len(ordered),
        "violated": [violated for outcome in ordered for violated in _violated(outcome)],
        "callSites": {
            "total": len(sites),
            "before": len(sites) - len(left[calls.CRASH_BEFORE]),
            "after": len(sites) - len(left[calls.CRASH_AFTER]),
            "notBefore": left[calls.CRASH_BEFORE],
            "notAfter": left[calls.CRASH_AFTER],
        },
        "cpuSecondsPerSeed": round(cpu / max(1, len(ordered)), 2),
        "heavy": sum(outcome.plan.intensity.name == "heavy" for outcome in ordered),
        "faults": sum(outcome.injected for outcome in ordered),
        "calls": sum(together.met.values()),
    }


def line(outcome: Outcome) -> str:
    """Return one line for people."""
    plan = outcome.plan
    laws = sorted({violation.law for violation in outcome.violations})
    figures = f"{outcome.cpu_seconds:.1f} s, {outcome.injected} faults, {len(plan.crashes)} call sites"
    return f"seed {plan.seed} (world {plan.world}, {plan.intensity.name}): {figures}: {', '.join(laws) or 'clean'}"


def _violated(outcome: Outcome) -> list[dict[str, Any]]:
    first = {violation.law: violation.message for violation in reversed(outcome.violations)}
    return [{"seed": outcome.plan.seed, "law": law, "message": first[law]} for law in sorted(first)]
