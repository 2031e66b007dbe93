"""Divides each item group between zones, with one fluid program over all zones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from core.packing.problem import Floats, Ints, PackingProblem
from core.packing.relaxation.fluid_lp import relax
from core.packing.search_settings import SearchSettings
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.optimization.items.item_groups import ItemGroup
from core.scheduling.optimization.subproblems.packing_columns import problem_of
from core.scheduling.optimization.subproblems.zone_balance import balanced_shares, whole_pods
from core.scheduling.primitives.handles import TopologyGroupId


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
        """Build each zone's packing problem.

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
        blocks = [_block(templates, groups, counts, hostname_capacity) for groups in by_zone.values()]
        self._blocks = [block.restricted(block.undominated()) for block in blocks]

    def best(self) -> Ints:
        """Return [group, zone], how many pods of the group each zone gets; zones are in the given order.

        If zones have equal prices, the program's solution is an extreme point with few groups per zone, and a zone with few
        groups is harder to fill. An even mix is therefore preferred if it costs nearly the same. If zones have equal types, and
        it gives all zones nearly the same, it is taken without a linear program (ADR 261).
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
        requests = self._joint().requests
        return self._whole_pods(self._even_shares(self._sizes(requests).sum(axis=1), requests), requests)

    def _whole_pods(self, shares: Floats, requests: Ints) -> Ints:
        slack = self._settings.repack.whole_pods_slack_relative
        return whole_pods(shares, sizes=self._sizes(requests), counts=self._counts, slack=slack)

    def _sizes(self, requests: Ints) -> Floats:
        """Return [group, resource], one pod's request divided by the total requests."""
        sizes: Floats = requests / np.maximum(self._counts @ requests, 1)
        return sizes

    def _joint(self) -> PackingProblem:
        """Return the zones' problems as one: the types of each zone, and groups that may run in several."""
        # Block structure: the columns of `allowed` ([group, type]) come zone by zone, with rows only for the zone's users.
        requests = np.zeros((len(self._groups), self._blocks[0].requests.shape[1]), dtype=np.int64)
        columns = []
        for users, block in zip(self._users, self._blocks, strict=True):
            requests[users] = block.requests
            allowed = np.full((len(self._groups), len(block.prices)), False)
            allowed[users] = block.allowed
            columns.append(allowed)
        return PackingProblem.of(
            requests=requests,
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
        may = np.full((len(self._groups), len(self._blocks)), False)
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
    offers = np.column_stack([problem.prices, problem.capacity])
    _, first, number = np.unique(offers, axis=0, return_index=True, return_inverse=True)
    if len(first) == len(offers):
        return problem
    allowed = np.zeros((len(problem.counts), len(first)), dtype=np.bool_)
    np.logical_or.at(allowed.T, number.ravel(), problem.allowed.T)
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
