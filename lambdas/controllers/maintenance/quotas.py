"""Keeps EC2's vCPU quotas current: limits every hour, what runs at every run."""

from __future__ import annotations

from core.reasons.decision import DecisionKind
from core.reasons.run import RunReason
from lambdas.ports import PortError, QuotaSource, QuotaStore
from lambdas.run_report import RunReport


class QuotaRefresh:
    """Reads the quotas and stores them. Without them plans are made as if there were none, and EC2 refuses."""

    def __init__(self, source: QuotaSource, store: QuotaStore) -> None:
        self._source = source
        self._store = store

    def refresh(self, report: RunReport) -> None:
        """Read what is due and store it; what cannot be read is reported."""
        try:
            reading = self._source.read(self._store.reading())
            self._store.save(reading)
            problems = reading.problems
        except PortError as error:
            problems = (str(error),)
        for problem in problems:
            report.count("quotaProblems")
            report.decide(DecisionKind.SKIP, "quotas", RunReason.QUOTAS_NOT_READ, problem)
