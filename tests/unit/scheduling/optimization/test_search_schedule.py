"""How a search's budget is divided between subproblems."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from core.packing.search_budget import SearchBudget
from core.packing.search_settings import DEFAULT_SETTINGS
from core.packing.size_settings import LargeZoneSettings
from core.scheduling.optimization.search_schedule import SubproblemSearch, search
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


LARGE = replace(DEFAULT_SETTINGS, large_zones=LargeZoneSettings(machines_min=1))
"""Settings under which every zone is a large one."""


def a_zone(zone: str, *, costs: float = 1.0, pods: int = 96) -> Subproblem:
    """So many pods of twelve sizes in a zone, whose types cost this many times as much as elsewhere."""
    types = tuple(
        a_type(f"t{cpu}-{gib}", cpu=str(cpu), memory=f"{gib}Gi", price=mills * costs / 1000)
        for cpu, gib, mills in SIZES
    )
    sizes = [(cpu, gib) for cpu in (1100, 1900, 2700, 3900) for gib in (3, 7, 12)]
    waiting = tuple(a_pod(f"p{n}", cpu=f"{cpu}m", memory=f"{gib}Gi") for n, (cpu, gib) in enumerate((sizes * 8)[:pods]))
    return a_subproblem(zone, types=types, pods=waiting)[0]


def three_zones() -> list[Subproblem]:
    """Zones that have the same pods."""
    return [a_zone(zone) for zone in ZONES]


def cost(searches: Iterable[SubproblemSearch]) -> int:
    return sum(claim.price for one in searches for claim in one.claims())


def test_the_loads_that_one_zone_finds_serve_the_others() -> None:
    """Otherwise, each zone spends steps on loads that another zone has found, and its plan costs more."""
    first, second, _ = three_zones()
    model = SubproblemSearch(first, SearchBudget(), LARGE)
    model.advance(1, SearchBudget(60), is_quick=False)
    assert model.loads is not None
    costs = []
    for elsewhere in ([model.loads], []):
        one = SubproblemSearch(second, SearchBudget(), LARGE, model)
        assert one.waits
        one.advance(1, SearchBudget(1), is_quick=False, elsewhere=elsewhere)
        costs.append(cost([one]))
    assert costs[0] < costs[1]


@pytest.mark.parametrize("calls", [0, 1, 3, 8, 20])
def test_zones_that_wait_for_loads_are_packed_when_time_ends(calls: int) -> None:
    """Otherwise, the whole plan stays greedy if one zone is not packed."""
    asked: list[float] = []

    def share_over() -> float:
        asked.append(0)
        return float(len(asked) > calls)

    interrupted = search(three_zones(), seed=1, budget=SearchBudget(60, share_over), settings=LARGE)
    assert all(sum(len(claim.pods) for claim in one.claims()) == 96 for one in interrupted)
    whole = search(three_zones(), seed=1, budget=SearchBudget(60), settings=LARGE)
    assert cost(interrupted) <= 1.25 * cost(whole)


def test_zones_that_wait_when_the_steps_are_used_up_are_only_rounded() -> None:
    """The budget is over: each of them may take the few steps of rounding, but generates no columns."""
    searches = search(three_zones(), seed=1, budget=SearchBudget(1), settings=LARGE)
    assert all(sum(len(claim.pods) for claim in one.claims()) == 96 for one in searches)
    assert [one.loads for one in searches[1:]] == [None, None]
    assert not any(one.waits for one in searches)


def searched(zone: str = ZONES[0], steps: int = 60, **constants: float) -> tuple[int, int, int]:
    """The cost of a large zone's plan, the steps of sixty that its search takes, and how many loads it passes on."""
    few_types = replace(DEFAULT_SETTINGS.ruin_and_recreate, promising_types=1)
    all_pairs = replace(DEFAULT_SETTINGS.two_type, loss_relative_max=1.0)
    large_zones = LargeZoneSettings(**{"machines_min": 1, **constants})
    settings = replace(DEFAULT_SETTINGS, large_zones=large_zones, ruin_and_recreate=few_types, two_type=all_pairs)
    one, budget = SubproblemSearch(a_zone(zone), SearchBudget(), settings), SearchBudget(steps)
    one.advance(1, budget, is_quick=False)
    return cost([one]), budget.steps, len(one.loads.loads) if one.loads is not None else 0


def test_a_large_zone_passes_on_only_loads_that_are_worth_their_price() -> None:
    """Loads that no plan buys make every other zone's linear programs larger."""
    loads = [searched(value_for_price_min=share)[2] for share in (0.0, 0.95, 0.99)]
    assert loads == sorted(set(loads), reverse=True)


def test_a_large_zone_stops_near_the_bound() -> None:
    """Its search takes a tenth of the steps if it may cost a third more than the bound, and costs more."""
    (near, long, _), (far, short, _) = (searched(stop_gap_relative=gap) for gap in (0.035, 0.3))
    assert short * 5 < long
    assert near < far < 1.3 * near


def test_a_large_zone_fills_as_many_types_as_its_settings_say() -> None:
    few, many = (searched(column_pairs_max=pairs)[0] for pairs in (1, 100_000))
    assert few != many


def test_a_large_zone_rounds_as_many_pairs_of_types_as_its_settings_say() -> None:
    """Each pair takes a step, and its packing has the first columns."""
    one, three = (searched(pairs_rounded_max=pairs, stop_gap_relative=0.3) for pairs in (1, 3))
    assert one[1] < three[1]
    assert one[2] < three[2]


def test_zones_with_few_machines_share_no_loads() -> None:
    """About 37 machines in each of three zones: sharing is cheaper here, and follows the setting."""
    shared, alone = (
        search(
            three_zones(),
            seed=1,
            budget=SearchBudget(60),
            settings=replace(DEFAULT_SETTINGS, large_zones=LargeZoneSettings(machines_min=least)),
        )
        for least in (30, 40)
    )
    assert [one.is_large_zone for one in (*shared, *alone)] == [True] * 3 + [False] * 3
    assert cost(shared) < cost(alone)


def test_steps_that_a_large_zone_leaves_are_taken_by_nobody() -> None:
    """Otherwise, small subproblems spend for a thousandth what large zones have saved of the time."""
    settings = replace(DEFAULT_SETTINGS, large_zones=LargeZoneSettings(machines_min=1, stop_gap_relative=0.3))
    budget = SearchBudget(600)
    search(three_zones(), seed=1, budget=budget, settings=settings)
    assert budget.is_spent


def test_a_zone_with_a_model_is_expected_to_end_as_far_from_its_bound() -> None:
    """It would get the steps of a zone about which nothing is known."""
    first, second, _ = three_zones()
    model = SubproblemSearch(first, SearchBudget(), LARGE)
    model.advance(1, SearchBudget(60), is_quick=False)
    one, alone = SubproblemSearch(second, SearchBudget(), LARGE, model), SubproblemSearch(second, SearchBudget(), LARGE)
    assert 0 < one.gap < 0.1 * alone.gap


def test_machines_without_a_price_are_not_searched() -> None:
    """The search compares value with price; without prices, the greedy plan stays."""
    subproblem, _ = a_subproblem(types=(a_type("free", cpu="8", memory="64Gi", price=0.0),))
    found = search([subproblem], seed=1, budget=SearchBudget(9), settings=DEFAULT_SETTINGS)
    assert found[0].gap == 0
    assert found[0].claims() == []


def test_only_a_zone_with_the_machine_types_of_a_searched_one_takes_over_its_prices() -> None:
    """It waits for that zone's loads; any other subproblem is searched as if there were no model."""
    model = SubproblemSearch(a_zone(ZONES[0]), SearchBudget(), LARGE)
    model.advance(1, SearchBudget(2), is_quick=True)
    found = {}
    for case, subproblem in (
        ("alike", a_zone(ZONES[1])),
        ("few pods", a_zone(ZONES[1], pods=1)),
        ("dearer types", a_zone(ZONES[1], costs=2.0)),
        ("no zone", a_zone("")),
        ("no price", a_zone(ZONES[1], costs=0.0)),
    ):
        alone, one = (SubproblemSearch(subproblem, SearchBudget(), LARGE, other) for other in (None, model))
        found[case] = one.ready is not None, one.waits, one.is_large_zone, one.gap == alone.gap
        assert (alone.waits, one.loads, one.claims(), one.gap_relative) == (False, None, [], 1.0)
    assert found == {
        "alike": (True, True, True, False),
        "few pods": (True, True, False, False),
        "dearer types": (True, False, True, True),
        "no zone": (True, False, False, True),
        "no price": (False, False, False, True),
    }


def test_a_zone_is_large_from_as_many_machines_as_the_settings_say() -> None:
    """Two pods that each fill a machine."""
    pods = tuple(a_pod(f"p{n}", cpu="4", memory="16Gi") for n in range(2))
    subproblem, _ = a_subproblem(ZONES[0], types=(a_type("t", cpu="4", memory="16Gi"),), pods=pods)
    settings = (replace(DEFAULT_SETTINGS, large_zones=LargeZoneSettings(machines_min=least)) for least in (1, 2, 3))
    assert [SubproblemSearch(subproblem, SearchBudget(), one).is_large_zone for one in settings] == [True, True, False]


def test_what_is_no_large_zone_is_searched_whatever_the_settings_of_large_zones_are() -> None:
    assert searched("", 20, stop_gap_relative=0.3, pairs_rounded_max=1) == searched("", 20)
    assert searched(ZONES[0], 20, stop_gap_relative=0.3, pairs_rounded_max=1) != searched(ZONES[0], 20)
