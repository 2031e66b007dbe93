"""Chooses the types that the fluid program is solved over: a few at first, then those with negative reduced cost.

With hundreds of types that differ by little, the program over all of them is degenerate and takes seconds. A type cannot lower
its cost if resource prices exist at which the type's capacity costs no more than the machine, and every item pays at least its
dual price.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from core.packing.problem import Floats, Ints, numbered_rows
from core.packing.relaxation.scaled_problem import ScaledProblem
from core.packing.search_settings import ActiveTypeSettings

_PAYS_IN_FULL: Final = 1e30
"""The paid share of items that cannot make a type join: larger than any computed share."""


def first_types(scaled: ScaledProblem, settings: ActiveTypeSettings) -> Ints:
    """Return the first types: one that fits for every item, and some from the cheapest to the most expensive."""
    # A pod of item i takes the share max_r requests[i, r] / capacity[t, r] of a machine of type t. Alone on such machines it
    # costs share · price, and the type with the least of that is the item's best. share: [item, type].
    share = np.zeros(scaled.fits.shape)
    for requested, offered in zip(scaled.requests.T, scaled.capacity.T, strict=True):
        share = np.maximum(share, requested[:, None] / np.maximum(offered, 1e-12)[None, :])
    best_alone = np.where(scaled.fits, share * scaled.prices, np.inf).argmin(axis=1)
    by_price = np.argsort(scaled.prices, kind="stable")
    count = min(settings.initial_types, len(by_price))
    spread = by_price[np.linspace(0, len(by_price) - 1, count).astype(int)]
    return np.unique(np.concatenate([best_alone, spread]))


class InactiveTypes:
    """What items would pay on types outside the program, at resource prices found for types in it."""

    def __init__(self, scaled: ScaledProblem, settings: ActiveTypeSettings) -> None:
        self._scaled = scaled
        self._settings = settings
        # Types that the same items fit share a pattern. pattern: [type], fits_pattern: [item, pattern].
        first, self._pattern = numbered_rows(np.packbits(scaled.fits.T, axis=1))
        self._fits_pattern = scaled.fits[:, first]

    def resource_prices(self, *, item_values: Floats, known: Floats) -> tuple[Floats, Floats]:
        """Return for every type the best known resource prices, and the smallest share of its value that an item pays there.

        Args:
            item_values: [item], dual prices of the items.
            known: [any, resource], resource prices found for other types; scaled to what each type costs.

        Returns:
            [type, resource] resource prices, and [type] the smallest share of its value that an item pays.
        """
        # For prices u of one known type, scale(t) = price(t) / (capacity(t) · u) makes t's capacity cost what t costs. Then an
        # item pays scale(t) (requests[i] · u) for a pod, the share scale(t) (requests[i] · u) / item_values[i] of its value.
        # If no share is below one, t's reduced cost is not negative. The u with the largest smallest share is kept.
        scaled, least_value = self._scaled, self._settings.item_value_min
        prices, best = np.zeros(scaled.capacity.shape), np.full(len(scaled.prices), -1.0)
        for candidate in np.unique(known, axis=0):
            total = scaled.capacity @ candidate
            scale = np.where(total > 0, scaled.prices / np.maximum(total, 1e-300), 0.0)
            # Items without value share machines that others pay for: they pay their value, nothing, anywhere.
            paid = (scaled.requests @ candidate) / np.maximum(item_values, least_value)
            paid = np.where(item_values > least_value, paid, _PAYS_IN_FULL)
            least = np.where(self._fits_pattern, paid[:, None], _PAYS_IN_FULL).min(axis=0)[self._pattern] * scale
            better = least > best
            best[better] = least[better]
            prices[better] = candidate * scale[better, None]
        return prices, best


def joining_types(*, prices: Floats, paid_shares: Floats, active: Ints, settings: ActiveTypeSettings) -> Ints:
    """Return the types that join next: those where items pay the smallest share of their value, with distinct prices.

    Args:
        prices: [type].
        paid_shares: [type], the smallest share of its value that an item pays there.
        active: The types that are in the program already.
        settings: How many types join.
    """
    others = np.setdiff1d(np.flatnonzero(paid_shares < 1 - settings.reduced_cost_tolerance_relative), active)
    ratio = settings.added_price_ratio_min
    found: list[int] = []
    for joining in others[np.argsort(paid_shares[others], kind="stable")]:
        if all(max(prices[joining], prices[one]) > ratio * min(prices[joining], prices[one]) for one in found):
            found.append(int(joining))
        if len(found) == settings.added_types_max:
            break
    return np.array(found, dtype=np.int64)
