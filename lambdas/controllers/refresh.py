"""Keeps the catalogue and EC2's vCPU quotas current."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

import msgspec

from adapters.ports import CatalogueSource, CatalogueStore, Clock, PortError, QuotaSource, QuotaStore
from adapters.run_report import RunReport
from core.model.values.quotas import QuotaReading
from core.reasons.code import DecisionKind
from core.reasons.runs import RunReason
from installation.metric_names import ESTIMATED_PRICES, STALE_MARKET

# Keeps the market current: types twice a day, prices hourly, spot prices every five minutes in use, missing parts at once.


class CatalogueRefresh:
    """Reads the market and stores it."""

    def __init__(self, source: CatalogueSource, store: CatalogueStore, clock: Clock) -> None:
        self._source = source
        self._store = store
        self._clock = clock

    def refresh(self, report: RunReport, *, is_used: bool = False) -> None:
        """Read what is due and store it; parts that cannot be read keep their values and are reported.

        Args:
            report: Receives counts of types and prices.
            is_used: Whether instances of ours run, so that spot prices are read at every run
                (docs/engineering/handbook/prices.md).

        Raises:
            PortError: If there is no earlier market, or it cannot be stored.
        """
        previous = self._store.facts()
        facts = self._source.read(previous, is_used=is_used)
        if facts != previous:
            self._store.save(facts)
            report.count("catalogueSaved")
        report.count("instanceTypes", len(facts.shapes))
        report.count("onDemandPrices", len(facts.market.on_demand))
        report.count("spotPrices", sum(map(len, (facts.market.spot or {}).values())))
        report.count(ESTIMATED_PRICES, int(facts.prices_are_estimates))
        stale = facts.stale_parts(self._clock.now())
        report.count(STALE_MARKET, len(stale))
        for problem in (*facts.problems, *(part.explanation for part in stale)):
            report.count("catalogueProblems")
            report.decide(DecisionKind.SKIP, "catalogue", RunReason.CATALOGUE_NOT_READ, problem)


WRITTEN_EVERY: Final = timedelta(minutes=15)
"""How often an unchanged reading is stored: half of the time for which a count is fresh
(`core.model.values.quotas.USED_FRESH_FOR`). A write to the bucket costs more than a read."""


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
