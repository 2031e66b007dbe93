"""Deletes launch templates that have long been unused: an account may have 5,000."""

from __future__ import annotations

from datetime import timedelta

from adapters.ports import CloudProvider
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class StaleLaunchTemplates(Sweep):
    """Deletes old templates a few times a day: they are kept for weeks, but at most a thousand."""

    name = "templates"
    every = timedelta(hours=4)

    def __init__(self, cloud: CloudProvider) -> None:
        self._cloud = cloud

    def run(self, round_: ReconcileRound) -> None:
        """Delete the old ones."""
        round_.report.count("prunedTemplates", self._cloud.prune_templates())
