"""What any pod at least needs of a node: as much as a lower bound may count on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Final

from core.packing.arithmetic_bound import Offer, rough_bound
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.scheduler import Solution
from core.scheduling.optimization.items.item_groups import Kind, Way
from core.scheduling.pods.pod_group import PodGroup, TopologyRule
from core.scheduling.pods.preferences import required_alternatives
from core.scheduling.primitives.requirement_table import IMPOSSIBLE
from core.scheduling.topology.topology_group import ANTI_AFFINITY

ROWS_MAX: Final = 4
"""Most groups of pods that keep away from each other of which the bound takes notice: the largest ones."""


class Relaxed:
    """The pods of a plan's new nodes with most of their rules left out.

    Each keeps what it requires of a node itself, in every NodePool that it tolerates. Pods that all keep away from each other
    by hostname need a node each, on which they may be together with any others. Spreads are left out: how many of their pods
    share a node depends on how many nodes there are.

    Attributes:
        counts: How many pods there are of each kind.
        rows: Groups of pods that keep away from each other → how many a node has room for.
    """

    def __init__(self, context: SchedulingContext, solution: Solution) -> None:
        self._context = context
        self._apart_of: dict[int, tuple[int, ...]] = {}
        pod_groups = Counter(chain.from_iterable(claim.pod_groups for claim in solution.claims))
        apart: dict[int, int] = {}
        for pod_group, count in pod_groups.items():
            for number in self._keeps_apart(pod_group):
                apart[number] = apart.get(number, 0) + count
        largest = sorted((n for n in apart if apart[n] > 1), key=lambda number: (-apart[number], number))[:ROWS_MAX]
        self.rows = dict.fromkeys(sorted(largest), 1)
        self.counts: dict[Kind, int] = {}
        self._ways_of: dict[int, tuple[Way, ...]] = {}
        for pod_group, count in pod_groups.items():
            kind = self._kind(pod_group)
            self.counts[kind] = self.counts.get(kind, 0) + count

    @property
    def offers(self) -> int:
        """At most how many pairs of kind and type `rough` looks at."""
        templates = self._context.templates
        return sum(templates[way[0]].mask.bit_count() for kind in self.counts for way in kind.ways)

    def rough(self) -> int:
        """Nano-dollars per hour that no new nodes for these pods undercut, by arithmetic alone."""
        return rough_bound((kind.requests, count, self._offers(kind)) for kind, count in self.counts.items())

    def load(self, claim: InFlightClaim) -> list[int]:
        """[kind], how many pods of it a claim holds; it may hold none but those that the pods were taken from."""
        held = Counter(self._kind(pod_group) for pod_group in claim.pod_groups)
        return [held[kind] for kind in self.counts]

    def _kind(self, pod_group: PodGroup) -> Kind:
        signature = pod_group.signature.index
        ways = self._ways_of.get(signature)
        if ways is None:
            ways = self._ways_of[signature] = tuple(dict.fromkeys(self._ways(pod_group)))
        rows = tuple((number, 1) for number in self._keeps_apart(pod_group) if number in self.rows)
        return Kind(pod_group.requests, ways, rows=rows)

    def _keeps_apart(self, pod_group: PodGroup) -> tuple[int, ...]:
        """Groups of pods of which such a pod is one and of which it bears no other one on its node; whatever its size."""
        signature = pod_group.signature.index
        known = self._apart_of.get(signature)
        if known is None:
            last = pod_group.steps[-1].host_rules if pod_group.steps else ()
            known = self._apart_of[signature] = tuple(sorted({rule.group for rule in last if self._is_exclusive(rule)}))
        return known

    def _is_exclusive(self, rule: TopologyRule) -> bool:
        return rule.kind == ANTI_AFFINITY and rule.selects_self and self._context.topology.is_hard(rule.group)

    def _ways(self, pod_group: PodGroup) -> Iterable[Way]:
        table = self._context.table
        tolerated = [self._context.open_templates(step) for step in pod_group.steps]
        for parts in required_alternatives(pod_group.signature.spec):
            alternative = table.conjunction(parts)
            for template in self._context.templates if alternative != IMPOSSIBLE else ():
                reqs = table.narrowed(template.offered, asked=alternative)
                if reqs != IMPOSSIBLE and any(by_stage[template.index] for by_stage in tolerated):
                    yield template.index, reqs, template.mask

    def _offers(self, kind: Kind) -> list[Offer]:
        """Everything that one pod of the kind fits."""
        found: list[Offer] = []
        for position, reqs, allowed in kind.ways:
            types = self._context.templates[position].types
            fitting = types.room.survivors(types.mask(reqs) & allowed, kind.requests)
            found += [(price, types.room.vectors[i]) for price, i in types.offerings.in_price_order(fitting, reqs)]
        return found
