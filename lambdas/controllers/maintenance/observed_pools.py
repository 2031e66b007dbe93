"""Engages a brake for each observed NodePool: functions that do not list NodePools read the brake from the table."""

from __future__ import annotations

from adapters.brakes.ports import Brakes, HeldBrakes
from adapters.ports import Clock
from adapters.run_report import RunReport
from core import labels
from core.brakes.brake import Brake, BrakeKind
from core.model.snapshot import Snapshot
from core.pools.observed_pools import observed_pools
from core.reasons.decision import DecisionKind


class ObservedPoolBrakes:
    """The brakes of observed NodePools."""

    def __init__(self, brakes: Brakes, own_brakes: HeldBrakes, clock: Clock) -> None:
        self._brakes = brakes
        self._own_brakes = own_brakes
        self._clock = clock

    def follow(self, snapshot: Snapshot, report: RunReport) -> None:
        """Engage and release brakes according to the NodePools' annotations, effective at the next reading.

        Raises:
            PortError: If the table cannot be written; NodePools whose brake is missing must not be acted on then.
        """
        wanted = observed_pools(snapshot)
        engaged = self._brakes.engaged().brakes
        known = {brake.node_pool for brake in engaged if brake.kind is BrakeKind.OBSERVED}
        for pool in sorted(wanted - known):
            message = f"NodePool {pool} is only observed: its annotation {labels.MODE} says so"
            self._own_brakes.hold(Brake(BrakeKind.OBSERVED, message, node_pool=pool), self._clock.now())
            report.decide(DecisionKind.BRAKE, pool, BrakeKind.OBSERVED, message)
        for pool in sorted(known - wanted):
            self._own_brakes.release(BrakeKind.OBSERVED, pool)
            report.decide(DecisionKind.RELEASE, pool, BrakeKind.OBSERVED, "the annotation is gone")
        if wanted != known:
            self._brakes.forget_reading()
