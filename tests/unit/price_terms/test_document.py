from __future__ import annotations

import pytest

from core.errors import InvalidInputError
from core.price_terms.document import read_terms
from core.price_terms.terms import Discount, Licence, PriceTerms


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
