"""The packing problem and packings."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from msgspec.structs import replace

import core
from core.errors import InvariantError
from core.packing.column_generation import (
    BeamPricing,
    ColumnGeneration,
    ShadowPrices,
    best_columns,
    dual_bound,
    knapsack_loads,
    load_value_bound,
    value_for_price_max,
)
from core.packing.columns import Columns
from core.packing.fleet_target import (
    NO_GROUP,
    FleetProblem,
    KeepOrDrain,
    PodCells,
    Rooms,
    SlotFilling,
    TargetRules,
    covering,
    fleet_bound,
    free_room_worth,
    promising,
    rounded,
)
from core.packing.heuristics import (
    cuts,
    few_machines,
    guided_rounding,
    pack_by_value,
    promising_types,
    separate_packing,
    two_type_packings,
)
from core.packing.optimize import Diving, improve, is_coarse, round_only
from core.packing.problem import (
    NO_TYPE,
    UNBOUNDED,
    Coefficients,
    Floats,
    IntegerLimits,
    Ints,
    LinearProgram,
    LpColumns,
    LpRows,
    Packing,
    PackingProblem,
    distinct_loads,
    distributed,
    joined,
    largest_first,
    meeting,
    numbered_rows,
    right_sized,
    whole_machines,
)
from core.packing.relaxation import (
    DistinctValues,
    at_prices_of,
    bundled,
    prepared,
    prepared_like,
    prepared_with_flexibility,
    relax,
    with_distinct_values,
)
from core.packing.settings import SearchBudget
from tests.classes import classes_of, holds_arrays, is_compared_by_fields
from tests.expected import Expected
from tests.rendered import wrapped
from tests.unit.packing.problems import (
    MILLS,
    SETTINGS,
    SIZES,
    a_market,
    a_problem,
    of_every_size,
    of_families,
    with_large_pods,
    with_small_pods,
)
from tests.unit.packing.small_worlds import a_small_fleet, a_small_problem, a_wide_problem

# What each stage of the search returns for small random problems, compared with `expected/stages.txt`.
#
# `python -m tests.expected tests.unit.packing.test_problem` writes the texts. test_small_optima.py checks the same
# stages against exhaustive search; a text shows which of several valid results a stage returns, and after how many steps.


_SMALL: Final = range(8)
_WIDE: Final = range(6)
_FLEETS: Final = range(12)
_SHOWN_MAX: Final = 7


def _generator() -> np.random.Generator:
    return np.random.default_rng(0)


def _digits(values: Floats | Ints | float) -> str:
    """Numbers to six digits: the last ones of a float may differ between processors."""
    array = np.asarray(values, dtype=float)
    if array.ndim == 0:
        return f"{float(array):.6g}"
    parts = [_digits(row) for row in array]
    return " ".join(parts) if array.ndim == 1 else " | ".join(parts)


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
        packing = guided_rounding(reduced, fluid, cut, generator=_generator(), settings=SETTINGS)
        yield _packing(f"rounded less {cut}", reduced, packing)
    budget = SearchBudget(30)
    for packing in two_type_packings(reduced, fluid, generator=_generator(), budget=budget, settings=SETTINGS)[:2]:
        yield _packing("of two types", reduced, packing)
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
    for spare in (0.0, 0.1):
        limits = replace(SETTINGS.few_machines, spare_shares=(spare,))
        budget = SearchBudget(1)
        packing = few_machines(reduced, start, budget=budget, settings=limits)
        yield _packing(f"best mix with {spare} to spare", reduced, packing)


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
    whole, _ = whole_machines(problem, cost=dived.cost(problem), settings=SETTINGS.whole_machine_bound.program)
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
        packing = diving.packing(known, lower_bound)
        rest = (
            f"{budget.steps} steps, {len(diving.loads(0.0))} loads, {'closed' if diving.is_closed(packing) else 'open'}"
        )
        yield _packing(f"dived {title}, {rest}", problem, packing)


def _whole(problem: PackingProblem) -> Iterator[str]:
    ready, start = prepared(problem, SETTINGS), separate_packing(problem)
    for steps in (0, 3, 60):
        budget = SearchBudget(steps)
        optimized = improve(ready, start, seed=0, budget=budget, settings=SETTINGS)
        rest = f"{len(optimized.known)} known, {len(optimized.loads)} loads"
        yield _packing(f"improved, {budget.steps} of {steps} steps, {rest}", problem, optimized.packing)
    budget = SearchBudget(20)
    again = improve(
        ready, start, seed=1, budget=budget, settings=SETTINGS, known=optimized.known, loads=optimized.loads
    )
    yield f"again with these, {budget.steps} steps: {again.packing.cost(problem)}"
    for pairs in (False, True):
        budget = SearchBudget(20)
        quick = round_only(ready, start, seed=0, budget=budget, settings=SETTINGS, pairs=pairs)
        yield f"only rounded, {budget.steps} steps: {quick.packing.cost(problem)}, {len(quick.known)} known"
    cost, machines = optimized.packing.cost(problem), len(optimized.packing.types)
    coarse = [
        is_coarse(problem, lower_bound=bound, cost=cost, machines=machines, settings=SETTINGS.stages)
        for bound in (cost, optimized.lower_bound)
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


@pytest.mark.ci
@pytest.mark.parametrize("name", sorted(EXPECTED.cases))
def test_a_stage_returns_what_is_expected(name: str) -> None:
    """If this failed, a change would alter what the search returns, or its effort, and no rule would be broken."""
    assert EXPECTED.cases[name]() == EXPECTED.text(name)


# The builder of linear programs.


COSTS = np.array([3.0, 2.0])
COEFFICIENTS = np.array([[1.0, 2.0], [1.0, 0.0]])
"""[column, row]: the first covers one of the first row and two of the second, the second one of the first."""


def test_a_covering_program_gives_its_optimum_and_duals() -> None:
    program = LinearProgram(LpRows.at_least(np.array([4.0, 2.0])), LpColumns.dense(COSTS, COEFFICIENTS))
    program.solve()
    assert program.column_values().tolist() == pytest.approx([1, 3])
    assert program.row_duals().tolist() == pytest.approx([2, 0.5])  # 4 · 2 + 2 · 0.5 = 1 · 3 + 3 · 2


def test_coefficients_of_any_order_become_columns_in_floating_point() -> None:
    coefficients = Coefficients()
    coefficients.put(np.array([2, 0]), np.array([1, 1]), np.array([7, 5]))
    coefficients.put(np.array([[1], [0]]), np.array([0, 2]), 3)
    columns = coefficients.columns(np.array([9.0, 8.0, 6.0, 4.0]), np.full(4, UNBOUNDED))
    assert columns.starts.tolist() == [0, 2, 4, 6, 6]
    assert columns.rows.tolist() == [0, 1, 0, 2, 0, 1]
    assert columns.coefficients.tolist() == [3, 3, 5, 7, 3, 3]
    assert (columns.starts.dtype, columns.rows.dtype, columns.coefficients.dtype) == (np.int32, np.int32, float)


def test_columns_and_bounds_change_between_solutions() -> None:
    """Otherwise, column generation solves its first problem again and again."""
    program = LinearProgram(LpRows.at_least(np.zeros(2)), presolve=False)
    program.add_columns(LpColumns.dense(COSTS, COEFFICIENTS))
    program.set_rows(LpRows.at_least(np.array([4.0, 0.0])))
    program.solve()
    assert program.column_values().tolist() == pytest.approx([0, 4])
    program.add_columns(LpColumns.dense(np.array([1.0]), np.array([[1.0, 0.0]])))
    program.solve()
    assert program.column_values().tolist() == pytest.approx([0, 0, 4])
    program.set_costs(np.array([3.0, 2.0, 9.0]))
    program.solve()
    assert program.column_values().tolist() == pytest.approx([0, 4, 0])


def test_the_primal_simplex_finds_the_optimum_of_the_dual_one() -> None:
    """Otherwise, a solution from another start is worse, or the next change of rows is solved wrongly."""
    programs = [LinearProgram(LpRows.at_least(np.zeros(2)), presolve=False) for _ in range(2)]
    for program in programs:
        program.add_columns(LpColumns.dense(COSTS, COEFFICIENTS))
    found = []
    for demand, cost, is_feasible in ((4.0, 9.0, False), (4.0, 1.0, True), (4.0, 0.5, True), (7.0, 0.25, False)):
        for number, program in enumerate(programs):
            program.set_rows(LpRows.at_least(np.array([demand, 1.0])))
            program.add_columns(LpColumns.dense(np.array([cost]), np.array([[1.0, 0.0]])))
            program.solve(is_feasible=bool(number) and is_feasible)
        found.append([program.row_duals().tolist() for program in programs])
    assert all(primal == pytest.approx(dual) for dual, primal in found)
    assert found[-1][0] == pytest.approx([0.25, 1.375])


def test_it_needs_fewer_steps_to_continue_than_the_dual_simplex_needs() -> None:
    """Otherwise, each round of column generation costs more, for which `is_feasible` is there."""
    dice = np.random.default_rng(2)
    programs = [LinearProgram(LpRows.at_least(np.full(30, 10.0)), presolve=False) for _ in range(2)]
    steps = [0, 0]
    added = LpColumns.dense(np.full(30, 9.0), np.eye(30))
    for number in range(8):
        for primal, program in enumerate(programs):
            program.add_columns(added)
            program.solve(is_feasible=bool(primal and number))
            steps[primal] += program._solver.getInfo().simplex_iteration_count
        assert programs[1].row_duals().sum() == pytest.approx(programs[0].row_duals().sum())
        added = LpColumns.dense(dice.integers(5, 20, 40).astype(float), dice.integers(0, 4, (40, 30)).astype(float))
    assert steps[1] < 0.9 * steps[0]


def test_upper_bounds_change_between_solutions() -> None:
    program = LinearProgram(LpRows.at_most(np.array([3.0])), LpColumns.dense(np.array([-5.0]), np.array([[2.0]])))
    for upper, most in ((1.0, 1.0), (9.0, 1.5)):
        program.set_upper(np.array([upper]))
        program.solve()
        assert program.column_values().tolist() == pytest.approx([most])


def test_a_capacity_row_has_a_negative_dual() -> None:
    columns = LpColumns.dense(np.array([-5.0]), np.array([[2.0]]))
    program = LinearProgram(LpRows.at_most(np.array([3.0])), columns)
    program.solve()
    assert program.column_values().tolist() == pytest.approx([1.5])
    assert program.row_duals().tolist() == pytest.approx([-2.5])


def test_an_integral_program_proves_a_bound() -> None:
    columns = LpColumns.dense(np.array([-5.0]), np.array([[2.0]]))
    limits = IntegerLimits(gap_relative=1e-6, nodes_max=100)
    program = LinearProgram(LpRows.at_most(np.array([3.0])), columns, integer=limits)
    program.solve()
    assert program.column_values().tolist() == pytest.approx([1])
    assert program.integer_bound() == pytest.approx(-5)


def test_zeros_of_a_dense_matrix_are_left_out() -> None:
    columns = LpColumns.dense(COSTS, COEFFICIENTS)
    assert columns.starts.tolist() == [0, 2, 3]
    assert columns.rows.tolist() == [0, 1, 0]
    assert columns.coefficients.tolist() == [1, 2, 1]
    assert (columns.upper == UNBOUNDED).all()


@pytest.mark.parametrize(
    ("types", "loads", "why"),
    [
        ([0, 0, 1], [[1, 0], [1, 0], [0, 1]], ""),
        ([0, 1], [[2, 0], [0, 1]], "overfull"),
        ([0, 0, 0], [[1, 0], [1, 0], [0, 1]], "may not"),
        ([0, 1], [[1, 0], [0, 1]], "exactly once"),
        ([0, 0, 0, 1], [[1, 0], [1, 0], [1, 0], [0, 1]], "exactly once"),
    ],
    ids=["valid", "overfull", "forbidden", "missing", "twice"],
)
def test_a_packing_is_refused_for_each_fault_by_itself(types: list[int], loads: list[list[int]], why: str) -> None:
    """Each machine holds just what it has room for, so a packing without a fault passes, and one that is full to the brim."""
    problem = PackingProblem.of(
        requests=np.array([[2], [2]]),
        counts=np.array([2, 1]),
        capacity=np.array([[2], [2]]),
        prices=np.array([1, 1]),
        allowed=np.array([[True, True], [False, True]]),
    )
    packing = Packing(np.array(types), np.array(loads))
    if why:
        with pytest.raises(InvariantError, match=why):
            packing.check(problem)
    else:
        packing.check(problem)


def test_an_item_that_fits_nothing_is_refused() -> None:
    """Otherwise, its lower bound is infinite."""
    with pytest.raises(InvariantError):
        a_problem([(100, 4)], [1])
    empty_request = np.ones((1, 0), dtype=np.int64)
    with pytest.raises(InvariantError):
        PackingProblem.of(
            requests=np.array([[1]]),
            counts=np.array([1]),
            capacity=empty_request.T,
            prices=empty_request[0],
            allowed=empty_request > 0,
        )


def test_a_load_moves_to_the_cheapest_machine_that_holds_it() -> None:
    """Otherwise, a nearly empty large machine stays."""
    problem = a_problem([(1, 4)], [2])
    assert right_sized(problem, Packing(np.array([7]), np.array([[2]]))).types.tolist() == [1]
    assert problem.cheapest_type(np.array([200])) == NO_TYPE


def test_less_capacity_holds_fewer_pods_and_never_more_than_a_cap() -> None:
    problem = a_problem([(1, 2)], [9], per_machine_max=[3])
    smaller = problem.with_capacity(np.array([0, 3]), problem.capacity[[0, 3]] // 2)
    assert smaller.fit.tolist() == [[1, 3]]
    assert smaller.prices.tolist() == problem.prices[[0, 3]].tolist()


def test_packings_are_joined_and_joining_none_gives_none() -> None:
    packing = Packing(np.array([1]), np.array([[2, 0]]))
    assert joined([packing, packing], items=2).loads.tolist() == [[2, 0], [2, 0]]
    assert joined([], items=2).loads.shape == (0, 2)


def test_amounts_are_assigned_to_places_in_order() -> None:
    """Otherwise, a machine gets more pods than it has room for."""
    assert distributed(5, np.array([2, 0, 4, 1])).tolist() == [2, 0, 3, 0]
    assert distributed(9, np.array([2, 1])).tolist() == [2, 1]


def test_the_largest_share_of_any_resource_orders_items() -> None:
    requests = np.array([[1, 9], [5, 1], [5, 1]])
    assert largest_first(requests, np.array([10, 10])).tolist() == [0, 1, 2]
    assert largest_first(requests, np.array([10, 100])).tolist() == [1, 2, 0]
    assert largest_first(np.array([[0, 3], [1, 0]]), np.array([1, 4])).tolist() == [1, 0]
    assert largest_first(np.array([[0, 3], [1, 2]]), np.array([0, 4])).tolist() == [1, 0]


def test_distinct_loads_are_in_the_order_of_their_amounts() -> None:
    """Bytes are in that order only with the highest byte first: 256 comes after 1."""
    loads = np.array([[256, 0], [1, 5], [1, 3], [256, 0]], dtype=np.int64)
    assert distinct_loads(loads).tolist() == np.unique(loads, axis=0).tolist() == [[1, 3], [1, 5], [256, 0]]
    assert distinct_loads(loads[:0]).shape == (0, 2)


def test_rows_are_numbered_in_the_order_of_appearance() -> None:
    first, number = numbered_rows(np.array([[2, 1], [0, 0], [2, 1], [1, 2]]))
    assert first.tolist() == [0, 1, 3]
    assert number.tolist() == [0, 1, 0, 2]
    assert [part.tolist() for part in numbered_rows(np.zeros((0, 2), dtype=np.int64))] == [[], []]
    assert [part.dtype.kind for part in numbered_rows(np.zeros((0, 2), dtype=np.int64))] == ["i", "i"]
    assert [part.tolist() for part in numbered_rows(np.zeros((2, 0), dtype=np.int64))] == [[0], [0, 0]]


def drawn(dice: np.random.Generator, *, is_capped: bool = False) -> PackingProblem:
    """A few items and types in small numbers: many requests and capacities are zero, many prices and capacities equal."""
    items, types, resources = (int(dice.integers(1, most)) for most in (4, 6, 4))
    return PackingProblem.of(
        requests=dice.integers(0, 3, (items, resources)),
        counts=dice.integers(1, 4, items),
        capacity=np.concatenate([dice.integers(0, 5, (types, resources)), np.full((1, resources), 4)]),
        prices=dice.integers(1, 4, types + 1),
        allowed=np.concatenate([dice.random((items, types)) < 0.7, np.ones((items, 1), dtype=np.bool_)], axis=1),
        pods_per_machine_max=np.arange(items) % 3 if is_capped else None,
    )


def holds(problem: PackingProblem, kind: int, load: list[int]) -> bool:
    """Whether a machine of a type may hold a load, by its sums."""
    taken = [
        sum(pods * requests[resource] for pods, requests in zip(load, problem.requests.tolist(), strict=True))
        for resource in range(problem.requests.shape[1])
    ]
    may = all(problem.allowed[item, kind] for item, pods in enumerate(load) if pods)
    return may and all(
        requested <= room for requested, room in zip(taken, problem.capacity[kind].tolist(), strict=True)
    )


@pytest.mark.parametrize("is_capped", [False, True])
def test_as_many_pods_fit_alone_as_the_sums_and_the_cap_say(is_capped: bool) -> None:
    """A pod that does not request a resource fits a machine that has none of it, in any number."""
    dice, unlimited = np.random.default_rng(1), np.iinfo(np.int64).max
    for _ in range(60):
        problem = drawn(dice, is_capped=is_capped)
        for item, requests in enumerate(problem.requests.tolist()):
            cap = item % 3 if is_capped else 0
            rooms = [
                min(
                    (room // wanted for wanted, room in zip(requests, capacity, strict=True) if wanted),
                    default=unlimited,
                )
                for capacity in problem.capacity.tolist()
            ]
            fit = [room if may else 0 for room, may in zip(rooms, problem.allowed[item], strict=True)]
            assert problem.fit[item].tolist() == [min(room, cap) if cap else room for room in fit]
            assert problem.is_capped()[item] == (bool(cap) and max(fit) > cap)


def test_the_cheapest_type_of_a_load_is_the_first_of_those_that_hold_it() -> None:
    dice = np.random.default_rng(2)
    for _ in range(60):
        problem = drawn(dice)
        loads = dice.integers(0, 3, (5, len(problem.counts)))
        by_price = sorted(range(len(problem.prices)), key=lambda kind: (problem.prices[kind], kind))
        wanted = [next((k for k in by_price if holds(problem, k, load)), NO_TYPE) for load in loads.tolist()]
        assert [problem.cheapest_type(load) for load in loads] == wanted
        assert problem.cheapest_types(loads).tolist() == wanted


def some_drawn() -> Iterator[PackingProblem]:
    dice = np.random.default_rng(3)
    return (drawn(dice) for _ in range(60))


@pytest.mark.parametrize("problems", [some_drawn, lambda: map(a_market, range(40))], ids=["few types", "many types"])
def test_of_types_that_offer_as_much_the_cheapest_then_the_largest_then_the_first_is_kept(
    problems: Callable[[], Iterator[PackingProblem]],
) -> None:
    """Each is compared with every other: types of one capacity that differ in price or in what fits them hide each other."""
    for problem in problems():
        fits, total = problem.fit > 0, problem.capacity.sum(axis=1)
        order = sorted(range(len(total)), key=lambda kind: (problem.prices[kind], -total[kind], kind))
        kept = [
            kind
            for rank, kind in enumerate(order)
            if fits[:, kind].any()
            and not any(
                (fits[:, other] >= fits[:, kind]).all() and (problem.capacity[other] >= problem.capacity[kind]).all()
                for other in order[:rank]
            )
        ]
        assert problem.undominated().tolist() == sorted(kept)


def test_a_part_of_a_problem_has_the_same_rows() -> None:
    problem = a_problem([(1, 2), (1, 7), (2, 4)], [9, 8, 7], per_machine_max=[0, 2, 0])
    some = problem.restricted(np.array([5, 2]))
    assert [some.capacity.tolist(), some.prices.tolist()] == [
        [problem.capacity[kind].tolist() for kind in (5, 2)],
        [problem.prices[kind] for kind in (5, 2)],
    ]
    assert (some.fit.tolist(), some.allowed.shape) == (problem.fit[:, [5, 2]].tolist(), (3, 2))
    few = problem.of_items(np.array([2, 1]), np.array([4, 1]))
    assert (few.requests.tolist(), few.counts.tolist()) == (problem.requests[[2, 1]].tolist(), [4, 1])
    assert (few.fit.tolist(), few.allowed.shape) == (problem.fit[[2, 1]].tolist(), (2, len(SIZES)))
    assert (few.capacity.tolist(), few.prices.tolist()) == (problem.capacity.tolist(), problem.prices.tolist())


def test_packings_hold_whole_numbers_however_they_are_put_together() -> None:
    """A load in floating point would be launched as it is."""
    problem = a_problem([(1, 4)], [3])
    packings = [joined([], items=1), separate_packing(problem), right_sized(problem, separate_packing(problem))]
    packings.append(joined(packings, items=1))
    assert {array.dtype.kind for packing in packings for array in (packing.types, packing.loads)} == {"i"}
    assert packings[-1].cost(problem) == 2 * packings[1].cost(problem)


# Classes that hold arrays are told apart by identity: `==` of two arrays is an array, and neither true nor false.


def test_no_class_that_holds_arrays_is_compared_field_by_field() -> None:
    """Otherwise, `==` raises as soon as an array has two elements, and the object cannot be a key."""
    found = {name: class_ for name, class_ in classes_of(core) if holds_arrays(class_)}
    assert found["Packing"] is Packing
    assert [name for name, class_ in found.items() if is_compared_by_fields(class_)] == []


# The lower bound from whole machines.


def bounded(problem: PackingProblem, cost: int) -> int:
    return whole_machines(problem, cost=cost, settings=SETTINGS.whole_machine_bound.program)[0]


def cheapest_cover(problem: PackingProblem, machines: int) -> int | None:
    """The least price of at most this many machines that offer what all pods request together; None if none do."""
    total = problem.counts @ problem.requests
    covers = (
        list(types)
        for number in range(1, machines + 1)
        for types in itertools.combinations_with_replacement(range(len(problem.prices)), number)
    )
    prices = (
        int(problem.prices[types].sum()) for types in covers if (problem.capacity[types].sum(axis=0) >= total).all()
    )
    return min(prices, default=None)


def test_it_is_the_price_of_whole_machines() -> None:
    """Parts of machines cost less: three vCPUs and 12 GiB are 1.5 small machines."""
    problem = a_problem([(1, 4)], [3])
    assert cheapest_cover(problem, 3) == 181 * MILLS
    assert bounded(problem, 192 * MILLS) == pytest.approx(181 * MILLS, rel=1e-4)
    assert bounded(problem, 192 * MILLS) <= 181 * MILLS
    assert relax(problem, SETTINGS).lower_bound < 150 * MILLS


@pytest.mark.parametrize("seed", range(8))
def test_it_is_about_the_fluid_relaxation_or_more(seed: int) -> None:
    """Parts of machines cost at most as much as whole ones; here only the solver's gap may make it less."""
    problem = with_small_pods(seed, items=3, pods=12)
    cheapest = cheapest_cover(problem, 5)
    assert cheapest is not None
    for cost in (cheapest, cheapest + 50 * MILLS, 3 * cheapest):
        assert relax(problem, SETTINGS).lower_bound * 0.99 < bounded(problem, cost) <= cheapest


@pytest.mark.ci
@pytest.mark.parametrize("seed", range(10))
def test_no_set_of_machines_costs_less(seed: int) -> None:
    """If more types were left out than the known cost allows, some sets of the others would cost more than the cheapest of all.

    It fails if a machine is taken to cost twice its reduced cost more, or if reduced costs add what duals pay. It does not fail
    with all duals zero, where no type is left out too early, nor without the slack, which no draw that was tried needs.
    """
    dice = np.random.default_rng(seed)
    for _ in range(60):
        problem, cheapest = a_draw(dice)
        for excess in (1.0, 1.02, 1.1, 1.25, 1.5):
            assert bounded(problem, int(excess * cheapest)) <= cheapest


def a_draw(dice: np.random.Generator) -> tuple[PackingProblem, int]:
    """Pods of two resources on two to four types, and the least price of machines that offer as much: at most five."""
    while True:
        types = int(dice.integers(2, 5))
        problem = PackingProblem.of(
            requests=dice.integers(1, 1001, (3, 2)),
            counts=dice.integers(1, 8, 3),
            capacity=1000 * dice.integers(1, 9, (types, 2)),
            prices=dice.integers(20, 400, types) * MILLS,
            allowed=np.ones((3, types), dtype=np.bool_),
        )
        cheapest = cheapest_cover(problem, 5)
        if cheapest is not None and cheapest <= 6 * problem.prices.min():
            return problem, cheapest


def test_the_machines_offer_what_all_pods_request_and_something_to_spare() -> None:
    """Three vCPUs: the bound's machines have four; with half of that to spare, they have six."""
    problem = a_problem([(1, 4)], [3])
    total, settings = problem.counts @ problem.requests, SETTINGS.whole_machine_bound.program
    for spare in (0.0, 0.5):
        _, types = whole_machines(problem, cost=500 * MILLS, spare_share=spare, settings=settings)
        assert (problem.capacity[types].sum(axis=0) >= total * (1 + spare)).all()
    assert len(whole_machines(problem, cost=100 * MILLS, settings=settings)[1]) == 0


def test_it_is_at_most_the_known_cost() -> None:
    """The types that are left out prove nothing below it."""
    problem = a_problem([(1, 4)], [3])
    assert bounded(problem, 100 * MILLS) == 100 * MILLS


def test_rows_and_columns_meet_where_a_position_is_true_in_both() -> None:
    """Compared with sets, for it is a matrix product in floating point."""
    rng = np.random.default_rng(7)
    rows, columns = rng.random((9, 40)) < 0.1, rng.random((40, 11)) < 0.1
    expected = [[bool(set(np.flatnonzero(row)) & set(np.flatnonzero(column))) for column in columns.T] for row in rows]
    assert meeting(rows, columns).tolist() == expected
