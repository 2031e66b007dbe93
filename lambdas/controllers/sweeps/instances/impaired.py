"""Instances that fail EC2's status checks."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from core.disruption.budgets import places
from core.disruption.reasons import REASONS
from core.model.state_node import state_nodes
from lambdas.controllers.sweeps.letting_go import LettingGo
from lambdas.controllers.sweeps.sweep import EACH_ROUND, Round
from lambdas.ports import Clock, CloudProvider, Impairment

IMPAIRED_FOR: Final = timedelta(minutes=5)
"""EC2 itself recovers many a host within minutes. Karpenter waits for two, and then forces the pods off."""

REASON: Final = "Unhealthy"


class ImpairedInstances:
    """Replaces them within the NodePools' budgets; pods leave as from any node, for many a failed check is a false alarm."""

    name: Final = "impairedInstances"
    every: timedelta = EACH_ROUND
    is_urgent: Final = False

    def __init__(self, cloud: CloudProvider, letting_go: LettingGo, clock: Clock) -> None:
        self._cloud = cloud
        self._letting_go = letting_go
        self._clock = clock

    def run(self, round_: Round) -> None:
        """Let the claims go whose instance has failed a check for long."""
        view, now = round_.view, self._clock.now()
        claims = {record.instance_id: record for record in view.claims.values() if record.deletion is None}
        ours = [found for found in self._cloud.impaired() if found.instance_id in claims]
        round_.outcome.count("impairedInstances", len({found.instance_id for found in ours}))
        due = [found for found in ours if now - found.since >= IMPAIRED_FOR]
        if not due:
            return
        holding = {claim.name for claim in view.claims.values() if claim.is_disrupting}
        bounds = places(view.snapshot, state_nodes(view.snapshot), REASONS, holding)

        def replace(found: Impairment) -> None:
            name = claims[found.instance_id].name
            message = (
                f"instance {found.instance_id} fails EC2's {found.check} status check since {found.since:%H:%M} UTC"
            )
            if not self._letting_go.begin_within(name, REASON, message, bounds, round_.outcome):
                round_.outcome.decide(
                    "skip", name, "UnhealthyButBlocked", f"{message}; its NodePool's budgets have no place"
                )

        round_.each(due, replace, subject=lambda found: found.instance_id)
