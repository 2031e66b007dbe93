"""Keeps EC2's vCPU quotas current: limits every hour, usage at every run."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from adapters.ports import PortError, QuotaSource, QuotaStore
from adapters.run_report import RunReport
from core.model.values.quota_reading import QuotaReading
from core.reasons.decision import DecisionKind
from core.reasons.run import RunReason

WRITTEN_EVERY: Final = timedelta(minutes=15)
"""How often an unchanged reading is stored: half of the time for which a count is fresh
(`core.model.values.quota_reading.USED_FRESH_FOR`). A write to the bucket costs more than a read."""


class QuotaRefresh:
    """Reads the quotas and stores them. Without them, plans ignore quotas, and EC2 refuses launches that exceed them."""

    def __init__(self, source: QuotaSource, store: QuotaStore) -> None:
        self._source = source
        self._store = store

    def refresh(self, report: RunReport) -> QuotaReading | None:
        """Read what is due and store it; report unreadable parts. Return the reading, None if there is none."""
        reading = None
        try:
            previous = self._store.reading()
            reading = self._source.read(previous)
            if previous is None or _is_worth_writing(previous, reading):
                self._store.save(reading)
            problems = reading.problems
        except PortError as error:
            problems = (str(error),)
        for problem in problems:
            report.count("quotaProblems")
            report.decide(DecisionKind.SKIP, "quotas", RunReason.QUOTAS_NOT_READ, problem)
        return reading


def _is_worth_writing(previous: QuotaReading, reading: QuotaReading) -> bool:
    """Whether it differs from the stored reading, or that is old; limits are rarely read, so each reading of them is stored."""
    if reading.used_read_at - previous.used_read_at >= WRITTEN_EVERY:
        return True
    return msgspec.structs.replace(reading, used_read_at=previous.used_read_at) != previous
