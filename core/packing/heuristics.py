"""Whole machines: guided rounding of the fluid solution, packing by value, and the cheapest mix of a few machines."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from core.packing.problem import (
    Floats,
    Ints,
    ItemIndex,
    MachineTypeIndex,
    Packing,
    PackingProblem,
    distributed,
    joined,
    largest_first,
    right_sized,
    whole_machines,
)
from core.packing.relaxation import FluidSolution, relax
from core.packing.settings import (
    FewMachinesSettings,
    RoundingSettings,
    SearchBudget,
    SearchSettings,
    TwoTypeSettings,
    ValuePackingSettings,
)

# A separate machine for each pod: an upper bound that other packings should beat.


def separate_cost(problem: PackingProblem) -> int:
    """Return the nano-dollars per hour of the cheapest machine for each pod alone."""
    prices = problem.prices[_cheapest_types(problem)]
    return int(prices @ problem.counts)


def separate_packing(problem: PackingProblem) -> Packing:
    """Return each pod alone on the cheapest machine that holds it."""
    item = np.repeat(np.arange(len(problem.counts)), problem.counts)
    loads = np.zeros((len(item), len(problem.counts)), dtype=np.int64)
    loads[np.arange(len(item)), item] = 1
    return Packing(_cheapest_types(problem)[item], loads)


def _cheapest_types(problem: PackingProblem) -> Ints:
    """[item], the cheapest type that holds one pod of it, ties to the lower index."""
    prices = np.where(problem.fit > 0, problem.prices[None, :], np.iinfo(np.int64).max)
    types: Ints = prices.argmin(axis=1)
    return types


# Packs by value: repeatedly buys the machine and load with the most value for the price.


def pack_by_value(
    problem: PackingProblem,
    *,
    demand: Ints,
    item_values: Floats,
    generator: np.random.Generator,
    settings: ValuePackingSettings,
    noise_log: float = 0.0,
    budget: SearchBudget | None = None,
) -> Packing:
    """Pack `demand` ([item], pods) machine by machine; a load that the demand fills several times is bought that often.

    Args:
        problem: The types of machine.
        demand: [item], pods to pack.
        item_values: [item], what a pod is worth.
        generator: Draws the noise and some of the directions.
        settings: How many directions.
        noise_log: Deviation of the noise on the logarithm of values, drawn for each load.
        budget: Gives up once it is late, if there is one.

    Raises:
        TooLateError: If the budget gave up.
    """
    demand, parts = demand.copy(), list[Packing]()
    floor = item_values.max(initial=0.0) * 1e-9 + 1e-12  # a pod without value must be packed, too
    while demand.any():
        if budget is not None:
            budget.check_late()
        noise = np.exp(generator.normal(0, noise_log, len(item_values))) if noise_log else 1.0
        values = np.maximum(item_values * noise, floor)
        directions = _directions(problem, demand, generator, settings)
        load = _best_load(problem, demand, item_values=values, directions=directions)
        present = np.flatnonzero(load)
        times = int((demand[present] // load[present]).min())
        parts.append(Packing(np.full(times, problem.cheapest_type(load)), np.tile(load, (times, 1))))
        demand -= times * load
    return joined(parts, items=len(demand))


def greedy_loads(problem: PackingProblem, *, demand: Ints, pods_max: Floats, order: Ints) -> Floats:
    """Greedy knapsacks, all at once: each takes as many pods of every item as still fit, in its own order.

    In floating point, which is exact here: amounts stay far below 2^53.

    Args:
        problem: The types of machine.
        demand: [item], pods to pack.
        pods_max: [item, type], how many pods of an item a machine may get.
        order: [rank, knapsack, type], items in order; the last axis may be of length one: the same for all types.

    Returns:
        [rank, knapsack, type], how many pods of the item with that rank.
    """
    # For every rank: amount = min(pods_max, ⌊min_r left[r] / requests[r]⌋), then left -= amount · requests. Where nothing is
    # requested, 0 / 0 = nan and x / 0 = inf; fmin passes over nan, so such resources do not bind.
    # left, wanted: [resource, knapsack, type] (wanted broadcast along types); amount, at first pods_max: [knapsack, type].
    requested = np.flatnonzero(problem.requests[demand > 0].any(axis=0))
    requests = problem.requests[:, requested].T.astype(float)
    capacity = problem.capacity[:, requested].T.astype(float)
    headroom = np.repeat(capacity[:, None, :], order.shape[1], axis=1)
    taken = pods_max.take(order * len(problem.prices) + np.arange(len(problem.prices)))
    used = np.empty_like(headroom)
    with np.errstate(divide="ignore", invalid="ignore"):
        for amount, chosen in zip(taken, order, strict=True):
            wanted = requests.take(chosen, axis=1)
            room = np.fmin.reduce(np.divide(headroom, wanted, out=used), axis=0, initial=np.inf)
            np.floor(np.minimum(amount, room, out=amount), out=amount)
            np.subtract(headroom, np.multiply(amount, wanted, out=used), out=headroom)
    return taken


def _directions(
    problem: PackingProblem, demand: Ints, generator: np.random.Generator, settings: ValuePackingSettings
) -> Floats:
    """[direction, resource]: weights of the resources, divided by the total request of each.

    In the first half of the directions, the weight moves from the second requested resource to the first; in the second half,
    weights are random.
    """
    # direction[d, r] = weight[d, r] / Σ_i requests[i, r] demand[i], so that a weight of one counts all that is requested of a
    # resource as one. The first half of the weights is (s, 1 - s) with s = (d + ½) / half; the others are log-normal.
    total = (problem.requests * demand[:, None]).sum(axis=0).astype(float)
    requested = np.flatnonzero(total > 0)
    weights = np.zeros((settings.directions, len(total)))
    half = settings.directions // 2
    for i in range(settings.directions):
        if i < half and requested.size >= 2:
            share = (i + 0.5) / half
            weights[i, requested[2:]] = settings.minor_resource_weight
            weights[i, requested[0]], weights[i, requested[1]] = share, 1 - share
        else:
            weights[i, requested] = np.exp(generator.normal(0, settings.weight_deviation_log, requested.size))
    scaled: Floats = weights / np.maximum(total, 1.0)
    return scaled


def _best_load(problem: PackingProblem, demand: Ints, *, item_values: Floats, directions: Floats) -> Ints:
    """Return [item], the greedy knapsack with the most value for its type's price, over all directions and types."""
    # Density rule: for direction d, items come by item_values[i] / (requests[i] · d), the largest first. Then
    # value[d, t] = Σ_i taken[i, d, t] item_values[i], and the load with the largest value[d, t] / price[t] wins.
    # order: [rank, direction], taken: [rank, direction, type].
    active = np.flatnonzero(demand > 0)
    weighed = np.maximum(problem.requests[active] @ directions.T, 1e-15)
    order = active[np.argsort(-(item_values[active] / weighed.T), axis=1, kind="stable")].T
    pods_max = np.minimum(problem.fit, demand[:, None]).astype(float)
    taken = greedy_loads(problem, demand=demand, pods_max=pods_max, order=order[:, :, None])
    value = np.einsum("rdt,rd->dt", taken, item_values[order])
    direction, best_type = np.unravel_index(int(np.argmax(value / problem.prices)), value.shape)
    load = np.zeros(len(demand), dtype=np.int64)
    load[order[:, direction]] = taken[:, direction, best_type].astype(np.int64)
    return load


Cut = tuple[int, ...]
"""How many machines of each type to leave out after the fluid solution is rounded up; only types that it buys enough of."""


class _EqualMachines:
    """Machines of one type while they are filled."""

    def __init__(self, problem: PackingProblem, type_index: MachineTypeIndex, machines: int) -> None:
        self.type_index = type_index
        self.free = np.tile(problem.capacity[type_index], (machines, 1))
        self.loads = np.zeros((machines, len(problem.counts)), dtype=np.int64)

    def room(self, problem: PackingProblem, item: ItemIndex) -> Ints:
        """[machine], how many more pods of the item each machine takes."""
        requests = problem.requests[item]
        requested = np.flatnonzero(requests)
        room: Ints = np.full(len(self.free), problem.counts[item])
        if requested.size:
            room = (self.free[:, requested] // requests[requested]).min(axis=1)
        below_cap: Ints = np.minimum(room, problem.fit[item, self.type_index] - self.loads[:, item])
        return below_cap

    def add(self, problem: PackingProblem, item: ItemIndex, *, machines: Ints, amounts: Ints) -> None:
        """Put this many more pods of the item on each of these machines."""
        self.loads[machines, item] += amounts
        self.free[machines] -= amounts[:, None] * problem.requests[item]


def cuts(fluid: FluidSolution, settings: RoundingSettings) -> list[Cut]:
    """Yield how many machines of each type to leave out after rounding up: none at first, then more.

    Rounding up leaves gaps: a machine that would be a tenth full is better replaced by a smaller one.
    """
    machines = fluid.machines[_support(fluid, settings)]
    step = np.maximum(1, np.rint(machines * settings.cut_step_share)).astype(int)
    combinations = product(range(settings.cut_steps), repeat=min(len(machines), settings.cut_types))
    ordered = sorted(combinations, key=lambda cut: (sum(cut), cut))[: settings.cuts_max]
    most_bought = np.argsort(-machines, kind="stable")
    portions = []
    for cut in ordered:
        steps = np.zeros(len(machines), dtype=int)
        steps[most_bought[: len(cut)]] = cut
        portions.append(tuple(int(n) for n in steps * step))
    return portions


def guided_rounding(
    problem: PackingProblem,
    fluid: FluidSolution,
    cut: Cut,
    *,
    generator: np.random.Generator,
    settings: SearchSettings,
    budget: SearchBudget | None = None,
) -> Packing:
    """Round the fluid solution up, less the machines in `cut`; what does not fit is packed by value.

    Raises:
        TooLateError: If there is a budget, and it is late before the end.
    """
    support = _support(fluid, settings.rounding)
    shares, pods_left = _whole_pods(problem, fluid.pods[:, support], settings.rounding)
    filled = []
    for column, supported in enumerate(support):
        type_index = MachineTypeIndex(int(supported))
        machines = math.ceil(fluid.machines[supported] - settings.rounding.integrality_tolerance) - cut[column]
        if machines <= 0:
            pods_left += shares[:, column]
            continue
        row = _EqualMachines(problem, type_index, machines)
        for number in largest_first(problem.requests, problem.capacity[supported]):
            if shares[number, column]:
                if budget is not None:
                    budget.check_late()
                item, pods = ItemIndex(int(number)), int(shares[number, column])
                pods_left[item] += _spread_evenly(problem, row, item, pods, settings.rounding)
        filled.append(row)
    _into_gaps(problem, filled, pods_left, budget)
    parts = [_bought(problem, row) for row in filled]
    if pods_left.any():
        rest = pack_by_value(
            problem,
            demand=pods_left,
            item_values=fluid.item_values,
            generator=generator,
            settings=settings.value_packing,
            budget=budget,
        )
        parts.append(rest)
    return joined(parts, items=len(problem.counts))


def _support(fluid: FluidSolution, settings: RoundingSettings) -> Ints:
    """Return the types of which the fluid solution buys enough to guide rounding."""
    support: Ints = np.flatnonzero(fluid.machines > settings.support_machines_min)
    return support


def _whole_pods(problem: PackingProblem, pods: Floats, settings: RoundingSettings) -> tuple[Ints, Ints]:
    """Return fluid amounts ([item, type]) in whole pods, largest remainders rounded up, and [item], the pods left over."""
    # Largest-remainder method: shares = ⌊pods⌋, then one more each for the largest pods - ⌊pods⌋ of an item while any of its
    # counts are left. Items without value may be covered more than once by the program: their amounts are scaled down first.
    covered = np.maximum(pods.sum(axis=1), 1e-9)
    pods = pods * np.minimum(1.0, problem.counts / covered)[:, None]
    whole = np.floor(pods + settings.pod_integrality_tolerance)
    shares = whole.astype(np.int64)
    excess = shares.sum(axis=1) - problem.counts
    for item in np.flatnonzero(excess > 0):
        column = int(np.argmax(shares[item]))
        shares[item, column] -= excess[item]
    pods_left = problem.counts - shares.sum(axis=1)
    remainders = pods - whole
    for item in np.flatnonzero(pods_left > 0):
        for column in np.argsort(-remainders[item], kind="stable")[: int(pods_left[item])]:
            if remainders[item, column] > settings.integrality_tolerance:
                shares[item, column] += 1
                pods_left[item] -= 1
    return shares, pods_left


def _spread_evenly(
    problem: PackingProblem, row: _EqualMachines, item: ItemIndex, pods: int, settings: RoundingSettings
) -> int:
    """Spread pods over equal machines, the last few by likeness to the free capacity; return how many did not fit."""
    while pods > 0:
        room = row.room(problem, item)
        machines = np.flatnonzero(room > 0)
        if not machines.size:
            return pods
        per_machine = pods // machines.size
        if per_machine:
            amounts = np.minimum(room[machines], per_machine)
        else:
            machines = _most_alike(problem, row, item, machines, settings)[:pods]
            amounts = np.ones(len(machines), dtype=np.int64)
        row.add(problem, item, machines=machines, amounts=amounts)
        pods -= int(amounts.sum())
    return 0


def _most_alike(
    problem: PackingProblem, row: _EqualMachines, item: ItemIndex, machines: Ints, settings: RoundingSettings
) -> Ints:
    """Return the machines in the order of the likeness of their free capacity to the pod's requests, the most alike first."""
    # In shares of the type's capacity: free · request / |free| + weight · max(free), the cosine up to a constant plus a bonus
    # for machines with much of some resource left. free: [machine, resource], share: [resource].
    capacity = np.maximum(problem.capacity[row.type_index], 1)
    free, share = row.free[machines] / capacity, problem.requests[item] / capacity
    cosine = (free @ share) / np.maximum(np.linalg.norm(free, axis=1), 1e-9)
    likeness = cosine + settings.free_share_weight * free.max(axis=1)
    return machines[np.argsort(-likeness, kind="stable")]


def _into_gaps(
    problem: PackingProblem, filled: list[_EqualMachines], pods_left: Ints, budget: SearchBudget | None
) -> None:
    """Put the remaining pods into any capacity, large ones first; `pods_left` is reduced in place. Raises TooLateError."""
    for number in largest_first(problem.requests, problem.capacity.max(axis=0)):
        item = ItemIndex(int(number))
        if budget is not None and pods_left[item]:
            budget.check_late()
        for row in filled:
            if not pods_left[item]:
                break
            amounts = distributed(pods_left[item], np.maximum(row.room(problem, item), 0))
            machines = np.flatnonzero(amounts)
            row.add(problem, item, machines=machines, amounts=amounts[machines])
            pods_left[item] -= int(amounts.sum())


def _bought(problem: PackingProblem, row: _EqualMachines) -> Packing:
    """Return the loads of these machines, each on the cheapest type that holds it; empty machines are not bought."""
    loads = row.loads[row.loads.any(axis=1)]
    return right_sized(problem, Packing(np.full(len(loads), row.type_index), loads))


# Few machines: the cheapest whole machines that offer what all pods request together, and a place on them for every pod.
#
# With a dozen machines, nearly all of the cost is decided by the mix of types, and rounding misses the best one by a percent.
# An integer program finds it. It lets pods be split, so places are then found by exchanging pods until no machine is overfull.


def few_machines(
    problem: PackingProblem, packing: Packing, *, budget: SearchBudget, settings: FewMachinesSettings
) -> Packing:
    """Return a packing on the cheapest machines on which every pod finds a place, or the one given if these cost no less."""
    cost = packing.cost(problem)
    for spare in settings.spare_shares:
        if not budget.step():
            break
        _, types = whole_machines(problem, cost=cost, spare_share=spare, settings=settings.whole_machines)
        if not len(types) or problem.prices[types].sum() >= cost:
            break
        loads = placed(problem, types, budget, settings)
        if loads is not None:
            used = loads.any(axis=1)
            return right_sized(problem, Packing(types[used], loads[used]))
    return packing


def placed(problem: PackingProblem, types: Ints, budget: SearchBudget, settings: FewMachinesSettings) -> Ints | None:
    """Return [machine, item], loads of machines of these types ([machine]) that hold all pods; None if none are found."""
    places = _Places(problem, types, settings.sum_weight)
    if not places.fill(settings.portions_per_machine):
        return None
    for step in range(settings.exchanges_max):
        if places.excess.max() <= 0:
            return places.loads
        if budget.time_is_over or not places.exchange(step, settings.tabu_steps):
            break
    return places.loads if places.excess.max() <= 0 else None


class _Places:
    """Pods on machines. Some machines are overfull.

    Attributes:
        loads: [machine, item], whole pods. All pods are somewhere.
        excess: [machine], what it lacks of its scarcest resource and, with less weight, of all: as shares of what all pods
            request of a resource.
    """

    def __init__(self, problem: PackingProblem, types: Ints, sum_weight: float) -> None:
        self._sum_weight = sum_weight
        requested = np.flatnonzero((problem.counts @ problem.requests) > 0)
        self._counts, self._fit = problem.counts, problem.fit[:, types].T
        self._shares = 1.0 / (problem.counts @ problem.requests)[requested]
        # The last row stands for no pod, so that a pod may also be moved without another in return.
        self._requests = np.zeros((len(problem.counts) + 1, len(requested)), dtype=np.int64)
        self._requests[:-1] = problem.requests[:, requested]
        self._free = problem.capacity[types][:, requested].copy()
        self.loads = np.zeros((len(types), len(problem.counts)), dtype=np.int64)
        self.excess: Floats = np.zeros(len(types))
        self._tabu_until = np.zeros((len(types), len(problem.counts) + 1), dtype=np.int64)

    def fill(self, portions_per_machine: int) -> bool:
        """Place all pods, the largest first, each portion where the free capacity is most like the pod.

        Returns:
            False if an item may not run on enough of these machines.
        """
        requests = self._requests[:-1]
        for item in np.argsort(-(requests * self._shares).max(axis=1), kind="stable"):
            waiting, pod = int(self._counts[item]), requests[item] * self._shares
            requested = np.flatnonzero(requests[item])
            portion = max(1, waiting // (portions_per_machine * len(self.loads)))
            while waiting:
                may_run = self._fit[:, item] - self.loads[:, item]
                room = (self._free[:, requested] // requests[item, requested]).min(axis=1, initial=waiting)
                holds = np.minimum(room, may_run)
                free = np.maximum(self._free, 0) * self._shares
                likeness = np.where(holds > 0, (free @ pod) / np.sqrt((free * free).sum(axis=1) + 1e-300), -1.0)
                machine, amount = int(likeness.argmax()), min(waiting, portion)
                if likeness[machine] < 0:
                    added = self._excess(self._free - requests[item]) - self.excess
                    machine, amount = int(np.where(may_run > 0, added, np.inf).argmin()), 1
                    if may_run[machine] <= 0:
                        return False
                else:
                    amount = min(amount, int(holds[machine]))
                self._add(machine, item, amount)
                waiting -= amount
        return True

    def exchange(self, step: int, tabu_steps: int) -> bool:
        """Exchange a pod of the machine with the largest excess for one of another; return whether there is an exchange.

        The exchange that leaves the least excess is made even if it raises it; the pods do not go back for some steps (tabu
        search).
        """
        # added[out, into] = excess of both machines after the exchange, less that before.
        none, best = len(self._counts), (np.inf, 0, 0, 0)
        machine = int(self.excess.argmax())
        for other in range(len(self.loads)):
            if other == machine:
                continue
            out = self._movable(machine, other, step)
            into = np.append(self._movable(other, machine, step), none)
            if not len(out):
                continue
            change = self._requests[out][:, None, :] - self._requests[into][None, :, :]
            added = self._excess(self._free[machine] + change)
            added += self._excess(self._free[other] - change) - self.excess[machine] - self.excess[other]
            least = int(added.argmin())
            if added.flat[least] < best[0]:
                row, column = divmod(least, len(into))
                best = (float(added.flat[least]), other, int(out[row]), int(into[column]))
        _, other, gone, come = best
        if best[0] == np.inf:
            return False
        for item, source, target in ((gone, machine, other), (come, other, machine)):
            if item != none:
                self._add(source, item, -1)
                self._add(target, item, 1)
                self._tabu_until[source, item] = step + tabu_steps
        return True

    def _movable(self, source: int, target: int, step: int) -> Ints:
        """Return the items that one machine has and the other may take."""
        may_run = (self.loads[source] > 0) & (self.loads[target] < self._fit[target])
        movable: Ints = np.flatnonzero(may_run & (self._tabu_until[target, :-1] <= step))
        return movable

    def _add(self, machine: int, item: int, amount: int) -> None:
        self.loads[machine, item] += amount
        self._free[machine] -= amount * self._requests[item]
        self.excess[machine] = self._excess(self._free[machine])

    def _excess(self, free: Ints) -> Floats:
        lacking = np.maximum(-free * self._shares, 0.0)
        excess: Floats = lacking.max(axis=-1) + self._sum_weight * lacking.sum(axis=-1)
        return excess


def promising_types(problem: PackingProblem, fluid: FluidSolution, count: int) -> Ints:
    """Return the types that the fluid solution buys, and the `count` best types by value for price with one item."""
    # density[t] = max_i fit[i, t] item_values[i] / price[t]; t's best load of a single item has the reduced cost
    # price[t] (1 - density[t]).
    density = (problem.fit * fluid.item_values[:, None]).max(axis=0) / problem.prices
    bought = np.flatnonzero(fluid.machines > 1e-6)
    best = np.argsort(-density, kind="stable")[:count]
    return np.unique(np.concatenate([bought, best]))


# Rounds the fluid relaxation over two types at a time.
#
# Where hundreds of types cost the same for their capacity, the fluid solution mixes the smallest with the largest, and rounding
# leaves gaps on all of them. Two types about as large as the average machine of the solution cost no more and fill evenly.


def two_type_packings(
    problem: PackingProblem,
    fluid: FluidSolution,
    *,
    generator: np.random.Generator,
    budget: SearchBudget,
    settings: SearchSettings,
) -> list[Packing]:
    """Return the packings found, the cheapest first."""
    packings: list[Packing] = []
    lost, limits = 0, settings.two_type
    bound_max = fluid.lower_bound * (1 + limits.loss_relative_max)
    for pair in _pairs(problem, fluid, limits):
        two_types = problem.restricted(pair)
        if not (two_types.fit.max(axis=1) > 0).all():
            continue
        is_done = len(packings) == limits.pairs_rounded_max or lost == limits.pairs_lost_max
        if is_done or budget.is_spent:
            break  # column generation, which begins with these, has no items in numbers that would make rounding slow
        relaxed = relax(two_types, settings)
        if relaxed.lower_bound > bound_max:
            lost += 1
        elif budget.step():
            rounded = guided_rounding(two_types, relaxed, (0,) * len(pair), generator=generator, settings=settings)
            packings.append(right_sized(problem, rounded))
    return sorted(packings, key=lambda packing: packing.cost(problem))


def _pairs(problem: PackingProblem, fluid: FluidSolution, settings: TwoTypeSettings) -> list[Ints]:
    """Return pairs of a type a little below the average machine's price (bound / Σ machines) and one a little above."""
    by_price = np.argsort(problem.prices, kind="stable")
    average = fluid.lower_bound / max(float(fluid.machines.sum()), 1.0)
    middle = int(np.searchsorted(problem.prices[by_price], average))
    cheaper = by_price[max(0, middle - settings.cheaper_types) : middle]
    expensive = by_price[middle : middle + settings.expensive_types]
    return [np.array([cheap, other]) for cheap in cheaper[::-1] for other in expensive]
