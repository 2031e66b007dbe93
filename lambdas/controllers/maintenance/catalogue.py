"""Keeps the market current: types and zones twice a day, prices every hour, and what was never read at once."""

from __future__ import annotations

from core.reasons.decision import DecisionKind
from core.reasons.run import RunReason
from lambdas.decisions import Outcome
from lambdas.ports import CatalogueSource, CatalogueStore


class CatalogueRefresh:
    """Reads the market and stores the reading."""

    def __init__(self, source: CatalogueSource, store: CatalogueStore) -> None:
        self._source = source
        self._store = store

    def refresh(self, outcome: Outcome) -> None:
        """Read what is due and store it; parts that cannot be read stay as they were and are told.

        Raises:
            PortError: If there is no market to fall back on, or it cannot be stored.
        """
        previous = self._store.facts()
        facts = self._source.read(previous)
        if facts != previous:
            self._store.save(facts)
            outcome.count("catalogueSaved")
        outcome.count("instanceTypes", len(facts.shapes))
        outcome.count("onDemandPrices", len(facts.market.on_demand))
        outcome.count("spotPrices", sum(map(len, (facts.market.spot or {}).values())))
        for problem in facts.problems:
            outcome.count("catalogueProblems")
            outcome.decide(DecisionKind.SKIP, "catalogue", RunReason.CATALOGUE_NOT_READ, problem)
