"""A scenario's own catalogue as the functions see it: its types need no EC2 description and are what EC2 sells here."""

from __future__ import annotations

from collections.abc import Sequence

from adapters.ports import JsonObject
from core.catalogue.facts import MarketFacts
from core.catalogue.market import Market
from core.model.catalogue import Catalogue
from simulator.aws.exchange import Exchange
from simulator.clock import VirtualClock


class OwnCatalogue:
    """Replaces the functions' source and store of the market (`adapters.ports.CatalogueSource` and `CatalogueStore`)."""

    def __init__(self, clock: VirtualClock, exchange: Exchange, region: str) -> None:
        self._clock = clock
        self._exchange = exchange
        self._region = region
        self._facts: MarketFacts | None = None
        self._present: tuple[int, Catalogue] | None = None

    def read(self, previous: MarketFacts | None, *, is_used: bool = False) -> MarketFacts:  # noqa: ARG002 - nothing is kept
        """A reading without shapes: `catalogue` has the types."""
        now = self._clock.now()
        return MarketFacts(shapes=(), market=Market(region=self._region), shapes_read_at=now, prices_read_at=now)

    def facts(self) -> MarketFacts | None:
        """The last reading, None before the first."""
        return self._facts

    def save(self, facts: MarketFacts) -> None:
        """Replace the reading."""
        self._facts = facts

    def catalogue(self, node_classes: Sequence[JsonObject]) -> Catalogue:  # noqa: ARG002 - the types are as they are
        """The types at current prices, the same for every EC2NodeClass."""
        changes = self._exchange.price_changes
        if self._present is None or self._present[0] != changes:
            self._present = (changes, Catalogue(default=self._exchange.present_types()))
        return self._present[1]
