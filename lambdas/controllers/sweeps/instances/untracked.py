"""Handles instances with our claim tag and no known claim: existence is decided by the tag, not by the table."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from adapters.ports import CloudProvider
from core.lifecycle.launching.shared_launch import name_tags
from lambdas.controllers.sweeps.instances.rebuilding import Rebuilding
from lambdas.controllers.sweeps.instances.unclaimed import untracked
from lambdas.controllers.sweeps.instances.unknown import UNKNOWN_AFTER, UnknownInstances
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep

GRACE: Final = timedelta(minutes=1)
"""The minimum age: the launch response of a younger instance may not be stored yet."""

NAMED_IN_A_ROUND: Final = 100
"""The most instances that are named in a round: EC2 accepts about 100 CreateTags at once, and 10 a second afterwards."""


class UntrackedInstances(Sweep):
    """Each instance is adopted by the claim that waits for it, or its claim is rebuilt, or it is unknown.

    Instances of shared launches are named after their claims, so that their tags identify these.
    """

    name = "untrackedInstances"
    is_urgent = True

    def __init__(self, cloud: CloudProvider, rebuilding: Rebuilding, unknown: UnknownInstances) -> None:
        self._cloud = cloud
        self._rebuilding = rebuilding
        self._unknown = unknown

    def run(self, round_: ReconcileRound) -> None:
        """Handle all such instances."""
        view, report, now = round_.view, round_.report, round_.clock.now()
        found = untracked(round_.instances, view, now, min_age=GRACE)
        round_.each(
            found.awaited, lambda awaited: self._rebuilding.adopt(*awaited, view, report), subject=lambda a: a[1]
        )
        round_.each(
            found.unnamed[:NAMED_IN_A_ROUND],
            lambda unnamed: self._cloud.tag(unnamed[0].instance_id, name_tags(unnamed[1])),
            subject=lambda unnamed: unnamed[1],
        )
        report.count("untrackedInstances", len(found.unclaimed))
        round_.each(
            self._rebuilding.still_there(found.rebuildable),
            lambda unclaimed: self._rebuilding.rebuild(unclaimed, view, report),
            subject=lambda unclaimed: unclaimed.instance.instance_id,
        )
        unknown = [s for s in found.unclaimed if s.problem and now - s.instance.launched_at >= UNKNOWN_AFTER]
        self._unknown.settle(unknown, found.tagged, round_)
