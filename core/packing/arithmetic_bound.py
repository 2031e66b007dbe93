"""A lower bound by arithmetic alone, for plans so small that loading a solver takes longer than planning.

This module imports no numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import msgspec

from core.packing.size_settings import ArithmeticBoundSettings

Offer = tuple[int, Sequence[int]]
"""Price in nano-dollars per hour, and capacity by resource."""


class OfferedItem(msgspec.Struct, frozen=True):
    """An item to pack, for bounds without arrays.

    Attributes:
        requests: By resource, what one pod takes.
        count: How many pods there are.
        offers: Every machine that one pod fits alone.
    """

    requests: Sequence[int]
    count: int
    offers: Sequence[Offer]


def arithmetic_bound(items: Iterable[OfferedItem], settings: ArithmeticBoundSettings) -> int:
    """Return a lower bound on the nano-dollars per hour of machines for these items: the better of two bounds.

    First, some machine holds the pod whose cheapest machine costs most, so all machines together cost at least that. Second, if
    every machine's price is spread over its resources by fixed weights w, each pod takes at least the part
    min over offers of Σ_r w_r · price · requests_r / capacity_r, and the parts of a machine's pods add up to at most its price.
    """
    known = list(items)
    largest = max((min(price for price, _ in item.offers) for item in known), default=0)
    totals: list[int] = []
    for item in known:
        least = _least_parts(item.requests, item.offers, settings.weight_steps)
        totals = [total + item.count * part for total, part in zip(totals or [0] * len(least), least, strict=True)]
    return max([largest, *totals])


def _least_parts(requests: Sequence[int], offers: Sequence[Offer], steps: int) -> list[int]:
    """Return for each weighting the smallest part of an offer's price that the pod takes, rounded down."""
    weightings = _weightings(len(requests), steps)
    least: list[int] = []
    for price, capacity in offers:
        shares = [
            price * wanted // offered if wanted else 0 for wanted, offered in zip(requests, capacity, strict=True)
        ]
        parts = [sum(weight * share for weight, share in zip(w, shares, strict=True)) // steps for w in weightings]
        least = [min(pair) for pair in zip(least, parts, strict=True)] if least else parts
    return least


def _weightings(resources: int, steps: int) -> list[tuple[int, ...]]:
    """Return weights of resources in multiples of 1 / `steps`: all on one, or divided between two of them."""
    found = [_weights(resources, {one: steps}) for one in range(resources)]
    for one, other in combinations(range(resources), 2):
        found += [_weights(resources, {one: part, other: steps - part}) for part in range(1, steps)]
    return found


def _weights(resources: int, given: dict[int, int]) -> tuple[int, ...]:
    return tuple(given.get(i, 0) for i in range(resources))
