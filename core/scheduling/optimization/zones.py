"""Divides each item group between zones, with one fluid program over all zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import repeat

import numpy as np

from core import labels
from core.packing.problem import Bools, Floats, Ints, PackingProblem, merged_offers
from core.packing.relaxation import relax
from core.packing.settings import SearchBudget, SearchSettings
from core.scheduling.context import SchedulingContext
from core.scheduling.new_node import NodeClaimTemplate
from core.scheduling.optimization.items import MovablePods, PackingItem, RepackScope
from core.scheduling.optimization.relaxed_pods import ItemGroup, ItemGrouping, LaunchOption
from core.scheduling.optimization.subproblem import problem_of, requests_of
from core.scheduling.primitives import IMPOSSIBLE, RequirementId, TopologyGroupId

# Gives every zone the same mix of resources, by distributing the pods that may run in several zones.
#
# The pods that rules hold to one zone may need more memory per CPU than its machines have, and those of another zone less.
# Whole pods then fill the machines badly, which the fluid program does not see.


def balanced_shares(shares: Floats, *, sizes: Floats, counts: Ints, may: Bools, weights: Floats, rounds: int) -> Floats:
    """Return the shares nearest to the given ones at which each zone gets its part (`weights`) of every resource.

    Args:
        shares: [group, zone], the part of the group in each zone, before the correction.
        sizes: [group, resource], one pod's request divided by the total requests.
        counts: [group], pods.
        may: [group, zone], whether the group's pods may run there.
        weights: [zone], the part of every resource that each zone should get.
        rounds: The most corrections: if one would make a share negative, the next distributes the remaining imbalance.
    """
    # Least squares over the pods of free groups: minimise Σ counts[g] d[g, z]² subject to Σ_g counts[g] sizes[g] d[g, z] =
    # lacking[z]. Its solution is d[g, z] = sizes[g] · M⁺ lacking[z] with M = Σ_g counts[g] sizes[g] sizes[g]ᵀ. The lacking
    # amounts sum to zero over zones, so the changes of each group do too. lacking: [zone, resource].
    free = may.sum(axis=1) > 1
    pods = counts.astype(float)
    inverse = np.linalg.pinv((sizes[free] * pods[free, None]).T @ sizes[free])
    for _ in range(rounds):
        lacking = weights[:, None] - (shares * pods[:, None]).T @ sizes
        changed = np.clip(shares + sizes @ inverse @ lacking.T, 0.0, 1.0) * may
        total = changed.sum(axis=1, keepdims=True)
        is_kept = ~free[:, None] | (total <= 0)
        shares = np.where(is_kept, shares, changed / np.where(total > 0, total, 1.0))
    return shares


def whole_pods(shares: Floats, *, sizes: Floats, counts: Ints, slack: float) -> Ints:
    """Return [group, zone], shares in whole pods; each pod left over goes to the zone that lacks most of what it requests.

    Args:
        shares: [group, zone], the part of the group in each zone.
        sizes: [group, resource], one pod's request divided by the total requests.
        counts: [group], pods.
        slack: A product this little below a whole number counts as that number.
    """
    wanted = shares * counts[:, None]
    pods: Ints = np.floor(wanted + slack).astype(np.int64)
    lacking = (wanted - pods).T @ sizes
    remainder = counts - pods.sum(axis=1)
    for group in np.argsort(-sizes.max(axis=1), kind="stable"):
        for _ in range(int(remainder[group])):
            zone = int(np.where(shares[group] > 0, lacking @ sizes[group], -np.inf).argmax())
            pods[group, zone] += 1
            lacking[zone] -= sizes[group]
    return pods


class ZoneShares:
    """The fluid program over the zones of one scope."""

    def __init__(
        self,
        templates: Sequence[NodeClaimTemplate],
        *,
        counts: Mapping[ItemGroup, int],
        by_zone: Mapping[str, Mapping[ItemGroup, ItemGroup]],
        hostname_capacity: Mapping[TopologyGroupId, int],
        settings: SearchSettings,
    ) -> None:
        """Number the groups; zones' packing problems are built when they are needed.

        Args:
            templates: The templates of all NodePools.
            counts: How many packing items each group has.
            by_zone: For each zone, the groups that may run there, with their options there.
            hostname_capacity: The hostname groups that are resources.
            settings: The allowed extra cost of an even mix.
        """
        self._settings = settings
        self._groups = list(counts)
        self._counts = np.array(list(counts.values()), dtype=np.int64)
        numbers = {group: number for number, group in enumerate(self._groups)}
        self._users = [np.array([numbers[group] for group in groups], dtype=np.int64) for groups in by_zone.values()]
        self._hostname_capacity = hostname_capacity
        self._block_of = partial(_block, templates, counts=counts, hostname_capacity=hostname_capacity)
        self._by_zone = by_zone

    @cached_property
    def _blocks(self) -> list[PackingProblem]:
        blocks = [self._block_of(groups) for groups in self._by_zone.values()]
        return [block.restricted(block.undominated()) for block in blocks]

    @property
    def cells(self) -> int:
        """The pairs of group and type in the program, whether or not one fits the other."""
        return len(self._groups) * sum(len(block.prices) for block in self._blocks)

    def best(self) -> Ints:
        """Return [group, zone], how many pods of the group each zone gets; zones are in the given order.

        If zones have equal prices, the program's solution is an extreme point with few groups per zone, and a zone with few
        groups is harder to fill. An even mix is therefore preferred if it costs nearly the same. If zones have equal types, and
        it gives all zones nearly the same, it is taken without a linear program (docs/engineering/handbook/packing.md).
        """
        joint = self._joint()
        if self._have_equal_types():
            even = self._even_shares(_cost_alone(joint), joint.requests)
            if self._is_even(even, joint.requests):
                return self._whole_pods(even, joint.requests)
        merged = _with_equal_offers_merged(joint)
        fluid = relax(merged, self._settings)
        even = self._even_shares(fluid.item_values, joint.requests)
        cost_max = fluid.lower_bound * (1 + self._settings.repack.even_zones_cost_relative_max)
        if self._bound(even) <= cost_max:
            return self._whole_pods(even, joint.requests)
        is_smaller = len(merged.prices) < len(joint.prices)
        pods = relax(joint, self._settings).pods if is_smaller else fluid.pods
        ends = np.cumsum([len(block.prices) for block in self._blocks])[:-1]
        shares = _normalised(np.stack([part.sum(axis=1) for part in np.split(pods, ends, axis=1)], axis=1))
        return self._whole_pods(shares, joint.requests)

    def by_size(self) -> Ints:
        """As `best` without a linear program: zones share groups in proportion to the size of pods that may run only there."""
        # A pod's size is Σ_r requests[r] / Σ_i counts[i] requests[i, r]: its part of the total requests, summed over resources.
        requests = self._requests()
        return self._whole_pods(self._even_shares(self._sizes(requests).sum(axis=1), requests), requests)

    def _whole_pods(self, shares: Floats, requests: Ints) -> Ints:
        slack = self._settings.repack.whole_pods_slack_relative
        return whole_pods(shares, sizes=self._sizes(requests), counts=self._counts, slack=slack)

    def _sizes(self, requests: Ints) -> Floats:
        """Return [group, resource], one pod's request divided by the total requests."""
        sizes: Floats = requests / np.maximum(self._counts @ requests, 1)
        return sizes

    def _requests(self) -> Ints:
        """Return [group, resource], what one item requests."""
        return np.array([requests_of(group, self._hostname_capacity) for group in self._groups], dtype=np.int64)

    def _joint(self) -> PackingProblem:
        """Return the zones' problems as one: the types of each zone, and groups that may run in several."""
        # Block structure: the columns of `allowed` ([group, type]) come zone by zone, with rows only for the zone's users.
        columns = []
        for users, block in zip(self._users, self._blocks, strict=True):
            allowed = np.full((len(self._groups), len(block.prices)), False)
            allowed[users] = block.allowed
            columns.append(allowed)
        return PackingProblem.of(
            requests=self._requests(),
            counts=self._counts,
            capacity=np.concatenate([block.capacity for block in self._blocks]),
            prices=np.concatenate([block.prices for block in self._blocks]),
            allowed=np.concatenate(columns, axis=1),
        )

    def _even_shares(self, item_values: Floats, requests: Ints) -> Floats:
        """Return [group, zone], nearly equal shares: in proportion to the value of the pods that may run only in each zone.

        They differ only as much as is needed to give every zone the overall mix of resources.

        Args:
            item_values: [group], the value of one item.
            requests: [group, resource].
        """
        # values[z] = Σ counts[g] item_values[g] over groups g that may run in z alone. Group g gets values[z] over the sum
        # of values of its zones. A zone without such pods gets little, but more than zero: a group may have no other zone.
        may = np.full((len(self._groups), len(self._users)), False)
        for zone, users in enumerate(self._users):
            may[users, zone] = True
        in_one_zone = (may.sum(axis=1) == 1)[:, None]
        values = np.where(in_one_zone, may * (self._counts * item_values)[:, None], 0.0).sum(axis=0)
        values = np.maximum(values, 1e-9 * values.max(initial=1.0))
        return balanced_shares(
            _normalised(np.where(may, values, 0.0)),
            sizes=self._sizes(requests),
            counts=self._counts,
            may=may,
            weights=values / values.sum(),
            rounds=self._settings.repack.zone_balance_rounds,
        )

    def _have_equal_types(self) -> bool:
        first = self._blocks[0]
        return all(
            np.array_equal(block.prices, first.prices) and np.array_equal(block.capacity, first.capacity)
            for block in self._blocks
        )

    def _is_even(self, shares: Floats, requests: Ints) -> bool:
        """Whether every zone gets nearly the same part of each resource that pods with a choice of zones request."""
        # parts[z, r]: the zone's part of all requests of resource r. A group has a choice if it has a share in several zones.
        free = (shares > 0).sum(axis=1) > 1
        resources = requests[free].any(axis=0)
        parts = ((shares * self._counts[:, None]).T @ self._sizes(requests))[:, resources]
        difference_max = self._settings.repack.even_zones_difference_max
        return bool(parts.size and (parts.max(axis=1) <= parts.min(axis=1) * (1 + difference_max)).all())

    def _bound(self, shares: Floats) -> int:
        """Return a lower bound on the cost of all zones with these shares; pods are rounded to hundredths."""
        steps, total = self._settings.repack.zone_share_steps_per_pod, 0
        for zone, (users, block) in enumerate(zip(self._users, self._blocks, strict=True)):
            counts: Ints = np.rint(self._counts[users] * shares[users, zone] * steps).astype(np.int64)
            present = np.flatnonzero(counts)
            if present.size:
                total += relax(block.of_items(present, counts[present]), self._settings).lower_bound
        return total // steps


def _cost_alone(problem: PackingProblem) -> Floats:
    """Return [item], what a pod costs on a machine of only such pods, on the type where that is least; pods may be split."""
    # min over the types t that it fits of price[t] · max_r requests[i, r] / capacity[t, r].
    shares = np.zeros(problem.fit.shape)
    for requested, offered in zip(problem.requests.T, problem.capacity.T, strict=True):
        np.maximum(shares, requested[:, None] / np.maximum(offered, 1)[None, :], out=shares)
    cost: Floats = np.where(problem.fit > 0, shares * problem.prices, np.inf).min(axis=1)
    return cost


def _with_equal_offers_merged(problem: PackingProblem) -> PackingProblem:
    """Return the problem with types of equal capacity and price merged; an item is allowed if any of them allows it.

    If zones have equal prices, its fluid program is several times smaller; its optimum is at most that of the full program.
    """
    first, allowed = merged_offers(problem.prices, problem.capacity, [problem.allowed])
    if len(first) == len(problem.prices):
        return problem
    return PackingProblem.of(
        requests=problem.requests,
        counts=problem.counts,
        capacity=problem.capacity[first],
        prices=problem.prices[first],
        allowed=allowed,
    )


def _block(
    templates: Sequence[NodeClaimTemplate],
    groups: Mapping[ItemGroup, ItemGroup],
    *,
    counts: Mapping[ItemGroup, int],
    hostname_capacity: Mapping[TopologyGroupId, int],
) -> PackingProblem:
    """Return one zone's problem, an item for each group; groups that differ in other zones may be equal here."""
    distinct = {there: number for number, there in enumerate(dict.fromkeys(groups.values()))}
    problem = problem_of(templates, counts=dict.fromkeys(distinct, 1), hostname_capacity=hostname_capacity)
    items = np.array([distinct[there] for there in groups.values()], dtype=np.int64)
    return problem.of_items(items, np.array([counts[group] for group in groups], dtype=np.int64))


def _normalised(amounts: Floats) -> Floats:
    """Return [group, zone], amounts as shares of each group."""
    shares: Floats = amounts / np.maximum(amounts.sum(axis=1, keepdims=True), 1e-12)
    return shares


# Divides a large scope by zone: pods that rules hold to a zone stay there, and the fluid program divides the others.


ZoneOptions = dict[str, LaunchOption]
"""Zone → an item's launch option there."""


class ZoneSplit:
    """The zones of one scope."""

    def __init__(
        self, context: SchedulingContext, scope: RepackScope, budget: SearchBudget, settings: SearchSettings
    ) -> None:
        """Divide pods by the fluid program while the budget lasts and its size allows, otherwise by size."""
        self._context = context
        self._scope = scope
        self._budget = budget
        self._settings = settings
        types, mask = scope.template.types, scope.template.mask
        self._zones = types.values(mask & types.mask(scope.offered), scope.offered, labels.ZONE)

    def split(self, movable: Sequence[MovablePods]) -> dict[str, list[MovablePods]]:
        """Return zone → the pods to be packed there; empty if fewer than two zones would get pods."""
        counts = Counter([movable_pods.item for movable_pods in movable])
        # Items that differ only in hostname rules have the same options.
        alike = {(item.reqs, item.allowed, item.requests): item for item in counts}
        options_of = {question: self._zone_options(item) for question, item in alike.items()}
        options = {item: options_of[item.reqs, item.allowed, item.requests] for item in counts}
        only_zones = {next(iter(possible)) for possible in options.values() if len(possible) == 1}
        if len(only_zones) < self._settings.repack.zones_min or not all(options.values()):
            return {}
        if all(len(possible) == 1 for possible in options.values()):
            return _by_zone((next(iter(options[movable_pods.item])), movable_pods) for movable_pods in movable)
        grouping = ItemGrouping(counts, self._settings.repack)
        group_of = {item: grouping.of(item, self._option(item, item.reqs)) for item in counts}
        zones_of = self._zones_of(counts, options, group_of, grouping.hostname_capacity)
        of_item = {item: zones_of[group] for item, group in group_of.items()}
        return _by_zone((next(of_item[movable_pods.item]), movable_pods) for movable_pods in movable)

    def _zone_options(self, item: PackingItem) -> ZoneOptions:
        """Return the zones in which some type has room for the item."""
        types, options = self._scope.template.types, {}
        for zone in self._zones:
            reqs = self._context.table.with_value(item.reqs, labels.ZONE, zone)
            if reqs != IMPOSSIBLE and types.room.fits(types.mask(reqs) & item.allowed, item.requests):
                options[zone] = self._option(item, reqs)
        return options

    def _option(self, item: PackingItem, reqs: RequirementId) -> LaunchOption:
        return LaunchOption(self._scope.template.index, reqs, item.allowed)

    def _zones_of(
        self,
        counts: Mapping[PackingItem, int],
        options: Mapping[PackingItem, ZoneOptions],
        group_of: Mapping[PackingItem, ItemGroup],
        hostname_capacity: Mapping[TopologyGroupId, int],
    ) -> dict[ItemGroup, Iterator[str]]:
        """Return group → the zone of each of its items."""
        totals: dict[ItemGroup, int] = {}
        by_zone: dict[str, dict[ItemGroup, ItemGroup]] = {}
        for item, count in counts.items():
            group = group_of[item]
            for zone, option in () if group in totals else options[item].items():
                by_zone.setdefault(zone, {})[group] = group.restricted_to(option)
            totals[group] = totals.get(group, 0) + count
        zone_shares = ZoneShares(
            self._context.templates,
            counts=totals,
            by_zone=by_zone,
            hostname_capacity=hostname_capacity,
            settings=self._settings,
        )
        limits = self._settings.repack
        is_long = len(totals) > limits.zone_program_items_max or zone_shares.cells > limits.zone_program_cells_max
        pods = zone_shares.by_size() if is_long or self._budget.is_spent else zone_shares.best()
        return {
            group: _interleaved(dict(zip(by_zone, row, strict=True)))
            for group, row in zip(totals, pods.tolist(), strict=True)
        }


def _by_zone(allocated: Iterable[tuple[str, MovablePods]]) -> dict[str, list[MovablePods]]:
    by_zone: dict[str, list[MovablePods]] = {}
    for zone, movable in allocated:
        by_zone.setdefault(zone, []).append(movable)
    return dict(sorted(by_zone.items()))


def _interleaved(counts: Mapping[str, int]) -> Iterator[str]:
    """Return the zone of each of a group's items in turn: the one that is furthest behind its share, ties to the last name.

    Args:
        counts: Zone → its number of items.
    """
    zones = sorted(zone for zone, count in counts.items() if count)
    if len(zones) == 1:
        return repeat(zones[0])
    return _furthest_behind(zones, [counts[zone] for zone in zones])


def _furthest_behind(zones: Sequence[str], counts: Sequence[int]) -> Iterator[str]:
    total, allocated = sum(counts), [0] * len(counts)
    for items in range(1, total + 1):
        _, position = max(
            [
                (count * items - done * total, position)
                for position, (count, done) in enumerate(zip(counts, allocated, strict=True))
                if done < count
            ]
        )
        allocated[position] += 1
        yield zones[position]
