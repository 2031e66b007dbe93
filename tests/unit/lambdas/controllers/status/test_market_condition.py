"""Condition MarketStale."""

from __future__ import annotations

import msgspec
import pytest

from adapters.ports import JsonObject, TransientError
from core.catalogue.facts import PRICES_STALE_AFTER, SHAPES_STALE_AFTER, MarketFacts
from core.manifests.wire import api_resources as kinds
from core.model.catalogue import Catalogue
from lambdas.controllers.status.market_condition import MarketCondition
from lambdas.controllers.status.periodic_reading import READ_EVERY
from tests.builders import NOW
from tests.fakes.lab import Lab
from tests.fakes.world import FakeCatalogues, FakeClock


class World:
    """A market that ages."""

    def __init__(self, kept: MarketFacts | None) -> None:
        self.store, self.clock = FakeCatalogues(Catalogue()), FakeClock(NOW)
        self.store.kept = kept
        self._condition = MarketCondition(self.store, self.clock)

    def after(self, seconds: float) -> JsonObject:
        """The condition of a round that much later."""
        self.clock.advance(seconds=seconds)
        self._condition.read()
        return self._condition.current()


def facts() -> MarketFacts:
    kept = FakeCatalogues(Catalogue()).facts()
    assert kept is not None
    return kept


def test_a_market_that_was_never_read_is_told_until_it_is() -> None:
    """Otherwise, whoever waits for nodes has to find the log of another function."""
    world = World(None)
    told = world.after(0)
    assert (told["status"], told["reason"]) == ("True", "NeverRead")
    assert "refresh_catalogue" in told["message"]
    world.store.kept = facts()
    assert world.after(READ_EVERY.total_seconds() - 1)["status"] == "True"
    assert world.after(1) == {"type": "MarketStale", "status": "False", "reason": "NotStale", "message": ""}


def test_old_parts_are_named_with_the_time_of_their_last_reading() -> None:
    """The message has no age: it would change, and with it every NodePool, from hour to hour."""
    world = World(facts())
    assert world.after(PRICES_STALE_AFTER.total_seconds() - 1)["status"] == "False"
    told = world.after(1)
    assert (told["status"], told["reason"]) == ("True", "PricesStale")
    assert f"prices were last read at {NOW:%Y-%m-%d %H:%M} UTC" in told["message"]
    assert world.after(7200) == told
    told = world.after(SHAPES_STALE_AFTER.total_seconds())
    assert told["reason"] == "PricesAndInstanceTypesStale"
    assert "instance types and zones were last read" in told["message"]
    world.store.kept = msgspec.structs.replace(facts(), prices_read_at=world.clock.now())
    assert world.after(READ_EVERY.total_seconds())["reason"] == "InstanceTypesStale"


def test_a_store_that_cannot_be_read_leaves_the_condition_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of S3 says nothing about the market."""
    lab = Lab()

    def throttled() -> MarketFacts | None:
        raise TransientError("s3:GetObject", "throttled")

    with monkeypatch.context() as broken:
        broken.setattr(lab.app.adapters.catalogues, "facts", throttled)
        lab.reconcile()
    assert "MarketStale" not in written(lab)
    assert "QuotaShort" in written(lab)
    lab.reconcile()
    assert "MarketStale" in written(lab)


def written(lab: Lab) -> set[str]:
    """The types of the NodePool's conditions."""
    conditions = lab.kubernetes.raw(kinds.NODE_POOLS, "default")["status"]["conditions"]
    return {found["type"] for found in conditions}
