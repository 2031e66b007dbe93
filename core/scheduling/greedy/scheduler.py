"""One plan: every waiting pod tried on what exists, on what the plan already launches, then on something new."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from core.model.pod import Pod
from core.model.values import quantity
from core.scheduling.capacity.claim_profile import Looks
from core.scheduling.capacity.in_flight_claim import InFlight
from core.scheduling.capacity.node_pool_limits import dearest
from core.scheduling.context import Ground
from core.scheduling.greedy.existing_node_search import NodeSearch
from core.scheduling.greedy.new_claims import NewClaims
from core.scheduling.greedy.open_claim_search import ClaimSearch
from core.scheduling.greedy.plan_state import Books
from core.scheduling.greedy.plan_usage import Accounts
from core.scheduling.greedy.reservations import Reservations
from core.scheduling.instance_types.min_values import unmet
from core.scheduling.pods.pending_pods import is_virtual
from core.scheduling.pods.pod_group import Batch, Stage
from core.scheduling.primitives.resource_vector import Vector
from core.scheduling.topology.domain_choice import Pinning
from core.scheduling.topology.domain_counts import Tally

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

    claims: list[InFlight]
    bound: list[tuple[Pod, int]]
    unplaced: list[Batch]
    accounts: Accounts
    before_buffers: Accounts | None = None

    @property
    def refused_by(self) -> Accounts:
        """What pods without a place met: spare room came after them, and they can neither join nor blame it."""
        return self.before_buffers or self.accounts


def batches_of(ground: Ground, pods: Iterable[tuple[Iterable[Pod], bool]]) -> list[Batch]:
    """Pods in the order in which they get a place: CPU, then memory, the most first; then age; alike pods together.

    Virtual pods of capacity buffers come last: spare room must not take what a NodePool's limits leave from a pod that waits.

    Args:
        ground: The snapshot.
        pods: Some with whether they must let resting nodes rest.
    """
    grouped: dict[tuple[int, bool, bool], Batch] = {}
    for some, avoids in pods:
        for pod in some:
            pod_class = ground.classes.of(pod)
            kind = (pod_class.index, avoids, bool(pod.annotations) and is_virtual(pod))
            batch = grouped.get(kind)
            if batch is None:
                batch = grouped[kind] = Batch(pod_class, [], avoids)
            batch.pods.append(pod)
    for batch in grouped.values():
        if len(batch.pods) > 1:
            batch.pods.sort(key=_age)
    return sorted(grouped.values(), key=_turn)


@dataclass(eq=False, slots=True)
class Solve:
    """One run of the greedy planner.

    Attributes:
        leaving: Positions of nodes that offer nothing.
        vanished: Those of them that this plan takes away: their pods count nowhere, and the limits are free of them.
        first: Classes of pods that go before the others.
    """

    ground: Ground
    batches: list[Batch]
    leaving: frozenset[int]
    vanished: frozenset[int]
    first: frozenset[int] = frozenset()
    accounts: Accounts = field(init=False)
    nodes: NodeSearch = field(init=False)
    claims: ClaimSearch = field(init=False)
    new: NewClaims = field(init=False)
    bound: list[tuple[Pod, int]] = field(default_factory=list)
    hopeless: set[tuple[int, int, bool]] = field(default_factory=set)

    def __post_init__(self) -> None:
        ground = self.ground
        tally = Tally(ground.topology, sorted(self.vanished))
        rooms = ground.limit_rooms(sorted(self.vanished))
        self.accounts = Accounts(tally, rooms, Reservations(ground.templates, ground.table))
        self.nodes = NodeSearch(ground, tally, self.leaving)
        books = Books(ground, self.accounts, Pinning(ground.topology, tally, self.batches), Looks())
        self.new, self.claims = NewClaims(books), ClaimSearch(books)

    def run(self) -> Solution:
        """Place all that can be placed."""
        queue = [batch for batch in self.batches if not batch.pod_class.reason]
        spare = [batch for batch in queue if is_virtual(batch.pods[0])]
        real = [batch for batch in queue if batch not in spare] if spare else queue
        leading = [batch for batch in real if batch.pod_class.index in self.first] if self.first else []
        if leading:
            self._rounds(leading, _least_from(queue)[0])
        later = _least_from(spare)[0] if spare else None
        self._settle([batch for batch in real if batch.waiting] if leading else real, later)
        before = self.accounts.copy() if spare and any(batch.waiting for batch in real) else None
        self._settle(spare)
        unplaced = [batch for batch in self.batches if batch.waiting]
        return Solution(self.claims.claims, self.bound, unplaced, self.accounts, before)

    def _settle(self, queue: list[Batch], least: Vector | None = None) -> None:
        left = self._rounds(queue, least)
        while left and (self._squeeze() or self.claims.settle()):
            left = self._rounds(left, least)

    def _rounds(self, queue: list[Batch], least: Vector | None = None) -> list[Batch]:
        """Go through the queue until a whole round places nobody; each round places one pod at least, so they end.

        A pod that fails may fit after others are placed: next to those that it must be near, or level with them.

        Args:
            queue: Who waits.
            least: The least that anyone requests who comes after the queue.
        """
        while queue:
            before = sum(batch.waiting for batch in queue)
            left: list[Batch] = []
            least_left = least
            for batch, least_after in zip(queue, _least_from(queue), strict=True):
                self._place(batch, _both(least_after, least_left))
                if batch.waiting:
                    left.append(batch)
                    least_left = _both(batch.pod_class.requests, least_left)
            if sum(batch.waiting for batch in left) == before:
                return left
            queue = left
        return []

    def _place(self, batch: Batch, smallest: Vector) -> None:
        """Give the pods of a batch their places, up to the first that finds none: the others are like it."""
        for pod in batch.pods[batch.placed :]:
            for stage in batch.pod_class.stages:
                if self._try(pod, batch, stage, smallest):
                    break
            else:
                return
            batch.placed += 1

    def _try(self, pod: Pod, batch: Batch, stage: Stage, smallest: Vector) -> bool:
        """Place a pod at one step of its ladder."""
        key = (batch.pod_class.index, stage.number, batch.avoids_resting)
        if key in self.hopeless:
            return False
        position = self.nodes.find(batch, stage)
        if position is not None:
            self.nodes.put(position, batch.pod_class)
            self.bound.append((pod, position))
            return True
        pod_class = batch.pod_class
        fit = self.claims.find(pod_class, stage, smallest)
        fit = fit or self.new.open(len(self.claims.claims), pod_class, stage)
        if fit is not None:
            self.claims.put(fit, pod, pod_class)
            return True
        if stage.is_monotone:
            self.hopeless.add(key)
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
            self.hopeless.clear()
        return made_room

    def _hold_to_cheapest(self, claim: InFlight) -> bool:
        types, room = claim.template.types, self.accounts.rooms[claim.template.index]
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


def _turn(batch: Batch) -> tuple[object, ...]:
    first = batch.pods[0]
    return (is_virtual(first), *_size(first), *_age(first))


def _size(pod: Pod) -> tuple[int, int]:
    return (-pod.spec.requests.get("cpu", 0), -pod.spec.requests.get("memory", 0))


def _age(pod: Pod) -> tuple[datetime, str, str]:
    return (pod.created_at or _NEVER_BORN, pod.uid, pod.key)


def _least_from(queue: list[Batch]) -> list[Vector]:
    """For each place in the queue, the least that anyone from there on requests."""
    found: list[Vector] = []
    for batch in reversed(queue):
        found.append(_both(batch.pod_class.requests, found[-1] if found else None))
    return found[::-1]


def _both(one: Vector, other: Vector | None) -> Vector:
    return one if other is None else tuple(map(min, one, other))
