"""Builds a `FleetProblem` from a snapshot's nodes and the pods on some of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from core import labels
from core.model.pod import Pod
from core.packing.column_generation import dual_bound
from core.packing.fleet_target import NO_GROUP, FleetProblem, Rooms
from core.packing.optimize import is_coarse
from core.packing.problem import Bools, Ints, Packing, PackingProblem, right_sized, whole_machines
from core.packing.relaxation import relax, stepped
from core.packing.settings import SearchBudget, SearchSettings
from core.scheduling.context import SchedulingContext
from core.scheduling.new_node import InFlightClaim
from core.scheduling.optimization.items import HostnameCaps
from core.scheduling.optimization.relaxed_pods import ItemGroup, LaunchOption, RelaxedComponent, RelaxedPods
from core.scheduling.optimization.subproblem import problem_of
from core.scheduling.pods import PodGroup
from core.scheduling.primitives import IMPOSSIBLE, RequirementId

ROOM_SHAPES: Final = 32
"""How many ratios of free CPU to free memory are distinguished among nodes with equal labels and taints.

With four, the program sees room for a third more pods than actually fit.
"""


class DrainableNode(msgspec.Struct, frozen=True, eq=False):
    """A node that may go.

    Attributes:
        position: Among the context's existing nodes.
        price: Nano-dollars per hour.
        move_price: The price of moving its pods, in the same unit.
        must_go: Whether it goes at any cost.
    """

    position: int
    price: int
    move_price: int
    must_go: bool = False


class FleetRows:
    """The arrays, and the objects that their rows represent.

    Attributes:
        nodes: [node], the nodes that may go, by position.
        pods: [node], the pods that would move.
        row_of_pod: Key of a pod that would move → its item.
        items: [item], the pod groups of these pods.
        problem: The fleet.
        market: The packing problem of the items that fit a new machine, over types worth buying; None if no item fits any.
    """

    def __init__(self, context: SchedulingContext, nodes: Sequence[DrainableNode], closed: Collection[int]) -> None:
        """Read the snapshot.

        Args:
            context: The snapshot.
            nodes: The nodes that may go.
            closed: Positions of nodes that take no pods, in addition to leaving ones.
        """
        self._context = context
        self.nodes = sorted(nodes, key=lambda node: node.position)
        views = context.existing_nodes
        self.pods: list[tuple[Pod, ...]] = [
            context.budgets.currently_reschedulable(views[node.position].state.pods) for node in self.nodes
        ]
        groups_of_node = [[context.pod_groups.of(pod) for pod in pods] for pods in self.pods]
        groups = {group.index: group for here in groups_of_node for group in here}
        self.items: list[PodGroup] = [groups[index] for index in sorted(groups)]
        row_of = {group.index: row for row, group in enumerate(self.items)}
        self._rows_of = [[row_of[group.index] for group in here] for here in groups_of_node]
        self.row_of_pod = {
            pod.key: row
            for pods, rows in zip(self.pods, self._rows_of, strict=True)
            for pod, row in zip(pods, rows, strict=True)
        }
        self._free = np.array([view.free for view in views], dtype=np.int64).reshape(len(views), len(context.axis.zero))
        self._suits = self._suitable(closed)
        self._groups = self._room_groups()
        self.market, self._fits = self._launchable()
        self.problem = self._problem()

    @property
    def rooms(self) -> Rooms:
        """The nodes that may take pods if all of them stay."""
        present = tuple({int(p): n for p, n in group.signature.bound.items()} for group in self.items)
        return Rooms(np.maximum(self._free, 0), self._groups.copy(), self._suits, present)

    def amounts(self, item: int) -> dict[str, int]:
        """Return the requests of one pod of an item."""
        return self._context.axis.amounts(self.items[item].requests)

    def positions(self, is_chosen: Bools) -> list[int]:
        """Return the positions of the chosen nodes."""
        return [node.position for node, chosen in zip(self.nodes, is_chosen, strict=True) if chosen]

    def _suitable(self, closed: Collection[int]) -> Bools:
        """Return [item, node], whether labels and taints suit at any of the item's relaxation steps."""
        context, count = self._context, len(self._context.existing_nodes)
        shut = np.zeros(count, dtype=bool)
        shut[[n.index for n in context.existing_nodes if not n.state.is_initialized]] = True
        shut[sorted(closed)] = True
        suits: dict[object, Bools] = {}
        rows = []
        for group in self.items:
            question = (_alternatives(group), group.steps[-1].demands.tolerations if group.steps else ())
            if question not in suits:
                mask = context.node_index.suitable(*question)
                suits[question] = np.array([mask >> position & 1 for position in range(count)], dtype=bool) & ~shut
            rows.append(suits[question])
        return np.array(rows, dtype=bool).reshape(len(rows), count)

    def _room_groups(self) -> Ints:
        """Return [node], a number that nodes share if they suit the same items and have a similar ratio of free resources."""
        count = len(self._context.existing_nodes)
        groups = np.full(count, NO_GROUP, dtype=np.int64)
        if not len(self.items):
            return groups
        # log_ratio[n] = log(free[n, cpu]) - log(free[n, memory]): the excess of CPU in a node's room.
        # Nodes that suit the same items are cut at the quantiles of their log_ratio into at most ROOM_SHAPES groups.
        is_open = self._suits.any(axis=0)
        pattern = np.unique(self._suits.T, axis=0, return_inverse=True)[1].ravel()
        free = np.maximum(self._free, 0)
        log_ratio = np.log1p(free[:, 0]) - np.log1p(free[:, 1:2]).sum(axis=1)
        number = 0
        for value in np.unique(pattern[is_open]):
            here = np.flatnonzero((pattern == value) & is_open)
            cuts = np.quantile(log_ratio[here], np.linspace(0, 1, ROOM_SHAPES + 1)[1:-1])
            shapes = np.unique(np.searchsorted(cuts, log_ratio[here]), return_inverse=True)[1].ravel()
            groups[here] = number + shapes
            number += int(shapes.max()) + 1
        return groups

    def _launchable(self) -> tuple[PackingProblem | None, Bools]:
        """Return the packing problem of the items that fit a new machine, and [item, type], which item fits which type."""
        context, counts = self._context, dict[ItemGroup, int]()
        number_of, of_item = dict[ItemGroup, int](), list[int]()
        amounts = Counter(row for rows in self._rows_of for row in rows)
        for row, group in enumerate(self.items):
            options = tuple(dict.fromkeys(option for option in self._options(group) if self._holds(option, group)))
            if not options:
                of_item.append(-1)
                continue
            item = ItemGroup(group.requests, options)
            of_item.append(number_of.setdefault(item, len(number_of)))
            counts[item] = counts.get(item, 0) + amounts[row]
        if not counts:
            return None, np.zeros((len(self.items), 0), dtype=bool)
        problem = problem_of(context.templates, counts=counts, hostname_capacity={})
        problem = problem.restricted(problem.undominated())
        rows = np.array(of_item, dtype=np.int64)
        return problem, np.where(rows[:, None] >= 0, problem.fit[rows] > 0, False)

    def _options(self, group: PodGroup) -> Iterator[LaunchOption]:
        """Return every option to launch a new node for such pods, regardless of topology."""
        context = self._context
        tolerated = [context.open_templates(step) for step in group.steps]
        for alternative in _alternatives(group):
            for template in context.templates:
                reqs = context.table.narrowed(template.offered, required=alternative)
                if reqs != IMPOSSIBLE and any(by_step[template.index] for by_step in tolerated):
                    yield LaunchOption(template.index, reqs, template.mask)

    def _holds(self, option: LaunchOption, group: PodGroup) -> bool:
        types = self._context.templates[option.template_index].types
        return types.room.fits(types.mask(option.reqs), group.requests)

    def _problem(self) -> FleetProblem:
        context = self._context
        # group_free[g, r] = Σ free[n, r] over the nodes n of group g that are no candidates. `group_suits` takes a group's
        # first node, since all nodes of a group suit the same items.
        at = np.array([node.position for node in self.nodes], dtype=np.int64)
        loads = np.zeros((len(self.nodes), len(self.items)), dtype=np.int64)
        for number, rows in enumerate(self._rows_of):
            for row, pods in Counter(rows).items():
                loads[number, row] = pods
        others = np.setdiff1d(np.flatnonzero(self._groups != NO_GROUP), at)
        count = int(self._groups.max(initial=NO_GROUP)) + 1
        group_free = np.zeros((count, self._free.shape[1]), dtype=np.int64)
        np.add.at(group_free, self._groups[others], np.maximum(self._free[others], 0))
        first = [int(np.flatnonzero(self._groups == group)[0]) for group in range(count)]
        resources = len(context.axis.zero)
        requests = np.array([g.requests for g in self.items], dtype=np.int64).reshape(len(self.items), resources)
        market = self.market
        host_caps = self._host_caps(is_required=False)
        return FleetProblem(
            prices=np.array([node.price for node in self.nodes], dtype=np.int64),
            move_prices=np.array([node.move_price for node in self.nodes], dtype=np.int64),
            must_go=np.array([node.must_go for node in self.nodes], dtype=bool),
            is_spot=np.array(
                [not node.must_go and _is_spot(context, node.position) for node in self.nodes], dtype=bool
            ),
            loads=loads,
            free=self._free[at],
            room_groups=self._groups[at],
            requests=requests,
            host_caps=host_caps,
            required_host_caps=self._host_caps(is_required=True),
            host_room=self._host_room(host_caps, others),
            group_suits=self._suits[:, first].reshape(len(self.items), count),
            group_free=group_free,
            capacity=market.capacity[:, :resources] if market else np.zeros((0, resources), dtype=np.int64),
            type_prices=market.prices if market else np.zeros(0, dtype=np.int64),
            fits=self._fits,
        )

    def _host_caps(self, *, is_required: bool) -> Ints:
        """Return [item], the most of its pods on one node by hostname rules, zero for any number."""
        caps, step = HostnameCaps(self._context.topology.groups), -1 if is_required else 0
        caps_of_item = [[cap for _, cap in caps.caps(g.steps[step]) if cap > 0] if g.steps else [] for g in self.items]
        return np.array([min(item_caps, default=0) for item_caps in caps_of_item], dtype=np.int64)

    def _host_room(self, caps: Ints, others: Ints) -> Ints:
        """Return [item], further pods that nodes which are not candidates take, for items with a cap."""
        room = np.zeros(len(self.items), dtype=np.int64)
        for item in np.flatnonzero(caps):
            here = others[self._suits[item, others]]
            present = self.items[item].signature.bound
            room[item] = sum(max(0, int(caps[item]) - present.get(int(node), 0)) for node in here)
        return room


def _alternatives(group: PodGroup) -> tuple[RequirementId, ...]:
    """Return the node requirements of such pods at all of their steps."""
    return tuple(dict.fromkeys(alternative for step in group.steps for alternative in step.alternatives))


def _is_spot(context: SchedulingContext, position: int) -> bool:
    return context.existing_nodes[position].state.labels.get(labels.CAPACITY_TYPE) == labels.SPOT


# Computes a lower bound on the cost of new nodes for a plan's pods.


class LowerBound:
    """Bounds on the cost of new nodes for a plan's pods with most rules relaxed.

    Attributes:
        fluid: The bound by the fluid relaxation with resources in whole steps, in nano-dollars per hour.
    """

    def __init__(
        self,
        context: SchedulingContext,
        relaxed: RelaxedPods,
        settings: SearchSettings,
        budget: SearchBudget | None = None,
    ) -> None:
        """Solve a fluid relaxation for each component; with a budget, in as many rounds as its time allows, at least one."""
        self._relaxed = relaxed
        self._bounds = [
            _ComponentBound(context, relaxed, component, settings, budget) for component in relaxed.components()
        ]
        self.fluid = sum(bound.fluid for bound in self._bounds)

    def proven(self, claims: Sequence[InFlightClaim], *, budget: SearchBudget) -> int:
        """Return a bound no lower than `fluid`; column generation begins with the loads of these claims."""
        number_of = {group: number for number, bound in enumerate(self._bounds) for group in bound.groups}
        parts: list[list[InFlightClaim]] = [[] for _ in self._bounds]
        for claim in claims:
            parts[number_of[self._relaxed.item_group(claim.pod_groups[0])]].append(claim)
        return sum(
            bound.proven(part, machines=len(claims), budget=budget)
            for bound, part in zip(self._bounds, parts, strict=True)
        )


class _ComponentBound:
    """The packing problem of one component, and its bounds.

    Attributes:
        groups: Its items.
        fluid: As for `LowerBound`.
    """

    def __init__(
        self,
        context: SchedulingContext,
        relaxed: RelaxedPods,
        component: RelaxedComponent,
        settings: SearchSettings,
        budget: SearchBudget | None,
    ) -> None:
        problem = problem_of(
            context.templates,
            counts=component.counts,
            hostname_capacity=relaxed.hostname_capacity,
            merges_offers=component.merges_offers,
        )
        self.groups = list(component.counts)
        self._seed = context.snapshot.options.seed
        self._settings = settings
        self._relaxed = relaxed
        self._problem = problem.restricted(problem.undominated())
        self.fluid = relax(stepped(self._problem, settings.stepped_bound), settings, budget).lower_bound

    def proven(self, claims: Sequence[InFlightClaim], *, machines: int, budget: SearchBudget) -> int:
        """Return a bound no lower than `fluid` for the pods of these claims; `machines` counts all claims of the plan.

        It equals `fluid` if that is near their cost, the time is over, or a machine costs nothing: columns need prices. Whole
        machines take no step, columns need some.
        """
        if budget.time_is_over or not self._problem.prices.all():
            return self.fluid
        cost = sum(claim.price for claim in claims)
        bound = max(self.fluid, self._of_whole_machines(machines, cost))
        is_far = is_coarse(
            self._problem,
            lower_bound=bound,
            cost=cost,
            machines=len(claims),
            settings=self._settings.stages,
        )
        if budget.is_spent or not is_far:
            return bound
        loads = np.array([self._relaxed.load(claim, self.groups) for claim in claims], dtype=np.int64)
        packing = right_sized(self._problem, Packing(np.zeros(len(loads), dtype=np.int64), loads))
        return dual_bound(
            self._problem,
            packing,
            lower_bound=bound,
            generator=np.random.default_rng(self._seed),
            budget=budget,
            settings=self._settings,
        )

    def _of_whole_machines(self, machines: int, cost: int) -> int:
        """Return the bound from whole machines; zero if that is not worth its time."""
        settings = self._settings.whole_machine_bound
        if machines > settings.machines_max or cost <= self.fluid * (1 + settings.gap_relative_min):
            return 0
        return whole_machines(self._problem, cost=cost, settings=settings.program)[0]
