"""Plays many seeds in parallel, each in its own process, forked from one that has everything loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from simulator.campaign.call_sites import Meetings
from simulator.campaign.chances import NONE
from simulator.campaign.market import campaign_region
from simulator.campaign.trial import Outcome, Plan, play
from simulator.checkers.verdict import Violation
from simulator.forked import Lost, each_forked

LIMIT: Final = timedelta(minutes=5)
"""The most real time for one seed; most seeds take a second."""

LOST: Final = "seedLost"
"""The law violated by a seed whose process died, raised or took too long."""

_NO_MOMENT: Final = datetime(1970, 1, 1, tzinfo=UTC)


def play_all(plans: Iterable[Plan], processes: int, ledger: Path | None = None) -> Iterator[Outcome]:
    """Play the plans in parallel; outcomes come in no order.

    `ledger` is the folder under which every seed keeps a ledger; None: some do, in memory.
    """
    _warm_up()

    def play_one(plan: Plan) -> Outcome:
        return play(plan, ledger=None if ledger is None else ledger / f"seed-{plan.seed}")

    # A process for each seed: caches of libraries cannot make one seed depend on another.
    for plan, found in each_forked(plans, play_one, processes=processes, limit=LIMIT):
        yield _lost(plan, found) if isinstance(found, Lost) else found


def _warm_up() -> None:
    """Load everything once: functions import lazily."""
    for described in (False, True):
        campaign_region(described=described)
    play(Plan(seed=0, world=0, chance=0, intensity=NONE, crashes_at_unknown=False))


def _lost(plan: Plan, lost: Lost) -> Outcome:
    return Outcome(
        plan=plan,
        violations=(Violation(_NO_MOMENT, LOST, lost.why),),
        meetings=Meetings(),
        injected=0,
        cpu_seconds=0.0,
        failures=(lost.why,),
    )
