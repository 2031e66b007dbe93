"""Reads price terms from their JSON document, the format of `--price-terms` and of the setting `PRICE_TERMS`."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

import msgspec

from core import labels
from core.ami_families.registry import FAMILIES
from core.errors import InvalidInputError
from core.model.values import quantity
from core.price_terms.terms import PPM, Discount, Licence, PriceTerms

SUBJECT: Final = "price terms"
_PERCENT_MAX: Final = 100
_PPM_A_PERCENT: Final = PPM // 100
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


def read_terms(text: str | bytes) -> PriceTerms:
    """Return the terms; those of an empty text change no price.

    Raises:
        InvalidInputError: If it is no such document, or a value in it cannot be; names the field.
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
            public_address=_nanodollars(document.public_address_dollars_per_hour, "publicAddressDollarsPerHour"),
        )
    except InvalidInputError as error:
        raise error.within(subject=SUBJECT) from error


def _discount(one: _Discount, where: str) -> Discount:
    if not one.percent.is_finite() or not 0 <= one.percent <= _PERCENT_MAX:
        raise InvalidInputError(f"{one.percent} is not a percentage from 0 to 100", field=f"{where}.percent")
    _refuse_unknown(one.capacity_types, _DISCOUNTED, f"{where}.capacityTypes")
    return Discount(
        ppm=int(one.percent * _PPM_A_PERCENT),
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
        a_vcpu=_nanodollars(one.dollars_per_vcpu_hour, f"{where}.dollarsPerVCPUHour"),
        a_node=_nanodollars(one.dollars_per_hour, f"{where}.dollarsPerHour"),
    )


def _nanodollars(amount: Decimal, field: str) -> int:
    if not amount.is_finite() or amount < 0:
        raise InvalidInputError(f"{amount} is not an amount of dollars, 0 or more", field=field)
    return quantity.nanodollars(str(amount))


def _refuse_unknown(given: Iterable[str], known: Iterable[str], field: str) -> None:
    allowed = sorted(known)
    for name in given:
        if name not in allowed:
            raise InvalidInputError(f"{name!r} is not one of {', '.join(allowed)}", field=field)
