"""Narrows reserved offerings to those that one fleet request may contain (Karpenter's launch filters)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core import labels
from core.catalogue.node_class import CAPACITY_BLOCK
from core.model.catalogue import Offering, cheapest_first
from core.model.values.requirements import Requirement


def admits_reservation(requirements: Iterable[Requirement], offering: Offering) -> bool:
    """Whether a claim's requirements admit the offering's reservation; true for other capacity."""
    if not offering.reservation_id:
        return True
    own = offering.reservation_labels()
    asked = (requirement for requirement in requirements if requirement.key in labels.RESERVATION_LABELS)
    return all(r.has(own[r.key]) if r.key in own else r.tolerates_absence for r in asked)


def in_one_request(offerings: Iterable[Offering]) -> list[Offering]:
    """Return the reserved offerings of one kind, for each type and zone the one with most places; of blocks a single one.

    A fleet launches into capacity blocks, into reservations that may be interrupted, or into others: the kind with the cheapest
    offering is chosen, ties in the order others, blocks, interruptible. One request names one capacity block.
    """
    ordered = sorted(cheapest_first(offerings), key=lambda o: (o.price, _order_of(o)))
    kept = [offering for offering in ordered if _order_of(offering) == _order_of(ordered[0])]
    if kept and kept[0].reservation_type == CAPACITY_BLOCK:
        return kept[:1]
    return _widest(kept)


def _order_of(offering: Offering) -> int:
    if offering.reservation_type == CAPACITY_BLOCK:
        return 1
    return 2 if offering.interruptible else 0


def _widest(offerings: Sequence[Offering]) -> list[Offering]:
    most: dict[tuple[str, str], Offering] = {}
    for offering in offerings:
        place = (offering.instance_type, offering.zone)
        known = most.get(place)
        if known is None or offering.reservation_capacity > known.reservation_capacity:
            most[place] = offering
    return list(most.values())
