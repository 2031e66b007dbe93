"""How a search's budget is divided between subproblems."""

from __future__ import annotations

import pytest

from core.packing.search_budget import SearchBudget
from core.packing.search_settings import DEFAULT_SETTINGS
from core.scheduling.optimization.search_schedule import search
from core.scheduling.optimization.subproblems.subproblem import Subproblem
from tests.builders import a_type
from tests.unit.scheduling.optimization.subproblems.test_subproblem import a_subproblem


def cost_of(subproblem: Subproblem, steps: int) -> int:
    found = search([subproblem], seed=1, budget=SearchBudget(steps), settings=DEFAULT_SETTINGS)
    return sum(claim.price for claim in found[0].claims())


def test_more_steps_never_cost_more() -> None:
    subproblem, solution = a_subproblem()
    greedy = sum(claim.price for claim in solution.claims)
    few, many = cost_of(subproblem, 4), cost_of(subproblem, 80)
    assert many <= few <= greedy
    assert many < greedy


def test_every_subproblem_gets_a_part_of_the_budget() -> None:
    """Otherwise, the first zone uses up the steps of the others."""
    subproblems = [a_subproblem(zone)[0] for zone in ("us-east-1a", "us-east-1b")]
    budget = SearchBudget(40)
    searches = search(subproblems, seed=1, budget=budget, settings=DEFAULT_SETTINGS)
    prices = [sum(claim.price for claim in one.claims()) for one in searches]
    assert prices[0] == pytest.approx(prices[1], rel=0.05)
    assert budget.steps <= 40 + len(subproblems)


def test_machines_without_a_price_are_not_searched() -> None:
    """The search compares value with price; without prices, the greedy plan stays."""
    subproblem, _ = a_subproblem(types=(a_type("free", cpu="8", memory="64Gi", price=0.0),))
    found = search([subproblem], seed=1, budget=SearchBudget(9), settings=DEFAULT_SETTINGS)
    assert found[0].gap == 0
    assert found[0].claims() == []
