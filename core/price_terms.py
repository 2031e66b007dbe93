"""Reads price terms from their JSON document, the format of `--price-terms` and of the setting `PRICE_TERMS`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Final

import msgspec

from core import labels
from core.ami_families.registry import FAMILIES
from core.catalogue.node_class import EC2NodeClass, read_node_class
from core.errors import InvalidInputError
from core.interpreter import ByIdentity
from core.model.catalogue import Catalogue, InstanceType, Offering
from core.model.values import quantity
from core.model.values.commitment import Commitment, CommittedRate, ReservedInstances, SavingsPlan
from core.model.values.quantity import CPU, PPM

# Amounts in the document of price terms.


PERCENT_MAX: Final = 100


def nanodollars(amount: Decimal, field: str) -> int:
    """Return dollars as nano-dollars. Raises InvalidInputError if they are negative or not a number."""
    if not amount.is_finite() or amount < 0:
        raise InvalidInputError(f"{amount} is not an amount of dollars, 0 or more", field=field)
    return quantity.nanodollars(str(amount))


def share(percent: Decimal, field: str) -> int:
    """Return a percentage in millionths. Raises InvalidInputError unless it is from 0 to 100."""
    if not percent.is_finite() or not 0 <= percent <= PERCENT_MAX:
        raise InvalidInputError(f"{percent} is not a percentage from 0 to {PERCENT_MAX}", field=field)
    return int(percent * (PPM // PERCENT_MAX))


# Reads reserved instances and Savings Plans in the document of price terms.


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
    by_place: list[tuple[str, Commitment]] = [
        (where, _reserved(entry, where)) for entry, where in zip(reserved, places, strict=True)
    ]
    by_place += [(f"savingsPlans[{i}]", _plan(entry, f"savingsPlans[{i}]")) for i, entry in enumerate(plans)]
    names: dict[str, str] = {}
    for where, commitment in by_place:
        name = commitment.name
        if not name or name in names:
            problem = f"{name!r} is also {names[name]}" if name else "is empty"
            raise InvalidInputError(f"{problem}: give each commitment a name of its own", field=f"{where}.name")
        names[name] = where
    return tuple(sorted((commitment for _, commitment in by_place), key=lambda commitment: commitment.name))


def _reserved(entry: ReservedInstancesEntry, where: str) -> ReservedInstances:
    if not all(entry.instance_type.partition(".")):
        problem = f"{entry.instance_type!r} is not a type with family and size, such as m7i.large"
        raise InvalidInputError(problem, field=f"{where}.instanceType")
    if entry.count < 1:
        raise InvalidInputError(f"{entry.count} is not a number of instances, 1 or more", field=f"{where}.count")
    return ReservedInstances(
        name=entry.name,
        instance_type=entry.instance_type,
        count=entry.count,
        zone=entry.zone,
        is_size_flexible=entry.size_flexible,
        ends_at=entry.ends_at,
    )


def _plan(entry: SavingsPlanEntry, where: str) -> SavingsPlan:
    if not entry.rates:
        problem = "is empty, so nothing is covered: say what is taken off the on-demand price"
        raise InvalidInputError(problem, field=f"{where}.rates")
    amount = nanodollars(entry.dollars_per_hour, f"{where}.dollarsPerHour")
    if not amount:
        raise InvalidInputError("is nothing, so nothing is covered", field=f"{where}.dollarsPerHour")
    rates = tuple(_rate(rate, f"{where}.rates[{i}]") for i, rate in enumerate(entry.rates))
    return SavingsPlan(name=entry.name, amount=amount, rates=rates, ends_at=entry.ends_at)


def _rate(entry: RateEntry, where: str) -> CommittedRate:
    ppm = share(entry.percent, f"{where}.percent")
    if ppm == PPM:
        raise InvalidInputError(f"{entry.percent} leaves nothing to pay: below 100", field=f"{where}.percent")
    return CommittedRate(ppm=ppm, families=tuple(sorted(set(entry.instance_families))))


# Price terms: discounts on EC2's list prices, and charges besides the instance.


_MILLICORES: Final = 1000


class Discount(msgspec.Struct, frozen=True, kw_only=True):
    """A negotiated discount.

    Attributes:
        ppm: The discount in millionths of the list price.
        families: Instance families that it applies to, such as `m7i`; empty for all.
        capacity_types: Capacity types that it applies to.
    """

    ppm: int
    families: tuple[str, ...] = ()
    capacity_types: tuple[str, ...] = (labels.ON_DEMAND,)


class Licence(msgspec.Struct, frozen=True, kw_only=True):
    """The price of an operating system's licence, for the EC2NodeClasses and AMI families that it names.

    Attributes:
        a_vcpu, a_node: Nano-dollars per hour, for each vCPU and for each node.
    """

    node_classes: tuple[str, ...] = ()
    ami_families: tuple[str, ...] = ()
    a_vcpu: int = 0
    a_node: int = 0


class PriceTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of an installation.

    Attributes:
        discounts: The first that matches an offering applies.
        licences: The first that names the EC2NodeClass or its AMI family applies.
        public_address: Nano-dollars per hour for a public IPv4 address.
        dedicated_ppm: How much more nodes of NodePools for dedicated hardware cost, in millionths (`core.pools`).
        commitments: Prepaid usage. It changes no price; plans use it up (`core.commitments`).
    """

    discounts: tuple[Discount, ...] = ()
    licences: tuple[Licence, ...] = ()
    public_address: int = 0
    dedicated_ppm: int = 0
    commitments: tuple[Commitment, ...] = ()

    @property
    def reorder(self) -> bool:
        """Whether types of one capacity type may rank differently from EC2's list; equal terms for all change no order."""
        return any(terms.families for terms in self.discounts) or any(terms.a_vcpu for terms in self.licences)


class ClassCharges(msgspec.Struct, frozen=True, kw_only=True):
    """The charges for a node of one EC2NodeClass besides the instance, in nano-dollars per hour.

    Attributes:
        a_vcpu, a_node: The licence.
        address: The public address.
    """

    a_vcpu: int = 0
    a_node: int = 0
    address: int = 0


def charged(instance_type: InstanceType, terms: PriceTerms, charges: ClassCharges) -> InstanceType:
    """Return the type at the paid prices; the same object if nothing changes."""
    vcpus = instance_type.capacity.get(CPU, 0) // _MILLICORES
    family = instance_type.name.partition(".")[0]
    offerings = tuple(_charged(offering, family, vcpus, terms, charges) for offering in instance_type.offerings)
    return (
        instance_type
        if offerings == instance_type.offerings
        else msgspec.structs.replace(instance_type, offerings=offerings)
    )


def _charged(offering: Offering, family: str, vcpus: int, terms: PriceTerms, charges: ClassCharges) -> Offering:
    if offering.capacity_type == labels.RESERVED:
        return offering  # prepaid, including its licence: its price only ranks it before all others
    paid = PPM - _discount_of_type(terms, family, offering.capacity_type)
    price = offering.price * paid // PPM + vcpus * charges.a_vcpu + charges.a_node + charges.address
    return offering if price == offering.price else msgspec.structs.replace(offering, price=price)


def _discount_of_type(terms: PriceTerms, family: str, capacity_type: str) -> int:
    fitting = (
        d for d in terms.discounts if capacity_type in d.capacity_types and (not d.families or family in d.families)
    )
    first = next(fitting, None)
    return first.ppm if first is not None else 0


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
            discounts=tuple(_discount(entry, f"discounts[{i}]") for i, entry in enumerate(document.discounts)),
            licences=tuple(_licence(entry, f"licences[{i}]") for i, entry in enumerate(document.licences)),
            public_address=nanodollars(document.public_address_dollars_per_hour, "publicAddressDollarsPerHour"),
            dedicated_ppm=share(document.dedicated_tenancy_percent, "dedicatedTenancyPercent"),
            commitments=commitments(document.reserved_instances, document.savings_plans),
        )
    except InvalidInputError as error:
        raise error.within(subject=SUBJECT) from error


def _discount(entry: _Discount, where: str) -> Discount:
    _refuse_unknown(entry.capacity_types, _DISCOUNTED, f"{where}.capacityTypes")
    return Discount(
        ppm=share(entry.percent, f"{where}.percent"),
        families=tuple(sorted(set(entry.instance_families))),
        capacity_types=tuple(sorted(set(entry.capacity_types))),
    )


def _licence(entry: _Licence, where: str) -> Licence:
    if not entry.node_classes and not entry.ami_families:
        problem = "names neither nodeClasses nor amiFamilies, so it is nobody's: name one of them"
        raise InvalidInputError(problem, field=where)
    _refuse_unknown(entry.ami_families, FAMILIES, f"{where}.amiFamilies")
    return Licence(
        node_classes=tuple(sorted(set(entry.node_classes))),
        ami_families=tuple(sorted(set(entry.ami_families))),
        a_vcpu=nanodollars(entry.dollars_per_vcpu_hour, f"{where}.dollarsPerVCPUHour"),
        a_node=nanodollars(entry.dollars_per_hour, f"{where}.dollarsPerHour"),
    )


def _refuse_unknown(names: Iterable[str], known_names: Iterable[str], field: str) -> None:
    allowed = sorted(known_names)
    for name in names:
        if name not in allowed:
            raise InvalidInputError(f"{name!r} is not one of {', '.join(allowed)}", field=field)


# Applies price terms to a catalogue.


LISTS_KEPT: Final = 16
CHARGES_KEPT: Final = 16


class TermPrices:
    """Catalogues at the prices of the terms. Equal lists of types give the same object, so results cached for it stay valid."""

    def __init__(self, terms: PriceTerms) -> None:
        self._terms = terms
        self._lists: dict[ClassCharges, ByIdentity[tuple[InstanceType, ...], tuple[InstanceType, ...]]] = {}

    def of(self, catalogue: Catalogue, node_classes: Iterable[Mapping[str, Any]]) -> Catalogue:
        """Return the catalogue for these EC2NodeClass manifests. Types without a class pay for no licence and no address."""
        if self._terms == PriceTerms():
            return catalogue
        default = self._charged(catalogue.default, ClassCharges())
        by_class = {name: self._charged(types, ClassCharges()) for name, types in catalogue.by_node_class.items()}
        for manifest in node_classes:
            try:
                node_class = read_node_class(manifest)
            except InvalidInputError:
                continue  # the class launches nothing, and its validation explains why
            charges = charges_of(node_class, self._terms)
            if charges != ClassCharges():
                by_class[node_class.name] = self._charged(catalogue.types_for(node_class.name), charges)
        return msgspec.structs.replace(catalogue, default=default, by_node_class=dict(sorted(by_class.items())))

    def _charged(self, types: tuple[InstanceType, ...], charges: ClassCharges) -> tuple[InstanceType, ...]:
        charged_lists = self._lists.get(charges)
        if charged_lists is None:
            if len(self._lists) >= CHARGES_KEPT:
                self._lists.clear()
            charged_lists = self._lists[charges] = ByIdentity(
                partial(_all_charged, self._terms, charges), size=LISTS_KEPT
            )
        return charged_lists(types)


def charges_of(node_class: EC2NodeClass, terms: PriceTerms) -> ClassCharges:
    """Return what a node of the class costs besides the instance. An address counts if the class itself requests one."""
    family = node_class.family.name
    named = (
        terms_entry
        for terms_entry in terms.licences
        if node_class.name in terms_entry.node_classes or family in terms_entry.ami_families
    )
    licence = next(named, None)
    return ClassCharges(
        a_vcpu=licence.a_vcpu if licence is not None else 0,
        a_node=licence.a_node if licence is not None else 0,
        address=terms.public_address if node_class.spec.associate_public_ip_address else 0,
    )


def _all_charged(terms: PriceTerms, charges: ClassCharges, types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
    return tuple(charged(instance_type, terms, charges) for instance_type in types)
