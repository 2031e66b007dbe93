"""Solves the fluid relaxation over a few types, and finds those of the others that could still make it cheaper.

With hundreds of types that differ by little the program over all of them is degenerate and takes seconds. A type is no rival
where some price of its resources makes its room worth no more than it costs, and every pod there pay what it is worth.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from core.packing.problem import Bools, Floats, Ints

CHOSEN_MIN: Final = 12
"""So many types are solved at first, from the cheapest to the dearest, beside the best one for each pod alone."""

ADDED_MAX: Final = 10
"""Most types that join in one round."""

APART: Final = 1.1
"""Types that join together differ in price by at least that factor: neighbours are rivals for the same reason."""

TOLERANCE: Final = 1e-4
"""How far from paying its worth a pod may be for a type not to count as a rival; the proof allows for it."""

WORTH_MIN: Final = 1e-12
"""Below that, in prices of the dearest type, a pod is worth nothing."""

_NOBODY: Final = 1e30
"""What pods pay where none fits: such a type is nobody's rival."""


def first_choice(prices: Floats, room: Floats, requests: Floats, fits: Bools) -> Ints:
    """Types to begin with: for every class one that it fits."""
    share = np.zeros(fits.shape)
    for column, available in zip(requests.T, room.T, strict=True):
        share = np.maximum(share, column[:, None] / np.maximum(available, 1e-12)[None, :])
    alone = np.where(fits, share * prices, np.inf).argmin(axis=1)
    by_price = np.argsort(prices, kind="stable")
    spread = by_price[np.linspace(0, len(prices) - 1, min(CHOSEN_MIN, len(prices))).astype(int)]
    return np.unique(np.concatenate([alone, spread]))


class Elsewhere:
    """What pods would pay on types that were not solved, by the prices of resources that were found on others."""

    def __init__(self, prices: Floats, room: Floats, requests: Floats, fits: Bools) -> None:
        self._prices = prices
        self._room = room
        self._requests = requests
        patterns, pattern = np.unique(np.packbits(fits, axis=0), axis=1, return_inverse=True)
        self._pattern: Ints = pattern.ravel().astype(np.int64)
        self._who = np.unpackbits(patterns, axis=0, count=len(fits)).astype(np.bool_)

    def rents(self, values: Floats, known: Floats) -> tuple[Floats, Floats]:
        """For every type the best of the known prices of resources, and how much of its worth each pod pays there at the least.

        Args:
            values: [class], what a pod is worth.
            known: [any, resource], prices of resources found for other types; scaled to what the type costs.

        Returns:
            [type, resource] prices of resources, and [type] the smallest part of its worth that a pod pays.
        """
        rents, best = np.zeros(self._room.shape), np.full(len(self._prices), -1.0)
        for candidate in np.unique(known, axis=0):
            total = self._room @ candidate
            scale = np.where(total > 0, self._prices / np.maximum(total, 1e-300), 0.0)
            # What is worth nothing, riding along on machines that others fill, pays its worth anywhere.
            part = np.where(values > WORTH_MIN, (self._requests @ candidate) / np.maximum(values, WORTH_MIN), _NOBODY)
            least = np.where(self._who, part[:, None], _NOBODY).min(axis=0)[self._pattern] * scale
            better = least > best
            best[better] = least[better]
            rents[better] = candidate * scale[better, None]
        return rents, best


def rivals(prices: Floats, paid: Floats, chosen: Ints) -> Ints:
    """The types that join next: those where pods pay the smallest part of their worth."""
    others = np.setdiff1d(np.flatnonzero(paid < 1 - TOLERANCE), chosen)
    found: list[int] = []
    for kind in others[np.argsort(paid[others], kind="stable")]:
        if all(max(prices[kind], prices[one]) > APART * min(prices[kind], prices[one]) for one in found):
            found.append(int(kind))
        if len(found) == ADDED_MAX:
            break
    return np.array(found, dtype=np.int64)
