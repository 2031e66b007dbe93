from __future__ import annotations

from core.model.catalogue import Catalogue, InstanceType, Offering
from core.price_terms.term_prices import CHARGES_KEPT, TermPrices
from core.price_terms.terms import Discount, Licence, PriceTerms

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
