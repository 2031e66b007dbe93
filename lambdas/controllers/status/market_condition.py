"""Condition MarketStale of NodePools: whether prices or instance types were last read long ago, or never."""

from __future__ import annotations

from typing import Final

from adapters.ports import CatalogueStore, Clock, JsonObject
from core.catalogue.facts import MarketFacts
from lambdas.controllers.status.periodic_reading import PeriodicReading
from lambdas.controllers.status.status_writer import condition

MARKET_STALE: Final = "MarketStale"
"""A condition for people only: plans use the last reading."""

_NEVER_READ: Final = "instance types and prices were never read, so nothing is launched"
_ADVICE: Final = "decision `NotRead` or the error in the log of refresh_catalogue names the call that fails; permit it"


class MarketCondition:
    """The condition, the same for every NodePool, by the last reading."""

    def __init__(self, catalogues: CatalogueStore, clock: Clock) -> None:
        self._catalogues = catalogues
        self._clock = clock
        self._facts: PeriodicReading[MarketFacts] = PeriodicReading(clock)

    def read(self) -> None:
        """Look up the last reading of the market again where that is due. Raises PortError."""
        self._facts.refresh(self._catalogues.facts)

    def current(self) -> JsonObject:
        """Return the condition; True where a part is stale or nothing was ever read, with what to do."""
        facts = self._facts.latest
        if facts is None:
            return condition(MARKET_STALE, "True", f"{_NEVER_READ}: {_ADVICE}", reason="NeverRead")
        stale = facts.stale_parts(self._clock.now())
        if not stale:
            return condition(MARKET_STALE, "False", reason="NotStale")
        message = f"{'; '.join(part.explanation for part in stale)}, and plans use these: {_ADVICE}"
        return condition(MARKET_STALE, "True", message, reason="And".join(part.name for part in stale) + "Stale")
