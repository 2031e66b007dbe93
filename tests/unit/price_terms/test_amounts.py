"""Amounts in the document of price terms."""

from __future__ import annotations

from decimal import Decimal

import pytest

from core.errors import InvalidInputError
from core.price_terms.amounts import nanodollars, share


def test_amounts_are_exact() -> None:
    """A tenth of a cent on a thousand nodes is a dollar an hour."""
    assert [nanodollars(Decimal(text), "f") for text in ("0", "0.046", "0.000000001")] == [0, 46_000_000, 1]
    assert [share(Decimal(text), "f") for text in ("0", "12.5", "0.0001", "100")] == [0, 125_000, 1, 1_000_000]


@pytest.mark.parametrize("text", ["-0.01", "NaN", "Infinity"])
def test_what_is_no_amount_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        nanodollars(Decimal(text), "licences[0].dollarsPerHour")
    assert refused.value.field == "licences[0].dollarsPerHour"


@pytest.mark.parametrize("text", ["-1", "100.1", "NaN"])
def test_what_is_no_percentage_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        share(Decimal(text), "discounts[0].percent")
    assert refused.value.field == "discounts[0].percent"
