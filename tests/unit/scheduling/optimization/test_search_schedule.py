"""How a search's budget is divided between subproblems."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core.packing.search_budget import SearchBudget
from core.packing.search_settings import DEFAULT_SETTINGS
from core.scheduling.optimization.search_schedule import search
from core.scheduling.optimization.subproblems.subproblem import Subproblem
from tests.builders import ZONES, a_pod, a_type
from tests.unit.packing.problems import SIZES
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


def test_the_loads_that_one_zone_finds_serve_the_others() -> None:
    """Otherwise, each zone spends steps on what another one has found, and ends dearer."""
    types = tuple(
        a_type(f"t{cpu}-{gib}", cpu=str(cpu), memory=f"{gib}Gi", price=mills / 1000) for cpu, gib, mills in SIZES
    )
    sizes = [(cpu, gib) for cpu in (1100, 1900, 2700, 3900) for gib in (3, 7, 12)]
    pods = tuple(a_pod(f"p{n}", cpu=f"{cpu}m", memory=f"{gib}Gi") for n, (cpu, gib) in enumerate(sizes * 8))
    costs = []
    for machines_min in (1, 1_000):
        repack = replace(DEFAULT_SETTINGS.repack, common_loads_machines_min=machines_min, common_loads_steps_share=1.0)
        zones = [a_subproblem(zone, types=types, pods=pods)[0] for zone in ZONES]
        settings = replace(DEFAULT_SETTINGS, repack=repack)
        found = search(zones, seed=1, budget=SearchBudget(9), settings=settings)
        costs.append(sum(claim.price for one in found for claim in one.claims()))
    assert costs[0] < costs[1]


def test_machines_without_a_price_are_not_searched() -> None:
    """The search compares value with price; without prices, the greedy plan stays."""
    subproblem, _ = a_subproblem(types=(a_type("free", cpu="8", memory="64Gi", price=0.0),))
    found = search([subproblem], seed=1, budget=SearchBudget(9), settings=DEFAULT_SETTINGS)
    assert found[0].gap == 0
    assert found[0].claims() == []
