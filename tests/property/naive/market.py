"""What a NodePool may buy, offering by offering: with NodeOverlays, and with what reservations have left."""

from __future__ import annotations

from fractions import Fraction

import msgspec

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.node_pool import NodePool
from core.model.plan import Plan, PlannedClaim
from core.model.snapshot import NodeOverlay, Snapshot
from tests.property.naive.reading import meets_all


def types_of(snapshot: Snapshot, pool: NodePool) -> tuple[InstanceType, ...]:
    """The types that a NodePool may launch, at the prices and capacities that apply to it."""
    types = snapshot.catalogue.types_for(pool.node_class.name)
    gates = snapshot.options.feature_gates
    if not gates.reserved_capacity:
        types = tuple(
            msgspec.structs.replace(k, offerings=tuple(o for o in k.offerings if o.capacity_type != labels.RESERVED))
            for k in types
        )
    if not gates.node_overlay:
        return types
    agreeing = _agreeing(snapshot)
    return tuple(_overlaid(agreeing, pool, kind) for kind in types)


def types_by_pool(snapshot: Snapshot, name: str) -> tuple[InstanceType, ...]:
    """The same for a NodePool by name; empty if there is none."""
    return next((types_of(snapshot, pool) for pool in snapshot.node_pools if pool.name == name), ())


def _agreeing(snapshot: Snapshot) -> list[NodeOverlay]:
    """The overlays that apply, by rising weight; of conflicting overlays of equal weight, only the last by name."""
    agreeing: list[NodeOverlay] = []
    for overlay in sorted(snapshot.overlays, key=lambda overlay: (overlay.weight, overlay.name), reverse=True):
        if not any(other.weight == overlay.weight and _contradict(snapshot, overlay, other) for other in agreeing):
            agreeing.append(overlay)
    return agreeing[::-1]


def _contradict(snapshot: Snapshot, first: NodeOverlay, second: NodeOverlay) -> bool:
    """Whether both set the price, or the same resource, of a type that some NodePool could launch."""
    prices = all((overlay.price, overlay.price_adjustment) != (None, None) for overlay in (first, second))
    keys = snapshot.catalogue.label_keys()
    for pool in snapshot.node_pools:
        for kind in snapshot.catalogue.types_for(pool.node_class.name):
            type_labels = {labels.INSTANCE_TYPE: kind.name, **{key: values[0] for key, values in kind.labels.items()}}
            if not meets_all((r for r in pool.requirements if r.key in keys or r.key in type_labels), type_labels):
                continue
            here = [
                o for o in kind.offerings if snapshot.options.feature_gates.reserved_capacity or not o.reservation_id
            ]
            of_one, of_other = ([_applies(overlay, pool, kind, o) for o in here] for overlay in (first, second))
            if prices and any(map(min, of_one, of_other)):
                return True
            if any(of_one) and any(of_other) and set(first.capacity) & set(second.capacity):
                return True
    return False


def _overlaid(ranked: list[NodeOverlay], pool: NodePool, kind: InstanceType) -> InstanceType:
    """The heaviest overlay wins, separately for each price and each resource."""
    capacity, offerings = dict(kind.capacity), []
    for offering in kind.offerings:
        price = offering.price
        for overlay in ranked:
            if (overlay.price, overlay.price_adjustment) != (None, None) and _applies(overlay, pool, kind, offering):
                price = _price(overlay, offering.price)
        offerings.append(msgspec.structs.replace(offering, price=price))
    for overlay in ranked:
        if any(_applies(overlay, pool, kind, offering) for offering in kind.offerings):
            capacity.update(overlay.capacity)
    return msgspec.structs.replace(kind, offerings=tuple(offerings), capacity=capacity)


def _applies(overlay: NodeOverlay, pool: NodePool, kind: InstanceType, offering: Offering) -> bool:
    """Whether the NodePool could buy the offering and the overlay selects such a node."""
    node_labels = {key: values[0] for key, values in kind.labels.items() if values}
    node_labels |= {**pool.labels, labels.NODEPOOL: pool.name, labels.INSTANCE_TYPE: kind.name}
    node_labels |= {labels.ZONE: offering.zone, labels.CAPACITY_TYPE: offering.capacity_type}
    market = (r for r in pool.requirements if r.key in (labels.ZONE, labels.CAPACITY_TYPE))
    return meets_all(market, node_labels) and meets_all(overlay.requirements, node_labels)


def _price(overlay: NodeOverlay, price: int) -> int:
    if overlay.price is not None:
        return overlay.price
    text = overlay.price_adjustment or ""
    change = Fraction(text[:-1]) / 100 * price if text.endswith("%") else Fraction(text) * 10**9
    return max(0, round(price + change))


def places_left(snapshot: Snapshot, plan: Plan) -> dict[str, int]:
    """Reservation → how many instances remain once the plan's claims are launched; negative if there are too many."""
    free_places: dict[str, int] = {}
    every = [kind for pool in snapshot.node_pools for kind in types_of(snapshot, pool)]
    for offering in (o for kind in every for o in kind.offerings):
        if offering.reservation_id and offering.available:
            least = free_places.get(offering.reservation_id, offering.reservation_capacity)
            free_places[offering.reservation_id] = min(least, offering.reservation_capacity)
    for claim in plan.claims:
        for identity in held_by(claim):
            free_places[identity] = free_places.get(identity, 0) - 1
    return free_places


def held_by(claim: PlannedClaim) -> tuple[str, ...]:
    """The reservations that a claim relies on."""
    requirements = [r for r in claim.requirements if r.key == labels.RESERVATION_ID and not r.complement]
    return tuple(value for requirement in requirements for value in requirement.values)
