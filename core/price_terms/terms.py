"""Price terms: discounts on EC2's list prices, and charges besides the instance."""

from __future__ import annotations

from typing import Final

import msgspec

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.values.commitment import Commitment
from core.model.values.quantity import CPU, PPM

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
        dedicated_ppm: How much more nodes of NodePools for dedicated hardware cost, in millionths (`core.pools.dedicated`).
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
        return any(one.families for one in self.discounts) or any(one.a_vcpu for one in self.licences)


class ClassCharges(msgspec.Struct, frozen=True, kw_only=True):
    """The charges for a node of one EC2NodeClass besides the instance, in nano-dollars per hour.

    Attributes:
        a_vcpu, a_node: The licence.
        address: The public address.
    """

    a_vcpu: int = 0
    a_node: int = 0
    address: int = 0


def charged(found: InstanceType, terms: PriceTerms, charges: ClassCharges) -> InstanceType:
    """Return the type at the paid prices; the same object if nothing changes."""
    vcpus = found.capacity.get(CPU, 0) // _MILLICORES
    family = found.name.partition(".")[0]
    offerings = tuple(_charged(one, family, vcpus, terms, charges) for one in found.offerings)
    return found if offerings == found.offerings else msgspec.structs.replace(found, offerings=offerings)


def _charged(offering: Offering, family: str, vcpus: int, terms: PriceTerms, charges: ClassCharges) -> Offering:
    if offering.capacity_type == labels.RESERVED:
        return offering  # prepaid, including its licence: its price only ranks it before all others
    paid = PPM - _discount(terms, family, offering.capacity_type)
    price = offering.price * paid // PPM + vcpus * charges.a_vcpu + charges.a_node + charges.address
    return offering if price == offering.price else msgspec.structs.replace(offering, price=price)


def _discount(terms: PriceTerms, family: str, capacity_type: str) -> int:
    fitting = (
        d for d in terms.discounts if capacity_type in d.capacity_types and (not d.families or family in d.families)
    )
    first = next(fitting, None)
    return first.ppm if first is not None else 0
