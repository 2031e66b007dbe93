"""Large-neighbourhood search: removes some machines, packs their pods again and keeps the result if it costs no more."""

from __future__ import annotations

import numpy as np

from core.packing.heuristics.cover_exchange import exchanged
from core.packing.heuristics.value_packing import pack_by_value
from core.packing.problem import Ints, Packing, PackingProblem, joined, right_sized
from core.packing.relaxation.fluid_lp import FluidSolution
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import SearchSettings


class RuinAndRecreate:
    """One search on one problem; every step of the budget is one neighbourhood."""

    def __init__(
        self,
        problem: PackingProblem,
        fluid: FluidSolution,
        *,
        generator: np.random.Generator,
        budget: SearchBudget,
        settings: SearchSettings,
    ) -> None:
        self._problem = problem
        self._fluid = fluid
        self._generator = generator
        self._budget = budget
        self._settings = settings.ruin_and_recreate
        self._exchange_settings = settings.cover_exchange
        self._value_settings = settings.value_packing
        self._promising = problem.restricted(promising_types(problem, fluid, self._settings.promising_types))

    def improved(self, packing: Packing) -> Packing:
        """Return the best packing found from this one. Packings of equal cost are accepted, to leave plateaus."""
        cost = packing.cost(self._problem)
        is_small = len(self._problem.counts) <= self._settings.value_packing_items_max
        exchange_share = self._settings.exchange_share if is_small else 1.0
        cost_done = self._fluid.lower_bound * (1 + self._settings.stop_gap_relative)
        patience = self._settings.idle_steps_max
        while len(packing.types) > 1 and cost > cost_done and patience and self._budget.step():
            patience -= 1
            exchanges = self._generator.random() < exchange_share
            ruined = self._ruined(packing, exchanges=exchanges)
            recreated = self._recreated(packing, ruined, exchanges=exchanges)
            if recreated is None:
                continue
            saved = int(self._problem.prices[packing.types[ruined]].sum()) - recreated.cost(self._problem)
            if saved >= 0:
                kept = np.setdiff1d(np.arange(len(packing.types)), ruined)
                rest = Packing(packing.types[kept], packing.loads[kept])
                packing = joined([rest, recreated], items=len(self._problem.counts))
                cost -= saved
                patience = self._settings.idle_steps_max if saved else patience
        return packing

    def _ruined(self, packing: Packing, *, exchanges: bool) -> Ints:
        """Return machines to remove: those with the least value for their price, under noise, or random ones."""
        settings, machines = self._settings, len(packing.types)
        limit = settings.exchange_machines_max if exchanges else settings.ruin_machines_max
        most = min(machines, max(settings.ruin_machines_few, machines // settings.ruin_share_divisor))
        count = int(self._generator.integers(2, min(most, limit) + 1))
        if self._generator.random() < settings.random_share:
            return np.sort(self._generator.choice(machines, size=count, replace=False))
        # value / price of a machine is Σ_i load[i] item_values[i] / price: one where it is used as the relaxation would.
        deviation = settings.choice_noise_min + settings.choice_noise_range * self._generator.random()
        value_for_price = (packing.loads @ self._fluid.item_values) / self._problem.prices[packing.types]
        noisy = value_for_price + self._generator.normal(0, deviation, machines)
        return np.sort(np.argsort(noisy, kind="stable")[:count])

    def _recreated(self, packing: Packing, ruined: Ints, *, exchanges: bool) -> Packing | None:
        """Pack the pods of the removed machines again; None if an exchange found nothing cheaper."""
        demand = packing.loads[ruined].sum(axis=0)
        is_turn_of_all = self._budget.steps % self._settings.all_types_every_steps == 0
        fits_promising = bool((self._promising.fit[demand > 0].max(axis=1) > 0).all())
        types = self._promising if fits_promising and not is_turn_of_all else self._problem
        noise_log = float(self._generator.choice(self._settings.value_noises_log))
        if exchanges:
            found = exchanged(
                types,
                demand,
                price_max=int(self._problem.prices[packing.types[ruined]].sum()),
                machines=len(ruined),
                generator=self._generator,
                settings=self._exchange_settings,
            )
        else:
            found = pack_by_value(
                types,
                demand=demand,
                item_values=self._fluid.item_values,
                generator=self._generator,
                settings=self._value_settings,
                noise_log=noise_log,
            )
        return None if found is None else right_sized(self._problem, found)


def promising_types(problem: PackingProblem, fluid: FluidSolution, count: int) -> Ints:
    """Return the types that the fluid solution buys, and the `count` best types by value for price with one item."""
    # density[t] = max_i fit[i, t] item_values[i] / price[t]; t's best load of a single item has the reduced cost
    # price[t] (1 - density[t]).
    density = (problem.fit * fluid.item_values[:, None]).max(axis=0) / problem.prices
    bought = np.flatnonzero(fluid.machines > 1e-6)
    best = np.argsort(-density, kind="stable")[:count]
    return np.unique(np.concatenate([bought, best]))
