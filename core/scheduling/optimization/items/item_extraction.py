"""Takes claims to pieces: which of their pods may be moved alone, which only together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from core import labels
from core.model.pod import Pod
from core.model.values.requirements import Requirement
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.context import SchedulingContext
from core.scheduling.optimization.items.hostname_caps import HostRules, merged
from core.scheduling.optimization.items.packing_item import Party
from core.scheduling.pods.pod_group import PodGroup, RelaxationStep
from core.scheduling.primitives.handles import RequirementId
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

    template: NodeClaimTemplate
    offered: RequirementId


class Parties:
    """The pods of one plan as parties."""

    def __init__(self, context: SchedulingContext, rules: HostRules) -> None:
        self._context = context
        self._rules = rules
        self._alone: dict[tuple[int, int, int], Party | None] = {}
        self._doubts: dict[tuple[int, int, int], bool] = {}

    def market(self, claim: InFlightClaim) -> Market:
        """The market that a claim belongs to."""
        table, template = self._context.table, claim.template
        offered = table[template.offered]
        own = [(key, held) for key, held in table[claim.reqs].items() if key not in table.well_known]
        narrowed = [held for key, held in own if held != offered.get(key)]
        if template.types.offerings.reservations:
            narrowed.append(_UNRESERVED)
        base = table.narrowed(template.offered, asked=table.conjunction(narrowed)) if narrowed else template.offered
        return Market(template, base)

    def of(self, claim: InFlightClaim, market: Market) -> list[Bundle]:
        """The claim's pods as parties, those that stay together first.

        A pod that must have company on its node is moved together with all of it, and stays if any of it stays.
        """
        pod_groups = [self._context.pod_groups.of(pod) for pod in claim.pods]
        followed = frozenset[int]().union(*(self._rules.followed(pod_group) for pod_group in pod_groups))
        stay: list[Pod] = []
        tied: list[tuple[Party | None, Pod]] = []
        alone: list[Bundle] = []
        for pod, pod_group in zip(claim.pods, pod_groups, strict=True):
            party = self._party(claim, market, pod_group)
            if followed and not followed.isdisjoint(
                (*pod_group.signature.selected_by, *self._rules.followed(pod_group))
            ):
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

    def _party(self, claim: InFlightClaim, market: Market, pod_group: PodGroup) -> Party | None:
        """A pod of the class as it may be moved by itself; None where it stays with the claim's other such pods."""
        if len(pod_group.steps) > 1:
            return self._movable(claim, market, pod_group)
        question = (pod_group.index, claim.reqs, market.offered)
        if question not in self._alone:
            self._alone[question] = self._movable(claim, market, pod_group)
        return self._alone[question]

    def _movable(self, claim: InFlightClaim, market: Market, pod_group: PodGroup) -> Party | None:
        if not all(constraint.may_move(pod_group) for constraint in self._context.constraints):
            return None
        step = self._stage(claim, pod_group)
        reqs = self._requirements(claim, market, step) if step else IMPOSSIBLE
        if step is None or reqs == IMPOSSIBLE or self._is_doubtful(pod_group, market.template, reqs):
            return None
        adds, caps = self._rules.adds(pod_group), self._rules.caps(pod_group, step)
        return Party(pod_group.requests, reqs, market.template.size_for(pod_group.requests), adds, caps)

    def _stage(self, claim: InFlightClaim, pod_group: PodGroup) -> RelaxationStep | None:
        """The first step of the pod's ladder that its claim fulfils, so that no preference is lost that was met."""
        table = self._context.table
        for step in pod_group.steps:
            if len(step.alternatives) != 1 or not self._context.open_templates(step)[claim.template.index]:
                continue
            is_met = table.narrowed(claim.reqs, asked=step.alternatives[0]) == claim.reqs
            is_pinned = all(table.single(claim.reqs, key) is not None for key in step.keys)
            if is_met and is_pinned and (step is pod_group.steps[-1] or self._keeps(claim, pod_group, step)):
                return step
        return None

    def _keeps(self, claim: InFlightClaim, pod_group: PodGroup, step: RelaxationStep) -> bool:
        """Whether the claim's own pods keep the hostname rules of a step."""
        caps = self._rules.caps(pod_group, step)
        numbers = (number for pod in claim.pods for number, _ in self._rules.adds(self._context.pod_groups.of(pod)))
        counted = Counter(numbers) if caps else Counter[int]()
        return all(counted[number] <= cap for number, cap in caps)

    def _requirements(self, claim: InFlightClaim, market: Market, step: RelaxationStep) -> RequirementId:
        """What the pod asks for, with the claim's values of the keys that rules about it speak of."""
        table = self._context.table
        reqs = table.narrowed(market.offered, asked=step.alternatives[0])
        for key in step.keys:
            value = table.single(claim.reqs, key)
            if reqs != IMPOSSIBLE and value is not None and table.single(reqs, key) != value:
                reqs = table.with_value(reqs, key, value)
        return reqs

    def _is_doubtful(self, pod_group: PodGroup, template: NodeClaimTemplate, reqs: RequirementId) -> bool:
        """Whether the pod would count for some rule on one node that it might be moved to, and not on another."""
        signature, topology = pod_group.signature, self._context.topology
        question = (signature.index, template.index, reqs)
        known = self._doubts.get(question)
        if known is None:
            numbers = (n for n in (*signature.selected_by, *signature.avoids) if not topology.groups[n].is_hostname)
            known = self._doubts[question] = any(
                topology.new_nodes.counts(n, reqs, template) and topology.new_nodes.is_doubtful(n, reqs, template)
                for n in numbers
            )
        return known

    def _joined(self, market: Market, members: Sequence[Party | None]) -> Party | None:
        """Several parties as one, None where one of them cannot be moved or no node would do for all."""
        parties = [party for party in members if party is not None]
        if len(parties) < len(members):
            return None
        reqs = market.offered
        for party in parties:
            reqs = self._context.table.narrowed(reqs, asked=party.reqs) if reqs != IMPOSSIBLE else reqs
        if reqs == IMPOSSIBLE:
            return None
        requests = self._sum(party.requests for party in parties)
        return Party(requests, reqs, market.template.size_for(requests), *merged((p.adds, p.caps) for p in parties))

    def _core(self, claim: InFlightClaim, pods: Sequence[Pod]) -> Party:
        """Pods that stay together, on a node held to all that theirs is held to."""
        pod_groups = [self._context.pod_groups.of(pod) for pod in pods]
        requests = self._sum(pod_group.requests for pod_group in pod_groups)
        rules = ((self._rules.adds(c), self._rules.caps(c, c.steps[-1])) for c in pod_groups)
        return Party(requests, claim.reqs, claim.allowed, *merged(rules), seats=1)

    def _sum(self, vectors: Iterable[Vector]) -> Vector:
        total = self._context.axis.zero
        for vector in vectors:
            total = plus(total, vector)
        return total
