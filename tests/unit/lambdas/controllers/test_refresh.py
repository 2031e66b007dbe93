"""The market is stored when it has changed, and what could not be read is told."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from adapters.ports import TransientError
from adapters.run_report import RunReport
from core.catalogue.build import PRICES_STALE_AFTER, MarketFacts
from core.catalogue.document import Market
from core.model.values.quotas import QuotaReading
from core.reasons.runs import RunReason
from installation.metric_names import ESTIMATED_PRICES, STALE_MARKET
from lambdas.controllers.refresh import WRITTEN_EVERY, CatalogueRefresh, QuotaRefresh
from tests.builders import NOW

MARKET = Market(region="us-east-1", on_demand={"a": 1, "b": 2, "c": 3}, spot={"x": {"a": 1}, "y": {"a": 1, "b": 2}})
FACTS = MarketFacts(shapes=(), market=MARKET, shapes_read_at=NOW, prices_read_at=NOW)


class Kept:
    """The store and the source of the market, and the clock."""

    def __init__(self, kept: MarketFacts | None, read: MarketFacts) -> None:
        self.kept, self.found = kept, read
        self.saved: list[MarketFacts] = []
        self.asked: list[tuple[MarketFacts | None, bool]] = []

    def facts(self) -> MarketFacts | None:
        return self.kept

    def save(self, facts: MarketFacts) -> None:
        self.saved.append(facts)

    def read(self, previous: MarketFacts | None, *, is_used: bool = False) -> MarketFacts:
        self.asked.append((previous, is_used))
        return self.found

    def now(self) -> datetime:
        return NOW


def refreshed(kept: MarketFacts | None = FACTS, *, is_used: bool = False, **changes: Any) -> tuple[Kept, RunReport]:
    """The market after one reading that differs from the one before in this."""
    fake, report = Kept(kept, msgspec.structs.replace(FACTS, **changes)), RunReport()
    CatalogueRefresh(fake, fake, fake).refresh(report, is_used=is_used)  # type: ignore[arg-type]  # what it uses of each
    return fake, report


def test_a_market_is_stored_where_it_has_changed() -> None:
    assert refreshed()[0].saved == []
    for kept, changes in ((None, {}), (FACTS, {"problems": ("a",)}), (FACTS, {"prices_read_at": NOW + timedelta(1)})):
        fake, report = refreshed(kept, **changes)
        assert fake.saved == [msgspec.structs.replace(FACTS, **changes)]
        assert report.counts["catalogueSaved"] == 1


def test_the_source_is_told_what_is_known_and_whether_spot_prices_are_used() -> None:
    assert refreshed(is_used=True)[0].asked == [(FACTS, True)]
    assert refreshed(None)[0].asked == [(None, False)]


def test_what_was_read_is_counted() -> None:
    counts = {"instanceTypes": 0, "onDemandPrices": 3, "spotPrices": 3, ESTIMATED_PRICES: 0, STALE_MARKET: 0}
    assert refreshed()[1].counts == counts
    without_spot = msgspec.structs.replace(MARKET, spot=None)
    counted = refreshed(market=without_spot, prices_are_estimates=True)[1].counts
    assert (counted["spotPrices"], counted[ESTIMATED_PRICES]) == (0, 1)


def test_each_part_that_could_not_be_read_or_is_old_is_a_problem_of_its_own() -> None:
    _, report = refreshed(problems=("spot failed",), prices_read_at=NOW - PRICES_STALE_AFTER)
    assert (report.counts["catalogueProblems"], report.counts[STALE_MARKET]) == (2, 1)
    assert [(decision.subject, decision.reason, decision.message) for decision in report.decisions] == [
        ("catalogue", RunReason.CATALOGUE_NOT_READ, "spot failed"),
        ("catalogue", RunReason.CATALOGUE_NOT_READ, "prices were last read at 2026-11-19 21:00 UTC"),
    ]


def test_spot_prices_count_as_unused_unless_it_is_said() -> None:
    fake = Kept(FACTS, FACTS)
    CatalogueRefresh(fake, fake, fake).refresh(RunReport())  # type: ignore[arg-type]  # what it uses of each
    assert fake.asked == [(FACTS, False)]


# EC2's quotas are read in every run, and stored where that tells others anything.


READING = QuotaReading(limits={"L-1": 64}, used={"shop": {"L-1": 8}}, limits_read_at=NOW, used_read_at=NOW)


class Quotas:
    """The account and the bucket in one: what is read next, what is stored, and what was stored in this run."""

    def __init__(self, stored: QuotaReading | None, reading: QuotaReading | Exception) -> None:
        self.stored, self.found = stored, reading
        self.saved: list[QuotaReading] = []

    def reading(self) -> QuotaReading | None:
        return self.stored

    def read(self, previous: QuotaReading | None) -> QuotaReading:
        assert previous is self.stored
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def save(self, reading: QuotaReading) -> None:
        self.saved.append(reading)


def later(span: timedelta, **changes: Any) -> QuotaReading:
    return msgspec.structs.replace(READING, used_read_at=NOW + span, **changes)


@pytest.mark.parametrize(
    ("stored", "reading", "is_saved"),
    [
        (None, READING, True),
        (READING, later(timedelta(minutes=1)), False),
        (READING, later(timedelta(minutes=1), used={"shop": {"L-1": 9}}), True),
        (READING, later(timedelta(minutes=1), limits={"L-1": 128}), True),
        (READING, later(WRITTEN_EVERY - timedelta(seconds=1)), False),
        (READING, later(WRITTEN_EVERY), True),
    ],
)
def test_a_reading_is_stored_where_it_differs_or_the_stored_one_is_old(
    stored: QuotaReading | None, reading: QuotaReading, *, is_saved: bool
) -> None:
    """A write each minute costs more than all reads; a reading that is never renewed counts for nothing after half an hour."""
    quotas, report = Quotas(stored, reading), RunReport()
    assert QuotaRefresh(quotas, quotas).refresh(report) is reading
    assert quotas.saved == ([reading] if is_saved else [])
    assert (report.counts, report.decisions) == ({}, [])


def test_what_cannot_be_read_is_told_each_by_itself() -> None:
    quotas, report = Quotas(READING, later(timedelta(0), problems=("L-1: denied", "L-2: denied"))), RunReport()
    QuotaRefresh(quotas, quotas).refresh(report)
    assert report.counts["quotaProblems"] == 2
    assert [d.message for d in report.decisions] == ["L-1: denied", "L-2: denied"]
    failing, other = Quotas(READING, TransientError("servicequotas:List", "throttled")), RunReport()
    assert QuotaRefresh(failing, failing).refresh(other) is None
    assert (other.counts["quotaProblems"], failing.saved) == (1, [])
