"""The packing problem as the fluid program sees it: resources and prices scaled to at most one, like items joined."""

from __future__ import annotations

import msgspec
import numpy as np

from core.packing.problem import Bools, Floats, Ints, PackingProblem
from core.packing.search_settings import FluidSettings


def scale_of(problem: PackingProblem) -> tuple[Ints, Floats]:
    """Return the resources that some item requests, and the capacity of the largest type for each of them."""
    requested = np.flatnonzero(problem.requests.any(axis=0))
    return requested, np.maximum(problem.capacity.max(axis=0), 1)[requested].astype(float)


class ScaledProblem(msgspec.Struct, frozen=True, eq=False):
    """A packing problem in floating point.

    Attributes:
        prices: [type], in units of the most expensive type's price.
        capacity: [type, resource], in capacities of the largest type, for the resources that some item requests.
        requests: [item, resource], in the same units.
        counts: [item], pods.
        fits: [item, type], whether one pod fits.
        price_unit: Nano-dollars per hour of a price of one.
    """

    prices: Floats
    capacity: Floats
    requests: Floats
    counts: Floats
    fits: Bools
    price_unit: float

    @classmethod
    def of(cls, problem: PackingProblem) -> ScaledProblem:
        """Scale a problem, so that the solver's absolute tolerances mean the same for bytes and millicores."""
        requested, unit = scale_of(problem)
        price_unit = max(float(problem.prices.max()), 1.0)  # a NodeOverlay may make everything free
        return cls(
            prices=problem.prices / price_unit,
            capacity=problem.capacity[:, requested] / unit,
            requests=problem.requests[:, requested] / unit,
            counts=problem.counts.astype(float),
            fits=problem.fit > 0,
            price_unit=price_unit,
        )

    def restricted(self, types: Ints) -> ScaledProblem:
        """The same items with these types only."""
        return ScaledProblem(
            self.prices[types], self.capacity[types], self.requests, self.counts, self.fits[:, types], self.price_unit
        )


class JoinedItems(msgspec.Struct, frozen=True, eq=False):
    """A scaled problem in which like items are one.

    Attributes:
        scaled: The smaller problem.
        joint: [item], the item of the smaller problem that each item is part of.
        share: [item], the item's share of the joint item's pods.
    """

    scaled: ScaledProblem
    joint: Ints
    share: Floats

    @classmethod
    def of(cls, problem: PackingProblem, scaled: ScaledProblem, settings: FluidSettings) -> JoinedItems:
        """Join like items where there are too many pairs of item and type to solve them as they are."""
        # counts'[j] = Σ counts[i], requests'[j, r] = Σ requests[i, r] counts[i] / counts'[j] over the items i in j: the mean
        # pod, so the totals of every resource stay. share[i] = counts[i] / counts'[j] divides the solution up again.
        joint = _joint_items(problem, settings)
        counts = np.bincount(joint, weights=problem.counts)
        share = problem.counts / counts[joint]
        means = [np.bincount(joint, weights=column * share) for column in scaled.requests.T]
        fits = scaled.fits[np.unique(joint, return_index=True)[1]]
        requests = np.stack(means, axis=1).astype(float)
        smaller = ScaledProblem(scaled.prices, scaled.capacity, requests, counts.astype(float), fits, scaled.price_unit)
        return cls(smaller, joint, share)


def _joint_items(problem: PackingProblem, settings: FluidSettings) -> Ints:
    """[item], the number of the joint item: items that fit the same types and request nearly the same."""
    joint: Ints = np.arange(len(problem.counts))
    types_expected = min(len(problem.prices), settings.types_expected)
    if len(joint) * types_expected <= settings.pairs_max:
        return joint
    # Two items are alike where they fit the same types and ⌊steps · log2(request)⌋ is the same for every resource: each
    # request within a factor of 2^(1/steps). -1 stands for no request. sizes: [item, resource], keys: [item, 1 + resource].
    _, pattern = np.unique(problem.fit > 0, axis=0, return_inverse=True)
    sizes = np.where(problem.requests > 0, np.log2(np.maximum(problem.requests, 1)), -1.0)
    for steps in settings.size_steps_per_doubling:
        keys = np.column_stack([pattern.ravel(), np.floor(sizes * steps)])
        joint = np.unique(keys, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
        if (joint.max() + 1) * types_expected <= settings.pairs_max:
            break
    return joint
