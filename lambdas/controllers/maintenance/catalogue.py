"""Keeps the market current: types twice a day, prices hourly, spot prices every five minutes in use, missing parts at once."""

from __future__ import annotations

from adapters.ports import CatalogueSource, CatalogueStore, Clock
from adapters.run_report import RunReport
from core.reasons.decision import DecisionKind
from core.reasons.run import RunReason
from installation.metric_names import ESTIMATED_PRICES, STALE_MARKET


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
            is_used: Whether instances of ours run, so that spot prices are read at every run (docs/adr/0209).

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
