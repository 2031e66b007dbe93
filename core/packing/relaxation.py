"""The fluid relaxation: machines and pods may be split. Its optimum bounds the cost of every packing from below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from core.packing.problem import (
    UNBOUNDED,
    Bools,
    Floats,
    Ints,
    LinearProgram,
    LpColumns,
    LpRows,
    MachineTypeIndex,
    PackingProblem,
    numbered_rows,
    ranked_rows,
)
from core.packing.settings import (
    ActiveTypeSettings,
    FluidSettings,
    LaunchFlexibilitySettings,
    SearchBudget,
    SearchSettings,
    SteppedBoundSettings,
)

# Keeps launches flexible: machines are planned as small as the smallest of a bundle of types that cost about the same.
#
# A load that fits such a machine fits every type of the bundle, so a launch can fall back on any of them.


class DistinctValues(msgspec.Struct, frozen=True):
    """How many values of one label the types that hold a load must have (minValues of a NodePool).

    Attributes:
        values: [type], the values of the label that the type has.
        values_min: How many different ones a bundle must have.
    """

    values: Sequence[Sequence[str]]
    values_min: int


def bundled(problem: PackingProblem, settings: LaunchFlexibilitySettings) -> PackingProblem | None:
    """Return the problem with each type as small as its bundle; None if some item then fits nowhere.

    Types without a bundle are left out, unless some item fits no other type.
    """
    reduced = _kept(problem, *_bundle_capacity(problem, settings))
    return reduced if (reduced.fit.max(axis=1, initial=0) > 0).all() else None


def with_distinct_values(problem: PackingProblem, wanted: Sequence[DistinctValues]) -> PackingProblem:
    """Return the problem with each type's capacity reduced until types with enough different values have that capacity too.

    If some item then fits nowhere, the problem is returned unchanged.
    """
    # For each type t, the types that admit every item of t come by how little smaller they are (t itself first). The nearest
    # that bring enough different values are chosen: capacity[t, r] = min over them of their capacity[r].
    (shares, sizes), (covers, patterns) = _smaller_shares(problem), _covers(problem)
    smaller = np.where(covers[np.ix_(patterns, patterns)], shares[np.ix_(sizes, sizes)], np.inf)
    capacity, is_met = problem.capacity.copy(), np.zeros(len(problem.prices), dtype=np.bool_)
    for row, nearest in enumerate(np.argsort(smaller, axis=1, kind="stable")):
        possible = nearest[: int((smaller[row] < np.inf).sum())].tolist()
        chosen = [MachineTypeIndex(row)]
        is_met[row] = all(_choose_nearest(minimum, possible, chosen) for minimum in wanted)
        capacity[row] = problem.capacity[chosen].min(axis=0)
    reduced = _kept(problem, capacity, is_met)
    return reduced if (reduced.fit.max(axis=1, initial=0) > 0).all() else problem


def _choose_nearest(
    wanted: DistinctValues, nearest: Sequence[MachineTypeIndex], chosen: list[MachineTypeIndex]
) -> bool:
    """Add the nearest types that bring a new value to `chosen` until there are enough, and return whether there are."""
    values = {value for offering in chosen for value in wanted.values[offering]}
    for candidate in nearest:
        if len(values) >= wanted.values_min:
            break
        if not values.issuperset(wanted.values[candidate]):
            values.update(wanted.values[candidate])
            chosen.append(candidate)
    return len(values) >= wanted.values_min


def _kept(problem: PackingProblem, capacity: Ints, is_bundle: Bools) -> PackingProblem:
    """Return the types with a bundle, at its capacity, and those of the others that some item needs."""
    kept = np.flatnonzero(is_bundle)
    fits_none = problem.with_capacity(kept, capacity[kept]).fit.max(axis=1, initial=0) == 0
    more = np.flatnonzero(~is_bundle & (problem.fit[fits_none] > 0).any(axis=0))
    capacity[more] = problem.capacity[more]
    kept = np.union1d(kept, more)
    return problem.with_capacity(kept, capacity[kept])


def _bundle_capacity(problem: PackingProblem, settings: LaunchFlexibilitySettings) -> tuple[Ints, Bools]:
    """Return [type, resource], the capacity that the whole bundle of a type has, and [type], whether it has a bundle."""
    count = settings.bundle_types
    if len(problem.prices) < count:
        return problem.capacity.copy(), np.zeros(len(problem.prices), dtype=np.bool_)
    # Another type may join the bundle of t where it admits every item that t does, costs at most ratio · price[t], and is
    # smaller by at most smaller_share_max in any resource. The bundle is the `count` nearest, t itself (distance 0) among them,
    # and its capacity the minimum over it. Types that differ in their price alone have the same others in the same order.
    # others: [other], is_cheap and place: [type, other], nearest: [type, count].
    (shares, sizes), (covers, patterns) = _smaller_shares(problem), _covers(problem)
    capacity, is_bundle = problem.capacity.copy(), np.zeros(len(problem.prices), dtype=np.bool_)
    first, like = numbered_rows(np.column_stack([sizes, patterns]))
    prices, price_max = problem.prices, settings.bundle_price_ratio_max * problem.prices
    for number, position in enumerate(first):
        smaller = shares[sizes[position], sizes]
        others = np.flatnonzero((smaller <= settings.smaller_share_max) & covers[patterns[position], patterns])
        others = others[np.argsort(smaller[others], kind="stable")]
        types = np.flatnonzero(like == number)
        is_cheap = prices[others][None, :] <= price_max[types][:, None]
        place = np.cumsum(is_cheap, axis=1)
        has_enough = is_cheap.sum(axis=1) >= count
        nearest = others[np.nonzero((is_cheap & (place <= count))[has_enough])[1].reshape(-1, count)]
        types = types[has_enough]
        is_bundle[types] = True
        capacity[types] = np.minimum(problem.capacity[nearest].min(axis=1), problem.capacity[types])
    return capacity, is_bundle


def _smaller_shares(problem: PackingProblem) -> tuple[Floats, Ints]:
    """[size, other], by which share the other is smaller in its relatively smallest resource (0 if it is no smaller).

    The second result is [type], its size: types with equal capacities have one.
    """
    # max over resources of 1 - capacity[other, r] / capacity[size, r], at least 0; resources that do not differ add nothing.
    first, sizes = numbered_rows(problem.capacity)
    shares = np.zeros((len(first), len(first)))
    for offered in problem.capacity[first].T.astype(float):
        if offered.min() < offered.max():
            np.maximum(shares, 1.0 - offered[None, :] / np.maximum(offered[:, None], 1.0), out=shares)
    return shares, sizes


def _covers(problem: PackingProblem) -> tuple[Bools, Ints]:
    """[pattern, other], whether the other admits every item that the pattern does.

    The second result is [type], its pattern: types that admit the same items have one.
    """
    # a ≤ b means that b admits all that a does. admits: [item, pattern].
    first, patterns = numbered_rows(np.packbits(problem.allowed.T, axis=1))
    admits = problem.allowed[:, first]
    covers: Bools = np.array([(admits[:, [bundle]] <= admits).all(axis=0) for bundle in range(len(first))])
    return covers, patterns


# The packing problem as the fluid program sees it: resources and prices scaled to at most one, like items joined.


def scale_of(problem: PackingProblem) -> tuple[Ints, Floats]:
    """Return the resources that some item requests, and the capacity of the largest type for each of them."""
    requested = np.flatnonzero(problem.requests.any(axis=0))
    return requested, np.maximum(problem.capacity.max(axis=0), 1)[requested].astype(float)


class ScaledProblem(msgspec.Struct, frozen=True, eq=False):
    """A packing problem in floating point.

    Attributes:
        prices: [type], in units of the most expensive type's price.
        capacity: [type, resource], in capacities of the largest type, for the resources that some item requests.
        requests: [item, resource], in the same units.
        counts: [item], pods.
        fits: [item, type], whether one pod fits.
        price_unit: Nano-dollars per hour of a price of one.
    """

    prices: Floats
    capacity: Floats
    requests: Floats
    counts: Floats
    fits: Bools
    price_unit: float

    @classmethod
    def of(cls, problem: PackingProblem) -> ScaledProblem:
        """Scale a problem, so that the solver's absolute tolerances mean the same for bytes and millicores."""
        requested, unit = scale_of(problem)
        price_unit = max(float(problem.prices.max()), 1.0)  # a NodeOverlay may make everything free
        return cls(
            prices=problem.prices / price_unit,
            capacity=problem.capacity[:, requested] / unit,
            requests=problem.requests[:, requested] / unit,
            counts=problem.counts.astype(float),
            fits=problem.fit > 0,
            price_unit=price_unit,
        )

    def restricted(self, types: Ints) -> ScaledProblem:
        """The same items with these types only."""
        return ScaledProblem(
            self.prices[types], self.capacity[types], self.requests, self.counts, self.fits[:, types], self.price_unit
        )


class JoinedItems(msgspec.Struct, frozen=True, eq=False):
    """A scaled problem in which like items are one.

    Attributes:
        scaled: The smaller problem.
        joint: [item], the item of the smaller problem that each item is part of.
        share: [item], the item's share of the joint item's pods.
    """

    scaled: ScaledProblem
    joint: Ints
    share: Floats

    @classmethod
    def of(cls, problem: PackingProblem, scaled: ScaledProblem, settings: FluidSettings) -> JoinedItems:
        """Join like items where there are too many pairs of item and type to solve them as they are."""
        # counts'[j] = Σ counts[i], requests'[j, r] = Σ requests[i, r] counts[i] / counts'[j] over the items i in j: the mean
        # pod, so the totals of every resource stay. share[i] = counts[i] / counts'[j] divides the solution up again.
        joint = _joint_items(problem, settings)
        counts = np.bincount(joint, weights=problem.counts)
        share = problem.counts / counts[joint]
        means = [np.bincount(joint, weights=column * share) for column in scaled.requests.T]
        fits = scaled.fits[np.unique(joint, return_index=True)[1]]
        requests = np.stack(means, axis=1).astype(float)
        smaller = ScaledProblem(scaled.prices, scaled.capacity, requests, counts.astype(float), fits, scaled.price_unit)
        return cls(smaller, joint, share)


def _joint_items(problem: PackingProblem, settings: FluidSettings) -> Ints:
    """[item], the number of the joint item: items that fit the same types and request nearly the same."""
    joint: Ints = np.arange(len(problem.counts))
    types_expected = min(len(problem.prices), settings.types_expected)
    if len(joint) * types_expected <= settings.pairs_max:
        return joint
    # Two items are alike where they fit the same types and ⌊steps · log2(request)⌋ is the same for every resource: each
    # request within a factor of 2^(1/steps). -1 stands for no request. sizes: [item, resource].
    pattern = ranked_rows(np.packbits(problem.fit > 0, axis=1))
    sizes = np.where(problem.requests > 0, np.log2(np.maximum(problem.requests, 1)), -1.0)
    for steps in settings.size_steps_per_doubling:
        joint = ranked_rows(np.column_stack([pattern, np.floor(sizes * steps) + steps]).astype(">i8"))
        if (joint.max() + 1) * types_expected <= settings.pairs_max:
            break
    return joint


# Counts resources in whole steps, so that the fluid program sees rests of machines that no pod can use.


def stepped(problem: PackingProblem, settings: SteppedBoundSettings) -> PackingProblem:
    """Return the problem with further resources, in which every packing of the given problem is still one.

    The relaxation of the result is a bound for the given problem, no lower than its own relaxation.
    """
    # Pods on a machine request Σ_i n[i] requests[i] ≤ capacity. For a step s, ⌊a / s⌋ + ⌊b / s⌋ ≤ ⌊(a + b) / s⌋, so
    # Σ_i n[i] ⌊requests[i] / s⌋ ≤ ⌊capacity / s⌋ holds as well. If pods of 2 GiB are to fill a machine 10 MiB short of 64 GiB,
    # this row says 31 pods, and the given one 31.995.
    requests, capacity = [problem.requests], [problem.capacity]
    if len(problem.counts) <= settings.items_max:
        for wanted, offered in zip(problem.requests.T, problem.capacity.T, strict=True):
            steps = np.array(_steps(wanted, problem.counts, settings.requests_max), dtype=np.int64)
            requests.append(wanted[:, None] // steps)
            capacity.append(offered[:, None] // steps)
    wider = np.concatenate(requests, axis=1), np.concatenate(capacity, axis=1)
    return PackingProblem(wider[0], problem.counts, wider[1], problem.prices, problem.allowed, problem.fit)


def _steps(wanted: Ints, counts: Ints, requests_max: int) -> list[int]:
    """Return the requests ([item] of one resource) that carry most of it, ties to the smaller, and their halves; ascending."""
    amounts, of_item = np.unique(wanted, return_inverse=True)
    volumes = amounts.astype(float) * np.bincount(of_item.ravel(), weights=counts)
    largest = amounts[np.argsort(-volumes, kind="stable")[:requests_max]].tolist()
    return sorted({step for amount in largest for step in (amount, amount // 2) if step > 1})


# Chooses the types that the fluid program is solved over: a few at first, then those with negative reduced cost.
#
# With hundreds of types that differ by little, the program over all of them is degenerate and takes seconds. A type cannot
# lower its cost if resource prices exist at which the type's capacity costs no more than the machine, and every item pays at
# least its dual price.


_PAYS_IN_FULL: Final = 1e30
"""The paid share of items that cannot make a type join: larger than any computed share."""


def first_types(scaled: ScaledProblem, settings: ActiveTypeSettings) -> Ints:
    """Return the first types: one that fits for every item, and some from the cheapest to the most expensive."""
    # A pod of item i takes the share max_r requests[i, r] / capacity[t, r] of a machine of type t. Alone on such machines it
    # costs share · price, and the type with the least of that is the item's best. share: [item, type].
    share = np.zeros(scaled.fits.shape)
    for requested, offered in zip(scaled.requests.T, scaled.capacity.T, strict=True):
        share = np.maximum(share, requested[:, None] / np.maximum(offered, 1e-12)[None, :])
    best_alone = np.where(scaled.fits, share * scaled.prices, np.inf).argmin(axis=1)
    by_price = np.argsort(scaled.prices, kind="stable")
    count = min(settings.initial_types, len(by_price))
    spread = by_price[np.linspace(0, len(by_price) - 1, count).astype(int)]
    return np.unique(np.concatenate([best_alone, spread]))


class InactiveTypes:
    """What items would pay on types outside the program, at resource prices found for types in it."""

    def __init__(self, scaled: ScaledProblem, settings: ActiveTypeSettings) -> None:
        self._scaled = scaled
        self._settings = settings
        # Types that the same items fit share a pattern. pattern: [type], fits_pattern: [item, pattern].
        first, self._pattern = numbered_rows(np.packbits(scaled.fits.T, axis=1))
        self._fits_pattern = scaled.fits[:, first]

    def resource_prices(self, *, item_values: Floats, known: Floats) -> tuple[Floats, Floats]:
        """Return for every type the best known resource prices, and the smallest share of its value that an item pays there.

        Args:
            item_values: [item], dual prices of the items.
            known: [any, resource], resource prices found for other types; scaled to what each type costs.

        Returns:
            [type, resource] resource prices, and [type] the smallest share of its value that an item pays.
        """
        # For prices u of one known type, scale(t) = price(t) / (capacity(t) · u) makes t's capacity cost what t costs. Then an
        # item pays scale(t) (requests[i] · u) for a pod, the share scale(t) (requests[i] · u) / item_values[i] of its value.
        # If no share is below one, t's reduced cost is not negative. The u with the largest smallest share is kept.
        scaled, least_value = self._scaled, self._settings.item_value_min
        prices, best = np.zeros(scaled.capacity.shape), np.full(len(scaled.prices), -1.0)
        for candidate in np.unique(known, axis=0):
            total = scaled.capacity @ candidate
            scale = np.where(total > 0, scaled.prices / np.maximum(total, 1e-300), 0.0)
            # Items without value share machines that others pay for: they pay their value, nothing, anywhere.
            paid = (scaled.requests @ candidate) / np.maximum(item_values, least_value)
            paid = np.where(item_values > least_value, paid, _PAYS_IN_FULL)
            least = np.where(self._fits_pattern, paid[:, None], _PAYS_IN_FULL).min(axis=0)[self._pattern] * scale
            better = least > best
            best[better] = least[better]
            prices[better] = candidate * scale[better, None]
        return prices, best


def joining_types(*, prices: Floats, paid_shares: Floats, active: Ints, settings: ActiveTypeSettings) -> Ints:
    """Return the types that join next: those where items pay the smallest share of their value, with distinct prices.

    Args:
        prices: [type].
        paid_shares: [type], the smallest share of its value that an item pays there.
        active: The types that are in the program already.
        settings: How many types join.
    """
    others = np.setdiff1d(np.flatnonzero(paid_shares < 1 - settings.reduced_cost_tolerance_relative), active)
    ratio = settings.added_price_ratio_min
    chosen: list[int] = []
    for joining in others[np.argsort(paid_shares[others], kind="stable")]:
        if all(max(prices[joining], prices[known]) > ratio * min(prices[joining], prices[known]) for known in chosen):
            chosen.append(int(joining))
        if len(chosen) == settings.added_types_max:
            break
    return np.array(chosen, dtype=np.int64)


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


def relax(problem: PackingProblem, settings: SearchSettings, budget: SearchBudget | None = None) -> FluidSolution:
    """Solve the relaxation. Like items are solved as one where there are many; the bound is computed from every single item.

    With a budget, no further round begins once a part of its time is over: the bound holds after any of them.

    Minimise  Σ_t price[t] y[t]
    subject to  Σ_t x[i, t] ≥ counts[i]  for every item,  Σ_i requests[i, r] x[i, t] ≤ capacity[t, r] y[t]  for every type and
    resource,  x, y ≥ 0,  and x[i, t] only where item i fits type t.
    """
    scaled = ScaledProblem.of(problem)
    joined = JoinedItems.of(problem, scaled, settings.fluid)
    optimum = _over_active_types(joined.scaled, settings, budget)
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


def _over_active_types(scaled: ScaledProblem, settings: SearchSettings, budget: SearchBudget | None) -> _Optimum:
    """Return the optimum over the active types, after at most `rounds_max` rounds; its prices prove a bound either way."""
    active = first_types(scaled, settings.active_types)
    inactive_types = InactiveTypes(scaled, settings.active_types)
    for number in range(1, settings.fluid.rounds_max + 1):
        over_active = scaled.restricted(active)
        solution = _solved(over_active)
        machines, pods = np.zeros(len(scaled.prices)), np.zeros(scaled.fits.shape)
        machines[active], pods[:, active] = solution.machines, solution.pods
        paid = _least_payment(over_active, solution.resource_prices)
        resource_prices, shares = inactive_types.resource_prices(item_values=paid, known=solution.resource_prices)
        resource_prices[active] = solution.resource_prices
        optimum = _Optimum(machines, pods, resource_prices)
        more = joining_types(prices=scaled.prices, paid_shares=shares, active=active, settings=settings.active_types)
        is_last = not more.size or number == settings.fluid.rounds_max
        if is_last or _is_proven(scaled, optimum, settings.fluid.stop_gap_relative):
            break
        if budget is not None and budget.is_past(settings.fluid.time_share_max):
            break
        active = np.union1d(active, more)
    return optimum


def _solved(scaled: ScaledProblem) -> _Optimum:
    """The program's optimum over all types of `scaled`."""
    item, host = (indices.astype(np.int64) for indices in np.nonzero(scaled.fits))
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


# The start of every search: chooses the types worth buying, and solves the fluid relaxation over them.


class PreparedProblem(msgspec.Struct, frozen=True, eq=False):
    """A problem, ready for searching.

    Attributes:
        problem: As it was given.
        kept: The types that no other type dominates; an optimum without the others exists.
        reduced: The problem with these types only.
        fluid: Its relaxation.
        is_relaxed: Whether that is the optimum for these pods; otherwise, it has only the prices and the bound.
    """

    problem: PackingProblem
    kept: Ints
    reduced: PackingProblem
    fluid: FluidSolution
    is_relaxed: bool = True


def prepared(problem: PackingProblem, settings: SearchSettings) -> PreparedProblem:
    """The problem with each type at its whole capacity."""
    kept = problem.undominated()
    reduced = problem.restricted(kept)
    return PreparedProblem(problem, kept, reduced, relax(reduced, settings))


def prepared_like(problem: PackingProblem, other: PreparedProblem, settings: SearchSettings) -> PreparedProblem | None:
    """Return a problem with the resource prices of another one; None if its types differ, or it has many pods on each machine.

    The relaxation is then worth its time: with many pods on each machine, types may be bundled.
    """
    kept = problem.undominated()
    reduced = problem.restricted(kept)
    has_equal_types = reduced.capacity.shape == other.reduced.capacity.shape and bool(
        (reduced.capacity == other.reduced.capacity).all() and (reduced.prices == other.reduced.prices).all()
    )
    if not has_equal_types:
        return None
    fluid = at_prices_of(reduced, other.fluid, settings)
    is_small = problem.counts.sum() < settings.launch_flexibility.pods_per_machine_min * fluid.machines.sum()
    return PreparedProblem(problem, kept, reduced, fluid, is_relaxed=False) if is_small else None


def prepared_with_flexibility(
    problem: PackingProblem, settings: SearchSettings, budget: SearchBudget
) -> PreparedProblem:
    """Return the problem with each type as small as its bundle, or unchanged if that costs too much or the budget is spent.

    With few machines, or few pods on each, it stays unchanged: small machines have many alternatives anyway, and the relaxation
    does not show what bundles cost in rounding.
    """
    plain, limits = prepared(problem, settings), settings.launch_flexibility
    machines = plain.fluid.machines.sum()
    is_small = machines < limits.machines_min or problem.counts.sum() < limits.pods_per_machine_min * machines
    reduced = None if is_small or budget.is_spent else bundled(problem, limits)
    if reduced is None:
        return plain
    flexible = prepared(reduced, settings)
    cost_max = plain.fluid.lower_bound * (1 + limits.cost_relative_max)
    return flexible if flexible.fluid.lower_bound <= cost_max else plain
