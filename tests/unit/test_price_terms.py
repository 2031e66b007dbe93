"""Amounts in the document of price terms."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.values.commitment import CommittedRate, ReservedInstances, SavingsPlan
from core.model.values.quantity import PPM
from core.price_terms import (
    CHARGES_KEPT,
    ClassCharges,
    Discount,
    Licence,
    PriceTerms,
    TermPrices,
    charged,
    nanodollars,
    read_terms,
    share,
)

# Amounts in the document of price terms.


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


# Commitments in the document of price terms.


LARGE = {"name": "a", "instanceType": "m7i.large", "count": 1}
PLAN = {"name": "a", "dollarsPerHour": 1, "rates": [{"percent": 1}]}


def test_commitments_are_read_by_name() -> None:
    """The order in the document must not matter to a plan."""
    text = """{
      "reservedInstances": [
        {"name": "zonal", "instanceType": "m7i.large", "count": 10, "zone": "us-east-1a"},
        {"name": "gpu", "instanceType": "g5.xlarge", "count": 1, "sizeFlexible": false, "endsAt": "2027-03-01T00:00:00Z"}],
      "savingsPlans": [
        {"name": "compute", "dollarsPerHour": "2.50",
         "rates": [{"percent": 34, "instanceFamilies": ["m7i", "c7i"]}, {"percent": "27.5"}]}]}"""
    compute, gpu, zonal = read_terms(text).commitments
    rates = (CommittedRate(ppm=340_000, families=("c7i", "m7i")), CommittedRate(ppm=275_000))
    ends_at = datetime(2027, 3, 1, tzinfo=UTC)
    assert compute == SavingsPlan(name="compute", amount=2_500_000_000, rates=rates)
    assert gpu == ReservedInstances(
        name="gpu", instance_type="g5.xlarge", count=1, is_size_flexible=False, ends_at=ends_at
    )
    assert zonal == ReservedInstances(name="zonal", instance_type="m7i.large", count=10, zone="us-east-1a")


@pytest.mark.parametrize(
    ("change", "field", "problem"),
    [
        ({"instanceType": "m7i"}, "instanceType", "'m7i' is not a type"),
        ({"count": 0}, "count", "0 is not a number of instances, 1 or more"),
        ({"name": ""}, "name", "is empty"),
        ({"endsAt": "2027-03-01T00:00:00"}, "endsAt", "timezone"),
    ],
)
def test_reserved_instances_that_cannot_be_are_refused(change: dict[str, Any], field: str, problem: str) -> None:
    """Some that are misread cover nodes that nobody pays for, or none."""
    found = _refused({"reservedInstances": [LARGE | change]})
    assert found.field == f"reservedInstances[0].{field}"
    assert problem in found.problem


@pytest.mark.parametrize(
    ("change", "field", "problem"),
    [
        ({"dollarsPerHour": 0}, ".dollarsPerHour", "is nothing"),
        ({"dollarsPerHour": -1}, ".dollarsPerHour", "0 or more"),
        ({"rates": []}, ".rates", "is empty"),
        ({"rates": [{"percent": 100}]}, ".rates[0].percent", "below 100"),
        ({"rates": [{"percent": -1}]}, ".rates[0].percent", "0 to 100"),
        ({"rates": [{"percent": 1, "family": "m7i"}]}, ".rates[0]", "unknown field `family`"),
    ],
)
def test_a_savings_plan_that_cannot_be_is_refused(change: dict[str, Any], field: str, problem: str) -> None:
    """The same for a plan."""
    found = _refused({"savingsPlans": [PLAN | change]})
    assert found.field == f"savingsPlans[0]{field}"
    assert problem in found.problem


def test_each_commitment_has_a_name_of_its_own() -> None:
    """Plans say by name what covers a node."""
    found = _refused({"reservedInstances": [LARGE], "savingsPlans": [PLAN]})
    assert (found.field, found.subject) == ("savingsPlans[0].name", "price terms")
    assert "'a' is also reservedInstances[0]" in found.problem


def _refused(document: dict[str, Any]) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as caught:
        read_terms(json.dumps(document))
    return caught.value


def test_amounts_are_read_to_the_last_digit() -> None:
    """A licence of $0.046 a vCPU over a thousand nodes is as exact as over one."""
    text = """{
      "discounts": [{"percent": 12.5, "instanceFamilies": ["m7i", "c7g"], "capacityTypes": ["spot", "on-demand"]}],
      "licences": [{"amiFamilies": ["Windows2022"], "dollarsPerVCPUHour": "0.046"},
                   {"nodeClasses": ["rhel"], "dollarsPerHour": 0.0288}],
      "publicAddressDollarsPerHour": "0.005", "dedicatedTenancyPercent": 6.25}"""
    assert read_terms(text) == PriceTerms(
        discounts=(Discount(ppm=125_000, families=("c7g", "m7i"), capacity_types=("on-demand", "spot")),),
        licences=(
            Licence(ami_families=("Windows2022",), a_vcpu=46_000_000),
            Licence(node_classes=("rhel",), a_node=28_800_000),
        ),
        public_address=5_000_000,
        dedicated_ppm=62_500,
    )


def test_a_discount_is_for_on_demand_unless_it_says_otherwise() -> None:
    """Spot prices are EC2's own; a discount that counts there by accident makes spot nodes look cheaper than they are."""
    assert read_terms('{"discounts": [{"percent": 10}]}').discounts[0].capacity_types == ("on-demand",)


@pytest.mark.parametrize(("percent", "ppm"), [("0", 0), ("0.5", 5_000), ("100", 1_000_000)])
def test_a_discount_is_from_nothing_to_the_whole_price(percent: str, ppm: int) -> None:
    assert read_terms(f'{{"discounts": [{{"percent": {percent}}}]}}').discounts[0].ppm == ppm


def test_nothing_changes_no_price() -> None:
    assert read_terms("") == read_terms("{}") == PriceTerms()


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("{", "", "is not JSON"),
        ("[]", "", "Expected `object`"),
        ('{"discount": []}', "", "unknown field `discount`"),
        ('{"discounts": [{}]}', "discounts[0]", "missing required field `percent`"),
        ('{"discounts": [{"percent": 101}]}', "discounts[0].percent", "101 is not a percentage from 0 to 100"),
        ('{"discounts": [{"percent": -1}]}', "discounts[0].percent", "-1 is not a percentage from 0 to 100"),
        ('{"discounts": [{"percent": "NaN"}]}', "discounts[0].percent", "NaN is not a percentage"),
        (
            '{"discounts": [{"percent": 1}, {"percent": 1, "capacityTypes": ["reserved"]}]}',
            "discounts[1].capacityTypes",
            "'reserved' is not one of on-demand, spot",
        ),
        ('{"licences": [{"dollarsPerHour": 1}]}', "licences[0]", "neither nodeClasses nor amiFamilies"),
        (
            '{"licences": [{"amiFamilies": ["Windows2020"]}]}',
            "licences[0].amiFamilies",
            "'Windows2020' is not one of AL2,",
        ),
        (
            '{"licences": [{"nodeClasses": ["a"], "dollarsPerVCPUHour": -1}]}',
            "licences[0].dollarsPerVCPUHour",
            "-1 is not an amount of dollars, 0 or more",
        ),
        ('{"dedicatedTenancyPercent": -1}', "dedicatedTenancyPercent", "-1 is not a percentage from 0 to 100"),
        ('{"publicAddressDollarsPerHour": "free"}', "publicAddressDollarsPerHour", "Invalid decimal"),
    ],
)
def test_a_wrong_value_is_named(text: str, field: str, said: str) -> None:
    """A term that is dropped in silence shows on the bill."""
    with pytest.raises(InvalidInputError) as caught:
        read_terms(text)
    assert (caught.value.subject, caught.value.field) == ("price terms", field)
    assert said in caught.value.problem


TERMS = PriceTerms(
    discounts=(Discount(ppm=100_000),),
    licences=(Licence(node_classes=("rhel",), a_node=7), Licence(ami_families=("Windows2022",), a_vcpu=10)),
    public_address=5,
)
TYPES = (
    InstanceType(
        name="m5.large", labels={}, capacity={"cpu": 2000}, offerings=(Offering("m5.large", "z", "on-demand", 100),)
    ),
)


def a_class(name: str, alias: str = "al2023@latest", **spec: object) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": {"amiSelectorTerms": [{"alias": alias}], **spec}}


def price(catalogue: Catalogue, name: str) -> int:
    return catalogue.types_for(name)[0].offerings[0].price


def test_each_class_pays_its_own_charges() -> None:
    """By the first licence that names it or its AMI family; an address where the class asks for one itself."""
    classes = [
        a_class("plain"),
        a_class("rhel"),
        a_class("windows", "windows2022@latest"),
        a_class("public", associatePublicIPAddress=True),
        a_class("private", associatePublicIPAddress=False),
    ]
    found = TermPrices(TERMS).of(Catalogue(TYPES), classes)
    names = ("plain", "rhel", "windows", "public", "private", "unknown")
    assert [price(found, name) for name in names] == [90, 97, 110, 95, 90, 90]


def test_sizes_of_a_class_stay() -> None:
    own = (InstanceType(name="m5.large", labels={}, capacity={"cpu": 1000}, offerings=TYPES[0].offerings),)
    found = TermPrices(TERMS).of(Catalogue(TYPES, {"windows": own}), [a_class("windows", "windows2022@latest")])
    assert found.types_for("windows")[0].capacity == {"cpu": 1000}
    assert price(found, "windows") == 100


def test_a_class_that_cannot_be_read_pays_what_types_of_no_class_pay() -> None:
    """The classes after it pay what they do without it."""
    broken = {"metadata": {"name": "broken"}, "spec": {"associatePublicIPAddress": "yes"}}
    found = TermPrices(TERMS).of(Catalogue(TYPES), [broken, a_class("rhel")])
    assert [price(found, name) for name in ("broken", "rhel")] == [90, 97]


def test_the_same_market_has_the_same_types_again() -> None:
    """Indexes of thousands of offerings are remembered by identity; each run would make them again."""
    prices, classes = TermPrices(TERMS), [a_class("rhel"), a_class("plain")]
    first, second = (prices.of(Catalogue(TYPES), classes) for _ in range(2))
    assert first.default is second.default
    assert first.types_for("rhel") is second.types_for("rhel")


def test_without_terms_the_catalogue_is_the_same_object() -> None:
    catalogue = Catalogue(TYPES)
    assert TermPrices(PriceTerms()).of(catalogue, [a_class("rhel")]) is catalogue


def test_lists_for_many_charges_are_not_kept_for_ever() -> None:
    """A long run of `serve`, or of a function, sees prices and classes come and go."""
    prices = TermPrices(
        PriceTerms(licences=tuple(Licence(node_classes=(f"c{n}",), a_node=n + 1) for n in range(CHARGES_KEPT + 1)))
    )

    def listed(n: int) -> tuple[InstanceType, ...]:
        return prices.of(Catalogue(TYPES), [a_class(f"c{n}")]).types_for(f"c{n}")

    first = listed(0)
    assert listed(0) is first
    assert [listed(n)[0].offerings[0].price for n in range(CHARGES_KEPT + 1)] == [
        101 + n for n in range(CHARGES_KEPT + 1)
    ]
    assert listed(0) is not first
    assert listed(0) == first


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
