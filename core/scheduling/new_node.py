"""New nodes: templates of NodePools, drafts, and the open claims of a plan."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from core import labels
from core.calendars import why_closed
from core.model.catalogue import paid_for
from core.model.node_pool import NodeClass, NodePool
from core.model.plan import NodeClaim
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode
from core.model.values import quantity
from core.model.values.requirements import Requirement, Requirements, contradiction, labels_fault
from core.model.values.taints import Taint
from core.pools import is_priced, pool_types, template_labels, template_parts
from core.reasons.code import Refusal
from core.reasons.pods import (
    BEING_DELETED,
    IS_STATIC,
    NOT_READY,
    ONLY_OBSERVED,
    ZONES_UNKNOWN,
    ClassBeingDeleted,
    ClassInvalid,
    ClassNotReady,
    PoolContradicts,
    PoolInvalid,
    PoolLabelsInvalid,
)
from core.scheduling.existing_node import DaemonPod, carriers_of, without_overhead
from core.scheduling.instance_types import TypeFilter, index_of, unmet
from core.scheduling.pods import PodGroup, PodSignature
from core.scheduling.primitives import (
    IMPOSSIBLE,
    NO_CLAIMS,
    NO_TYPES,
    ClaimMask,
    RequirementId,
    RequirementTable,
    ResourceAxis,
    TypeMask,
    Vector,
    bits,
    memo,
    positions,
    within,
)

# Tracks what the limits of a NodePool still allow. Limits are never exceeded: each new claim is charged its largest type.


Room = dict[str, int]
"""Resource → what remains of one set of limits: a NodePool's own, or those of a group that shares them."""


class RemainingLimits:
    """The remaining limits of one NodePool within one plan.

    Attributes:
        own: What remains of its own limits.
        shared: Group → what remains of its limits; the same object for all NodePools of the group.
        spending_of: Returns what a group that is a cap has spent of its period, in words; empty for others.
    """

    def __init__(
        self, pool_room: Room, shared: Mapping[str, Room] = {}, spending_of: Callable[[str], str] = lambda _: ""
    ) -> None:
        self.own = pool_room
        self.shared = shared
        self.spending_of = spending_of
        self._rooms = (pool_room, *shared.values())

    @property
    def left(self) -> Mapping[str, int]:
        """Resource → the least that remains of any limit."""
        if not self.shared:
            return self.own
        least = dict(self.own)
        for room in self.shared.values():
            least.update({name: min(amount, least.get(name, amount)) for name, amount in room.items()})
        return dict(sorted(least.items()))

    def binding(self, name: str) -> str:
        """Return the group in which least of the resource remains; empty for the NodePool's own limit."""
        rooms = {group: room[name] for group, room in sorted(self.shared.items()) if name in room}
        if name in self.own:
            rooms = {"": self.own[name], **rooms}
        return min(rooms, key=lambda group: rooms[group])

    def bounds(self, pool: NodePool) -> dict[str, int]:
        """Return resource → the tightest limit: the NodePool's own or its group's."""
        groups = {name: self.binding(name) for name in self.left}
        return {name: (pool.shared_limits[group] if group else pool.limits)[name] for name, group in groups.items()}

    @property
    def nodes_left(self) -> bool:
        """Whether the limit on the number of nodes allows one more."""
        return self.left.get(quantity.NODES, 1) >= 1

    def mask(self, types: TypeFilter, among: TypeMask) -> TypeMask:
        """Return those of the types of which one more could be launched: none if any limit is exceeded."""
        if not self.nodes_left:
            return TypeMask(0)
        for name, amount in self.left.items():
            if name != quantity.NODES:
                among &= types.room.capacities(name).at_most(amount)
        return among

    def charge(self, types: TypeFilter, mask: TypeMask) -> None:
        """Charge the limits for a claim that may become any of these types."""
        for room in self._rooms:
            for name in room:
                room[name] -= largest_amount(types, mask, name)

    def refund(self, types: TypeFilter, mask: TypeMask) -> None:
        """Take a charge back."""
        for room in self._rooms:
            for name in room:
                room[name] += largest_amount(types, mask, name)

    def saved(self) -> tuple[Room, ...]:
        """Return what remains now, for `restore`."""
        return tuple(dict(room) for room in self._rooms)

    def restore(self, saved: Sequence[Room]) -> None:
        """Undo all charges and refunds since `saved`, those of the group's other NodePools among them."""
        for room, before in zip(self._rooms, saved, strict=True):
            room.update(before)


def room_of(limits: Mapping[str, int], used: Mapping[str, int]) -> Room:
    """Return what remains of limits."""
    return {name: limits[name] - used.get(name, 0) for name in sorted(limits)}


def in_group(group: str) -> str:
    """Return words for the group that shares a limit, or for the cap of a Calendar; none for a NodePool's own."""
    return f" in {group_or_cap(group)}" if group else ""


def group_or_cap(group: str) -> str:
    """Return a group's name with its kind: a cap is named `Calendar/cap`, and no group of an annotation has a slash."""
    return f"cap {group}" if is_cap(group) else f"group {group}"


def is_cap(group: str) -> bool:
    """Whether the name of a shared limit is that of a Calendar's cap."""
    return "/" in group


def copies(remaining: Iterable[RemainingLimits]) -> list[RemainingLimits]:
    """Return independent copies, which share among themselves what the originals share."""
    rooms: dict[str, Room] = {}
    copied = []
    for limits in remaining:
        shared = {group: rooms.setdefault(group, dict(room)) for group, room in limits.shared.items()}
        copied.append(RemainingLimits(dict(limits.own), shared, limits.spending_of))
    return copied


def largest_amount(types: TypeFilter, mask: TypeMask, name: str) -> int:
    """Return the largest amount of a resource among these types; for the resource `nodes` it is one."""
    if name == quantity.NODES:
        return 1
    return types.room.capacities(name).largest(mask)


def used_by_pool(
    states: Iterable[StateNode],
    pools: Iterable[NodePool],
    unlaunched: Iterable[NodeClaim],
    price_of: Callable[[StateNode], int] = lambda _: 0,
    leaving: Iterable[StateNode] = (),
) -> dict[str, dict[str, int]]:
    """Return pool → its nodes' usage of the limits. Claims without an instance count with their requests.

    Nodes that are `leaving` count only what they cost: until they are gone, their replacements cost, too.

    `price_of` says what a node costs an hour by today's market, for limits in dollars. The higher of it and of the price that
    its claim holds counts; a claim that is not launched holds its highest price.
    """
    used: dict[str, dict[str, int]] = {pool.name: {} for pool in pools}
    priced = {pool.name for pool in pools if is_priced(pool)}
    for state in states:
        pool_used = used.get(state.node_pool)
        if pool_used is not None:
            _count(pool_used, state.capacity)
            if state.node_pool in priced:
                risen = max(0, price_of(state) - state.capacity.get(quantity.HOURLY, 0))
                pool_used[quantity.HOURLY] = pool_used.get(quantity.HOURLY, 0) + risen
    for state in leaving:
        if state.node_pool in priced:
            pool_used = used[state.node_pool]
            paid = max(price_of(state), state.capacity.get(quantity.HOURLY, 0))
            pool_used[quantity.HOURLY] = pool_used.get(quantity.HOURLY, 0) + paid
    for claim in unlaunched:
        pool_used = used.get(claim.node_pool)
        if pool_used is not None:
            _count(pool_used, claim.resources)
    return used


def _count(used: dict[str, int], node: Mapping[str, int]) -> None:
    for name, amount in node.items():
        used[name] = used.get(name, 0) + amount
    used[quantity.NODES] = used.get(quantity.NODES, 0) + 1


# Applies a NodePool's bound on the size of new nodes: the loss of a large node disrupts many pods.


def sizes_of(types: TypeFilter, mask: TypeMask, largest: Mapping[str, int]) -> tuple[TypeMask, ...]:
    """Return the sets of types to open a node from, tried in order.

    First the types within the bound; then, for a pod that fits none of them, the larger ones in steps of CPU size, so that its
    node is no larger than the pod needs.

    Args:
        types: The NodePool's.
        mask: The types that it may launch.
        largest: The most CPU and memory of a node, see `NodePool.largest_node`; empty for any size.
    """
    small = mask
    for resource, most in sorted(largest.items()):
        small &= types.room.capacities(resource).at_most(most)
    by_cpu: dict[int, TypeMask] = {}
    for position in positions(mask & ~small):
        cpu = types.types[position].capacity.get(quantity.CPU, 0)
        by_cpu[cpu] = by_cpu.get(cpu, TypeMask(0)) | 1 << position
    return (small, *(by_cpu[cpu] for cpu in sorted(by_cpu)))


class NodeClaimTemplate(msgspec.Struct, frozen=True, eq=False):
    """One NodePool that may launch nodes for pods.

    Attributes:
        index: Its position: heavier pools first; among equals the last by name, as in Karpenter.
        offered: Number of the requirements that all its nodes meet.
        mask: Types that it may launch.
        sizes: The same types in sets to open a node from, tried in turn.
        min_values: Label key → how many distinct values its claims must keep.
        carriers: [DaemonSet], the types on which its pod may run, and those on which it runs for certain.
    """

    index: int
    pool: NodePool
    offered: RequirementId
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    types: TypeFilter
    mask: TypeMask
    sizes: tuple[TypeMask, ...]
    min_values: Mapping[str, int]
    carriers: tuple[tuple[TypeMask, TypeMask], ...] = ()

    def size_for(self, requests: Vector) -> TypeMask:
        """Return the first of the sizes with a type that has room for the requests; all types if none has."""
        return next((size for size in self.sizes if self.types.room.fits(size, requests)), self.mask)

    def below(self, price: int) -> NodeClaimTemplate:
        """Return the same template restricted to what costs less than `price`."""
        types = self.types.below(price)
        mask = types.mask(self.offered)
        return replace(self, types=types, mask=mask, sizes=tuple(size & mask for size in self.sizes))


def why_unusable(pool: NodePool, snapshot: Snapshot) -> Refusal | None:
    """Return why a NodePool launches nothing for pods, None if it may."""
    if pool.problem:
        return PoolInvalid(pool.problem)
    fault = labels_fault(template_labels(pool))
    if fault:
        return PoolLabelsInvalid(fault)
    if pool.deleted_at is not None:
        return BEING_DELETED
    if pool.is_observed:
        return ONLY_OBSERVED
    if pool.is_static:
        return IS_STATIC
    if pool.is_ready is False:
        return NOT_READY
    if pool.is_closed:
        return why_closed(pool)
    if labels.ZONE_ID in (requirement.key for requirement in pool.requirements) and not _knows_zone_ids(snapshot):
        return ZONES_UNKNOWN
    contradicted = contradiction(template_parts(pool))
    if contradicted is not None:
        return PoolContradicts(contradicted)
    node_class = next(
        (candidate for candidate in snapshot.node_classes if candidate.name == pool.node_class.name), None
    )
    return None if node_class is None else _why_class_unusable(node_class)


def _why_class_unusable(node_class: NodeClass) -> Refusal | None:
    if node_class.problem:
        return ClassInvalid(node_class.name, node_class.problem)
    if node_class.deleted_at is not None:
        return ClassBeingDeleted(node_class.name)
    return ClassNotReady(node_class.name) if node_class.is_ready is False else None


def templates_of(
    snapshot: Snapshot, table: RequirementTable, axis: ResourceAxis, daemons: tuple[DaemonPod, ...]
) -> tuple[NodeClaimTemplate, ...]:
    """Return every NodePool that may launch nodes, in the order in which they are tried."""
    usable = [pool for pool in snapshot.node_pools if not why_unusable(pool, snapshot)]
    ordered = sorted(sorted(usable, key=lambda pool: pool.name, reverse=True), key=lambda pool: -pool.weight)
    keys = snapshot.catalogue.label_keys()
    empty = memo(lambda types: TypeFilter.of(types, keys, table, axis))
    of = pool_types(snapshot).of
    return tuple(
        _template(index, pool, empty(index_of(of(pool.name))), table, daemons) for index, pool in enumerate(ordered)
    )


def any_value(requirement: Requirement, taken: Collection[str] = ()) -> str | None:
    """Return a node's value for a label that its NodePool leaves open: the first value not taken, None if all are taken.

    If the set is infinite, values are whole numbers from the lowest allowed one up (Karpenter draws one at random).
    """
    if requirement.is_finite:
        return next((value for value in requirement.values if value not in taken), None)
    number = max(0, requirement.gte or 0)
    while str(number) in requirement.values or str(number) in taken:
        number += 1
    return str(number) if requirement.has(str(number)) else None


def _knows_zone_ids(snapshot: Snapshot) -> bool:
    return labels.ZONE_ID in snapshot.catalogue.label_keys()


def _template(
    index: int,
    pool: NodePool,
    empty: TypeFilter,
    table: RequirementTable,
    daemons: tuple[DaemonPod, ...],
) -> NodeClaimTemplate:
    requirements = template_parts(pool)
    offered = table.conjunction(requirements)
    types = without_overhead(empty, offered, pool.taints, daemons)
    mask = types.mask(offered)
    return NodeClaimTemplate(
        index=index,
        pool=pool,
        offered=offered,
        labels=template_labels(pool),
        taints=pool.taints,
        types=types,
        mask=mask,
        sizes=sizes_of(types, mask, pool.largest_node),
        min_values={r.key: r.min_values for r in Requirements(requirements).values() if r.min_values},
        carriers=tuple(carriers_of(daemon, empty, offered, pool.taints) for daemon in daemons),
    )


# A claim draft: a possible next state of a claim, before it is accepted.


_NOT_FOR_SALE: Final = 1 << 62
"""Higher than every price: prices in nano-dollars fit 62 bits."""


class ClaimDraft(msgspec.Struct, frozen=True):
    """Requirements, the types that constraints leave, and the requests of all its pods.

    Attributes:
        min_values: Label key → how many distinct values the remaining types must have.
    """

    template: NodeClaimTemplate
    reqs: RequirementId
    allowed: TypeMask
    total: Vector
    min_values: Mapping[str, int] = {}

    @property
    def mask(self) -> TypeMask:
        """The remaining types, regardless of room."""
        return self.template.types.mask(self.reqs) & self.allowed

    @property
    def is_possible(self) -> bool:
        """Whether any remaining type has room."""
        return self.reqs != IMPOSSIBLE and self.template.types.room.fits(self.mask, self.total)

    @property
    def fitting_types(self) -> TypeMask:
        """The remaining types that have room."""
        return self.template.types.room.fitting(self.mask, self.total)

    @property
    def price(self) -> int:
        """The lowest price among the remaining types, higher than every price if there are none."""
        cheapest = self.template.types.offerings.cheapest(self.mask, self.reqs) if self.reqs != IMPOSSIBLE else None
        return _NOT_FOR_SALE if cheapest is None else cheapest

    def narrowed(self, reqs: RequirementId) -> ClaimDraft:
        """Return the draft with other requirements."""
        return ClaimDraft(self.template, reqs, self.allowed, self.total, self.min_values)

    def restricted_to(self, allowed: TypeMask) -> ClaimDraft:
        """Return the draft with these types only."""
        return ClaimDraft(self.template, self.reqs, allowed, self.total, self.min_values)

    def with_min_values(self, min_values: Mapping[str, int]) -> ClaimDraft:
        """Return the draft with minValues."""
        return ClaimDraft(self.template, self.reqs, self.allowed, self.total, min_values)

    def without_min_values(self) -> ClaimDraft:
        """Return the draft without minValues."""
        return ClaimDraft(self.template, self.reqs, self.allowed, self.total)

    def missing_values(self) -> dict[str, int]:
        """Return label key → number of remaining distinct values, for each key with too few for minValues."""
        return unmet(self.template.types, self.fitting_types, self.min_values, self.reqs) if self.min_values else {}


# Shares the constraints on claims.
#
# Many claims of a plan share a profile: adding a pod has the same result for all of them.


class ClaimProfile(msgspec.Struct, eq=False):
    """A NodePool, requirements, and the types that limits, ports and volumes allow.

    Attributes:
        index: Its number in this plan.
        mask: The remaining types, regardless of room.
        claims: The claims with this profile.
    """

    index: int
    template: NodeClaimTemplate
    reqs: RequirementId
    allowed: TypeMask
    mask: TypeMask
    claims: ClaimMask = NO_CLAIMS
    _front: Sequence[Vector] | None = None

    def holds(self, total: Vector) -> bool:
        """Whether any of its types has room for the requests."""
        if self._front is None:
            self._front = self.template.types.room.front(self.mask)
        for room in self._front:  # noqa: SIM110 - a generator takes twice as long, and this is the most frequent query
            if within(total, room):
                return True
        return False

    @property
    def most(self) -> Vector:
        """The most of each resource that any of its types has."""
        if self._front is None:
            self._front = self.template.types.room.front(self.mask)
        return tuple(map(max, zip(*self._front, strict=True)))


class ClaimProfiles:
    """All profiles of one plan."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], ClaimProfile] = {}

    def of(self, template: NodeClaimTemplate, reqs: RequirementId, allowed: TypeMask) -> ClaimProfile:
        """Return the profile with these requirements and types."""
        question = (template.index, reqs, allowed)
        profile = self._known.get(question)
        if profile is None:
            mask = template.types.mask(reqs) & allowed
            profile = self._known[question] = ClaimProfile(len(self._known), template, reqs, allowed, mask)
        return profile


# Indexes the claims of one plan as bit sets of their positions: one operation covers all of them.


class ClaimIndex:
    """Which claims have which profile, and how many pods each has.

    Attributes:
        open: Claims that may still have room for some pod.
        counts: The numbers of pods that any claim has, ascending. A plan of large nodes has hundreds that no claim has.
        by_count: Each of these numbers → the claims with that many pods.
        profiles: Each claim's profile.
    """

    def __init__(self) -> None:
        self.open = ClaimMask(0)
        self.counts: list[int] = []
        self.by_count: dict[int, ClaimMask] = {}
        self.profiles: list[ClaimProfile] = []

    def add(self, profile: ClaimProfile) -> None:
        """Add a claim without pods."""
        bit = 1 << len(self.profiles)
        self.profiles.append(profile)
        profile.claims |= bit
        self.open |= bit
        self._put(0, bit)

    def add_pod(self, claim: int, pods: int) -> None:
        """Record that a claim with this number of pods has one more."""
        bit = 1 << claim
        remaining = self.by_count[pods] ^ bit
        if remaining:
            self.by_count[pods] = remaining
        else:
            del self.by_count[pods]
            self.counts.remove(pods)
        self._put(pods + 1, bit)

    def _put(self, pods: int, bit: int) -> None:
        there = self.by_count.get(pods)
        if there is None:
            insort(self.counts, pods)
            self.by_count[pods] = ClaimMask(bit)
        else:
            self.by_count[pods] = there | bit

    def change_profile(self, claim: int, profile: ClaimProfile) -> None:
        """Record that a claim has another profile."""
        bit = 1 << claim
        self.profiles[claim].claims ^= bit
        profile.claims |= bit
        self.profiles[claim] = profile

    def close(self, claim: int) -> None:
        """Record that a claim is full."""
        self.open &= ~(1 << claim)


# Rules out most full claims for requests that were not tried before, without a look at each of them.


_LEVELS_IN_OCTAVE: Final = 16
"""Levels of an amount between two powers of two: fewer let more full claims through, more cost more bookkeeping."""

_RESOURCES_LEVELLED: Final = 2
"""CPU and memory, which stand first on every axis: nodes run short of these."""


class RoomLevels:
    """How much CPU and memory each claim of one plan has free on its largest types, rounded down to levels.

    Claims only fill up, so a level only falls, and each claim leaves the set of a level at most once.
    """

    def __init__(self) -> None:
        self._levels: list[list[int]] = [[] for _ in range(_RESOURCES_LEVELLED)]
        self._asked: list[list[int]] = [[] for _ in range(_RESOURCES_LEVELLED)]
        self._at_least: list[dict[int, ClaimMask]] = [{} for _ in range(_RESOURCES_LEVELLED)]
        self._changed: dict[int, None] = {}

    def change(self, claim: int) -> None:
        """Record that a claim is new, or has less room than before."""
        self._changed[claim] = None

    def lacking(self, requests: Vector, claims: Sequence[InFlightClaim], profiles: Sequence[ClaimProfile]) -> ClaimMask:
        """Return claims that certainly have no room for the requests. The others may have none, either."""
        for claim in self._changed:
            most, used = profiles[claim].most, claims[claim].used
            for place, (room, taken) in enumerate(zip(most[:_RESOURCES_LEVELLED], used, strict=False)):
                self._lower(place, claim, _level(room - taken))
        self._changed.clear()
        every = having = ClaimMask((1 << len(claims)) - 1)
        for place, amount in enumerate(requests[:_RESOURCES_LEVELLED]):
            having &= self._with(place, _level(amount))
        return every ^ having

    def _lower(self, place: int, claim: int, level: int) -> None:
        levels, asked_levels, at_least = self._levels[place], self._asked[place], self._at_least[place]
        bit = ClaimMask(1 << claim)
        if claim == len(levels):
            levels.append(level)
            for reached in asked_levels[: bisect_right(asked_levels, level)]:
                at_least[reached] |= bit
        else:
            for missed in asked_levels[bisect_right(asked_levels, level) : bisect_right(asked_levels, levels[claim])]:
                at_least[missed] &= ~bit
            levels[claim] = level

    def _with(self, place: int, level: int) -> ClaimMask:
        at_least = self._at_least[place]
        if level not in at_least:
            reaching = bits(claim for claim, reached in enumerate(self._levels[place]) if reached >= level)
            at_least[level] = ClaimMask(reaching)
            insort(self._asked[place], level)
        return at_least[level]


def _level(amount: int) -> int:
    """Return the level of an amount, which is not higher than that of any larger one."""
    shift = max(0, amount.bit_length() - _LEVELS_IN_OCTAVE.bit_length())
    return shift * _LEVELS_IN_OCTAVE + (amount >> shift)


# An in-flight claim: a NodeClaim that the plan fills. Each pod narrows its requirements and types; they never widen again.


class InFlightClaim(msgspec.Struct, eq=False):
    """One claim of the plan.

    Attributes:
        index: Its position in the order of opening.
        reqs: Number of its current requirements.
        pod_groups: The groups of its pods, in the same order.
        allowed: Types that constraints allow; requirements and room are checked each time.
        used: The requests of its pods.
        charged: Types for which the pool's limits, if any, were charged.
        reservations: The capacity reservations that it holds a place in.
        commitment: Name of the commitment that fully covers it, empty for none.
        min_values: The pool's minValues as lowered by BestEffort.
    """

    index: int
    template: NodeClaimTemplate
    reqs: RequirementId
    allowed: TypeMask
    used: Vector
    pods: list[Pod] = msgspec.field(default_factory=list)
    pod_groups: list[PodGroup] = msgspec.field(default_factory=list)
    charged: TypeMask = NO_TYPES
    reservations: tuple[str, ...] = ()
    commitment: str = ""
    min_values: Mapping[str, int] = msgspec.field(default_factory=dict)
    min_values_relaxed: bool = False

    @property
    def signatures(self) -> list[PodSignature]:
        """The signatures of its pods, in the same order."""
        return [pod_group.signature for pod_group in self.pod_groups]

    @property
    def draft(self) -> ClaimDraft:
        """What may still change about it: its requirements, types and minValues, with its pods' requests."""
        return ClaimDraft(self.template, self.reqs, self.allowed, self.used, self.min_values)

    @property
    def fitting_types(self) -> TypeMask:
        """The types that it may be launched with: constraints and requirements leave them, and they have room for its pods."""
        types = self.template.types
        return types.room.fitting(types.mask(self.reqs) & self.allowed, self.used)

    @property
    def price(self) -> int:
        """Nano-dollars per hour of the cheapest offering that it may be launched with; nearly zero if it is covered."""
        types = self.template.types
        price = types.cheapest(types.mask(self.reqs) & self.allowed, self.used, self.reqs) or 0
        return paid_for(price) if self.commitment else price

    def add_pod(self, pod: Pod, pod_group: PodGroup) -> None:
        """Add a pod; the caller updates `used` and what depends on it."""
        self.pods.append(pod)
        self.pod_groups.append(pod_group)


def paid_for_waiting(claims: Sequence[InFlightClaim], may_wait: Callable[[Pod], bool]) -> Sequence[InFlightClaim]:
    """Return the claims that cost something for pods that may wait: those that no idle commitment or reservation pays for.

    All of them, while a pod that may not wait needs one that costs: the commitment is for that pod first.
    """
    paid = [claim for claim in claims if not claim.commitment and not claim.reservations]
    return paid if all(may_wait(pod) for claim in paid for pod in claim.pods) else claims
