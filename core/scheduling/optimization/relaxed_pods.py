"""What any pod at least needs of a node: as much as a lower bound may count on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Final

from core.packing.arithmetic_bound import Offer, rough_bound
from core.scheduling.capacity.in_flight_claim import InFlight
from core.scheduling.context import Ground
from core.scheduling.greedy.scheduler import Solution
from core.scheduling.optimization.items.item_groups import Kind, Way
from core.scheduling.pods.pod_group import PodClass, Rule
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

    def __init__(self, ground: Ground, solution: Solution) -> None:
        self._ground = ground
        self._apart_of: dict[int, tuple[int, ...]] = {}
        classes = Counter(chain.from_iterable(claim.classes for claim in solution.claims))
        apart: dict[int, int] = {}
        for pod_class, count in classes.items():
            for number in self._keeps_apart(pod_class):
                apart[number] = apart.get(number, 0) + count
        largest = sorted((n for n in apart if apart[n] > 1), key=lambda number: (-apart[number], number))[:ROWS_MAX]
        self.rows = dict.fromkeys(sorted(largest), 1)
        self.counts: dict[Kind, int] = {}
        self._ways_of: dict[int, tuple[Way, ...]] = {}
        for pod_class, count in classes.items():
            kind = self._kind(pod_class)
            self.counts[kind] = self.counts.get(kind, 0) + count

    @property
    def offers(self) -> int:
        """At most how many pairs of kind and type `rough` looks at."""
        templates = self._ground.templates
        return sum(templates[way[0]].mask.bit_count() for kind in self.counts for way in kind.ways)

    def rough(self) -> int:
        """Nano-dollars per hour that no new nodes for these pods undercut, by arithmetic alone."""
        return rough_bound((kind.requests, count, self._offers(kind)) for kind, count in self.counts.items())

    def load(self, claim: InFlight) -> list[int]:
        """[kind], how many pods of it a claim holds; it may hold none but those that the pods were taken from."""
        held = Counter(self._kind(pod_class) for pod_class in claim.classes)
        return [held[kind] for kind in self.counts]

    def _kind(self, pod_class: PodClass) -> Kind:
        shape = pod_class.shape.index
        ways = self._ways_of.get(shape)
        if ways is None:
            ways = self._ways_of[shape] = tuple(dict.fromkeys(self._ways(pod_class)))
        rows = tuple((number, 1) for number in self._keeps_apart(pod_class) if number in self.rows)
        return Kind(pod_class.requests, ways, rows=rows)

    def _keeps_apart(self, pod_class: PodClass) -> tuple[int, ...]:
        """Groups of pods of which such a pod is one and of which it bears no other one on its node; whatever its size."""
        shape = pod_class.shape.index
        known = self._apart_of.get(shape)
        if known is None:
            last = pod_class.stages[-1].host_rules if pod_class.stages else ()
            known = self._apart_of[shape] = tuple(sorted({rule.group for rule in last if self._is_exclusive(rule)}))
        return known

    def _is_exclusive(self, rule: Rule) -> bool:
        return rule.kind == ANTI_AFFINITY and rule.selects_self and self._ground.topology.is_hard(rule.group)

    def _ways(self, pod_class: PodClass) -> Iterable[Way]:
        table = self._ground.table
        tolerated = [self._ground.open_templates(stage) for stage in pod_class.stages]
        for parts in required_alternatives(pod_class.shape.spec):
            ask = table.conjunction(parts)
            for template in self._ground.templates if ask != IMPOSSIBLE else ():
                reqs = table.narrowed(template.offered, ask)
                if reqs != IMPOSSIBLE and any(by_stage[template.index] for by_stage in tolerated):
                    yield template.index, reqs, template.mask

    def _offers(self, kind: Kind) -> list[Offer]:
        """Everything that one pod of the kind fits."""
        found: list[Offer] = []
        for position, reqs, allowed in kind.ways:
            types = self._ground.templates[position].types
            fitting = types.survivors(types.mask(reqs) & allowed, kind.requests)
            found += [(price, types.room[i]) for price, i in types.in_price_order(fitting, reqs)]
        return found
