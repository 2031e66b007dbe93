"""The embedded region's market: prices and capacity of every offering, as the scenario's steps change them."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

import msgspec

from core import labels
from core.model.catalogue import InstanceType, Offering
from simulator.record import Recorder

NO_CAPACITY: Final = "InsufficientInstanceCapacity"


class Pool(msgspec.Struct, frozen=True, order=True):
    """One pool of capacity: what EC2 sells under one price."""

    instance_type: str
    zone: str
    capacity_type: str


class Selection(msgspec.Struct, frozen=True):
    """The pools that a step concerns; an omitted field (None) matches all."""

    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None

    def matches(self, pool: Pool) -> bool:
        """Whether the step concerns the pool."""
        return (
            self.instance_type in (None, pool.instance_type)
            and self.zone in (None, pool.zone)
            and self.capacity_type in (None, pool.capacity_type)
        )


class _Statement(msgspec.Struct):
    """How many more instances each selected pool may launch, None for no bound."""

    selection: Selection
    available: int | None
    launched: dict[Pool, int] = {}


class Exchange:
    """Sells instances by pool. Reserved capacity is paid for already (`simulator.aws.ec2.reservations`).

    Attributes:
        price_changes: How often prices changed so far.
    """

    def __init__(self, recorder: Recorder, types: Iterable[InstanceType]) -> None:
        self._recorder = recorder
        self._types = {t.name: t for t in sorted(types, key=lambda t: t.name)}
        self._offerings = {
            Pool(t.name, offering.zone, offering.capacity_type): offering
            for t in self._types.values()
            for offering in t.offerings
            if offering.capacity_type != labels.RESERVED
        }
        self._pools = tuple(sorted(self._offerings))
        self._prices = {pool: offering.price for pool, offering in self._offerings.items()}
        self._statements: list[_Statement] = []
        self.price_changes = 0

    @property
    def pools(self) -> tuple[Pool, ...]:
        """Every pool, in order."""
        return self._pools

    def instance_type(self, name: str) -> InstanceType | None:
        """The type of this name, None where it is not sold here."""
        return self._types.get(name)

    def architecture(self, name: str) -> str:
        """The type's architecture under Kubernetes' name; empty where unknown."""
        found = self._types.get(name)
        values = found.labels.get(labels.ARCH, ()) if found is not None else ()
        return values[0] if values else ""

    def price(self, pool: Pool) -> int | None:
        """Nano-dollars per hour now, None where it is not sold."""
        return self._prices.get(pool)

    def present_types(self) -> tuple[InstanceType, ...]:
        """Return every type with its offerings at current prices; their capacity shows only at a launch."""
        return tuple(msgspec.structs.replace(t, offerings=self._present(t)) for t in self._types.values())

    def refuses(self, pool: Pool) -> str:
        """The EC2 error code with which a launch is refused now, empty where it is not."""
        offering = self._offerings.get(pool)
        if offering is None:
            return "Unsupported"
        if not offering.available:
            return NO_CAPACITY
        statement = self._holding(pool)
        if statement is None or statement.available is None:
            return ""
        return NO_CAPACITY if statement.launched.get(pool, 0) >= statement.available else ""

    def take(self, pool: Pool) -> None:
        """Count one instance launched from this pool."""
        statement = self._holding(pool)
        if statement is not None:
            statement.launched[pool] = statement.launched.get(pool, 0) + 1

    def state_capacity(self, selection: Selection, available: int | None) -> None:
        """Set how many instances of each named pool may be launched from now on; None: any number."""
        self._statements.append(_Statement(selection, available))
        self._recorder.emit(
            "capacityChanged",
            instanceType=selection.instance_type,
            zone=selection.zone,
            capacityType=selection.capacity_type,
            available=available,
        )

    def scale_prices(self, selection: Selection, factor: Fraction) -> None:
        """Multiply the current prices of the selected pools."""
        self.price_changes += 1
        for pool, price in self._prices.items():
            if selection.matches(pool):
                self._prices[pool] = round(price * factor)

    def _holding(self, pool: Pool) -> _Statement | None:
        return next((s for s in reversed(self._statements) if s.selection.matches(pool)), None)

    def _present(self, instance_type: InstanceType) -> tuple[Offering, ...]:
        """Leave out reserved offerings: an EC2NodeClass must select a reservation."""

        def now(offering: Offering) -> Offering:
            price = self._prices.get(Pool(instance_type.name, offering.zone, offering.capacity_type))
            return offering if price is None else msgspec.structs.replace(offering, price=price)

        return tuple(now(offering) for offering in instance_type.offerings if not offering.reservation_id)
