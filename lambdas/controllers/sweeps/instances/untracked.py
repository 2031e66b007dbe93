"""Settles instances with our claim tag and no known claim: the tag decides on existence, not the table."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from lambdas.controllers.sweeps.instances.rebuilding import Rebuilding
from lambdas.controllers.sweeps.instances.unclaimed import untracked
from lambdas.controllers.sweeps.instances.unknown import UNKNOWN_AFTER, UnknownInstances
from lambdas.controllers.sweeps.sweep import EACH_ROUND, ReconcileRound
from lambdas.ports import Clock, Instance

GRACE: Final = timedelta(minutes=1)
"""A younger instance is left alone: the answer to its launch may still be on its way."""


class UntrackedInstances:
    """Each is adopted by the claim that waited for it, or its claim is rebuilt, or it is unknown."""

    name: Final = "untrackedInstances"
    every: timedelta = EACH_ROUND
    is_urgent: Final = True

    def __init__(self, rebuilding: Rebuilding, unknown: UnknownInstances, clock: Clock) -> None:
        self._rebuilding = rebuilding
        self._unknown = unknown
        self._clock = clock

    def run(self, round_: ReconcileRound) -> None:
        """Settle all such instances."""
        view, report, now = round_.view, round_.report, self._clock.now()
        found = untracked(round_.instances, view, now, min_age=GRACE)
        round_.each(found.awaited, lambda instance: self._rebuilding.adopt(instance, view, report), subject=_id)
        report.count("untrackedInstances", len(found.strangers))
        round_.each(
            self._rebuilding.still_there(found.rebuildable),
            lambda stranger: self._rebuilding.rebuild(stranger, view, report),
            subject=lambda stranger: stranger.instance.instance_id,
        )
        unknown = [s for s in found.strangers if s.problem and now - s.instance.launched_at >= UNKNOWN_AFTER]
        self._unknown.settle(unknown, found.tagged, round_)


def _id(found: Instance) -> str:
    return found.instance_id
