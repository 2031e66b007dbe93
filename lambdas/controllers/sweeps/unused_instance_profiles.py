"""Deletes instance profiles that nothing needs any more: an account may have 1,000."""

from __future__ import annotations

from datetime import timedelta

from adapters.ports import CloudProvider
from core.manifests.wire.api_resources import EC2_NODE_CLASSES
from core.reasons.run import RunReason
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class UnusedInstanceProfiles(Sweep):
    """Karpenter deletes a profile with its EC2NodeClass, under a finalizer; our classes have none (docs/adr/0199)."""

    name = "instanceProfiles"
    every = timedelta(hours=12)

    def __init__(self, cloud: CloudProvider) -> None:
        self._cloud = cloud

    def run(self, round_: ReconcileRound) -> None:
        """Delete them, unless an EC2NodeClass could not be read: its profile would count as unused."""
        unread = [
            problem for problem in round_.view.problems if problem.resource is EC2_NODE_CLASSES and problem.position < 0
        ]
        if unread:
            round_.leave(unread[0].subject, RunReason.CANNOT_BE_READ, "unused instance profiles stay until it can be")
            return
        round_.report.count("prunedProfiles", self._cloud.prune_profiles(list(round_.view.node_classes.values())))
