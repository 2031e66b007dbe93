"""A store of quotas in memory."""

from __future__ import annotations

from core.model.values.quotas import QuotaReading


class MemoryQuotas:
    """`adapters.ports.QuotaStore`."""

    def __init__(self, reading: QuotaReading | None = None) -> None:
        self.kept = reading

    def reading(self) -> QuotaReading | None:
        return self.kept

    def save(self, reading: QuotaReading) -> None:
        self.kept = reading
