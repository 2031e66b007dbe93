"""Takes claims to pieces: which of their pods may be moved alone, which only together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from core import labels
from core.model.pod import Pod
from core.model.values.requirements import Requirement
from core.scheduling.capacity.in_flight_claim import InFlight
from core.scheduling.capacity.nodeclaim_template import Template
from core.scheduling.context import Ground
from core.scheduling.optimization.items.hostname_caps import HostRules, merged
from core.scheduling.optimization.items.packing_item import Party
from core.scheduling.pods.pod_group import PodClass, Stage
from core.scheduling.pods.volumes import NO_VOLUMES
from core.scheduling.primitives.requirement_table import IMPOSSIBLE
from core.scheduling.primitives.resource_vector import Vector, plus

_UNRESERVED: Final = Requirement(labels.CAPACITY_TYPE, True, (labels.RESERVED,))
"""Places in reservations are for the claims that the greedy planner gave them to."""

Bundle = tuple[Party, list[Pod]]


@dataclass(frozen=True, slots=True)
class Market:
    """Claims between which pods may be moved: of one NodePool, with the same labels of its own.

    Attributes:
        offered: Number of the requirements that a new node of the market starts with.
    """

    template: Template
    offered: int


class Parties:
    """The pods of one plan as parties."""

    def __init__(self, ground: Ground, rules: HostRules) -> None:
        self._ground = ground
        self._rules = rules
        self._alone: dict[tuple[int, int, int], Party | None] = {}
        self._doubts: dict[tuple[int, int, int], bool] = {}

    def market(self, claim: InFlight) -> Market:
        """The market that a claim belongs to."""
        table, template = self._ground.table, claim.template
        offered = table[template.offered]
        own = [(key, held) for key, held in table[claim.reqs].items() if key not in table.well_known]
        narrowed = [held for key, held in own if held != offered.get(key)]
        if template.types.reservations():
            narrowed.append(_UNRESERVED)
        base = table.narrowed(template.offered, table.conjunction(narrowed)) if narrowed else template.offered
        return Market(template, base)

    def of(self, claim: InFlight, market: Market) -> list[Bundle]:
        """The claim's pods as parties, those that stay together first.

        A pod that must have company on its node is moved together with all of it, and stays if any of it stays.
        """
        classes = [self._ground.classes.of(pod) for pod in claim.pods]
        followed = frozenset[int]().union(*(self._rules.followed(pod_class) for pod_class in classes))
        stay: list[Pod] = []
        tied: list[tuple[Party | None, Pod]] = []
        alone: list[Bundle] = []
        for pod, pod_class in zip(claim.pods, classes, strict=True):
            party = self._party(claim, market, pod_class)
            if followed and not followed.isdisjoint((*pod_class.shape.selected_by, *self._rules.followed(pod_class))):
                tied.append((party, pod))
            elif party is None:
                stay.append(pod)
            else:
                alone.append((party, [pod]))
        joined = self._joined(market, [party for party, _ in tied]) if tied else None
        followers = [pod for _, pod in tied]
        if joined is None:
            stay += followers
        core = [(self._core(claim, stay), stay)] if stay else []
        return [*core, *([(joined, followers)] if joined else []), *alone]

    def _party(self, claim: InFlight, market: Market, pod_class: PodClass) -> Party | None:
        """A pod of the class as it may be moved by itself; None where it stays with the claim's other such pods."""
        if len(pod_class.stages) > 1:
            return self._movable(claim, market, pod_class)
        question = (pod_class.index, claim.reqs, market.offered)
        if question not in self._alone:
            self._alone[question] = self._movable(claim, market, pod_class)
        return self._alone[question]

    def _movable(self, claim: InFlight, market: Market, pod_class: PodClass) -> Party | None:
        if pod_class.ports or pod_class.volumes != NO_VOLUMES:
            return None
        stage = self._stage(claim, pod_class)
        reqs = self._requirements(claim, market, stage) if stage else IMPOSSIBLE
        if stage is None or reqs == IMPOSSIBLE or self._is_doubtful(pod_class, market.template, reqs):
            return None
        adds, caps = self._rules.adds(pod_class), self._rules.caps(pod_class, stage)
        return Party(pod_class.requests, reqs, market.template.size_for(pod_class.requests), adds, caps)

    def _stage(self, claim: InFlight, pod_class: PodClass) -> Stage | None:
        """The first step of the pod's ladder that its claim fulfils, so that no preference is lost that was met."""
        table = self._ground.table
        for stage in pod_class.stages:
            if len(stage.asks) != 1 or not self._ground.open_templates(stage)[claim.template.index]:
                continue
            is_met = table.narrowed(claim.reqs, stage.asks[0]) == claim.reqs
            is_pinned = all(table.single(claim.reqs, key) is not None for key in stage.keys)
            if is_met and is_pinned and (stage is pod_class.stages[-1] or self._keeps(claim, pod_class, stage)):
                return stage
        return None

    def _keeps(self, claim: InFlight, pod_class: PodClass, stage: Stage) -> bool:
        """Whether the claim's own pods keep the hostname rules of a step."""
        caps = self._rules.caps(pod_class, stage)
        numbers = (number for pod in claim.pods for number, _ in self._rules.adds(self._ground.classes.of(pod)))
        counted = Counter(numbers) if caps else Counter[int]()
        return all(counted[number] <= cap for number, cap in caps)

    def _requirements(self, claim: InFlight, market: Market, stage: Stage) -> int:
        """What the pod asks for, with the claim's values of the keys that rules about it speak of."""
        table = self._ground.table
        reqs = table.narrowed(market.offered, stage.asks[0])
        for key in stage.keys:
            value = table.single(claim.reqs, key)
            if reqs != IMPOSSIBLE and value is not None and table.single(reqs, key) != value:
                reqs = table.pinned(reqs, key, value)
        return reqs

    def _is_doubtful(self, pod_class: PodClass, template: Template, reqs: int) -> bool:
        """Whether the pod would count for some rule on one node that it might be moved to, and not on another."""
        shape, topology = pod_class.shape, self._ground.topology
        question = (shape.index, template.index, reqs)
        known = self._doubts.get(question)
        if known is None:
            numbers = (n for n in (*shape.selected_by, *shape.avoids) if not topology.groups[n].is_hostname)
            known = self._doubts[question] = any(
                topology.counts_claim(n, reqs, template) and topology.is_doubtful(n, reqs, template) for n in numbers
            )
        return known

    def _joined(self, market: Market, members: Sequence[Party | None]) -> Party | None:
        """Several parties as one, None where one of them cannot be moved or no node would do for all."""
        parties = [party for party in members if party is not None]
        if len(parties) < len(members):
            return None
        reqs = market.offered
        for party in parties:
            reqs = self._ground.table.narrowed(reqs, party.reqs) if reqs != IMPOSSIBLE else reqs
        if reqs == IMPOSSIBLE:
            return None
        requests = self._sum(party.requests for party in parties)
        return Party(requests, reqs, market.template.size_for(requests), *merged((p.adds, p.caps) for p in parties))

    def _core(self, claim: InFlight, pods: Sequence[Pod]) -> Party:
        """Pods that stay together, on a node held to all that theirs is held to."""
        classes = [self._ground.classes.of(pod) for pod in pods]
        requests = self._sum(pod_class.requests for pod_class in classes)
        rules = ((self._rules.adds(c), self._rules.caps(c, c.stages[-1])) for c in classes)
        return Party(requests, claim.reqs, claim.allowed, *merged(rules), seats=1)

    def _sum(self, vectors: Iterable[Vector]) -> Vector:
        total = self._ground.axis.zero
        for vector in vectors:
            total = plus(total, vector)
        return total
