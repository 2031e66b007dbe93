"""A lower bound by arithmetic alone, for plans too small to wake a solver for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

Offer = tuple[int, Sequence[int]]
"""Price in nano-dollars per hour, and room by resource."""

_DENOMINATOR: Final = 4


def rough_bound(pods: Iterable[tuple[Sequence[int], int, Sequence[Offer]]]) -> int:
    """Nano-dollars per hour that no fleet for these pods undercuts.

    Two arguments, the better one counts. Some machine holds the most demanding pod, so the fleet costs what the cheapest
    such machine does. And if each machine's price is spread over its resources by fixed shares, each pod takes at least
    the smallest part of a price that it takes anywhere.

    Args:
        pods: For each kind of pod its requests, how many there are, and every offer that one of them fits alone.
    """
    kinds = list(pods)
    largest = max((min(price for price, _ in offers) for _, _, offers in kinds), default=0)
    totals: list[int] = []
    for requests, count, offers in kinds:
        least = _least_parts(requests, offers)
        totals = [total + count * part for total, part in zip(totals or [0] * len(least), least, strict=True)]
    return max([largest, *totals])


def _least_parts(requests: Sequence[int], offers: Sequence[Offer]) -> list[int]:
    """For each way of spreading prices, the least that the pod takes of any offer's price, rounded down."""
    ways = _ways(len(requests))
    least: list[int] = []
    for price, room in offers:
        shares = [
            price * wanted // available if wanted else 0 for wanted, available in zip(requests, room, strict=True)
        ]
        parts = [sum(weight * share for weight, share in zip(way, shares, strict=True)) // _DENOMINATOR for way in ways]
        least = [min(pair) for pair in zip(least, parts, strict=True)] if least else parts
    return least


def _ways(resources: int) -> list[tuple[int, ...]]:
    """All weight on one resource, or shared between two of them."""
    ways = []
    for one in range(resources):
        ways.append(_weights(resources, {one: _DENOMINATOR}))
        for other in range(one + 1, resources):
            shares = range(1, _DENOMINATOR)
            ways += [_weights(resources, {one: share, other: _DENOMINATOR - share}) for share in shares]
    return ways


def _weights(resources: int, given: dict[int, int]) -> tuple[int, ...]:
    return tuple(given.get(i, 0) for i in range(resources))
