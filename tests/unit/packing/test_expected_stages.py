"""What each stage of the search returns for small random problems, compared with `expected/stages.txt`.

`python -m tests.expected tests.unit.packing.test_expected_stages` writes the texts. test_small_optima.py checks the same
stages against exhaustive search; a text shows which of several valid results a stage returns, and after how many steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.column_generation.beam_pricing import BeamPricing
from core.packing.column_generation.columns import Columns
from core.packing.column_generation.dive import Diving
from core.packing.column_generation.dual_bound import dual_bound
from core.packing.column_generation.generation import ColumnGeneration
from core.packing.column_generation.greedy_pricing import best_columns, knapsack_loads
from core.packing.column_generation.shadow_prices import ShadowPrices, load_value_bound, value_for_price_max
from core.packing.heuristics.cover_exchange import exchanged
from core.packing.heuristics.guided_rounding import cuts, guided_rounding
from core.packing.heuristics.ruin_and_recreate import RuinAndRecreate, promising_types
from core.packing.heuristics.separate_machines import separate_packing
from core.packing.heuristics.two_type_rounding import two_type_packings
from core.packing.heuristics.value_packing import pack_by_value
from core.packing.optimize import improve, is_coarse, round_only
from core.packing.problem import Floats, Ints, Packing, PackingProblem, largest_first
from core.packing.relaxation.fluid_lp import at_prices_of, relax
from core.packing.relaxation.launch_flexibility import DistinctValues, bundled, with_distinct_values
from core.packing.relaxation.preparation import prepared, prepared_like, prepared_with_flexibility
from core.packing.search_budget import SearchBudget
from core.packing.target.fleet_bound import fleet_bound
from core.packing.target.fleet_problem import NO_GROUP, FleetProblem, PodCells
from core.packing.target.fleet_target import free_room_worth, rounded
from core.packing.target.keep_or_drain import KeepOrDrain, TargetRules
from core.packing.target.launch_choice import promising
from core.packing.target.node_cover import covering
from core.packing.target.slot_filling import Rooms, SlotFilling
from core.packing.whole_machine_bound import whole_machine_bound
from tests.expected import Expected
from tests.rendered import wrapped
from tests.unit.packing.problems import SETTINGS, of_every_size, of_families, with_large_pods, with_small_pods
from tests.unit.packing.small_worlds import a_small_fleet, a_small_problem, a_wide_problem

_SMALL: Final = range(8)
_WIDE: Final = range(6)
_FLEETS: Final = range(12)
_SHOWN_MAX: Final = 7


def _generator() -> np.random.Generator:
    return np.random.default_rng(0)


def _digits(values: Floats | Ints | float) -> str:
    """Numbers to six digits: the last ones of a float may differ between processors."""
    found = np.asarray(values, dtype=float)
    if found.ndim == 0:
        return f"{float(found):.6g}"
    parts = [_digits(one) for one in found]
    return " ".join(parts) if found.ndim == 1 else " | ".join(parts)


def _packing(title: str, problem: PackingProblem, packing: Packing) -> str:
    """The cost and the number of machines; of few machines each one's type and load, equal neighbours counted.

    Of many machines a search finds one packing of many that cost about the same: only their cost tells which one is better.
    """
    assert packing.types.dtype == packing.loads.dtype == np.int64  # whole machines and whole pods, in every stage
    if len(packing.types) > _SHOWN_MAX:
        return f"{title}: {packing.cost(problem)} for {len(packing.types)} machines"
    shown: list[list[object]] = []
    for kind, load in zip(packing.types.tolist(), packing.loads.tolist(), strict=True):
        text = f"{kind}:{','.join(map(str, load))}"
        if shown and shown[-1][0] == text:
            shown[-1][1] = int(str(shown[-1][1])) + 1
        else:
            shown.append([text, 1])
    machines = " ".join(f"{text}x{times}" if times != 1 else str(text) for text, times in shown)
    return wrapped(f"{title}: {packing.cost(problem)} for {machines}")


def _columns(title: str, columns: Columns) -> str:
    assert columns.types.dtype == columns.loads.dtype == np.int64
    pairs = zip(columns.types.tolist(), columns.loads.tolist(), strict=True)
    return wrapped(f"{title}: " + " ".join(f"{kind}:{','.join(map(str, load))}" for kind, load in pairs))


def search(problem: PackingProblem) -> str:
    """All stages of the search for a problem."""
    return "\n".join([*_relaxed(problem), *_heuristics(problem), *_columns_of(problem), *_whole(problem)])


def _relaxed(problem: PackingProblem) -> Iterator[str]:
    ready = prepared(problem, SETTINGS)
    fluid = ready.fluid
    yield wrapped(f"fit: {_digits(problem.fit)}; capped: {_digits(problem.is_capped())}")
    yield wrapped(
        f"kept: {_digits(ready.kept)}; largest first: {_digits(largest_first(problem.requests, problem.capacity.max(axis=0)))}"
    )
    yield wrapped(
        f"fluid: at least {_digits(fluid.lower_bound)}; machines {_digits(fluid.machines)}; values {_digits(fluid.item_values)}"
    )
    yield wrapped(f"pods: {_digits(fluid.pods)}")
    yield wrapped(f"prices: {_digits(fluid.resource_prices)}")
    half = problem.of_items(np.arange(len(problem.counts)), np.maximum(problem.counts // 2, 1))
    like = prepared_like(half, ready, SETTINGS)
    yield "like it: " + ("none" if like is None else f"{_digits(like.fluid.lower_bound)} {like.is_relaxed}")
    at_prices = at_prices_of(half.restricted(ready.kept), fluid, SETTINGS).lower_bound
    yield f"half: {_digits(at_prices)} of {_digits(relax(half, SETTINGS).lower_bound)}"
    small = bundled(problem, SETTINGS.launch_flexibility)
    yield wrapped(f"bundled: {'none' if small is None else _digits(small.capacity)}")
    loose = replace(SETTINGS.launch_flexibility, bundle_types=2, smaller_share_max=0.6, bundle_price_ratio_max=2.0)
    small = bundled(problem, loose)
    yield wrapped(f"bundled in pairs: {'none' if small is None else _digits(small.capacity)}")
    flexible = replace(
        SETTINGS, launch_flexibility=replace(loose, machines_min=1, pods_per_machine_min=1, cost_relative_max=0.5)
    )
    ready = prepared_with_flexibility(problem, flexible, SearchBudget(1))
    yield wrapped(
        f"flexible: {_digits(ready.fluid.lower_bound)} {_digits(ready.kept)}; {_digits(ready.reduced.capacity)}"
    )
    names = [(chr(97 + kind % 3),) for kind in range(len(problem.prices))]
    distinct = with_distinct_values(problem, [DistinctValues(names, 2)])
    yield wrapped(f"two of three families: {_digits(distinct.capacity)}; {_digits(distinct.prices)}")


def _heuristics(problem: PackingProblem) -> Iterator[str]:
    ready = prepared(problem, SETTINGS)
    reduced, fluid = ready.reduced, ready.fluid
    yield wrapped(f"cuts: {cuts(fluid, SETTINGS.rounding)[:12]}")
    for cut in cuts(fluid, SETTINGS.rounding)[:3]:
        found = guided_rounding(reduced, fluid, cut, generator=_generator(), settings=SETTINGS)
        yield _packing(f"rounded less {cut}", reduced, found)
    budget = SearchBudget(30)
    for found in two_type_packings(reduced, fluid, generator=_generator(), budget=budget, settings=SETTINGS)[:2]:
        yield _packing("of two types", reduced, found)
    yield f"pairs took {budget.steps} steps"
    start = separate_packing(reduced)
    yield _packing("separate", reduced, start)
    yield wrapped(f"promising: {_digits(promising_types(reduced, fluid, 2))}")
    by_value = pack_by_value(
        reduced,
        demand=reduced.counts,
        item_values=fluid.item_values,
        generator=_generator(),
        settings=SETTINGS.value_packing,
    )
    yield _packing("by value", reduced, by_value)
    for draw in range(3):
        some = by_value.loads[:3].sum(axis=0)
        price = int(reduced.prices[by_value.types[:3]].sum())
        swapped = exchanged(
            reduced,
            some,
            price_max=price,
            machines=3,
            generator=np.random.default_rng(draw),
            settings=SETTINGS.cover_exchange,
        )
        yield "not exchanged" if swapped is None else _packing(f"exchanged for {price}", reduced, swapped)
    for steps in (5, 40):
        budget = SearchBudget(steps)
        search_ = RuinAndRecreate(reduced, fluid, generator=_generator(), budget=budget, settings=SETTINGS)
        found = search_.improved(start)
        yield _packing(f"ruined in {budget.steps} steps", reduced, found)


def _columns_of(problem: PackingProblem) -> Iterator[str]:
    fluid = relax(problem, SETTINGS)
    shadow = ShadowPrices(problem)
    values = fluid.item_values
    for demand in (None, np.maximum(problem.counts // 2, 1), None):
        prices = shadow.under(values, demand)
        yield wrapped(f"shadow prices: {_digits(prices)}")
    pods_max = np.minimum(problem.fit, problem.counts[:, None])
    bound = load_value_bound(problem, pods_max=pods_max, item_values=values, resource_prices=prices)
    most = value_for_price_max(problem, demand=problem.counts, item_values=values, resource_prices=prices)
    yield wrapped(f"loads are worth at most {_digits(bound)}; {_digits(most)} of the price")
    noisy = SETTINGS.greedy_pricing
    loads = knapsack_loads(
        problem, problem.counts, chosen_by=values, resource_prices=prices, generator=_generator(), settings=noisy
    )
    yield _columns(
        "best knapsacks", best_columns(problem, loads, judged_by=values, value_per_price_min=0.8, columns_max=5)
    )
    beam = BeamPricing(
        problem,
        problem.counts,
        item_values=values,
        resource_prices=prices,
        value_per_price_min=0.85,
        settings=SETTINGS.beam_pricing,
    ).columns()
    yield _columns(f"{len(beam)} by beam", Columns(beam.types[:6], beam.loads[:6]))
    generation = ColumnGeneration(problem, _generator(), SETTINGS)
    pairs = " ".join(f"{one}>{other}" for one, other in generation.substitutions.pairs.tolist())
    yield wrapped(f"substitutes: {pairs}; order {_digits(generation.substitutions.order)}")
    budget = SearchBudget(30)
    is_new = generation.run(fluid.lower_bound, budget)
    solution = generation.master.solved(problem.counts)
    yield wrapped(
        f"master: {is_new} after {budget.steps} steps, {_digits(solution.cost)}; values {_digits(solution.item_values)}"
    )
    budget = SearchBudget(60)
    diving = Diving(problem, _generator(), budget, SETTINGS)
    dived = diving.packing([Columns.of_packing(separate_packing(problem))], fluid.lower_bound)
    yield _packing(f"dived in {budget.steps} steps, {'closed' if diving.is_closed(dived) else 'open'}", problem, dived)
    good = diving.loads(0.97)
    assert good.dtype == np.int64
    yield wrapped(f"good loads: {_digits(good[:8])}")
    budget = SearchBudget(30)
    proven = dual_bound(
        problem, dived, lower_bound=fluid.lower_bound, generator=_generator(), budget=budget, settings=SETTINGS
    )
    whole = whole_machine_bound(problem, cost=dived.cost(problem), settings=SETTINGS.whole_machine_bound)
    yield f"bounds: dual {_digits(proven)} in {budget.steps} steps, whole machines {_digits(whole)}"
    yield from _other_dives(problem, fluid.lower_bound)


def _other_dives(problem: PackingProblem, lower_bound: int) -> Iterator[str]:
    """Dives that keep machines, or none of the few; without beam search; after the caller's time; from a known packing."""
    kept, few = replace(SETTINGS.target.kept_machines, share=0.6), replace(SETTINGS.target.kept_machines, share=0.01)
    greedy = replace(SETTINGS, diving=replace(SETTINGS.diving, beam_items_max=0))
    for title, settings, budget, known in (
        ("keeping machines", replace(greedy, kept_machines=kept), SearchBudget(12), []),
        ("keeping none", replace(greedy, kept_machines=few), SearchBudget(6), []),
        ("late", greedy, SearchBudget(6, lambda: 1.0), [Columns.of_packing(separate_packing(problem))]),
    ):
        diving = Diving(problem, _generator(), budget, settings)
        found = diving.packing(known, lower_bound)
        rest = (
            f"{budget.steps} steps, {len(diving.loads(0.0))} loads, {'closed' if diving.is_closed(found) else 'open'}"
        )
        yield _packing(f"dived {title}, {rest}", problem, found)


def _whole(problem: PackingProblem) -> Iterator[str]:
    ready, start = prepared(problem, SETTINGS), separate_packing(problem)
    for steps in (0, 3, 60):
        budget = SearchBudget(steps)
        found = improve(ready, start, seed=0, budget=budget, settings=SETTINGS)
        rest = f"{len(found.known)} known, {len(found.loads)} loads"
        yield _packing(f"improved, {budget.steps} of {steps} steps, {rest}", problem, found.packing)
    budget = SearchBudget(20)
    again = improve(ready, start, seed=1, budget=budget, settings=SETTINGS, known=found.known, loads=found.loads)
    yield f"again with these, {budget.steps} steps: {again.packing.cost(problem)}"
    for pairs in (False, True):
        budget = SearchBudget(20)
        quick = round_only(ready, start, seed=0, budget=budget, settings=SETTINGS, pairs=pairs)
        yield f"only rounded, {budget.steps} steps: {quick.packing.cost(problem)}, {len(quick.known)} known"
    cost, machines = found.packing.cost(problem), len(found.packing.types)
    coarse = [
        is_coarse(problem, lower_bound=bound, cost=cost, machines=machines, settings=SETTINGS.stages)
        for bound in (cost, found.lower_bound)
    ]
    yield f"coarse: {coarse}"


def target(seed: int) -> str:
    """What stays of a fleet, and where the pods of the rest go."""
    fleet = a_small_fleet(seed)
    cells, types = PodCells.of(fleet), np.arange(len(fleet.type_prices))
    lines = [
        wrapped(f"loads {_digits(fleet.loads)}; prices {_digits(fleet.prices)}; groups {_digits(fleet.room_groups)}"),
        wrapped(f"must go {_digits(fleet.must_go)}; spot {_digits(fleet.is_spot)}; caps {_digits(fleet.host_caps)}"),
        wrapped(
            f"scale {_digits(fleet.scale)}; hosts {_digits(fleet.hosts(np.arange(len(fleet.requests)), fleet.host_caps))}"
        ),
        wrapped(f"cells {_digits(cells.cell)}; mean requests {_digits(cells.mean_requests(fleet))}"),
        wrapped(f"least requests {_digits(cells.least_requests(fleet))}"),
    ]
    pools = np.arange(len(fleet.prices)) % 2
    for name, rules in (
        ("as it is", TargetRules()),
        ("gated, filled whole", TargetRules(fill=1.0, is_gated=True)),
        ("one of each half", TargetRules(keep_discount=0.1, pools=pools, drains_max=np.array([1.0, 1.0]))),
    ):
        found = KeepOrDrain(fleet, cells, types, cells.mean_requests(fleet)).solve(rules)
        stay, into = _digits(found.stay), _digits(found.into)
        room, by_type = _digits(found.room_values), _digits(found.type_values)
        lines += [
            wrapped(f"{name}: {_digits(found.cost)}; stay {stay}; into {into}; {_digits(found.machines)} machines"),
            wrapped(f"  values {_digits(found.cell_values)}; room {room}; types {by_type}"),
            wrapped(f"  hosts {_digits(found.host_values)}"),
        ]
        lines.append(wrapped(f"  free room is worth {_digits(free_room_worth(fleet, found.room_values))}"))
        lines += _slots(fleet, rounded(found.stay), found.into, found.machines)
    lines.append(f"at least {fleet_bound(fleet, types[:1])}, {fleet_bound(fleet, types)}")
    missing = fleet.loads[:2].sum(axis=0)
    for counts_room in (False, True):
        chosen = covering(fleet, missing, ~fleet.must_go, counts_room=counts_room, settings=SETTINGS.target)
        lines.append(f"cover: {np.flatnonzero(chosen).tolist()}")
    return "\n".join(lines)


def _slots(fleet: FleetProblem, keeps: Ints, into: Floats, machines: float) -> Iterator[str]:
    groups = np.where(keeps, fleet.room_groups, NO_GROUP)
    suits = np.zeros((len(fleet.requests), len(groups)), dtype=bool)
    suits[:, groups >= 0] = fleet.group_suits[:, groups[groups >= 0]]
    present = tuple(
        {int(n): int(count) for n, count in enumerate(fleet.loads[:, item])} for item in range(len(fleet.requests))
    )
    drained = fleet.loads[~keeps].sum(axis=0)
    for bound in (np.zeros_like(drained), drained // 2):
        rooms = Rooms(np.maximum(fleet.free, 0), groups, suits, present)
        found = SlotFilling(fleet, rooms, drained, bound).slots(into, machines)
        yield wrapped("  slots: " + " ".join(f"{slot.pods}x{slot.item}@{slot.node}" for slot in found))


def _chosen(seed: int) -> str:
    problem = a_wide_problem(seed)
    return wrapped(f"promising for a target: {_digits(promising(problem, relax(problem, SETTINGS)))}")


def _small(seed: int) -> Callable[[], str]:
    return lambda: search(a_small_problem(seed))


def _wide(seed: int) -> Callable[[], str]:
    return lambda: f"{search(a_wide_problem(seed))}\n{_chosen(seed)}"


def _fleet(seed: int) -> Callable[[], str]:
    return lambda: target(seed)


_LARGE: Final[dict[str, Callable[[], PackingProblem]]] = {
    "small pods": lambda: with_small_pods(1, items=9, pods=90),
    "large pods": lambda: with_large_pods(2, items=8, pods=40),
    "machines of every size": lambda: of_every_size(12, apart=3),
    "families alike": lambda: of_families(5),
}


def _large(name: str) -> Callable[[], str]:
    def text() -> str:
        problem = _LARGE[name]()
        return "\n".join([*_heuristics(problem), *_whole(problem)])

    return text


EXPECTED: Final = Expected(
    Path(__file__).parent / "expected" / "stages.txt",
    {
        **{f"small {seed}": _small(seed) for seed in _SMALL},
        **{f"wide {seed}": _wide(seed) for seed in _WIDE},
        **{name: _large(name) for name in _LARGE},
        **{f"fleet {seed}": _fleet(seed) for seed in _FLEETS},
    },
)


@pytest.mark.parametrize("name", sorted(EXPECTED.cases))
def test_a_stage_returns_what_is_expected(name: str) -> None:
    """If this failed, a change would alter what the search returns, or its effort, and no rule would be broken."""
    assert EXPECTED.cases[name]() == EXPECTED.text(name)
