"""Reads reserved instances and Savings Plans in the document of price terms."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import msgspec

from core.errors import InvalidInputError
from core.model.values.commitment import Commitment, CommittedRate, ReservedInstances, SavingsPlan
from core.model.values.quantity import PPM
from core.price_terms.amounts import nanodollars, share

_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class ReservedInstancesEntry(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """An entry of `reservedInstances`."""

    name: str
    instance_type: str
    count: int
    zone: str = ""
    size_flexible: bool = True
    ends_at: _Moment | None = None


class RateEntry(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """An entry of `savingsPlans[].rates`."""

    percent: Decimal
    instance_families: list[str] = []


class SavingsPlanEntry(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """An entry of `savingsPlans`."""

    name: str
    dollars_per_hour: Decimal
    rates: list[RateEntry]
    ends_at: _Moment | None = None


def commitments(
    reserved: Sequence[ReservedInstancesEntry], plans: Sequence[SavingsPlanEntry]
) -> tuple[Commitment, ...]:
    """Return the commitments by name.

    Raises:
        InvalidInputError: If a value is invalid, or two commitments have the same name; the error names the field.
    """
    places = [f"reservedInstances[{i}]" for i in range(len(reserved))]
    found: list[tuple[str, Commitment]] = [
        (where, _reserved(one, where)) for one, where in zip(reserved, places, strict=True)
    ]
    found += [(f"savingsPlans[{i}]", _plan(one, f"savingsPlans[{i}]")) for i, one in enumerate(plans)]
    names: dict[str, str] = {}
    for where, one in found:
        if not one.name or one.name in names:
            problem = f"{one.name!r} is also {names[one.name]}" if one.name else "is empty"
            raise InvalidInputError(f"{problem}: give each commitment a name of its own", field=f"{where}.name")
        names[one.name] = where
    return tuple(sorted((one for _, one in found), key=lambda one: one.name))


def _reserved(one: ReservedInstancesEntry, where: str) -> ReservedInstances:
    if not all(one.instance_type.partition(".")):
        problem = f"{one.instance_type!r} is not a type with family and size, such as m7i.large"
        raise InvalidInputError(problem, field=f"{where}.instanceType")
    if one.count < 1:
        raise InvalidInputError(f"{one.count} is not a number of instances, 1 or more", field=f"{where}.count")
    return ReservedInstances(
        name=one.name,
        instance_type=one.instance_type,
        count=one.count,
        zone=one.zone,
        is_size_flexible=one.size_flexible,
        ends_at=one.ends_at,
    )


def _plan(one: SavingsPlanEntry, where: str) -> SavingsPlan:
    if not one.rates:
        problem = "is empty, so nothing is covered: say what is taken off the on-demand price"
        raise InvalidInputError(problem, field=f"{where}.rates")
    amount = nanodollars(one.dollars_per_hour, f"{where}.dollarsPerHour")
    if not amount:
        raise InvalidInputError("is nothing, so nothing is covered", field=f"{where}.dollarsPerHour")
    rates = tuple(_rate(rate, f"{where}.rates[{i}]") for i, rate in enumerate(one.rates))
    return SavingsPlan(name=one.name, amount=amount, rates=rates, ends_at=one.ends_at)


def _rate(one: RateEntry, where: str) -> CommittedRate:
    ppm = share(one.percent, f"{where}.percent")
    if ppm == PPM:
        raise InvalidInputError(f"{one.percent} leaves nothing to pay: below 100", field=f"{where}.percent")
    return CommittedRate(ppm=ppm, families=tuple(sorted(set(one.instance_families))))
