"""Applies NodeOverlays, the user's own prices and capacities, to the catalogue of one NodePool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from itertools import groupby

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.model.catalogue import InstanceType, Offering
from core.model.overlay import NodeOverlay
from core.model.values.quantity import NANODOLLARS
from core.model.values.requirements import Requirement, Requirements

_Subject = tuple[int, int, int | str]
_Bought = list[tuple[int, Requirements]]


def agreeing(
    overlays: Iterable[NodeOverlay],
    pools: Iterable[tuple[Iterable[InstanceType], Requirements]],
    keys: frozenset[str],
) -> tuple[NodeOverlay, ...]:
    """Return the effective overlays, by descending weight, ties by descending name.

    If two overlays of equal weight set the same offering's price or the same resource of a type, only the first is effective;
    the other is ignored entirely, in every NodePool (Karpenter).

    Args:
        overlays: Every overlay.
        pools: For each NodePool, its types and its template (as in `overlaid`).
        keys: Labels that some type carries.
    """
    ordered = sorted(sorted(overlays, key=lambda o: o.name, reverse=True), key=lambda o: -o.weight)
    offers = _offers(pools, keys) if len(ordered) > 1 else {}
    found: list[NodeOverlay] = []
    for _, alike in groupby(ordered, key=lambda o: o.weight):
        group = list(alike)
        taken: set[_Subject] = set()
        for overlay in group:
            subjects = set(_subjects(overlay, offers)) if len(group) > 1 else set()
            if taken.isdisjoint(subjects):
                taken |= subjects
                found.append(overlay)
    return tuple(found)


def overlaid(
    types: Iterable[InstanceType], overlays: Iterable[NodeOverlay], template: Requirements, keys: frozenset[str]
) -> tuple[InstanceType, ...]:
    """Return the types with a NodePool's overlays applied; for each offering's price and each resource the first match counts.

    Args:
        types: Types of the catalogue.
        overlays: The effective overlays, in order (`agreeing`).
        template: The NodePool's requirements, labels and name. The value of a label that it leaves open is unknown before the
            launch, so no overlay can depend on it.
        keys: Labels that some type carries; a type without one does not have it.
    """
    ordered = tuple(overlays)
    if not ordered:
        return tuple(types)
    certain = _certain(template, keys)
    return tuple(_overlaid(one, ordered, certain, keys) for one in types)


def adjusted_price(price: int, overlay: NodeOverlay) -> int:
    """Return a price in nano-dollars after an overlay: replaced, or changed by an amount or a percentage; at least zero.

    Raises:
        InvalidInputError: If the adjustment is not a number.
    """
    if overlay.price is not None:
        return overlay.price
    text = overlay.price_adjustment or "+0"
    try:
        if text.endswith("%"):
            moved = Decimal(price) * (1 + Decimal(text[:-1]) / 100)
        else:
            moved = Decimal(price) + Decimal(text) * NANODOLLARS
    except InvalidOperation as error:
        subject = f"NodeOverlay {overlay.name}"
        problem = f"{text!r} is neither an amount nor a percentage"
        raise InvalidInputError(problem, subject=subject, field="spec.priceAdjustment") from error
    return max(0, int(moved.to_integral_value(rounding=ROUND_HALF_EVEN)))


def _overlaid(
    instance_type: InstanceType, overlays: Iterable[NodeOverlay], template: Requirements, keys: frozenset[str]
) -> InstanceType:
    bought = _bought(instance_type, template, keys)
    prices: dict[int, int] = {}
    capacity: dict[str, int] = {}
    for overlay in overlays:
        met = _met(overlay, bought)
        if not met:
            continue
        capacity.update({name: amount for name, amount in overlay.capacity.items() if name not in capacity})
        if _speaks_of_prices(overlay):
            for index in met:
                prices.setdefault(index, adjusted_price(instance_type.offerings[index].price, overlay))
    if not prices and not capacity:
        return instance_type
    offerings = tuple(
        msgspec.structs.replace(o, price=prices.get(i, o.price)) for i, o in enumerate(instance_type.offerings)
    )
    return msgspec.structs.replace(instance_type, offerings=offerings, capacity={**instance_type.capacity, **capacity})


def _offers(
    pools: Iterable[tuple[Iterable[InstanceType], Requirements]], keys: frozenset[str]
) -> dict[tuple[int, int], _Bought]:
    """Return (NodePool, type that it may launch) by position → its available offerings."""
    found: dict[tuple[int, int], _Bought] = {}
    for pool, (types, template) in enumerate(pools):
        certain = _certain(template, keys)
        for position, instance_type in enumerate(types):
            if certain.conflict(_own(instance_type, keys)) is None:
                found[pool, position] = _bought(instance_type, certain, keys)
    return found


def _subjects(overlay: NodeOverlay, offers: Mapping[tuple[int, int], _Bought]) -> Iterator[_Subject]:
    """Return what the overlay applies to: (NodePool, type, offering or resource) by position and name."""
    for (pool, position), bought in offers.items():
        met = _met(overlay, bought)
        if _speaks_of_prices(overlay):
            yield from ((pool, position, index) for index in met)
        if met:
            yield from ((pool, position, name) for name in overlay.capacity)


def _certain(template: Requirements, keys: frozenset[str]) -> Requirements:
    known = labels.WELL_KNOWN | keys
    return template.without(*(key for key, asked in template.items() if key not in known and len(asked.values) != 1))


def _speaks_of_prices(overlay: NodeOverlay) -> bool:
    return overlay.price is not None or overlay.price_adjustment is not None


def _bought(instance_type: InstanceType, template: Requirements, keys: frozenset[str]) -> _Bought:
    """Return the offerings that the NodePool may launch, by position, with all labels of their nodes."""
    offered = template.merged(_own(instance_type, keys).values())
    return [(i, _at(offered, o)) for i, o in enumerate(instance_type.offerings) if _may_buy(template, o)]


def _met(overlay: NodeOverlay, bought: _Bought) -> list[int]:
    asked = Requirements(overlay.requirements)
    return [index for index, offered in bought if offered.compatible(asked)]


def _own(instance_type: InstanceType, keys: frozenset[str]) -> Requirements:
    """Return the labels that every node of the type has, and those that none has."""
    own = [Requirement.one_of(key, *values) for key, values in instance_type.labels.items()]
    own.append(Requirement.one_of(labels.INSTANCE_TYPE, instance_type.name))
    missing = [Requirement.one_of(key) for key in sorted(keys - set(instance_type.labels))]
    return Requirements((*own, *missing))


def _may_buy(template: Requirements, offering: Offering) -> bool:
    """Whether the NodePool admits the zone and capacity type; overlays for other offerings do not apply to its nodes."""
    asked = ((template.get(key), own) for key, own in offering.requirements().items())
    return all(required is None or required.has(*own.values) for required, own in asked)


def _at(offered: Requirements, offering: Offering) -> Requirements:
    return offered.merged(offering.requirements().values())
