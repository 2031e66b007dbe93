"""Exchanging a few machines for a cheaper set."""

from __future__ import annotations

import numpy as np

from core.packing.heuristics.cover_exchange import exchanged, fitted
from core.packing.problem import Packing, PackingProblem
from tests.unit.packing.problems import MILLS, SETTINGS, a_problem

PORTIONS = SETTINGS.cover_exchange.portions_per_machine


def swaps(problem: PackingProblem, price_max: int) -> list[Packing | None]:
    dice = np.random.default_rng(0)
    return [
        exchanged(
            problem,
            problem.counts,
            price_max=price_max,
            machines=4,
            generator=dice,
            settings=SETTINGS.cover_exchange,
        )
        for _ in range(20)
    ]


def test_pods_are_combined_so_that_all_resources_run_out_together() -> None:
    """Otherwise, pods with much memory and pods with much CPU are separated, and two half-empty machines are launched."""
    problem = a_problem([(3, 2), (1, 14)], [4, 4])
    general = np.array([4, 4])
    loads = fitted(problem, types=general, demand=problem.counts, portions_per_machine=PORTIONS)
    assert loads is not None
    Packing(general, loads).check(problem)
    assert fitted(problem, types=general[:1], demand=problem.counts, portions_per_machine=PORTIONS) is None


def test_an_exchange_lowers_the_cost() -> None:
    """Otherwise, pods are moved for nothing."""
    problem = a_problem([(1, 4)], [7])
    found = [packing for packing in swaps(problem, 504 * MILLS) if packing is not None]
    assert found
    for packing in found:
        packing.check(problem)
        assert packing.cost(problem) < 504 * MILLS
    assert swaps(problem, 336 * MILLS) == [None] * 20
