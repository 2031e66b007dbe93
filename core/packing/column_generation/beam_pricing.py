"""Solves the pricing problem by beam search over partial loads, decided item by item, uncertain items last.

A pod worth more than the shadow price of its requests belongs on a machine, and one worth less does not. Each decision against
this rule loses the difference. The bound of a partial load is the bound on any load of its type, less these losses. Once all
items are decided, it is the load's value plus the shadow price of the capacity that stays empty.
"""

from __future__ import annotations

import numpy as np

from core.packing.column_generation.columns import Columns
from core.packing.column_generation.shadow_prices import load_value_bound
from core.packing.problem import Bools, Floats, Ints, PackingProblem
from core.packing.search_settings import BeamPricingSettings


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
        left = self._left[state] - amounts[state, option, None] * requests[state]
        kept = self._distinct_best(types=self._type[state], left=left, bound=bound[state, option])
        state, option = state[kept], option[kept]
        self._trail.append((state, item[state], amounts[state, option]))
        self._type, self._left, self._bound = self._type[state], left[kept], bound[state, option]

    def _distinct_best(self, *, types: Ints, left: Floats, bound: Floats) -> Ints:
        """Return each type's partial loads with the highest bounds; of those that leave the same capacity, only the best."""
        # A state is identified by its type and one number, left · (√2, √3, √4, …): with weights that are mostly irrational,
        # different amounts left hardly ever give the same sum, and one number sorts faster than a row of them. Should two
        # collide, one load fewer is searched. types, bound: [state], left: [state, resource].
        settings = self._settings
        mixed = left @ np.sqrt(np.arange(2, left.shape[1] + 2))
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
