"""Relaxed pods: the minimal requirements of pods on a node, which a lower bound may assume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from core.packing.settings import Offer, OfferedItem, RepackSettings, SearchSettings, arithmetic_bound
from core.scheduling.claim_search import Solution
from core.scheduling.context import SchedulingContext
from core.scheduling.new_node import InFlightClaim
from core.scheduling.pods import PodGroup, PodSignature, RelaxationStep, required_alternatives
from core.scheduling.primitives import IMPOSSIBLE, RequirementId, TopologyGroupId, TypeMask, Vector, memo
from core.scheduling.topology.groups import AFFINITY, ANTI_AFFINITY

if TYPE_CHECKING:
    from core.scheduling.optimization.items import Amounts, PackingItem


# Joins packing items that the solver need not distinguish into one item of its problem.
#
# A hostname group whose counted pods all obey the same cap is a resource of which each machine has that amount; if there are
# too many such groups, it is a cap on each item group. Other hostname rules apply when packing items are assigned to machines
# (`claims.item_assignment`): items that differ only in them are equal for the solver.


INTERDEPENDENT: Final = TopologyGroupId(-1)
"""Represents all hostname groups that count pods which do not obey them; an item that obeys one uses a unit of its capacity."""


class LaunchOption(NamedTuple):
    """One option for an item: claims of one NodePool.

    Attributes:
        template_index: The position of the NodePool's template.
        reqs: Number of the requirements that the claim must have.
        allowed: The remaining types.
    """

    template_index: int
    reqs: RequirementId
    allowed: TypeMask


class ItemGroup(msgspec.Struct, frozen=True, cache_hash=True):
    """Packing items that are equal for the solver.

    Attributes:
        requests: What each of them requests.
        options: The options where they may run.
        is_fixed: Whether its items are fixed sets of pods: a node holds at most one item of all fixed groups together.
        hostname_requests: How much they use of hostname groups that are resources.
        per_machine_max: The most of them on one machine, zero for no cap.
        capped_by: The hostname groups of the cap: groups with equal caps, but by different hostname groups, must stay distinct.
    """

    requests: Vector
    options: tuple[LaunchOption, ...]
    is_fixed: bool = False
    hostname_requests: Amounts = ()
    per_machine_max: int = 0
    capped_by: tuple[TopologyGroupId, ...] = ()

    def restricted_to(self, option: LaunchOption) -> ItemGroup:
        """Return the same group with only one option."""
        return replace(self, options=(option,))


class ItemGrouping:
    """Groups packing items.

    Attributes:
        hostname_capacity: Hostname group → how much of it a machine has, for groups that are resources; with `INTERDEPENDENT`.
    """

    def __init__(self, counts: Mapping[PackingItem, int], settings: RepackSettings) -> None:
        """Choose the hostname groups that are resources, by the number of each item."""
        uniform = self._uniform = _uniform_caps(counts)
        totals: dict[TopologyGroupId, int] = {}
        for item, count in counts.items():
            for number, amount in item.counted:
                if number in uniform:
                    totals[number] = totals.get(number, 0) + count * amount
        # A group with n counted pods and cap c needs ⌈n / c⌉ machines. Those that need the most are binding; the others, down
        # from a fraction of the widest, find their machines anyway.
        machines = {number: -(-total // uniform[number]) for number, total in totals.items()}
        machines_min = max(2, max(machines.values(), default=0) // settings.hostname_machines_divisor)
        binding = [number for number in machines if machines[number] >= machines_min]
        binding.sort(key=lambda number: (-machines[number], number))
        resources = sorted(binding[: settings.hostname_resources_max])
        self.hostname_capacity = {number: uniform[number] for number in resources}
        interdependent = {number for item in counts for number, _ in item.caps if number not in uniform}
        if interdependent:
            share = len(interdependent) // settings.interdependent_groups_divisor
            self.hostname_capacity[INTERDEPENDENT] = max(settings.interdependent_per_machine_min, share)
        self._capped = {number: cap for number, cap in uniform.items() if number not in self.hostname_capacity}

    def of(self, item: PackingItem, option: LaunchOption) -> ItemGroup:
        """Return the group of an item with one option."""
        resources = tuple((number, amount) for number, amount in item.counted if number in self.hostname_capacity)
        capped = [(number, amount) for number, amount in item.counted if number in self._capped]
        is_interdependent = any(number not in self._uniform for number, _ in item.caps)
        return ItemGroup(
            requests=item.requests,
            options=(option,),
            is_fixed=item.is_fixed,
            hostname_requests=(*resources, (INTERDEPENDENT, 1)) if is_interdependent else resources,
            per_machine_max=min((self._capped[number] // amount for number, amount in capped), default=0),
            capped_by=tuple(number for number, _ in capped),
        )


def _uniform_caps(items: Iterable[PackingItem]) -> dict[TopologyGroupId, int]:
    """Return hostname group → its cap, for groups that count exactly the pods that obey them, all with the same cap."""
    caps: dict[TopologyGroupId, int] = {}
    mixed: set[TopologyGroupId] = set()
    for item in items:
        if not (item.counted or item.caps):
            continue
        counted, allowed = dict(item.counted), dict(item.caps)
        for number in sorted(counted.keys() | allowed.keys()):
            cap = allowed.get(number)
            if cap is None or number not in counted or caps.setdefault(number, cap) != cap:
                mixed.add(number)
    return {number: cap for number, cap in sorted(caps.items()) if number not in mixed}


class RelaxedComponent(msgspec.Struct, frozen=True):
    """Pods that share no NodePool with other pods.

    Attributes:
        counts: How many pods each item group has.
        cells: The pairs of item group and type, whether or not one fits the other.
        merges_offers: Whether equal offers of several NodePools count as one: so many NodePools are too many for a bound that
            tells them apart.
    """

    counts: Mapping[ItemGroup, int]
    cells: int
    merges_offers: bool


class RelaxedPods:
    """The pods of a plan's new nodes with most of their rules relaxed.

    Each pod keeps its own requirements on a node, in every NodePool that it tolerates. Pods with hostname anti-affinity to each
    other need separate nodes, which they may share with other pods. Spreads are left out: how many of their pods may share a
    node depends on the number of nodes. Domains that a plan chose for groups are left out, too: a bound holds for every choice.

    Attributes:
        counts: How many pods each item group has.
        hostname_capacity: Hostname groups of such anti-affinity → one, the number of their pods per node.
    """

    def __init__(self, context: SchedulingContext, solution: Solution, settings: SearchSettings) -> None:
        self._context = context
        self._settings = settings
        self._exclusive_groups: Callable[[tuple[RelaxationStep, ...]], tuple[TopologyGroupId, ...]] = memo(
            _exclusive_groups
        )
        self._options: Callable[[PodSignature, tuple[RelaxationStep, ...]], tuple[LaunchOption, ...]] = memo(
            partial(_options, context)
        )
        pod_counts = Counter(chain.from_iterable(claim.pod_groups for claim in solution.claims))
        sizes: dict[TopologyGroupId, int] = {}
        for pod_group, count in pod_counts.items():
            for number in self._exclusive_groups(pod_group.steps):
                sizes[number] = sizes.get(number, 0) + count
        largest = sorted((n for n in sizes if sizes[n] > 1), key=lambda number: (-sizes[number], number))
        chosen = sorted(largest[: settings.optimizer.bound_hostname_groups_max])
        self.hostname_capacity = dict.fromkeys(chosen, 1)
        self.counts: dict[ItemGroup, int] = {}
        for pod_group, count in pod_counts.items():
            group = self.item_group(pod_group)
            self.counts[group] = self.counts.get(group, 0) + count

    @property
    def pairs_max(self) -> int:
        """The most pairs of item group and type that `arithmetic_bound` visits."""
        templates = self._context.templates
        options = (option for group in self.counts for option in group.options)
        return sum(templates[option.template_index].mask.bit_count() for option in options)

    @property
    def cells(self) -> int:
        """The pairs of item group and type, whether or not one fits the other: the size of the arrays of `LowerBound`."""
        return sum(component.cells for component in self.components())

    def components(self) -> list[RelaxedComponent]:
        """Return the pods in parts that share no NodePool, so that no node holds pods of two parts."""
        joined: dict[int, int] = {}

        def first_of(index: int) -> int:
            while (other := joined.setdefault(index, index)) != index:
                index = other
            return index

        for group in self.counts:
            for index, other in pairwise(_template_indexes([group])):
                joined[first_of(other)] = first_of(index)
        parts: dict[int, dict[ItemGroup, int]] = {}
        for group, count in self.counts.items():
            parts.setdefault(first_of(group.options[0].template_index), {})[group] = count
        return [self._component(counts) for counts in parts.values()]

    def _component(self, counts: dict[ItemGroup, int]) -> RelaxedComponent:
        templates = [self._context.templates[index] for index in _template_indexes(counts)]
        cells = len(counts) * sum(template.mask.bit_count() for template in templates)
        return RelaxedComponent(counts, cells, merges_offers=cells > self._settings.optimizer.bound_cells_sure)

    def arithmetic_bound(self) -> int:
        """Return a lower bound on the cost of new nodes in nano-dollars per hour, by arithmetic alone."""
        items = (OfferedItem(group.requests, count, self._offers(group)) for group, count in self.counts.items())
        return arithmetic_bound(items, self._settings.arithmetic_bound)

    def separate_cost(self) -> int:
        """Return the cost in nano-dollars per hour of the cheapest separate node for every pod."""
        prices = ((min((price for price, _ in self._offers(group)), default=0), n) for group, n in self.counts.items())
        return sum(price * count for price, count in prices)

    def load(self, claim: InFlightClaim, groups: Sequence[ItemGroup]) -> list[int]:
        """Return [item group], how many of its pods a claim holds; all pods of the claim must be among these."""
        pods = Counter(self.item_group(pod_group) for pod_group in claim.pod_groups)
        return [pods[group] for group in groups]

    def item_group(self, pod_group: PodGroup) -> ItemGroup:
        """Return the item group of such pods."""
        options = self._options(pod_group.signature, pod_group.steps)
        exclusive = (n for n in self._exclusive_groups(pod_group.steps) if n in self.hostname_capacity)
        return ItemGroup(pod_group.requests, options, hostname_requests=tuple((number, 1) for number in exclusive))

    def _offers(self, group: ItemGroup) -> list[Offer]:
        """Return every type that one pod of the group fits."""
        offers: list[Offer] = []
        for option in group.options:
            types = self._context.templates[option.template_index].types
            fitting = types.room.fitting(types.mask(option.reqs) & option.allowed, group.requests)
            offers += [
                (price, types.room.vectors[i]) for price, i in types.offerings.in_price_order(fitting, option.reqs)
            ]
        return offers


def _template_indexes(groups: Iterable[ItemGroup]) -> list[int]:
    """Return the NodePools that could launch a node for any of the item groups, by the indexes of their templates."""
    return sorted({option.template_index for group in groups for option in group.options})


def is_undercut(claim: InFlightClaim) -> bool:
    """Whether a node for each pod, with the requirements of the claim, would cost less, and nothing keeps the pods together."""
    types, price, apart = claim.template.types, claim.price, 0
    mask = types.mask(claim.reqs) & claim.template.mask
    # A few pods are usually enough: one alone costs much more than its share of a node.
    for pod_group in claim.pod_groups:
        alone = types.cheapest(mask, pod_group.requests, claim.reqs)
        apart += price if alone is None else alone
        if apart >= price:
            return False
    return not _stays_together(Counter(claim.pod_groups))


def _stays_together(pod_groups: Counter[PodGroup]) -> bool:
    """Whether a pod follows another along hostnames, even as a preference, or two of them use one volume."""
    attached = [attachment for group, count in pod_groups.items() for attachment in group.volumes.attachments * count]
    steps = (step for group in pod_groups for step in group.steps)
    follows = any(rule.kind == AFFINITY for step in steps for rule in step.host_rules)
    return follows or len(set(attached)) < len(attached)


def _exclusive_groups(steps: tuple[RelaxationStep, ...]) -> tuple[TopologyGroupId, ...]:
    """Return hostname groups that count such a pod and must have no other pod on its node, regardless of preferences."""
    rules = steps[-1].host_rules if steps else ()
    return tuple(sorted({rule.group for rule in rules if rule.kind == ANTI_AFFINITY and rule.selects_self}))


def _options(
    context: SchedulingContext, signature: PodSignature, steps: tuple[RelaxationStep, ...]
) -> tuple[LaunchOption, ...]:
    """Return every NodePool that such pods tolerate and whose nodes meet their requirements, once per alternative."""
    table, options = context.table, dict[LaunchOption, None]()
    tolerated = [context.open_templates(step) for step in steps]
    for parts in required_alternatives(signature.spec):
        alternative = table.conjunction(parts)
        for template in context.templates if alternative != IMPOSSIBLE else ():
            reqs = table.narrowed(template.offered, required=alternative)
            if reqs != IMPOSSIBLE and any(by_step[template.index] for by_step in tolerated):
                options[LaunchOption(template.index, reqs, template.mask)] = None
    return tuple(options)
