"""Condition MarketStale of NodePools: whether plans go by prices or instance types that were read long ago, or by none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from core.catalogue.facts import MarketFacts
from lambdas.controllers.status.status_writer import condition
from lambdas.ports import CatalogueStore, Clock, JsonObject

MARKET_STALE: Final = "MarketStale"
"""A condition for people only: plans go by what was read last."""

READ_EVERY: Final = timedelta(minutes=5)
"""As often as the market is read from AWS where a part is missing."""

_NEVER_READ: Final = "instance types and prices were never read, so nothing is launched"
_ADVICE: Final = "decision `NotRead` or the error in the log of refresh_catalogue names the call that fails; permit it"


class MarketCondition:
    """The condition, the same for every NodePool, by the last reading."""

    def __init__(self, catalogues: CatalogueStore, clock: Clock) -> None:
        self._catalogues = catalogues
        self._clock = clock
        self._facts: MarketFacts | None = None
        self._read_at = datetime.min.replace(tzinfo=UTC)

    def read(self) -> None:
        """Look up the last reading of the market again where that is due. Raises PortError."""
        now = self._clock.now()
        if now - self._read_at >= READ_EVERY:
            self._facts, self._read_at = self._catalogues.facts(), now

    def current(self) -> JsonObject:
        """Return the condition; True where a part is stale or nothing was ever read, with what to do."""
        if self._facts is None:
            return condition(MARKET_STALE, "True", f"{_NEVER_READ}: {_ADVICE}", reason="NeverRead")
        stale = self._facts.stale_parts(self._clock.now())
        if not stale:
            return condition(MARKET_STALE, "False", reason="NotStale")
        message = f"{'; '.join(part.explanation for part in stale)}, and plans go by that: {_ADVICE}"
        return condition(MARKET_STALE, "True", message, reason="And".join(part.name for part in stale) + "Stale")
