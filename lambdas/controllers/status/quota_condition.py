"""Condition QuotaShort of NodePools: which of EC2's vCPU quotas are nearly used up."""

from __future__ import annotations

from typing import Final

from adapters.ports import Clock, JsonObject, QuotaStore
from core.model.node_pool import NodePool
from core.model.values.quota_reading import QuotaReading
from core.pools.short_quotas import short_quotas
from lambdas.controllers.status.periodic_reading import PeriodicReading
from lambdas.controllers.status.status_writer import condition

QUOTA_SHORT: Final = "QuotaShort"
"""A condition for people only: plans stay within quotas regardless."""


class QuotaConditions:
    """The condition of each NodePool, by the last reading."""

    def __init__(self, quotas: QuotaStore, clock: Clock) -> None:
        self._quotas = quotas
        self._clock = clock
        self._reading: PeriodicReading[QuotaReading] = PeriodicReading(clock)

    def read(self) -> None:
        """Read the quotas again where that is due. Raises PortError."""
        self._reading.refresh(self._quotas.reading)

    def of(self, pool: NodePool) -> JsonObject:
        """Return the condition of a NodePool; Unknown before the first reading."""
        reading = self._reading.latest
        if reading is None:
            return condition(QUOTA_SHORT, "Unknown", "EC2's quotas were not read yet", reason="NotRead")
        short = short_quotas(pool, reading, self._clock.now())
        if not short:
            return condition(QUOTA_SHORT, "False", reason="NotShort")
        return condition(QUOTA_SHORT, "True", "; ".join(short), reason="NearlyUsedUp")
