"""What was last read of a region's market."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.catalogue.facts import PRICES_STALE_AFTER, SHAPES_STALE_AFTER, MarketFacts
from core.catalogue.shape import read_shape
from tests.builders import NOW
from tests.unit.catalogue.one_type import M5, MARKET

FACTS = MarketFacts(shapes=(read_shape(M5),), market=MARKET, shapes_read_at=NOW, prices_read_at=NOW)


@pytest.mark.parametrize(
    ("age", "parts"),
    [
        (PRICES_STALE_AFTER - timedelta(seconds=1), ()),
        (PRICES_STALE_AFTER, ("Prices",)),
        (SHAPES_STALE_AFTER - timedelta(seconds=1), ("Prices",)),
        (SHAPES_STALE_AFTER, ("Prices", "InstanceTypes")),
    ],
)
def test_parts_are_stale_after_three_missed_readings(age: timedelta, parts: tuple[str, ...]) -> None:
    """One missed reading is no news: spot prices of an hour ago still order the types."""
    found = FACTS.stale_parts(NOW + age)
    assert tuple(part.name for part in found) == parts
    assert all(f"last read at {NOW:%Y-%m-%d %H:%M} UTC" in part.explanation for part in found)


def test_catalogues_are_built_from_what_was_read() -> None:
    (found,) = FACTS.builder().catalogue([]).default
    assert (found.name, {offering.zone for offering in found.offerings}) == ("m5.large", {"us-east-1a", "us-east-1b"})


def test_prices_are_stale_after_three_hours_and_types_after_a_day_and_a_half() -> None:
    assert (timedelta(hours=3), timedelta(hours=36)) == (PRICES_STALE_AFTER, SHAPES_STALE_AFTER)
