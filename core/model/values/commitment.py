"""Commitments: prepaid on-demand usage, paid whether used or not, up to an amount per hour."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

import msgspec

from core.model.values.quantity import PPM, whole_number

_UNITS: Final = {"nano": 1, "micro": 2, "small": 4, "medium": 8, "large": 16, "xlarge": 32}
"""EC2's normalization factors of reserved instances, in quarters: a nano counts 0.25."""

_LARGER: Final = re.compile(r"(?:([0-9]+)xlarge|metal-([0-9]+)xl)\Z")


class ReservedInstances(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Reserved instances of one type; their amount is in quarters of EC2's normalization factor.

    Attributes:
        name: A unique name for people.
        instance_type: Their instance type.
        count: The number of instances.
        zone: Their zone, empty for regional ones.
        is_size_flexible: Whether they count for every size of the family (EC2: regional ones for Linux, of most families).
        ends_at: When they end, None if unknown.
    """

    name: str
    instance_type: str
    count: int
    zone: str = ""
    is_size_flexible: bool = True
    ends_at: datetime | None = None

    @property
    def amount(self) -> int:
        """The usage per hour that they cover."""
        return self.count * self.charge(self.instance_type, self.zone, 0)

    @property
    def breadth(self) -> int:
        """The rank in which EC2 applies commitments: zonal, regional, Savings Plans of families, other Savings Plans."""
        return 0 if self.zone else 1

    @property
    def bound_to(self) -> str:
        """The only zone that it covers, empty for all zones."""
        return self.zone

    def charge(self, instance_type: str, zone: str, price: int) -> int:  # noqa: ARG002 - what a commitment goes by
        """Return how much of the amount an on-demand instance uses, 0 if it is not covered.

        Args:
            instance_type: Its type.
            zone: Its zone.
            price: Its price in nano-dollars per hour; only Savings Plans depend on it.
        """
        if self.zone not in ("", zone):
            return 0
        if instance_type == self.instance_type:
            return _units(instance_type) or 1
        is_alike = instance_type.partition(".")[0] == self.instance_type.partition(".")[0]
        covers = self.is_size_flexible and not self.zone and is_alike and _units(self.instance_type)
        return _units(instance_type) if covers else 0


class CommittedRate(msgspec.Struct, frozen=True, kw_only=True):
    """A Savings Plan's discount on the on-demand price.

    Attributes:
        ppm: The discount in millionths of the price, less than the whole.
        families: Instance families that it applies to, empty for all.
    """

    ppm: int
    families: tuple[str, ...] = ()


class SavingsPlan(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A Savings Plan; its amount is in nano-dollars per hour at its own rates.

    Attributes:
        name: A unique name for people.
        amount: The hourly commitment.
        rates: The first that matches a family applies; a family without a match is not covered.
        ends_at: When it ends, None if unknown.
    """

    name: str
    amount: int
    rates: tuple[CommittedRate, ...]
    ends_at: datetime | None = None

    @property
    def breadth(self) -> int:
        """As `ReservedInstances.breadth`."""
        return 2 if all(rate.families for rate in self.rates) else 3

    @property
    def bound_to(self) -> str:
        """As `ReservedInstances.bound_to`."""
        return ""

    def charge(self, instance_type: str, zone: str, price: int) -> int:  # noqa: ARG002 - what a commitment goes by
        """As `ReservedInstances.charge`."""
        family = instance_type.partition(".")[0]
        rate = next((matching for matching in self.rates if not matching.families or family in matching.families), None)
        return 0 if rate is None else max(1, price * (PPM - rate.ppm) // PPM)


Commitment = ReservedInstances | SavingsPlan


def _units(instance_type: str) -> int:
    """Return the normalization factor of a type's size, in quarters; 0 if its name has no known size."""
    size = instance_type.partition(".")[2]
    larger = _LARGER.match(size)
    if larger is None:
        return _UNITS.get(size, 0)
    return (whole_number(larger[1] or larger[2]) or 0) * _UNITS["xlarge"]
