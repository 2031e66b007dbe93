"""Reads price terms from their JSON document, the format of `--price-terms` and of the setting `PRICE_TERMS`."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

import msgspec

from core import labels
from core.ami_families.registry import FAMILIES
from core.errors import InvalidInputError
from core.price_terms.amounts import nanodollars, share
from core.price_terms.commitment_document import ReservedInstancesEntry, SavingsPlanEntry, commitments
from core.price_terms.terms import Discount, Licence, PriceTerms

SUBJECT: Final = "price terms"
_DISCOUNTED: Final = (labels.ON_DEMAND, labels.SPOT)


class _Discount(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    percent: Decimal
    instance_families: list[str] = []
    capacity_types: tuple[str, ...] = (labels.ON_DEMAND,)


class _Licence(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    node_classes: list[str] = []
    ami_families: list[str] = []
    dollars_per_vcpu_hour: Decimal = msgspec.field(name="dollarsPerVCPUHour", default=Decimal())
    dollars_per_hour: Decimal = Decimal()


class _Document(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    discounts: list[_Discount] = []
    licences: list[_Licence] = []
    public_address_dollars_per_hour: Decimal = Decimal()
    dedicated_tenancy_percent: Decimal = Decimal()
    reserved_instances: list[ReservedInstancesEntry] = []
    savings_plans: list[SavingsPlanEntry] = []


def read_terms(text: str | bytes) -> PriceTerms:
    """Return the terms; an empty text gives terms that change no price.

    Raises:
        InvalidInputError: If the text is not such a document, or a value in it is invalid; the error names the field.
    """
    if not text:
        return PriceTerms()
    try:
        document = msgspec.json.decode(text, type=_Document)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        raise InvalidInputError(problem, subject=SUBJECT, field=path.strip(".`")) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"is not JSON: {error}", subject=SUBJECT) from error
    try:
        return PriceTerms(
            discounts=tuple(_discount(one, f"discounts[{i}]") for i, one in enumerate(document.discounts)),
            licences=tuple(_licence(one, f"licences[{i}]") for i, one in enumerate(document.licences)),
            public_address=nanodollars(document.public_address_dollars_per_hour, "publicAddressDollarsPerHour"),
            dedicated_ppm=share(document.dedicated_tenancy_percent, "dedicatedTenancyPercent"),
            commitments=commitments(document.reserved_instances, document.savings_plans),
        )
    except InvalidInputError as error:
        raise error.within(subject=SUBJECT) from error


def _discount(one: _Discount, where: str) -> Discount:
    _refuse_unknown(one.capacity_types, _DISCOUNTED, f"{where}.capacityTypes")
    return Discount(
        ppm=share(one.percent, f"{where}.percent"),
        families=tuple(sorted(set(one.instance_families))),
        capacity_types=tuple(sorted(set(one.capacity_types))),
    )


def _licence(one: _Licence, where: str) -> Licence:
    if not one.node_classes and not one.ami_families:
        problem = "names neither nodeClasses nor amiFamilies, so it is nobody's: name one of them"
        raise InvalidInputError(problem, field=where)
    _refuse_unknown(one.ami_families, FAMILIES, f"{where}.amiFamilies")
    return Licence(
        node_classes=tuple(sorted(set(one.node_classes))),
        ami_families=tuple(sorted(set(one.ami_families))),
        a_vcpu=nanodollars(one.dollars_per_vcpu_hour, f"{where}.dollarsPerVCPUHour"),
        a_node=nanodollars(one.dollars_per_hour, f"{where}.dollarsPerHour"),
    )


def _refuse_unknown(given: Iterable[str], known: Iterable[str], field: str) -> None:
    allowed = sorted(known)
    for name in given:
        if name not in allowed:
            raise InvalidInputError(f"{name!r} is not one of {', '.join(allowed)}", field=field)
