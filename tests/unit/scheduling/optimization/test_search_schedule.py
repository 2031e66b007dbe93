"""How a search's budget is divided between subproblems."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.optimize import OptimizedPacking
from core.packing.problem import Packing, PackingProblem
from core.packing.relaxation.preparation import PreparedProblem
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import DEFAULT_SETTINGS, SearchSettings
from core.packing.size_settings import LargeZoneSettings
from core.scheduling.optimization import search_schedule
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


class Cost(int):
    """Stands for a packing of which only the cost matters."""

    def cost(self, _: PackingProblem) -> int:
        """The cost, of any problem."""
        return int(self)


def test_a_search_continues_while_its_gap_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search begins with the last packing and its known ones, and says whether it found a cheaper one."""
    none, some = np.zeros((0, 12), dtype=np.int64), np.ones((1, 12), dtype=np.int64)
    answers = iter(((1300, 1000, none), (1300, 1000, none), (1200, 1000, some), (1010, 1000, none), (5, 0, none)))
    asked = []

    def improve(_: PreparedProblem, start: Packing, *, known: tuple[int, ...], **__: object) -> OptimizedPacking:
        asked.append((start, known))
        cost, bound, loads = next(answers)
        return OptimizedPacking(Cost(cost), bound, known=(*known, cost), loads=loads)

    monkeypatch.setattr(search_schedule, "improve", improve)
    repack = replace(DEFAULT_SETTINGS.repack, stop_gap_relative=0.01)
    one = SubproblemSearch(a_zone(ZONES[0]), SearchBudget(), replace(DEFAULT_SETTINGS, repack=repack))
    assert one.ready is not None
    assert one.gap == int(one.ready.fluid.lower_bound) + 1
    found = [
        (one.advance(1, SearchBudget(), is_quick=False), one.gap, round(one.gap_relative, 3), one.loads is None)
        for _ in range(5)
    ]
    assert found == [
        (True, 300, 0.3, True),
        (False, 300, 0.3, True),
        (True, 200, 0.2, False),
        (True, 0, 0.01, True),
        (True, 5, 4.0, True),
    ]
    assert asked[0][1] == ()
    assert asked[1:] == [
        (1300, (1300,)),
        (1300, (1300, 1300)),
        (1200, (1300, 1300, 1200)),
        (1010, (1300, 1300, 1200, 1010)),
    ]
    one.is_large_zone = True
    assert one.gap == 5
    monkeypatch.setattr(search_schedule, "improve", lambda *_, **__: OptimizedPacking(Cost(9), 0, (), some))
    one.advance(1, SearchBudget(), is_quick=False)
    assert (one.gap, one.gap_relative) == (0, 8.0)


class Scripted:
    """A search with scripted gaps, which takes a third of its steps, and notes what it is asked."""

    log: ClassVar[list[tuple[object, ...]]] = []

    def __init__(self, script: SimpleNamespace, _: SearchBudget, __: SearchSettings, model: Scripted | None) -> None:
        self.name, self.is_large_zone, self.waits = script.name, script.is_large, script.waits
        self.loads: str | None = None
        self._gaps = list(script.gaps)
        self.log.append((self.name, model and model.name))

    @property
    def gap(self) -> int:
        return self._gaps[0]

    def advance(self, seed: int, budget: SearchBudget, *, is_quick: bool, elsewhere: tuple[str, ...] = ()) -> bool:
        """Find something cheaper if the gap changes, and loads in any case."""
        self.log.append((self.name, seed, budget.steps_max, is_quick, *elsewhere))
        before, self.waits, self.loads = self._gaps.pop(0), False, f"loads of {self.name}"
        budget.steps = (budget.steps_max or 0) // 3
        return before != self._gaps[0]


def a_script(name: str, *gaps: int, is_large: bool = False, waits: bool = False, pods: int = 1) -> SimpleNamespace:
    """What a subproblem's search finds."""
    return SimpleNamespace(name=name, gaps=gaps, is_large=is_large, waits=waits, counts={"some": 1, "others": pods - 1})


class TestSchedule:
    @pytest.fixture(autouse=True)
    def scripted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Scripted, "log", [])
        monkeypatch.setattr(search_schedule, "SubproblemSearch", Scripted)

    def run(self, steps: int, *scripts: SimpleNamespace) -> list[Any]:
        """What was asked once all were prepared, and how many steps were taken."""
        Scripted.log.clear()
        settings = replace(DEFAULT_SETTINGS, repack=replace(DEFAULT_SETTINGS.repack, rounds_max=4))
        budget = SearchBudget(steps)
        found = search(scripts, seed=7, budget=budget, settings=settings)
        assert [one.name for one in found] == [script.name for script in scripts]
        return [*Scripted.log[len(scripts) :], budget.steps]

    def test_several_begin_with_quick_stages_and_share_steps_by_their_gaps_the_widest_first(self) -> None:
        assert self.run(120, a_script("a", 30, 10, 0), a_script("b", 90, 30, 0)) == [
            ("b", 7, 90, True),
            ("a", 7, 90, True, "loads of b"),
            ("b", 8, 45, False, "loads of a"),
            ("a", 8, 45, False, "loads of b"),
            90,
        ]

    def test_one_alone_begins_with_all_stages_and_ends_once_nothing_is_saved(self) -> None:
        assert self.run(9, a_script("a", 50, 50)) == [("a", 7, 9, False), 3]
        assert self.run(9, a_script("a", 0)) == [0]

    def test_there_are_as_many_rounds_as_the_settings_say(self) -> None:
        asked = [("a", 7, 81, False), ("a", 8, 54, False), ("a", 9, 36, False), ("a", 10, 24, False)]
        assert self.run(81, a_script("a", 50, 40, 30, 20, 10, 0)) == [*asked, 65]

    def test_zones_that_wait_come_after_the_others_and_large_ones_leave_no_steps(self) -> None:
        waiting = a_script("w", 80, 10, is_large=True, waits=True)
        assert self.run(120, waiting, a_script("m", 60, 20, 0, is_large=True)) == [
            ("m", 7, 120, True),
            ("m", 8, 16, False),
            ("w", 8, 64, False, "loads of m"),
            120,
        ]

    def test_zones_that_still_wait_when_the_steps_are_used_up_are_rounded(self) -> None:
        waiting = a_script("w", 80, 10, is_large=True, waits=True)
        sure = DEFAULT_SETTINGS.stages.roundings_sure
        assert self.run(0, waiting, a_script("m", 60, 20)) == [("m", 7, 0, True), ("w", 7, sure, True), 0]

    @pytest.mark.parametrize(("large", "models"), [("y", ["y", "y"]), ("z", [None, "z"]), ("", [None, None])])
    def test_the_zone_with_the_most_pods_is_the_model_of_the_others(self, large: str, models: list[object]) -> None:
        sizes = zip("xyz", (3, 9, 5), strict=True)
        self.run(9, *(a_script(name, 0, is_large=name == large, pods=pods) for name, pods in sizes))
        assert Scripted.log == [("y", None), ("z", models[0]), ("x", models[1])]


def test_two_types_are_rounded_together_except_in_a_large_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    """There they would take a minute, and its loads come from others."""
    asked = []

    def round_only(_: PreparedProblem, start: Packing, *, pairs: bool, **__: object) -> OptimizedPacking:
        asked.append(pairs)
        return OptimizedPacking(start, 0, (), np.zeros((0, 12), dtype=np.int64))

    monkeypatch.setattr(search_schedule, "round_only", round_only)
    for settings in (LARGE, DEFAULT_SETTINGS):
        SubproblemSearch(a_zone(ZONES[0]), SearchBudget(), settings).advance(1, SearchBudget(), is_quick=True)
    assert asked == [False, True]
