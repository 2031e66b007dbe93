"""Plans worlds that crash at the call sites at which no seed crashed, so that a campaign leaves none out.

Such a world has called there before: it is that of a seed that called there, or else a recorded world without faults. It takes
the same course until that call, where the function crashes; so calls that only faults lead to are reached as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from simulator.campaign.call_sites import Meetings, Site, recorded
from simulator.campaign.chances import NONE
from simulator.campaign.crash_schedule import CRASHES, Crash
from simulator.campaign.trial import Outcome, Plan


def directed_plans(outcomes: Sequence[Outcome]) -> Iterator[Plan]:
    """Yield a plan for each call site, before and after, at which these worlds did not crash."""
    together = Meetings().join(outcome.meetings for outcome in outcomes)
    by_cost = sorted(outcomes, key=lambda outcome: (outcome.meetings.met.total(), outcome.plan.seed))
    for site in sorted(set(together.met) | recorded().sites()):
        for kind in CRASHES:
            if (site, kind) not in together.crashed:
                played = (outcome.plan for outcome in by_cost if site in outcome.meetings.met)
                yield directed(next(played, None) or recorded_plan(site), site, kind)


def directed(plan: Plan, site: Site, kind: str) -> Plan:
    """Return the plan with a crash of this kind at the first call at the site, and of the other kind at the second."""
    kinds = CRASHES if kind == CRASHES[0] else CRASHES[::-1]
    others = tuple(crash for crash in plan.crashes if crash.site != site)
    return msgspec.structs.replace(plan, crashes=(Crash(site, 1, kinds), *others), directed_at=(site, kind))


def recorded_plan(site: Site) -> Plan:
    """Return the cheapest recorded world with this site, on its recorded course.

    Raises:
        LookupError: If no recorded world has it.
    """
    worlds = recorded().worlds
    found = [(sum(met.values()), world) for world, met in worlds.items() if " ".join(site) in met]
    if not found:
        raise LookupError(f"no recorded world calls at {' '.join(site)}")
    world = min(found)[1]
    return Plan(seed=world, world=world, chance=world, intensity=NONE)
