"""Ports of the market: sources and stores of the catalogue and the vCPU quotas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # most functions read neither
    from core.api.objects import JsonObject
    from core.catalogue.facts import MarketFacts
    from core.model.catalogue import Catalogue
    from core.model.values.quota_reading import QuotaReading


class CatalogueSource(Protocol):
    """The source of shapes, zones and prices: EC2 and the Pricing service."""

    def read(self, previous: MarketFacts | None, *, is_used: bool = False) -> MarketFacts:
        """Return the current facts. What cannot be read, and what was read a short while ago, is kept from `previous`.

        `is_used`: Whether spot prices are read in any case. If none has changed, the facts are those of `previous`.

        Raises PortError where a part fails that has no previous value.
        """
        ...


class CatalogueStore(Protocol):
    """Storage for the last reading between runs."""

    def facts(self) -> MarketFacts | None:
        """Return the last reading, None before the first."""
        ...

    def save(self, facts: MarketFacts) -> None:
        """Replace the last reading."""
        ...

    def catalogue(self, node_classes: Sequence[JsonObject]) -> Catalogue:
        """Return the whole catalogue for these EC2NodeClass manifests. Raises NotFoundError before the first reading."""
        ...


class QuotaSource(Protocol):
    """The source of EC2's vCPU quotas: Service Quotas, and the account's instances."""

    def read(self, previous: QuotaReading | None) -> QuotaReading:
        """Return the current reading. What cannot be read, or was read a short while ago, is kept from `previous`.

        Raises PortError where a part fails that has no previous value.
        """
        ...


class QuotaStore(Protocol):
    """Storage for the last reading of quotas between runs."""

    def reading(self) -> QuotaReading | None:
        """Return the last reading, None before the first. Raises PortError."""
        ...

    def save(self, reading: QuotaReading) -> None:
        """Replace the last reading. Raises PortError."""
        ...
