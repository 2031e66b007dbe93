"""NodeOverlays: prices and capacities as the user knows them, put over the catalogue for one NodePool."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.model.catalogue import InstanceType, Offering
from core.model.overlay import NodeOverlay
from core.model.quantity import NANODOLLARS
from core.model.requirements import Requirement, Requirements


def overlaid(
    types: Iterable[InstanceType], overlays: Iterable[NodeOverlay], template: Requirements, keys: frozenset[str]
) -> tuple[InstanceType, ...]:
    """The types with the overlays that apply to a NodePool.

    The heaviest overlay that matches wins, the last by name where weights are equal; one for each offering's price and one for
    each resource (Karpenter).

    Args:
        types: What the catalogue has.
        overlays: Every overlay.
        template: What the NodePool offers: requirements, labels, its own name. A label of its own that it leaves open is not
            known before there is a node, so no overlay goes by it.
        keys: Labels that some type carries; a type without one does not have it.
    """
    ordered = sorted(sorted(overlays, key=lambda o: o.name, reverse=True), key=lambda o: -o.weight)
    if not ordered:
        return tuple(types)
    known = labels.WELL_KNOWN | keys
    open_labels = (key for key, asked in template.items() if key not in known and len(asked.values) != 1)
    certain = template.without(*open_labels)
    return tuple(_overlaid(one, ordered, certain, keys) for one in types)


def adjusted_price(price: int, overlay: NodeOverlay) -> int:
    """A price in nano-dollars after an overlay: replaced, or moved by an amount or a percentage; never below zero.

    Raises:
        InvalidInputError: If the adjustment is no number.
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
    instance_type: InstanceType, overlays: list[NodeOverlay], template: Requirements, keys: frozenset[str]
) -> InstanceType:
    offered = _offered(instance_type, template, keys)
    sold = [i for i, offering in enumerate(instance_type.offerings) if _may_buy(template, offering)]
    prices: dict[int, int] = {}
    capacity: dict[str, int] = {}
    for overlay in overlays:
        asked = Requirements(overlay.requirements)
        met = [i for i in sold if _at(offered, instance_type.offerings[i]).compatible(asked)]
        if not met:
            continue
        capacity.update({name: amount for name, amount in overlay.capacity.items() if name not in capacity})
        if overlay.price is not None or overlay.price_adjustment is not None:
            for index in met:
                prices.setdefault(index, adjusted_price(instance_type.offerings[index].price, overlay))
    if not prices and not capacity:
        return instance_type
    offerings = tuple(
        msgspec.structs.replace(o, price=prices.get(i, o.price)) for i, o in enumerate(instance_type.offerings)
    )
    return msgspec.structs.replace(instance_type, offerings=offerings, capacity={**instance_type.capacity, **capacity})


def _offered(instance_type: InstanceType, template: Requirements, keys: frozenset[str]) -> Requirements:
    own = [Requirement.one_of(key, *values) for key, values in instance_type.labels.items()]
    own.append(Requirement.one_of(labels.INSTANCE_TYPE, instance_type.name))
    missing = [Requirement.one_of(key) for key in sorted(keys - set(instance_type.labels))]
    return template.merged((*own, *missing))


def _may_buy(template: Requirements, offering: Offering) -> bool:
    """Whether the NodePool admits zone and capacity type: what an overlay says of other nodes is not true of its own."""
    asked = ((template.get(key), own) for key, own in offering.requirements().items())
    return all(required is None or any(map(required.has, own.values)) for required, own in asked)


def _at(offered: Requirements, offering: Offering) -> Requirements:
    return offered.merged(offering.requirements().values())
