"""Makes the greedy plan cheaper and proves how far from the cheapest it may be."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from core.model.plan import Cost
from core.packing.budget import Budget
from core.packing.rough import Offer, rough_bound
from core.scheduling.ground import Ground
from core.scheduling.packable import Kind, Packable
from core.scheduling.solve import Solution

PODS_MIN: Final = 30
CLAIMS_MIN: Final = 2
"""Below both, the greedy plan stands: a single node for a handful of pods."""

ROUGH_KINDS_MAX: Final = 30
"""With more kinds of pods, arithmetic in Python takes longer than loading the solver."""


def improved(ground: Ground, solution: Solution, budget: Budget | None) -> tuple[Solution, Cost]:
    """The plan, made cheaper within the budget, and what it costs at the least.

    Without a budget nothing is searched, and the bound is left out where it takes a solver.
    """
    claims, packable = solution.claims, Packable(ground)
    cost = sum(claim.price for claim in claims)
    counts = Counter(packable.anywhere(pod) for claim in claims for pod in claim.pods)
    is_rough = len(counts) <= ROUGH_KINDS_MAX
    rough = rough_bound((kind.requests, n, _offers(ground, kind)) for kind, n in counts.items()) if is_rough else 0
    is_small = counts.total() < PODS_MIN and len(claims) < CLAIMS_MIN
    if (
        budget is None or is_small or rough == cost or budget.is_spent
    ):  # asking starts its clock: loading the solver counts
        return solution, Cost(cost, rough if is_rough else None)
    from core.scheduling.repack import Repack

    repack = Repack(ground, packable, budget)
    anew = replace(solution, claims=repack.improved(solution))
    return anew, Cost(sum(claim.price for claim in anew.claims), max(rough, repack.bound(counts)))


def _offers(ground: Ground, kind: Kind) -> list[Offer]:
    """Everything that one pod of the kind fits."""
    found: list[Offer] = []
    for position, reqs in kind.ways:
        types = ground.templates[position].types
        fitting = types.survivors(types.mask(reqs), kind.requests)
        found += [(price, types.room[i]) for price, i in types.in_price_order(fitting, reqs)]
    return found
