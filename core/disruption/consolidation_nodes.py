"""The new nodes of a consolidation: which types are worth launching, and when the saving has paid for the moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from core import labels
from core.disruption.prices import ReplacementOptions, worst_price
from core.model.plan import Command, PlannedClaim
from core.model.snapshot import Snapshot
from core.reasons.code import TerminationReason

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
"""The most that a launch of a replacement may cost, as a multiple of its planned price."""


def narrowed_claims(
    claims: Sequence[PlannedClaim], budget: int | None, going: Mapping[str, int], snapshot: Snapshot
) -> tuple[PlannedClaim, ...] | None:
    """Return the claims narrowed to one capacity type each, and to types whose highest prices together keep within a budget.

    Args:
        claims: New nodes.
        budget: Nano-dollars per hour that they must stay below together; None for any price.
        going: Type of voluntarily disrupted nodes → the lowest cost of one of them; the type must not replace them at that
            price.
        snapshot: The market.

    Returns:
        The same number of claims, or None if no type remains for one of them.
    """
    total = sum(claim.price for claim in claims)
    changes_of: dict[tuple[Any, ...], dict[str, Any]] = {}
    narrower = []
    for claim in claims:
        options = _launch_options(claim)
        changes = changes_of.get(options)
        if changes is None:
            limit = _limit(claim.price, total, budget)
            narrowed = _narrowed(claim, limit, going, snapshot, is_bounded=budget is not None)
            if narrowed is None:
                return None
            changes = changes_of[options] = dict(zip(_LAUNCH_FIELDS, _launch_options(narrowed), strict=True))
        narrower.append(msgspec.structs.replace(claim, **changes))
    return tuple(narrower)


def _limit(price: int, total: int, budget: int | None) -> int:
    """Return the price limit of a claim of this price, among claims with the price `total` together."""
    above, below = WORST_RATIO
    limit = price * above // below + 1
    return limit if budget is None else min(limit, price * budget // max(total, 1))


def _launch_options(claim: PlannedClaim) -> tuple[Any, ...]:
    """Return the inputs that decide how a claim is narrowed. Most of a target's hundreds of new nodes share them."""
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
    for width in _from_wide_to_narrow(options):
        near = width.below(limit)
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
    """Return the same types in the zone of the cheapest offering: in other zones they may cost several times as much."""
    offers = [offer for _, offers_of_type in options.types for offer in offers_of_type]
    zone = min(offers, key=lambda offer: (offer.price, offer.zone)).zone
    claim = msgspec.structs.replace(options.claim, zones=(zone,))
    return ReplacementOptions(claim, ()).with_types(t for t, _ in options.types)


def _of_one_capacity_type(options: ReplacementOptions) -> ReplacementOptions:
    """Keep spot if it is cheaper, else on-demand; reservations stay together with their fallback."""
    kinds = options.claim.capacity_types
    if labels.SPOT not in kinds or len(kinds) == 1:
        return options
    spot = options.restricted_to(labels.SPOT)
    if spot.types and spot.price <= options.price and not spot.missing_values():
        return spot
    other = options.restricted_to(labels.RESERVED if labels.RESERVED in kinds else labels.ON_DEMAND)
    return other if other.types and not other.missing_values() else spot if spot.types else options


# Defines which savings are worth a move, and computes how long they take to pay for it (docs/engineering/handbook/moves.md).


BOTH_RUN: Final = timedelta(minutes=3)
"""How long both nodes are paid for: the replacement boots, then the old node drains and ends."""

RESTARTS: Final = timedelta(minutes=1)
"""How long moved pods do no work while their capacity is paid for: images are pulled and containers start."""

WORTHWHILE: Final = 20
"""Nodes are replaced by choice only if that saves at least 1/`WORTHWHILE` of their cost."""

_MINUTE: Final = timedelta(minutes=1)


def payback_minutes(command: Command) -> int | None:
    """Return the minutes, rounded up; None if nothing is saved or a node goes regardless of cost."""
    if command.savings <= 0 or command.reason not in (TerminationReason.EMPTY, TerminationReason.UNDERUTILIZED):
        return None
    launched = sum(claim.price for claim in command.replacements)
    moved = command.savings + launched if command.moves else 0
    # In nano-dollars an hour times minutes: (launched · BOTH_RUN + price of the nodes that go · RESTARTS) / savings.
    return -(-(launched * (BOTH_RUN // _MINUTE) + moved * (RESTARTS // _MINUTE)) // command.savings)
