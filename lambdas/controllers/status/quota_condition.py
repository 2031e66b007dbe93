"""Condition QuotaShort of NodePools: which of EC2's vCPU quotas are nearly used up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from core.model.node_pool import NodePool
from core.model.values.quota_reading import QuotaReading
from core.pools.short_quotas import short_quotas
from lambdas.controllers.status.status_writer import condition
from lambdas.ports import Clock, JsonObject, QuotaStore

QUOTA_SHORT: Final = "QuotaShort"
"""A condition for people only: plans stay within quotas anyway."""

READ_EVERY: Final = timedelta(minutes=5)
"""As often as they are read from AWS."""


class QuotaConditions:
    """The condition of each NodePool, by the last reading."""

    def __init__(self, quotas: QuotaStore, clock: Clock) -> None:
        self._quotas = quotas
        self._clock = clock
        self._reading: QuotaReading | None = None
        self._read_at = datetime.min.replace(tzinfo=UTC)

    def read(self) -> None:
        """Read the quotas again where that is due. Raises PortError."""
        now = self._clock.now()
        if now - self._read_at >= READ_EVERY:
            self._reading, self._read_at = self._quotas.reading(), now

    def of(self, pool: NodePool) -> JsonObject:
        """Return the condition of a NodePool; Unknown before the first reading."""
        if self._reading is None:
            return condition(QUOTA_SHORT, "Unknown", "EC2's quotas were not read yet", reason="NotRead")
        short = short_quotas(pool, self._reading, self._clock.now())
        if not short:
            return condition(QUOTA_SHORT, "False", reason="NotShort")
        return condition(QUOTA_SHORT, "True", "; ".join(short), reason="NearlyUsedUp")
