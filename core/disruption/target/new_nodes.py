"""Narrows the new nodes of a target to what is worth launching, so that a launch costs about what was planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from core import labels
from core.disruption.prices import ReplacementOptions, worst_price
from core.model.plan import PlannedClaim
from core.model.snapshot import Snapshot

_LAUNCH_FIELDS: Final = (
    "node_pool",
    "node_class",
    "requirements",
    "instance_types",
    "zones",
    "capacity_types",
    "price",
)

WORST_RATIO: Final = (8, 5)
"""The most expensive launch of a replacement costs at most this many times its planned price."""


def held(
    claims: Sequence[PlannedClaim], budget: int | None, going: Mapping[str, int], snapshot: Snapshot
) -> tuple[PlannedClaim, ...] | None:
    """The claims, narrowed to one capacity type and to what keeps within a budget at the highest price of each.

    Args:
        claims: New nodes.
        budget: Nano-dollars per hour that they must stay below together; None for any price.
        going: Type of several nodes that go by choice → the least that one of them costs. None is replaced by its like.
        snapshot: The market.

    Returns:
        As many claims, or None where one has nothing left to become.
    """
    total = sum(claim.price for claim in claims)
    known: dict[tuple[Any, ...], dict[str, Any]] = {}
    found = []
    for claim in claims:
        options = _launch_options(claim)
        changes = known.get(options)
        if changes is None:
            limit = _limit(claim.price, total, budget)
            narrowed = _narrowed(claim, limit, going, snapshot, is_bounded=budget is not None)
            if narrowed is None:
                return None
            changes = known[options] = dict(zip(_LAUNCH_FIELDS, _launch_options(narrowed), strict=True))
        found.append(msgspec.structs.replace(claim, **changes))
    return tuple(found)


def _limit(price: int, total: int, budget: int | None) -> int:
    """Return what a launch must stay below, for a claim of this price among claims of `total`."""
    above, below = WORST_RATIO
    limit = price * above // below + 1
    return limit if budget is None else min(limit, price * budget // max(total, 1))


def _launch_options(claim: PlannedClaim) -> tuple[Any, ...]:
    """Return what decides how a claim is narrowed. A target has hundreds of new nodes, and few differ in it."""
    return tuple(getattr(claim, field) for field in _LAUNCH_FIELDS)


def _narrowed(
    claim: PlannedClaim, limit: int, going: Mapping[str, int], snapshot: Snapshot, *, is_bounded: bool
) -> PlannedClaim | None:
    options = ReplacementOptions.of(claim, snapshot)
    if options.types:
        options = _of_one_capacity_type(options)
        others = [t for t, offers in options.types if t.name not in going or worst_price(offers) < going[t.name]]
        options = options.with_types(others)
    if not options.types:
        return None
    for one in _from_wide_to_narrow(options):
        near = one.below(limit)
        if near.types and near.price == options.price and not near.missing_values():
            return near.planned()
    if not is_bounded:
        return options.planned()
    near = options.below(limit)
    return near.planned() if near.types and not near.missing_values() else None


def _from_wide_to_narrow(options: ReplacementOptions) -> Iterator[ReplacementOptions]:
    yield options
    yield _of_cheapest_zone(options)


def _of_cheapest_zone(options: ReplacementOptions) -> ReplacementOptions:
    """Return the same types in the zone of the cheapest offering: elsewhere they may cost a multiple."""
    offers = [offer for _, found in options.types for offer in found]
    zone = min(offers, key=lambda offer: (offer.price, offer.zone)).zone
    claim = msgspec.structs.replace(options.claim, zones=(zone,))
    return ReplacementOptions(claim, ()).with_types(t for t, _ in options.types)


def _of_one_capacity_type(options: ReplacementOptions) -> ReplacementOptions:
    """Keep spot where it is cheaper, else on-demand; reservations stay along with their fallback."""
    kinds = options.claim.capacity_types
    if labels.SPOT not in kinds or len(kinds) == 1:
        return options
    spot = options.held_to(labels.SPOT)
    if spot.types and spot.price <= options.price and not spot.missing_values():
        return spot
    other = options.held_to(labels.RESERVED if labels.RESERVED in kinds else labels.ON_DEMAND)
    return other if other.types and not other.missing_values() else spot if spot.types else options
