"""What any pod at least needs of a node: all that a lower bound may count on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain

from core.packing.arithmetic_bound import Offer, OfferedItem, arithmetic_bound
from core.packing.search_settings import SearchSettings
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.scheduler import Solution
from core.scheduling.optimization.items.item_groups import ItemGroup, LaunchOption
from core.scheduling.pods.pod_group import PodGroup, TopologyRule
from core.scheduling.pods.preferences import required_alternatives
from core.scheduling.primitives.requirement_table import IMPOSSIBLE
from core.scheduling.topology.topology_group import ANTI_AFFINITY


class RelaxedPods:
    """The pods of a plan's new nodes with most of their rules left out.

    Each keeps what it requires of a node itself, in every NodePool that it tolerates. Pods with anti-affinity to each other by
    hostname need a node each, which they may share with any others. Spreads are left out: how many of their pods may share a
    node depends on how many nodes there are.

    Attributes:
        counts: How many pods each item group has.
        hostname_capacity: Hostname groups of such anti-affinity → one, how many of their pods a node holds.
    """

    def __init__(self, context: SchedulingContext, solution: Solution, settings: SearchSettings) -> None:
        self._context = context
        self._settings = settings
        self._exclusive_groups_of: dict[int, tuple[int, ...]] = {}
        self._options_of: dict[int, tuple[LaunchOption, ...]] = {}
        pod_counts = Counter(chain.from_iterable(claim.pod_groups for claim in solution.claims))
        sizes: dict[int, int] = {}
        for pod_group, count in pod_counts.items():
            for number in self._exclusive_groups(pod_group):
                sizes[number] = sizes.get(number, 0) + count
        largest = sorted((n for n in sizes if sizes[n] > 1), key=lambda number: (-sizes[number], number))
        chosen = sorted(largest[: settings.optimizer.bound_hostname_groups_max])
        self.hostname_capacity = dict.fromkeys(chosen, 1)
        self.counts: dict[ItemGroup, int] = {}
        for pod_group, count in pod_counts.items():
            group = self._item_group(pod_group)
            self.counts[group] = self.counts.get(group, 0) + count

    @property
    def pairs_max(self) -> int:
        """At most how many pairs of item group and type `arithmetic_bound` looks at."""
        templates = self._context.templates
        options = (option for group in self.counts for option in group.options)
        return sum(templates[option.template_index].mask.bit_count() for option in options)

    def arithmetic_bound(self) -> int:
        """Nano-dollars per hour that no new nodes for these pods undercut, by arithmetic alone."""
        items = (OfferedItem(group.requests, count, self._offers(group)) for group, count in self.counts.items())
        return arithmetic_bound(items, self._settings.arithmetic_bound)

    def load(self, claim: InFlightClaim) -> list[int]:
        """[item group], how many pods of it a claim holds; all of them must be pods that these were made from."""
        held = Counter(self._item_group(pod_group) for pod_group in claim.pod_groups)
        return [held[group] for group in self.counts]

    def _item_group(self, pod_group: PodGroup) -> ItemGroup:
        signature = pod_group.signature.index
        options = self._options_of.get(signature)
        if options is None:
            options = self._options_of[signature] = tuple(dict.fromkeys(self._options(pod_group)))
        exclusive = (number for number in self._exclusive_groups(pod_group) if number in self.hostname_capacity)
        return ItemGroup(pod_group.requests, options, hostname_requests=tuple((number, 1) for number in exclusive))

    def _exclusive_groups(self, pod_group: PodGroup) -> tuple[int, ...]:
        """Hostname groups that count such a pod and of which it tolerates no other pod on its node, whatever its requests."""
        signature = pod_group.signature.index
        known = self._exclusive_groups_of.get(signature)
        if known is None:
            rules = pod_group.steps[-1].host_rules if pod_group.steps else ()
            exclusive = {rule.group for rule in rules if self._is_exclusive(rule)}
            known = self._exclusive_groups_of[signature] = tuple(sorted(exclusive))
        return known

    def _is_exclusive(self, rule: TopologyRule) -> bool:
        return rule.kind == ANTI_AFFINITY and rule.selects_self and self._context.topology.is_hard(rule.group)

    def _options(self, pod_group: PodGroup) -> Iterable[LaunchOption]:
        table = self._context.table
        tolerated = [self._context.open_templates(step) for step in pod_group.steps]
        for parts in required_alternatives(pod_group.signature.spec):
            alternative = table.conjunction(parts)
            for template in self._context.templates if alternative != IMPOSSIBLE else ():
                reqs = table.narrowed(template.offered, asked=alternative)
                if reqs != IMPOSSIBLE and any(by_step[template.index] for by_step in tolerated):
                    yield LaunchOption(template.index, reqs, template.mask)

    def _offers(self, group: ItemGroup) -> list[Offer]:
        """Everything that one pod of the group fits."""
        found: list[Offer] = []
        for option in group.options:
            types = self._context.templates[option.template_index].types
            fitting = types.room.survivors(types.mask(option.reqs) & option.allowed, group.requests)
            found += [
                (price, types.room.vectors[i]) for price, i in types.offerings.in_price_order(fitting, option.reqs)
            ]
        return found
