"""Records on which nodes pods arrived or left since the last observation: consolidateAfter counts from then."""

from __future__ import annotations

from adapters.observation.stores import Stores
from lambdas.controllers.disruption.pod_event_store import write_pod_events
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class PodEvents(Sweep):
    """Stores pod events."""

    name = "podEvents"

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def run(self, round_: ReconcileRound) -> None:
        """Store the claims that differ from the observation."""
        write_pod_events(self._stores, round_.view)
