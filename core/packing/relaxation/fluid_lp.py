"""The fluid relaxation: machines and pods may be split. Its optimum bounds the cost of every packing from below."""

from __future__ import annotations

import msgspec
import numpy as np

from core.packing.lp import UNBOUNDED, LinearProgram, LpColumns, LpRows
from core.packing.problem import Floats, PackingProblem
from core.packing.relaxation.active_types import InactiveTypes, first_types, joining_types
from core.packing.relaxation.scaled_problem import JoinedItems, ScaledProblem, scale_of
from core.packing.search_settings import SearchSettings


class FluidSolution(msgspec.Struct, frozen=True, eq=False):
    """The relaxation's solution.

    Attributes:
        lower_bound: A lower bound on the nano-dollars per hour of every packing.
        machines: [type], how many machines it buys.
        pods: [item, type], how many pods of an item it runs on a type.
        item_values: [item], the dual price: what one more pod would cost.
        resource_prices: [type, resource], what one unit of a type's resource costs at most; no machine's capacity costs more
            than the machine.
    """

    lower_bound: int
    machines: Floats
    pods: Floats
    item_values: Floats
    resource_prices: Floats


class _Optimum(msgspec.Struct, frozen=True, eq=False):
    """The program's optimum over some types, in scaled units.

    Attributes:
        machines: [type].
        pods: [item, type].
        resource_prices: [type, resource], duals of the capacity rows: what one unit of a type's resource is worth.
    """

    machines: Floats
    pods: Floats
    resource_prices: Floats


def relax(problem: PackingProblem, settings: SearchSettings) -> FluidSolution:
    """Solve the relaxation. Like items are solved as one where there are many; the bound is computed from every single item.

    Minimise  Σ_t price[t] y[t]
    subject to  Σ_t x[i, t] ≥ counts[i]  for every item,  Σ_i requests[i, r] x[i, t] ≤ capacity[t, r] y[t]  for every type and
    resource,  x, y ≥ 0,  and x[i, t] only where item i fits type t.
    """
    scaled = ScaledProblem.of(problem)
    joined = JoinedItems.of(problem, scaled, settings.fluid)
    optimum = _over_active_types(joined.scaled, settings)
    # Weak duality: any item values v with v[i] ≤ requests[i] · u[t] wherever i fits t, for resource prices u[t] with
    # capacity[t] · u[t] ≤ price[t], give Σ counts[i] v[i] ≤ the optimum. So the bound holds whatever the solver's tolerance.
    feasible = _feasible(scaled, optimum.resource_prices)
    item_values = _least_payment(scaled, feasible) * scaled.price_unit
    bound = int((item_values @ problem.counts) * (1 - settings.fluid.bound_slack_relative))
    pods = optimum.pods[joined.joint] * joined.share[:, None]
    requested, unit = scale_of(problem)
    resource_prices = np.zeros(problem.capacity.shape)
    resource_prices[:, requested] = feasible * scaled.price_unit / unit
    return FluidSolution(bound, optimum.machines, pods, item_values, resource_prices)


def at_prices_of(problem: PackingProblem, other: FluidSolution, settings: SearchSettings) -> FluidSolution:
    """Return a bound for other pods on the same types, without a linear program: weak duality holds for any resource prices.

    The machines are those of the other solution, in proportion to the bounds; no pods are assigned to them.
    """
    paid = np.where(problem.fit > 0, problem.requests @ other.resource_prices.T, np.inf).min(axis=1)
    bound = int((paid @ problem.counts) * (1 - settings.fluid.bound_slack_relative))
    machines = other.machines * (bound / max(other.lower_bound, 1))
    return FluidSolution(bound, machines, np.zeros(problem.fit.shape), paid, other.resource_prices)


def _over_active_types(scaled: ScaledProblem, settings: SearchSettings) -> _Optimum:
    """Return the optimum over the active types, after at most `rounds_max` rounds; its prices prove a bound either way."""
    active = first_types(scaled, settings.active_types)
    inactive_types = InactiveTypes(scaled, settings.active_types)
    for number in range(1, settings.fluid.rounds_max + 1):
        over_active = scaled.restricted(active)
        found = _solved(over_active)
        machines, pods = np.zeros(len(scaled.prices)), np.zeros(scaled.fits.shape)
        machines[active], pods[:, active] = found.machines, found.pods
        paid = _least_payment(over_active, found.resource_prices)
        resource_prices, shares = inactive_types.resource_prices(item_values=paid, known=found.resource_prices)
        resource_prices[active] = found.resource_prices
        optimum = _Optimum(machines, pods, resource_prices)
        more = joining_types(prices=scaled.prices, paid_shares=shares, active=active, settings=settings.active_types)
        is_last = not more.size or number == settings.fluid.rounds_max
        if is_last or _is_proven(scaled, optimum, settings.fluid.stop_gap_relative):
            break
        active = np.union1d(active, more)
    return optimum


def _solved(scaled: ScaledProblem) -> _Optimum:
    """The program's optimum over all types of `scaled`."""
    item, host = (found.astype(np.int64) for found in np.nonzero(scaled.fits))
    types, resources = scaled.capacity.shape
    items = len(scaled.counts)
    # Rows: first the items (covering), then type-major the capacity rows, each written as capacity y - requests x ≥ 0.
    # Columns: first y by type, with one coefficient for each resource, then x by pair (item, type), with a one in the
    # item's row and -requests in the type's capacity rows.
    rows = LpRows.at_least(np.concatenate([scaled.counts, np.zeros(scaled.capacity.size)]))
    resource = np.arange(resources)
    machine_rows = items + np.arange(types * resources)
    pod_rows = np.concatenate([item[:, None], items + host[:, None] * resources + resource[None]], axis=1)
    pod_values = np.concatenate([np.ones((len(item), 1)), -scaled.requests[item]], axis=1)
    pod_starts = types * resources + np.arange(len(item) + 1) * (resources + 1)
    columns = LpColumns(
        costs=np.concatenate([scaled.prices, np.zeros(len(item))]),
        upper=np.full(types + len(item), UNBOUNDED),
        starts=np.concatenate([np.arange(types) * resources, pod_starts]).astype(np.int32),
        rows=np.concatenate([machine_rows, pod_rows.ravel()]).astype(np.int32),
        coefficients=np.concatenate([scaled.capacity.ravel(), pod_values.ravel()]),
    )
    program = LinearProgram(rows, columns)
    program.solve()
    values, duals = program.column_values(), program.row_duals()
    pods = np.zeros(scaled.fits.shape)
    pods[item, host] = np.maximum(values[types:], 0)
    resource_prices = np.maximum(duals[items:].reshape(scaled.capacity.shape), 0)
    return _Optimum(np.maximum(values[:types], 0), pods, resource_prices)


def _is_proven(scaled: ScaledProblem, optimum: _Optimum, gap_relative: float) -> bool:
    """Whether the optimum costs so little over the proven bound that further types can save next to nothing."""
    proven = _least_payment(scaled, _feasible(scaled, optimum.resource_prices)) @ scaled.counts
    return bool(proven >= (scaled.prices @ optimum.machines) * (1 - gap_relative))


def _feasible(scaled: ScaledProblem, resource_prices: Floats) -> Floats:
    """Return [type, resource], the prices, lowered where a machine's capacity would cost more than the machine."""
    # u'[t] = u[t] · min(1, price[t] / (capacity[t] · u[t])) makes capacity[t] · u'[t] ≤ price[t]; u: [type, resource].
    total = (scaled.capacity * resource_prices).sum(axis=1)
    feasible: Floats = resource_prices * np.minimum(1.0, scaled.prices / np.maximum(total, 1e-300))[:, None]
    return feasible


def _least_payment(scaled: ScaledProblem, resource_prices: Floats) -> Floats:
    """[item], min over the types t that it fits of requests[i] · resource_prices[t]."""
    paid: Floats = np.where(scaled.fits, scaled.requests @ resource_prices.T, np.inf).min(axis=1)
    return paid
