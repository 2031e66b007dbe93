from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.values.quantity import PPM
from core.price_terms.terms import ClassCharges, Discount, Licence, PriceTerms, charged

NONE = ClassCharges()


def a_type(*offerings: tuple[str, int], name: str = "m7i.xlarge") -> InstanceType:
    found = tuple(Offering(name, "z", capacity_type, price) for capacity_type, price in offerings)
    return InstanceType(name=name, labels={}, capacity={"cpu": 4000}, offerings=found)


def prices(found: InstanceType) -> list[int]:
    return [offering.price for offering in found.offerings]


def test_the_first_discount_that_fits_counts() -> None:
    terms = PriceTerms(discounts=(Discount(ppm=300_000, families=("m7i",)), Discount(ppm=100_000)))
    assert prices(charged(a_type(("on-demand", 1000), ("spot", 400)), terms, NONE)) == [700, 400]
    assert prices(charged(a_type(("on-demand", 1000), name="c7i.xlarge"), terms, NONE)) == [900]


def test_a_licence_counts_by_vcpu_and_by_node_beside_the_address() -> None:
    """On spot, too: EC2 discounts the machine alone."""
    charges = ClassCharges(a_vcpu=10, a_node=3, address=5)
    assert prices(charged(a_type(("on-demand", 1000), ("spot", 400)), PriceTerms(), charges)) == [1048, 448]


def test_the_price_of_what_is_paid_for_already_stays() -> None:
    """EC2 bills a capacity reservation with its licence, used or not; its places come before all others."""
    terms = PriceTerms(discounts=(Discount(ppm=500_000),))
    charges = ClassCharges(a_vcpu=10, a_node=3, address=5)
    assert prices(charged(a_type((labels.RESERVED, 2)), terms, charges)) == [2]


def test_a_type_whose_prices_stay_is_the_same_object() -> None:
    """What is known of it is remembered by identity."""
    found = a_type(("spot", 400))
    assert charged(found, PriceTerms(discounts=(Discount(ppm=1),)), NONE) is found


@pytest.mark.parametrize(
    ("terms", "reorder"),
    [
        (PriceTerms(), False),
        (PriceTerms(discounts=(Discount(ppm=1),), public_address=5), False),
        (PriceTerms(licences=(Licence(node_classes=("a",), a_node=5),)), False),
        (PriceTerms(discounts=(Discount(ppm=1, families=("m7i",)),)), True),
        (PriceTerms(licences=(Licence(node_classes=("a",), a_vcpu=5),)), True),
    ],
)
def test_launches_follow_our_order_only_where_it_is_another(terms: PriceTerms, reorder: bool) -> None:
    """EC2's own strategies know the present depth of its pools; they are given up only for a reason."""
    assert terms.reorder is reorder


@given(
    st.lists(st.integers(0, 10**12), min_size=2, max_size=6),
    st.integers(0, PPM),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
)
def test_terms_that_do_not_reorder_keep_the_order(listed: list[int], ppm: int, node: int, address: int) -> None:
    terms = PriceTerms(discounts=(Discount(ppm=ppm),))
    charges = ClassCharges(a_node=node, address=address)
    paid = prices(charged(a_type(*(("on-demand", price) for price in sorted(listed))), terms, charges))
    assert not terms.reorder
    assert paid == sorted(paid)
    assert all(price >= 0 for price in paid)
