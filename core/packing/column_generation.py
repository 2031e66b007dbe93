"""Column generation: pricing by knapsacks, beam search and exchanges, and the bounds that prices prove.

Solves the pricing problem by beam search over partial loads, decided item by item, uncertain items last.

A pod worth more than the shadow price of its requests belongs on a machine, and one worth less does not. Each decision against
this rule loses the difference. The bound of a partial load is the bound on any load of its type, less these losses. Once all
items are decided, it is the load's value plus the shadow price of the capacity that stays empty.
"""

from __future__ import annotations

import math

import numpy as np

from core.packing.columns import Columns, MasterProblem, MasterSolution, Substitutions
from core.packing.heuristics import greedy_loads
from core.packing.problem import (
    Bools,
    Floats,
    IntegerLimits,
    Ints,
    LinearProgram,
    LpColumns,
    LpRows,
    MachineTypeIndex,
    Packing,
    PackingProblem,
)
from core.packing.settings import (
    BeamPricingSettings,
    DualBoundSettings,
    GreedyPricingSettings,
    LoadExchangeSettings,
    SearchBudget,
    SearchSettings,
)

# Solves the pricing problem by greedy knapsacks: finds columns worth more than their price that the master problem lacks.


def knapsack_loads(
    filled: PackingProblem,
    demand: Ints,
    *,
    chosen_by: Floats,
    resource_prices: Floats,
    generator: np.random.Generator,
    settings: GreedyPricingSettings,
) -> Ints:
    """Return [load, item], the loads of greedy knapsacks, one for each type and noise on its resource prices.

    Args:
        filled: The pods, and the types that knapsacks fill.
        demand: [item], pods to take from.
        chosen_by: [item], the values by which pods are chosen.
        resource_prices: [type, resource], shadow prices under `chosen_by`.
        generator: Draws the noise.
        settings: How much noise.
    """
    # Density rule: items by chosen_by[i] / (requests[i] · u[d, t]) for the resource prices u under noise d, the largest first.
    # cost: [active item, noise, type], order and taken: [rank, noise, type], by_item: [item, noise, type].
    active = np.flatnonzero((demand > 0) & (chosen_by > 0))
    noisy = _noisy(resource_prices, generator, settings)
    cost = np.einsum("ar,dtr->adt", filled.requests[active].astype(float), noisy)
    order = active[np.argsort(-(chosen_by[active, None, None] / np.maximum(cost, 1e-15)), axis=0, kind="stable")]
    pods_max = np.minimum(filled.fit, demand[:, None]).astype(float)
    taken = greedy_loads(filled, demand=demand, pods_max=pods_max, order=order)
    by_item = np.zeros((len(demand), *taken.shape[1:]), dtype=np.int64)
    np.put_along_axis(by_item, order, taken.astype(np.int64), axis=0)
    loads: Ints = by_item.reshape(len(demand), -1).T
    return loads


def best_columns(
    problem: PackingProblem, loads: Ints, *, judged_by: Floats, value_per_price_min: float, columns_max: int
) -> Columns:
    """Return columns of negative reduced cost with these loads, each on the cheapest type that holds it.

    That may be another type than the one for which a load was found, if it leaves room there.

    Args:
        problem: The pods and all types of machine.
        loads: [load, item].
        judged_by: [item], the master problem's dual prices.
        value_per_price_min: Value over price that a column must exceed.
        columns_max: How many columns, the best first.
    """
    # Reduced cost = price - Σ_i load[i] judged_by[i] < 0 where value / price > 1.
    columns = Columns.of_loads(problem, loads)
    value_for_price = (columns.loads @ judged_by) / problem.prices[columns.types]
    ranked = np.argsort(-value_for_price, kind="stable")[:columns_max]
    best = ranked[value_for_price[ranked] > value_per_price_min]
    return Columns(columns.types[best], columns.loads[best])


def _noisy(resource_prices: Floats, generator: np.random.Generator, settings: GreedyPricingSettings) -> Floats:
    """[noise, type, resource], resource prices times e^noise; prices of zero are lifted a little, so that they order items."""
    deviations = np.array(settings.price_noises_log)[:, None, None]
    noise = generator.normal(0, 1, (len(deviations), *resource_prices.shape)) * deviations
    noisy: Floats = np.maximum(resource_prices, resource_prices.max() * 1e-12) * np.exp(noise)
    return noisy


# Improves loads by exchanging single pods for others of more value, or adding one, while the machine has room.
#
# Greedy knapsacks take the densest pods first, and what is left of a machine then often fits no pod: with 37 pods on a machine,
# loads are worth 1 to 2 % less than the best. A pod exchanged for a slightly larger one fills such a rest
# (docs/engineering/handbook/target-packing.md).


def exchanged_loads(
    problem: PackingProblem,
    demand: Ints,
    loads: Ints,
    *,
    item_values: Floats,
    settings: LoadExchangeSettings,
) -> Ints:
    """Return [load, item], the loads with the most value for their type's price, improved pod by pod.

    Args:
        problem: The types of machine.
        demand: [item], pods to take from.
        loads: [load, item], one load of each type in turn, repeated any number of times.
        item_values: [item], what a pod is worth.
        settings: How many loads, and exchanges of each.
    """
    active = np.flatnonzero((demand > 0) & (item_values > 0))
    types = np.arange(len(loads)) % len(problem.prices)
    best = np.argsort(-(loads @ item_values) / problem.prices[types], kind="stable")[: settings.loads]
    exchanged, types = loads[best], types[best]
    exchanged[:, active] = _Exchange(problem, demand, active, types, item_values).improved(
        exchanged[:, active], settings.exchanges_max
    )
    return exchanged


class _Exchange:
    """Exchanges between the active items; the last item stands for no pod, so that a pod may also be added.

    The pairs (out, into) are in the order of what they gain, the most first; only those that fit the room of some load are
    kept.
    """

    def __init__(self, problem: PackingProblem, demand: Ints, active: Ints, types: Ints, item_values: Floats) -> None:
        requested = np.flatnonzero(problem.requests[active].any(axis=0))
        self._requests = np.zeros((len(requested), len(active) + 1), dtype=np.int64)
        self._requests[:, :-1] = problem.requests[np.ix_(active, requested)].T
        self._values = np.append(item_values[active], 0)
        self._most = np.zeros((len(types), len(active) + 1), dtype=np.int64)
        self._most[:, :-1] = np.minimum(problem.fit[np.ix_(active, types)].T, demand[active])
        self._capacity = problem.capacity[np.ix_(types, requested)]

    def improved(self, loads: Ints, exchanges_max: int) -> Ints:
        """Return the loads ([load, active item]) after the exchange that gains most, repeated until none is possible."""
        amounts = np.ones((len(loads), loads.shape[1] + 1), dtype=np.int64)
        amounts[:, :-1] = loads
        free = self._capacity - loads @ self._requests[:, :-1].T
        out, into = self._pairs(amounts, free)
        change = self._change(out, into)
        rows = np.arange(len(loads))
        for _ in range(exchanges_max if len(out) else 0):
            # possible: [load, pair]; the first possible pair of a load gains most. Most resources have room for any change.
            there, room = amounts[rows], free[rows]
            possible = (there > 0).take(out, axis=1)
            possible &= (there < self._most[rows]).take(into, axis=1)
            for resource in np.flatnonzero(change.max(axis=1) > room.min(axis=0)):
                possible &= change[resource] <= room[:, resource, None]
            pair = possible.argmax(axis=1)
            is_possible = possible[np.arange(len(rows)), pair]
            rows, pair = rows[is_possible], pair[is_possible]
            if not len(rows):
                break
            amounts[rows, out[pair]] -= 1
            amounts[rows, into[pair]] += 1
            amounts[:, -1] = 1
            free[rows] -= change[:, pair].T
            possible_items = possible.any(axis=0)  # room mostly shrinks: a pair that no load can exchange is left out
            if not possible_items.all():
                out, into = out[possible_items], into[possible_items]
                change = self._change(out, into)
        return amounts[:, :-1]

    def _change(self, out: Ints, into: Ints) -> Ints:
        """[resource, pair], what an exchange takes of the room."""
        change: Ints = self._requests.take(into, axis=1) - self._requests.take(out, axis=1)
        return change

    def _pairs(self, amounts: Ints, free: Ints) -> tuple[Ints, Ints]:
        values = self._values
        gains = values[None, :] - values[:, None] > values.max() * 1e-9
        is_held: Bools = np.array((amounts > 0).any(axis=0))
        has_room: Bools = np.array((amounts < self._most).any(axis=0))
        gains &= is_held[:, None] & has_room[None, :]
        for requests, room in zip(self._requests, free.max(axis=0), strict=True):
            if requests.max() > room:
                gains &= requests[None, :] - requests[:, None] <= room
        out, into = np.nonzero(gains)
        order = np.argsort(values[out] - values[into], kind="stable")
        return out[order], into[order]


# Shadow prices of a machine's resources, for each type separately: the duals of its knapsack with divisible pods.


class ShadowPrices:
    """The fractional knapsacks of all types as one linear program, solved repeatedly for other item values and demands.

    For every type t: maximise  Σ_i item_values[i] x[i, t]  subject to  Σ_i requests[i, r] x[i, t] ≤ capacity[t, r]  for every
    resource r,  0 ≤ x[i, t] ≤ min(fit[i, t], demand[i]).  Rows are scaled to a capacity of one and values to the type's price.
    """

    def __init__(self, problem: PackingProblem) -> None:
        """Build the program for all pods."""
        pods_max = np.minimum(problem.fit, problem.counts[:, None])
        self._prices = problem.prices.astype(float)
        self._requested = np.flatnonzero(problem.requests.any(axis=0))
        self._item, self._host = np.nonzero(pods_max > 0)
        self._fit = problem.fit[self._item, self._host]
        self._all = self._demand = problem.counts
        self._capacity = np.maximum(problem.capacity[:, self._requested], 1).astype(float)
        self._shape = (len(self._capacity), problem.requests.shape[1])
        # One variable for each pair (item, host) where a pod fits, with one coefficient in each of the host's rows, which are
        # numbered type-major: host · resources + resource.
        resources, pairs = len(self._requested), len(self._item)
        shares = problem.requests[self._item][:, self._requested] / self._capacity[self._host]
        columns = LpColumns(
            costs=np.zeros(pairs),
            upper=pods_max[self._item, self._host].astype(float),
            starts=(np.arange(pairs + 1) * resources).astype(np.int32),
            rows=(self._host[:, None] * resources + np.arange(resources)).ravel().astype(np.int32),
            coefficients=shares.ravel(),
        )
        self._program = LinearProgram(LpRows.at_most(np.ones(self._capacity.size)), columns, presolve=False)

    def under(self, item_values: Floats, demand: Ints | None = None) -> Floats:
        """[type, resource], nano-dollars per hour for one unit of a resource.

        Args:
            item_values: [item], what a pod is worth.
            demand: [item], how many pods there are; all of them if None.
        """
        demand = self._all if demand is None else demand
        if not np.array_equal(demand, self._demand):
            self._demand = demand
            self._program.set_upper(np.minimum(self._fit, demand[self._item]).astype(float))
        self._program.set_costs(-item_values[self._item] / self._prices[self._host])
        self._program.solve()
        duals = np.maximum(-self._program.row_duals(), 0).reshape(self._capacity.shape)
        prices = np.zeros(self._shape)
        prices[:, self._requested] = duals * self._prices[:, None] / self._capacity  # back from the scaled rows
        return prices


def load_value_bound(
    problem: PackingProblem, *, pods_max: Ints, item_values: Floats, resource_prices: Floats
) -> Floats:
    """[type], an upper bound on the value of any load of a machine (weak duality); it holds for any resource prices ≥ 0.

    Args:
        problem: The types of machine.
        pods_max: [item, type], how many pods of an item one machine may get.
        item_values: [item], what a pod is worth.
        resource_prices: [type, resource], what a unit of the resource is worth.
    """
    # value(load) = Σ_i load[i] v[i] ≤ capacity · u + Σ_i load[i] (v[i] - requests[i] · u) for u ≥ 0 and a load that fits, and
    # each term of the sum is at most pods_max[i] max(v[i] - requests[i] · u, 0).
    surplus = np.maximum(item_values[:, None] - problem.requests @ resource_prices.T, 0) * pods_max
    bound: Floats = (problem.capacity * resource_prices).sum(axis=1) + surplus.sum(axis=0)
    return bound


def value_for_price_max(
    problem: PackingProblem, *, demand: Ints, item_values: Floats, resource_prices: Floats
) -> float:
    """An upper bound on value / price of any machine's load; item values over it are dual feasible for the master problem."""
    bound = load_value_bound(
        problem,
        pods_max=np.minimum(problem.fit, demand[:, None]),
        item_values=item_values,
        resource_prices=resource_prices,
    )
    return float((bound / problem.prices).max())


class BeamPricing:
    """One search, for loads with more value than their machine's price.

    The arrays `_type`, `_left` and `_bound` hold one entry for each partial load (state): [state], [state, resource], [state].
    """

    def __init__(
        self,
        problem: PackingProblem,
        demand: Ints,
        *,
        item_values: Floats,
        resource_prices: Floats,
        value_per_price_min: float,
        settings: BeamPricingSettings,
    ) -> None:
        """Prepare the search.

        Args:
            problem: The types of machine.
            demand: [item], pods to take from.
            item_values: [item], what a pod is worth.
            resource_prices: [type, resource], shadow prices under these values.
            value_per_price_min: The ratio of value to price that a column must exceed.
            settings: How wide the search is.
        """
        self._settings = settings
        self._item_values = item_values
        self._value_min = problem.prices.astype(np.float64) * value_per_price_min
        requested = np.flatnonzero(problem.requests[demand > 0].any(axis=0))
        self._requests = problem.requests[:, requested].astype(float)
        # surplus[i, t] = item_values[i] - requests[i] · resource_prices[t]: what a pod gains on a machine of type t.
        self._surplus = item_values[:, None] - problem.requests @ resource_prices.T
        self._pods_max = np.minimum(problem.fit, demand[:, None]).astype(float)
        bound = load_value_bound(
            problem, pods_max=self._pods_max, item_values=item_values, resource_prices=resource_prices
        )
        self._searched = _highest(bound / self._value_min, bound > self._value_min, settings.types_max)
        self._order, self._decisions = _uncertain_last(
            surplus=self._surplus, pods_max=self._pods_max, slack=bound - self._value_min
        )
        self._type = self._searched
        self._left = problem.capacity[:, requested].astype(float)[self._searched].copy()
        self._bound = bound[self._searched]
        self._trail: list[tuple[Ints, Ints, Floats]] = []

    def columns(self) -> Columns:
        """Return the best loads of each type that are worth more than their machine's price."""
        for rank in range(int(self._decisions[self._searched].max(initial=0))):
            self._decide(rank)
        value = self._value()
        best = np.lexsort((-value, self._type))
        best = best[_position_within(self._type[best]) < self._settings.columns_per_type_max]
        best = best[value[best] > self._value_min[self._type[best]]]
        loads = [self._load(int(state)) for state in best]
        return Columns.of(self._type[best].tolist(), loads, items=len(self._item_values))

    def _decide(self, rank: int) -> None:
        """Branch every partial load over amounts of its next item, and keep the ones with the highest bounds."""
        # At most `holds` pods of the item at this rank still fit. With a positive surplus all of them should be taken, and the
        # amounts tried are holds, holds - 1, …; with a negative one none should, and they are 0, 1, …. Against the pods_max
        # that the bound counts on, an amount loses surplus (pods_max - amount), or -surplus · amount.
        # item, surplus, pods_max, holds: [state]; amounts, lost, bound: [state, option].
        item = self._order[rank, self._type]
        requests, surplus = self._requests[item], self._surplus[item, self._type]
        pods_max = np.where(rank < self._decisions[self._type], self._pods_max[item, self._type], 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            holds = np.minimum(np.floor(np.fmin.reduce(self._left / requests, axis=1)), pods_max)
        steps = np.arange(self._settings.amounts_tried)
        gains = surplus[:, None] > 0
        amounts = np.where(gains, holds[:, None] - steps, steps)
        lost = np.where(gains, surplus[:, None] * (pods_max[:, None] - amounts), -surplus[:, None] * amounts)
        bound = self._bound[:, None] - lost
        possible = (amounts >= 0) & (amounts <= holds[:, None]) & (bound > self._value_min[self._type][:, None])
        state, option = np.nonzero(possible)
        room = self._left[state] - amounts[state, option, None] * requests[state]
        kept = self._distinct_best(types=self._type[state], room=room, bound=bound[state, option])
        state, option = state[kept], option[kept]
        self._trail.append((state, item[state], amounts[state, option]))
        self._type, self._left, self._bound = self._type[state], room[kept], bound[state, option]

    def _distinct_best(self, *, types: Ints, room: Floats, bound: Floats) -> Ints:
        """Return each type's partial loads with the highest bounds; of those that leave the same capacity, only the best."""
        # A state is identified by its type and one number, room · (√2, √3, √4, …): with weights that are mostly irrational,
        # different amounts hardly ever give the same sum, and one number sorts faster than a row of them. Should two
        # collide, one load fewer is searched. types, bound: [state], room: [state, resource].
        settings = self._settings
        mixed = room @ np.sqrt(np.arange(2, room.shape[1] + 2))
        alike = np.lexsort((-bound, mixed, types))
        first = np.ones(len(alike), dtype=np.bool_)
        first[1:] = (types[alike][1:] != types[alike][:-1]) | (mixed[alike][1:] != mixed[alike][:-1])
        distinct = alike[first]
        ranked = distinct[np.lexsort((-bound[distinct], types[distinct]))]
        states_each = settings.states_max // max(1, len(np.unique(types)))
        return ranked[_position_within(types[ranked]) < min(settings.states_per_type_max, states_each)]

    def _value(self) -> Floats:
        """[state], the value of the pods of each load."""
        value = np.zeros(len(self._type))
        at = np.arange(len(self._type))
        for parent, item, amount in reversed(self._trail):
            value += self._item_values[item[at]] * amount[at]
            at = parent[at]
        return value

    def _load(self, state: int) -> Ints:
        """[item], the load of a state, traced back through the decisions that led to it."""
        load = np.zeros(len(self._item_values), dtype=np.int64)
        for parent, item, amount in reversed(self._trail):
            load[item[state]] += int(amount[state])
            state = int(parent[state])
        return load


def _highest(scores: Floats, eligible: Bools, count: int) -> Ints:
    """Return the eligible positions with the highest scores, in their own order."""
    ranked = np.argsort(-np.where(eligible, scores, -np.inf), kind="stable")[: min(count, int(eligible.sum()))]
    return np.sort(ranked)


def _uncertain_last(*, surplus: Floats, pods_max: Floats, slack: Floats) -> tuple[Ints, Ints]:
    """Return [rank, type], the items that a load may hold, those with the clearest surplus first, and [type], their number.

    An item whose first pod loses more than the slack between bound and price ([type]) is in no load with more value than price.
    """
    matters = (pods_max > 0) & (-surplus <= slack)
    certainty = np.where(matters, np.abs(surplus), -1.0)
    return np.argsort(-certainty, axis=0, kind="stable"), matters.sum(axis=0)


def _position_within(types: Ints) -> Ints:
    """Return the position of each element of a sorted array among its equals."""
    return np.arange(len(types)) - np.searchsorted(types, types)


# Generates columns: solves the master problem and the pricing problem in turn until no column would lower the cost.
#
# It is worth its time where machines hold few pods: the fluid relaxation counts fractions of pods that no real machine can
# hold.


class ColumnGeneration:
    """The master problem of one packing problem, and the search for its columns."""

    def __init__(
        self,
        problem: PackingProblem,
        generator: np.random.Generator,
        settings: SearchSettings,
        filled: PackingProblem | None = None,
    ) -> None:
        """Begin with a column for each item alone.

        Args:
            problem: The pods and all types of machine.
            generator: Draws the noise of pricing.
            settings: When to stop.
            filled: The problem with the types that pricing fills; all of them if None. Columns may have any type.
        """
        self._problem = problem
        self._filled = problem if filled is None else filled
        self._generator = generator
        self._settings = settings
        self._greedy_finds_none = False
        self.shadow_prices = ShadowPrices(self._filled)
        self.substitutions = Substitutions.of(problem)
        self.master = MasterProblem(problem, self.substitutions, settings.master_problem)
        self.master.add(Columns.of_single_items(problem))

    def run(self, lower_bound: int, budget: SearchBudget, *, with_beam: bool = True) -> bool:
        """Find columns until the master's cost is near the bound, no new column is found, or the budget is spent.

        Args:
            lower_bound: A lower bound on the cost of every packing.
            budget: Each round is a step.
            with_beam: Whether beam search continues where greedy knapsacks find nothing new; it takes ten times as long.

        Returns:
            Whether any column is new.
        """
        found_any = False
        settings, demand = self._settings.column_generation, self._problem.counts
        proven, center, idle = 0.0, None, 0
        costs = [math.inf] * settings.stalled_rounds
        while idle < settings.idle_rounds_max and budget.step():
            solution = self.master.solved(demand)
            costs.append(solution.cost)
            stalled_cost = costs[-1 - settings.stalled_rounds] * (1 - settings.saving_relative_min)
            if solution.cost <= lower_bound * (1 + settings.stop_gap_relative) or solution.cost > stalled_cost:
                break
            # Wentges smoothing: price at s · center + (1 - s) · latest, where the center proved the best bound so far. Any item
            # values over the largest value / price of a load are dual feasible, so values · demand over it is a bound.
            tried = solution.item_values
            if center is not None and not idle:
                tried = settings.smoothing * center + (1 - settings.smoothing) * tried
            prices = self.shadow_prices.under(tried)
            excess = value_for_price_max(self._filled, demand=demand, item_values=tried, resource_prices=prices)
            if center is None or tried @ demand / excess > proven:
                proven, center = float(tried @ demand / excess), tried / excess
            added = self._price(solution, tried=tried, resource_prices=prices, with_beam=with_beam)
            found_any |= added
            idle = 0 if added else idle + 1
        return found_any

    def item_values(self, known: Columns, lower_bound: int, budget: SearchBudget) -> Floats:
        """Return [item], dual prices of the master problem with these columns and those that pricing adds."""
        self.master.add(known)
        self.run(lower_bound, budget)
        return self.master.solved(self._problem.counts).item_values

    def greedy_columns(self, demand: Ints, *, chosen_by: Floats, judged_by: Floats, resource_prices: Floats) -> Columns:
        """Columns for `demand` ([item]) by greedy knapsacks, the best of them improved by exchanges."""
        settings = self._settings
        loads = knapsack_loads(
            self._filled,
            demand,
            chosen_by=chosen_by,
            resource_prices=resource_prices,
            generator=self._generator,
            settings=settings.greedy_pricing,
        )
        if settings.load_exchange.loads:
            improved = exchanged_loads(
                self._filled, demand, loads, item_values=chosen_by, settings=settings.load_exchange
            )
            loads = np.concatenate([loads, improved])
        return best_columns(
            self._problem,
            loads,
            judged_by=judged_by,
            value_per_price_min=settings.column_generation.value_per_price_min,
            columns_max=settings.greedy_pricing.columns_max,
        )

    def _price(self, solution: MasterSolution, *, tried: Floats, resource_prices: Floats, with_beam: bool) -> bool:
        """Add columns by greedy knapsacks until these find none, then by beam search; returns whether any is new."""
        demand = self._problem.counts
        if not self._greedy_finds_none:
            columns = self.greedy_columns(
                demand, chosen_by=tried, judged_by=solution.item_values, resource_prices=resource_prices
            )
            is_new = self.master.add(columns) > 0
            if is_new or not with_beam:
                return is_new
        self._greedy_finds_none = True
        beam = BeamPricing(
            self._filled,
            demand,
            item_values=tried,
            resource_prices=resource_prices,
            value_per_price_min=self._settings.column_generation.value_per_price_min,
            settings=self._settings.beam_pricing,
        )
        return self.master.add(Columns.of_loads(self._problem, beam.columns().loads)) > 0


# A lower bound from whole loads, for machines that hold so few pods that the fluid relaxation is weak.
#
# Weak duality of the master problem: for any item values v ≥ 0, every packing costs at least Σ_i counts[i] v[i] / q, where q is
# the largest value / price of any load. Column generation provides v. The value of a type's best load is bounded by a linear
# program at first, and by the exact knapsack for the types that decide q.


def dual_bound(
    problem: PackingProblem,
    known: Packing,
    *,
    lower_bound: int,
    generator: np.random.Generator,
    budget: SearchBudget,
    settings: SearchSettings,
) -> int:
    """Return a lower bound on the nano-dollars per hour of every packing; at least `lower_bound`, a known one.

    Args:
        problem: The pods and all types that might hold them.
        known: A good packing: its loads are the first columns.
        lower_bound: The bound of the fluid relaxation.
        generator: Draws the noise of pricing.
        budget: The rest of the search's budget.
        settings: When to stop.
    """
    generation = ColumnGeneration(problem, generator, settings)
    item_values = generation.item_values(Columns.of_packing(known), lower_bound, budget)
    near = 1 + settings.dual_bound.stop_gap_relative
    for _ in range(settings.dual_bound.rounds_max):
        resource_prices = generation.shadow_prices.under(item_values)
        excess, columns = _value_for_price_max(
            problem,
            item_values=item_values,
            resource_prices=resource_prices,
            budget=budget,
            settings=settings.dual_bound,
        )
        lower_bound = max(lower_bound, int(item_values @ problem.counts / excess))
        if excess <= near or not len(columns) or budget.is_spent:
            break
        item_values = generation.item_values(columns, lower_bound, budget)
    return lower_bound


def _value_for_price_max(
    problem: PackingProblem,
    *,
    item_values: Floats,
    resource_prices: Floats,
    budget: SearchBudget,
    settings: DualBoundSettings,
) -> tuple[float, Columns]:
    """An upper bound on value / price of any load, and columns with more value than price."""
    # [type], at first by the linear knapsack. The type with the largest bound is solved exactly, again and again, until the
    # largest has been or is near one: bounds of the other types cannot decide.
    pods_max = np.minimum(problem.fit, problem.counts[:, None])
    bounds = load_value_bound(problem, pods_max=pods_max, item_values=item_values, resource_prices=resource_prices)
    bounds = bounds / problem.prices
    types, loads = list[int](), list[Ints]()
    is_exact = np.zeros(len(bounds), dtype=np.bool_)
    while True:
        largest = MachineTypeIndex(int(np.argmax(bounds)))
        if is_exact[largest] or bounds[largest] <= 1 + settings.stop_gap_relative or not budget.step():
            break
        is_exact[largest] = True
        values = item_values / problem.prices[largest]
        bound, load = _knapsack(problem, largest, pods_max=pods_max[:, largest], item_values=values, settings=settings)
        bounds[largest] = min(bounds[largest], bound)
        if load @ item_values > problem.prices[largest]:
            types.append(largest)
            loads.append(load)
    return float(bounds.max()), Columns.of(types, loads, items=len(problem.counts))


def _knapsack(
    problem: PackingProblem,
    type_index: MachineTypeIndex,
    *,
    pods_max: Ints,
    item_values: Floats,
    settings: DualBoundSettings,
) -> tuple[float, Ints]:
    """An upper bound on the value of a type's best load, and a load ([item]); `pods_max` of each item ([item])."""
    # Maximise Σ_i v[i] x[i] subject to Σ_i s requests[i, r] / capacity[r] x[i] ≤ s for every resource r, 0 ≤ x ≤ pods_max, x
    # integral; over the items with a value and a place. HiGHS minimises, so costs are -v and the bound is its negative.
    # It tolerates a millionth in any row: the scale s is a million, so that no load a byte too large counts as the best.
    taken = np.flatnonzero((pods_max > 0) & (item_values > 0))
    requested = np.flatnonzero(problem.requests[taken].any(axis=0))
    capacity = np.maximum(problem.capacity[type_index, requested], 1).astype(float)
    shares = problem.requests[taken][:, requested] / capacity * settings.knapsack_row_scale
    columns = LpColumns(
        costs=-item_values[taken],
        upper=pods_max[taken].astype(float),
        starts=(np.arange(len(taken) + 1) * len(requested)).astype(np.int32),
        rows=np.tile(np.arange(len(requested)), len(taken)).astype(np.int32),
        coefficients=shares.ravel(),
    )
    gap = settings.knapsack_gap_relative
    limits = IntegerLimits(gap_relative=gap, nodes_max=settings.knapsack_nodes_max)
    program = LinearProgram(
        LpRows.at_most(np.full(len(requested), settings.knapsack_row_scale)), columns, integer=limits
    )
    program.solve()
    load = np.zeros(len(problem.counts), dtype=np.int64)
    if program.has_solution():
        load[taken] = np.floor(program.column_values() + 1e-6).astype(np.int64)
    if not (load @ problem.requests <= problem.capacity[type_index]).all():  # within the solver's tolerances only
        load[:] = 0
    return -program.integer_bound() * (1 + gap), load
