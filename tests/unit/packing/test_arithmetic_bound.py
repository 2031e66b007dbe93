"""Lower bounds without a solver."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from core.packing.arithmetic_bound import OfferedItem, arithmetic_bound
from core.packing.problem import PackingProblem
from tests.unit.packing.problems import MILLS, SETTINGS, a_problem, cheapest_cost

ROOT = Path(__file__).parents[3]


def bound_of(problem: PackingProblem) -> int:
    offers = list(zip(problem.prices.tolist(), problem.capacity.tolist(), strict=True))
    items = [
        OfferedItem(requests, count, [offer for offer, fits in zip(offers, fit, strict=True) if fits])
        for requests, count, fit in zip(
            problem.requests.tolist(), problem.counts.tolist(), problem.fit.tolist(), strict=True
        )
    ]
    return arithmetic_bound(items, SETTINGS.arithmetic_bound)


def test_a_pod_needs_a_whole_machine() -> None:
    """Otherwise, a single pod's gap looks huge."""
    assert bound_of(a_problem([(1.5, 3)], [1])) == 85 * MILLS


def test_many_pods_cost_their_share_of_every_machine() -> None:
    assert bound_of(a_problem([(1, 4)], [80])) >= 0.9 * 80 * 48 * MILLS


@pytest.mark.parametrize("seed", range(6))
def test_no_packing_undercuts_it(seed: int) -> None:
    dice = np.random.default_rng(seed)
    sizes = [(float(dice.choice([0.5, 1, 3])), float(dice.choice([1, 4, 12]))) for _ in range(3)]
    problem = a_problem(sizes, [2, 1, 2])
    assert bound_of(problem) <= cheapest_cost(problem)


def test_an_empty_problem_costs_nothing() -> None:
    assert arithmetic_bound([], SETTINGS.arithmetic_bound) == 0


def test_it_does_not_import_numpy() -> None:
    """Otherwise, planning for one pod takes longer than needed."""
    program = "import sys, core.packing.arithmetic_bound; sys.exit('numpy' in sys.modules or 'highspy' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)  # noqa: S603 - our own interpreter and program


def naive(items: Sequence[OfferedItem], steps: int) -> int:
    """The better of both bounds, over all weights of one resource or two in multiples of 1 / steps."""
    resources = range(len(items[0].requests)) if items else range(0)
    found = [max((min(price for price, _ in item.offers) for item in items), default=0)]
    for weights in itertools.product(range(steps + 1), repeat=len(resources)):
        if sum(weights) == steps and sum(weight > 0 for weight in weights) <= 2:
            parts = [
                min(
                    sum(weights[r] * (price * item.requests[r] // max(offered[r], 1)) for r in resources) // steps
                    for price, offered in item.offers
                )
                for item in items
            ]
            found.append(sum(item.count * part for item, part in zip(items, parts, strict=True)))
    return max(found)


def test_it_is_the_best_of_all_weights_and_of_the_most_expensive_pod() -> None:
    """Machines may have none of a resource that the pods do not request."""
    dice = Random(1)  # noqa: S311 - a test's dice
    for _ in range(60):
        items = []
        for _ in range(dice.randint(1, 3)):
            requests = [dice.choice((0, 1, 3, 5)) for _ in range(3)]
            offers = [
                (dice.randint(1, 400), [wanted + dice.choice((0, 0, 2, 9)) for wanted in requests])
                for _ in range(dice.randint(1, 3))
            ]
            items.append(OfferedItem(requests, dice.randint(1, 4), offers))
        assert arithmetic_bound(iter(items), SETTINGS.arithmetic_bound) == naive(items, 4)
