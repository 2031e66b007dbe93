"""One plan: every waiting pod tried on what exists, on what the plan already launches, then on something new."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from core.model.pod import Pod
from core.model.values import quantity
from core.scheduling.capacity.claim_profile import ClaimProfiles
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.node_pool_limits import dearest
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.existing_node_search import ExistingNodeSearch
from core.scheduling.greedy.new_claims import NewClaims
from core.scheduling.greedy.open_claim_search import OpenClaimSearch
from core.scheduling.greedy.plan_state import PlanState
from core.scheduling.greedy.plan_usage import PlanUsage
from core.scheduling.greedy.reservations import Reservations
from core.scheduling.instance_types.min_values import unmet
from core.scheduling.pods.pending_pods import is_virtual
from core.scheduling.pods.pod_group import PendingGroup, RelaxationStep
from core.scheduling.primitives.resource_vector import Vector
from core.scheduling.topology.domain_choice import DomainChoice
from core.scheduling.topology.domain_counts import DomainCounts

_NEVER_BORN = datetime.max.replace(tzinfo=UTC)


@dataclass(eq=False, slots=True)
class Solution:
    """Where everything went.

    Attributes:
        bound: (pod, position of the node) for pods that an existing node takes.
        unplaced: Batches with pods left over.
        accounts: What all of that used up.
        before_buffers: What was used up before the virtual pods of capacity buffers, where real ones were left then.
    """

    claims: list[InFlightClaim]
    bound: list[tuple[Pod, int]]
    unplaced: list[PendingGroup]
    usage: PlanUsage
    before_buffers: PlanUsage | None = None

    @property
    def refused_by(self) -> PlanUsage:
        """What pods without a place met: spare room came after them, and they can neither join nor blame it."""
        return self.before_buffers or self.usage


def queue_of(context: SchedulingContext, pods: Iterable[tuple[Iterable[Pod], bool]]) -> list[PendingGroup]:
    """Pods in the order in which they get a place: CPU, then memory, the most first; then age; alike pods together.

    Virtual pods of capacity buffers come last: spare room must not take what a NodePool's limits leave from a pod that waits.

    Args:
        context: The snapshot.
        pods: Some with whether they must let resting nodes rest.
    """
    grouped: dict[tuple[int, bool, bool], PendingGroup] = {}
    for some, avoids in pods:
        for pod in some:
            pod_group = context.pod_groups.of(pod)
            kind = (pod_group.index, avoids, bool(pod.annotations) and is_virtual(pod))
            pending_group = grouped.get(kind)
            if pending_group is None:
                pending_group = grouped[kind] = PendingGroup(pod_group, [], avoids)
            pending_group.pods.append(pod)
    for pending_group in grouped.values():
        if len(pending_group.pods) > 1:
            pending_group.pods.sort(key=_age)
    return sorted(grouped.values(), key=_turn)


@dataclass(eq=False, slots=True)
class GreedyScheduler:
    """One run of the greedy planner.

    Attributes:
        leaving: Positions of nodes that offer nothing.
        vanished: Those of them that this plan takes away: their pods count nowhere, and the limits are free of them.
        first: Classes of pods that go before the others.
    """

    context: SchedulingContext
    pending_groups: list[PendingGroup]
    leaving: frozenset[int]
    vanished: frozenset[int]
    first: frozenset[int] = frozenset()
    usage: PlanUsage = field(init=False)
    nodes: ExistingNodeSearch = field(init=False)
    claims: OpenClaimSearch = field(init=False)
    new: NewClaims = field(init=False)
    bound: list[tuple[Pod, int]] = field(default_factory=list)
    unplaceable: set[tuple[int, int, bool]] = field(default_factory=set)

    def __post_init__(self) -> None:
        context = self.context
        domain_counts = DomainCounts(context.topology, sorted(self.vanished))
        limits = context.remaining_limits(sorted(self.vanished))
        self.usage = PlanUsage(domain_counts, limits, Reservations(context.templates, context.table))
        self.nodes = ExistingNodeSearch(context, domain_counts, self.leaving)
        state = PlanState(
            context, self.usage, DomainChoice(context.topology, domain_counts, self.pending_groups), ClaimProfiles()
        )
        self.new, self.claims = NewClaims(state), OpenClaimSearch(state)

    def run(self) -> Solution:
        """Place all that can be placed."""
        queue = [pending_group for pending_group in self.pending_groups if not pending_group.pod_group.reason]
        spare = [pending_group for pending_group in queue if is_virtual(pending_group.pods[0])]
        real = [pending_group for pending_group in queue if pending_group not in spare] if spare else queue
        leading = (
            [pending_group for pending_group in real if pending_group.pod_group.index in self.first]
            if self.first
            else []
        )
        if leading:
            self._rounds(leading, _least_from(queue)[0])
        later = _least_from(spare)[0] if spare else None
        self._settle([pending_group for pending_group in real if pending_group.waiting] if leading else real, later)
        before = self.usage.copy() if spare and any(pending_group.waiting for pending_group in real) else None
        self._settle(spare)
        unplaced = [pending_group for pending_group in self.pending_groups if pending_group.waiting]
        return Solution(self.claims.claims, self.bound, unplaced, self.usage, before)

    def _settle(self, queue: list[PendingGroup], least: Vector | None = None) -> None:
        left = self._rounds(queue, least)
        while left and (self._squeeze() or self.claims.settle()):
            left = self._rounds(left, least)

    def _rounds(self, queue: list[PendingGroup], least: Vector | None = None) -> list[PendingGroup]:
        """Go through the queue until a whole round places nobody; each round places one pod at least, so they end.

        A pod that fails may fit after others are placed: next to those that it must be near, or level with them.

        Args:
            queue: Who waits.
            least: The least that anyone requests who comes after the queue.
        """
        while queue:
            before = sum(pending_group.waiting for pending_group in queue)
            left: list[PendingGroup] = []
            least_left = least
            for pending_group, least_after in zip(queue, _least_from(queue), strict=True):
                self._place(pending_group, _both(least_after, least_left))
                if pending_group.waiting:
                    left.append(pending_group)
                    least_left = _both(pending_group.pod_group.requests, least_left)
            if sum(pending_group.waiting for pending_group in left) == before:
                return left
            queue = left
        return []

    def _place(self, pending_group: PendingGroup, smallest: Vector) -> None:
        """Give the pods of a batch their places, up to the first that finds none: the others are like it."""
        for pod in pending_group.pods[pending_group.placed :]:
            for step in pending_group.pod_group.steps:
                if self._try(pod, pending_group, step, smallest):
                    break
            else:
                return
            pending_group.placed += 1

    def _try(self, pod: Pod, pending_group: PendingGroup, step: RelaxationStep, smallest: Vector) -> bool:
        """Place a pod at one step of its ladder."""
        key = (pending_group.pod_group.index, step.number, pending_group.avoids_resting)
        if key in self.unplaceable:
            return False
        position = self.nodes.find(pending_group, step)
        if position is not None:
            self.nodes.put(position, pending_group.pod_group)
            self.bound.append((pod, position))
            return True
        pod_group = pending_group.pod_group
        placement = self.claims.find(pod_group, step, smallest)
        placement = placement or self.new.open(len(self.claims.claims), pod_group, step)
        if placement is not None:
            self.claims.put(placement, pod, pod_group)
            return True
        if step.is_monotone:
            self.unplaceable.add(key)
        return False

    def _squeeze(self) -> bool:
        """Where limits kept pods out: hold the claims of those pools to small types, and say whether that made room.

        A claim is charged its largest type until it is launched. Choice is worth less than a place for every pod.
        """
        made_room = False
        for claim in self.claims.claims:
            if claim.template.index in self.new.limited:
                made_room |= self._hold_to_cheapest(claim)
        if made_room:
            self.new.forget()
            self.unplaceable.clear()
        return made_room

    def _hold_to_cheapest(self, claim: InFlightClaim) -> bool:
        types, room = claim.template.types, self.usage.limits[claim.template.index]
        left = types.survivors(types.mask(claim.reqs) & claim.allowed, claim.used)
        small = left
        for name in room.left:
            if name != quantity.NODES:
                cheapest = types.types[types.in_price_order(left, claim.reqs)[0][1]]
                small &= types.capacities(name).at_most(cheapest.capacity.get(name, 0))
        if unmet(types, small, claim.min_values):
            small = left
        if small == claim.charged:
            return False
        freed = any(dearest(types, claim.charged, name) > dearest(types, small, name) for name in room.left)
        room.refund(types, claim.charged)
        room.charge(types, small)
        claim.charged = small
        self.claims.hold(claim, small)
        return freed


def _turn(pending_group: PendingGroup) -> tuple[object, ...]:
    first = pending_group.pods[0]
    return (is_virtual(first), *_size(first), *_age(first))


def _size(pod: Pod) -> tuple[int, int]:
    return (-pod.spec.requests.get("cpu", 0), -pod.spec.requests.get("memory", 0))


def _age(pod: Pod) -> tuple[datetime, str, str]:
    return (pod.created_at or _NEVER_BORN, pod.uid, pod.key)


def _least_from(queue: list[PendingGroup]) -> list[Vector]:
    """For each place in the queue, the least that anyone from there on requests."""
    found: list[Vector] = []
    for pending_group in reversed(queue):
        found.append(_both(pending_group.pod_group.requests, found[-1] if found else None))
    return found[::-1]


def _both(one: Vector, other: Vector | None) -> Vector:
    return one if other is None else tuple(map(min, one, other))
