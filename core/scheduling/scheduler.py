"""Computes one plan: every waiting pod is tried on existing nodes, on the plan's claims, then on a new claim."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import blake2b
from typing import Final, NamedTuple

from msgspec.structs import replace

from core import labels
from core.model.pod import Pod, any_conflict
from core.model.values.requirements import Requirement
from core.scheduling.claim_search import NewClaims, OpenClaimSearch, PlanState, Solution, narrow_to_cheapest
from core.scheduling.constraints.registry import VacantDomain, go_by_priority
from core.scheduling.context import SchedulingContext, is_spare
from core.scheduling.existing_node import RoomLeft
from core.scheduling.new_node import ClaimProfiles
from core.scheduling.pods import (
    Avoids,
    PendingGroup,
    PodGroup,
    PodSignature,
    RelaxationStep,
    shared_claim_label,
    with_all_preferences,
)
from core.scheduling.primitives import (
    IMPOSSIBLE,
    NO_CLAIMS,
    ClaimMask,
    NodeMask,
    PodGroupId,
    RequirementId,
    RequirementTable,
    StepId,
    Vector,
    bits,
    has_room,
    memo,
    minus,
    positions,
)
from core.scheduling.topology.domains import NO_DEPARTURES, Departures, DomainChoice, DomainCounts, ReachableDomains
from core.scheduling.topology.groups import AFFINITY, SPREAD, TopologyGroup

# Searches existing nodes by first fit: initialized ones first, then by name.
#
# Nodes that the stored target drains later come last.


class ExistingNodeSearch:
    """The existing nodes, which one plan fills.

    `opens_drained_later`: whether nodes that the stored target drains later are open to pods that avoid them.
    """

    def __init__(self, state: PlanState, leaving: frozenset[int]) -> None:
        self._context = state.context
        self._domain_counts = state.domain_counts
        self._constraints = state.constraints
        self._staying = ~NodeMask(bits(leaving))
        self._drained_later = state.context.node_index.drained_later & self._staying
        self.opens_drained_later = not self._drained_later
        self._room = RoomLeft(self._context.node_index)
        self._open: dict[tuple[PodGroupId, int, Avoids], NodeMask] = {}

    def find(self, pending_group: PendingGroup, step: RelaxationStep) -> int | None:
        """Return the first node that takes one more pod of the group."""
        if not self._context.existing_nodes:
            return None
        placed = self._first(pending_group, step, ~self._drained_later)
        if (
            placed is None
            and self._drained_later
            and (self.opens_drained_later or not pending_group.avoids_drained_later)
        ):
            return self._first(pending_group, step, self._drained_later)
        return placed

    def _first(self, pending_group: PendingGroup, step: RelaxationStep, among: NodeMask) -> int | None:
        """Return the first of these nodes that takes one more pod of the group.

        A node that is too full for the pods stays so and is not tried again, nor is one with a violated rule that further pods
        cannot fix.
        """
        key = (pending_group.pod_group.index, step.number, pending_group.avoids)
        still_open = self._open.get(key)
        if still_open is None:
            still_open = self._suitable(pending_group, step) & ~self._room.lacking(pending_group.pod_group.requests)
        place, open_nodes = None, still_open & self._near(step) & among
        # The lowest set bit is the first node in order. A refusal excludes all nodes of the domain at once; it is cached only
        # if later pods cannot lift it.
        while open_nodes and place is None:
            bit = open_nodes & -open_nodes
            position = bit.bit_length() - 1
            if not self._has_room(position, pending_group.pod_group, step):
                still_open ^= bit
                open_nodes ^= bit
                continue
            refused = self._refused(position, pending_group.pod_group.signature, step)
            if not refused:
                place = position
            elif step.is_monotone:
                still_open &= ~refused
            open_nodes &= ~refused
        self._open[key] = still_open
        return place

    def open_to(self, pending_group: PendingGroup, step: RelaxationStep) -> NodeMask:
        """Return nodes whose labels, taints and initial room suit the pods."""
        return self._suitable(pending_group, step) & self._near(step)

    def takes(self, position: int, pod_group: PodGroup, step: RelaxationStep) -> bool:
        """Whether a node of `open_to` takes one more pod of the group now."""
        return self._has_room(position, pod_group, step) and not self._refused(position, pod_group.signature, step)

    def find_unremembered(self, pending_group: PendingGroup, step: RelaxationStep) -> int | None:
        """Return the first node that takes one more pod of the group now; refusals are neither read nor kept."""
        excluded = self._drained_later | self._room.lacking(pending_group.pod_group.requests)
        open_to = self.open_to(pending_group, step) & ~excluded
        return next((p for p in positions(open_to) if self.takes(p, pending_group.pod_group, step)), None)

    def forget_refusals(self) -> None:
        """Try every node again."""
        self._open.clear()

    def place(self, position: int, pod_group: PodGroup) -> None:
        """Reserve the room for one pod and count the pod."""
        node = self._context.existing_nodes[position]
        self._room.take(position, pod_group.requests)
        for constraint in self._constraints.concerning(pod_group):
            constraint.reserve_on_node(node, pod_group)
        self._domain_counts.record_on_node(pod_group.signature, position)

    def fill_like(self, other: ExistingNodeSearch) -> None:
        """Take the room that another plan uses of the same nodes as used, too."""
        self._room.take_like(other._room)

    def _suitable(self, pending_group: PendingGroup, step: RelaxationStep) -> NodeMask:
        """Return nodes whose labels, taints and initial room suit the pods, as a bit set of positions."""
        nodes = self._context.node_index
        suitable = nodes.suitable(step.alternatives, step.demands.tolerations) & nodes.with_room(
            pending_group.pod_group.requests
        )
        return suitable & self._staying & ~nodes.avoided[pending_group.avoids]

    def _near(self, step: RelaxationStep) -> NodeMask:
        """Return nodes with a pod that the pods must share a node with; all nodes without such a rule."""
        near = NodeMask(-1)
        for rule in step.host_rules:
            if rule.kind == AFFINITY and not self._domain_counts.is_first(rule):
                hosts = self._context.node_index.domains(rule.key)
                occupied = NodeMask(0)
                for host in self._domain_counts.of(rule.group):
                    occupied |= hosts[host]
                if rule.by_daemons:
                    occupied |= NodeMask(bits(node.index for node in self._context.existing_nodes if node.due))
                near &= occupied
        return near

    def _has_room(self, position: int, pod_group: PodGroup, step: RelaxationStep) -> bool:
        free = self._room.used.get(position)
        if free is not None and not has_room(pod_group.requests, free):
            return False
        node = self._context.existing_nodes[position]
        if position in self._context.nominated and not self._leaves_nominated(position, pod_group, step):
            return False
        # Plain pods are most of them, and this is asked for each pod and node that is tried: a third of the time.
        return pod_group.is_plain or all(c.admits(node, pod_group) for c in self._constraints.concerning(pod_group))

    def _leaves_nominated(self, position: int, pod_group: PodGroup, step: RelaxationStep) -> bool:
        """Whether a pod leaves room, host ports, volumes and rules to those nominated to the node that it does not outrank.

        kube-scheduler's `RunFilterPluginsWithNominatedPods` (runtime/framework.go).
        """
        spec, node = pod_group.signature.spec, self._context.existing_nodes[position]
        kept = [pod for pod in self._context.nominated[position] if pod.spec.priority >= spec.priority]
        free = self._room.used.get(position, node.free)
        for pod in kept:
            free = minus(free, self._context.axis.vector(pod.spec.requests))
        taken = [port for pod in kept for port in pod.spec.host_ports]
        if not has_room(pod_group.requests, free) or any_conflict(spec.host_ports, taken):
            return False
        attached = frozenset(volume for pod in kept for volume in self._context.volumes.attachments(pod))
        limits = self._constraints.attach_limits
        if attached and limits is not None and not limits.admits_beside(node, pod_group, attached):
            return False
        return self._may_join(position, pod_group.signature, step, [self._context.signature_of(pod) for pod in kept])

    def _may_join(
        self, position: int, signature: PodSignature, step: RelaxationStep, others: Sequence[PodSignature]
    ) -> bool:
        """Whether rules between pods would admit one to a node once these others are there, too."""
        for rule in (*step.host_rules, *step.zone_rules):
            domain = self._context.node_index.values(rule.key)[position]
            if rule.kind == AFFINITY or domain is None:
                continue
            if not self._domain_counts.admits_beside(rule, domain, signature, others):
                return False
        return True

    def _refused(self, position: int, signature: PodSignature, step: RelaxationStep) -> NodeMask:
        """Return the nodes, including this one, that the first violated rule excludes; none if no rule is violated."""
        due = self._context.existing_nodes[position].due
        comes = bool(due) and any(daemon in due for daemon in signature.daemons_near)
        for rule in (*step.host_rules, *step.zone_rules):
            domain = self._context.node_index.values(rule.key)[position]
            if not self._domain_counts.admits(rule, domain, signature, is_new=comes):
                # Of a domain's nodes, only some may expect the DaemonSet's pod that these pods must be near.
                all_nodes = self._context.node_index.domains(rule.key)[domain]
                return NodeMask(1 << position) if rule.by_daemons else all_nodes
        return NodeMask(0)


# Guides one plan: topology domains that pods avoid, or take in turn or in an order, although their rules allow others.


BarredDomain = tuple[int, str, str]
"""A signature's number, a topology key, and the value that its pods leave to others."""

RoundRobinPods = tuple[int, str, tuple[str, ...]]
"""A signature's number, a topology key, and the values that its pods take round robin."""


class DomainOrder(NamedTuple):
    """The order in which pods try the values of a topology key.

    Attributes:
        seed: None for the given order; otherwise each pod tries the values in its own order, drawn from this seed.
    """

    key: str
    values: tuple[str, ...]
    seed: int | None = None


DOMAINS_MAX: Final = 8
"""The most values of a topology key that pods leave to others or take in turn."""

_Steps = tuple[RelaxationStep, ...]


class GuidedSteps:
    """Adds the guidance to the pods' requirements, so that every search treats it like a node selector."""

    def __init__(
        self,
        table: RequirementTable,
        barred: Iterable[BarredDomain],
        round_robin: Iterable[RoundRobinPods],
        order: DomainOrder | None = None,
    ) -> None:
        unwanted: dict[int, dict[str, list[str]]] = {}
        for signature, key, value in sorted(barred):
            unwanted.setdefault(signature, {}).setdefault(key, []).append(value)
        self._in_turn = {signature: (key, values) for signature, key, values in sorted(round_robin)}
        self._order = order
        self._turns: Callable[[PodGroup], tuple[_Steps, ...]] = memo(
            partial(_turns, _AddedRequirements(table), unwanted, self._in_turn, order)
        )

    def of(self, pod_group: PodGroup, number: int) -> _Steps:
        """Return the relaxation steps of a group's pod with this number; those without any suitable node are left out."""
        turns = self._turns(pod_group)
        if len(turns) == 1:
            return turns[0]
        return tuple(step for turn in self._ordered(turns, pod_group.signature.index, number) for step in turn)

    def _ordered(self, turns: tuple[_Steps, ...], signature: int, number: int) -> Sequence[_Steps]:
        if signature in self._in_turn:
            first = number % len(turns)
            return turns[first:] + turns[:first]
        if self._order is None or self._order.seed is None:
            return turns
        pod = f"{self._order.seed} {signature} {number}"
        drawn = sorted(range(len(turns)), key=lambda turn: blake2b(f"{pod} {turn}".encode(), digest_size=8).digest())
        return [turns[turn] for turn in drawn]


class _AddedRequirements:
    """Adds requirements to steps, and numbers the resulting steps.

    Searches cache results by the numbers of steps, so steps with different requirements must not share one. These steps get
    negative numbers; those of the snapshot are not negative.
    """

    def __init__(self, table: RequirementTable) -> None:
        self._table = table
        self._numbers: dict[tuple[int, tuple[RequirementId, ...]], int] = {}

    def to(self, steps: _Steps, wanted: Sequence[Requirement]) -> _Steps:
        """Return the steps with these requirements added; steps that then suit no node are left out."""
        narrowed = []
        for step in steps:
            # Only topology keys of the step's rules: a new node gets exactly one value of them anyway.
            added = [requirement for requirement in wanted if requirement.key in step.keys]
            alternatives = (self._table.restricted(number, added) for number in step.alternatives)
            possible = tuple(number for number in alternatives if number != IMPOSSIBLE)
            if possible and added:
                number = self._numbers.setdefault((step.index, possible), -1 - len(self._numbers))
                narrowed.append(replace(step, alternatives=possible, index=StepId(number), number=number))
            elif possible:
                narrowed.append(step)
        return tuple(narrowed)


def _turns(
    adding: _AddedRequirements,
    unwanted: Mapping[int, Mapping[str, list[str]]],
    in_turn: Mapping[int, tuple[str, tuple[str, ...]]],
    order: DomainOrder | None,
    pod_group: PodGroup,
) -> tuple[_Steps, ...]:
    """Return the group's steps for each value of its key, or all its steps if nothing orders the values."""
    signature = pod_group.signature.index
    avoided = [Requirement(key, True, tuple(values)) for key, values in unwanted.get(signature, {}).items()]
    steps = adding.to(pod_group.steps, avoided) if avoided else pod_group.steps
    key, values = in_turn.get(signature) or ((order.key, order.values) if order is not None else ("", ()))
    if not any(key in step.keys for step in steps):
        return (steps,)
    for_each_value = (adding.to(steps, [Requirement(key, False, (value,))]) for value in values)
    return tuple(turn for turn in for_each_value if turn) or (steps,)


# Orders the pods for placement.


_NOT_CREATED: Final = datetime.max.replace(tzinfo=UTC)
"""Sort key of pods without a creation time: they come after all others of their size."""

_PodLists = Iterable[tuple[Iterable[Pod], Avoids]]


def queue_of(context: SchedulingContext, pods: _PodLists, displaced: _PodLists = ()) -> list[PendingGroup]:
    """Return pods in the order of placement: most CPU first, then most memory, then the oldest; equal pods together.

    Groups that start together come before, in their turns (`core.scheduling.gangs`). Virtual pods of capacity buffers come
    last: they must not use up limits that a waiting pod needs.

    Args:
        context: The snapshot.
        pods: Lists of pods, each with the nodes that are no room for these. Pods that are held back are left out.
        displaced: Such lists of pods that a target moves.
    """
    grouped: dict[tuple[int, Avoids, bool, bool, bool, bool, int | None], PendingGroup] = {}
    turns = context.gang_plan.turns if context.gang_plan.uses_turns else {}
    takes_over_volume = context.volumes.binding.takes_over
    any_later, held, group_of = bool(context.node_index.drained_later), context.holds.held, context.pod_groups.of
    lists = (*((*part, False) for part in pods), *((*part, True) for part in displaced))
    for some, avoids, is_displaced in lists:
        for pod in (pod for pod in some if pod.key not in held) if held else some:
            pod_group = group_of(pod)
            avoids_later = any_later and bool(pod.node_name) and not (avoids == Avoids.RECENTLY_CHANGED or is_displaced)
            keeps_room = bool(pod.annotations) and is_spare(pod)
            turn = turns.get(pod.key) if turns else None
            waits = bool(pod.annotations) and context.may_wait(pod)
            takes_over = bool(pod.spec.volumes) and takes_over_volume(pod)
            key = (pod_group.index, avoids, is_displaced, avoids_later, keeps_room or waits, takes_over, turn)
            pending_group = grouped.get(key)
            if pending_group is None:
                pending_group = grouped[key] = PendingGroup(
                    pod_group, [], avoids, is_displaced, avoids_later, turn=turn, may_wait=waits, takes_over=takes_over
                )
            pending_group.pods.append(pod)
    for pending_group in grouped.values():
        if context.released:
            pending_group.is_released = any(pod.key in context.released for pod in pending_group.pods)
        if len(pending_group.pods) > 1:
            pending_group.pods.sort(key=_turn if go_by_priority(pending_group.pod_group) else _age)
    return sorted(grouped.values(), key=_order)


def least_requests_from(queue: list[PendingGroup]) -> list[Vector]:
    """Return for each position in the queue the smallest request for each resource from there on."""
    least: list[Vector] = []
    for pending_group in reversed(queue):
        least.append(least_of(pending_group.pod_group.requests, least[-1] if least else None))
    return least[::-1]


def least_of(first: Vector, second: Vector | None) -> Vector:
    """Return the smaller amount of each resource; None means no bound."""
    return first if second is None else tuple(map(min, first, second))


def _order(pending_group: PendingGroup) -> tuple[object, ...]:
    first = pending_group.pods[0]
    requests = first.spec.requests
    importance = -first.spec.priority if go_by_priority(pending_group.pod_group) else 0
    turn = (
        (pending_group.may_wait, True, pending_group.takes_over)
        if pending_group.turn is None
        else (False, False, pending_group.turn)
    )
    return (is_spare(first), *turn, importance, -requests.get("cpu", 0), -requests.get("memory", 0), *_age(first))


def _turn(pod: Pod) -> tuple[object, ...]:
    return (-pod.spec.priority, *_age(pod))


def _age(pod: Pod) -> tuple[datetime, str, str]:
    return (pod.created_at or _NOT_CREATED, pod.uid, pod.key)


_Question = tuple[int, int, Avoids, bool, bool]


@dataclass(eq=False, slots=True)
class GreedyScheduler:
    """One run of the greedy planner.

    Attributes:
        leaving: Positions of nodes that offer no room.
        vanished: The leaving nodes that this plan removes. They use no limits, and pods that the plan moves away do not count
            in their domains.
        first: Groups of pods that are placed before the others.
        guide: Domains that pods leave to others or take in turn during the first pass; None for no guidance.
        slots: Group of pods that a target moves → nodes and how many of the pods each takes, after pods that wait in any case.
        shares_node: Whether one new node should take all pods that no existing node takes.
        compares_sharing: Whether the plan is only compared with one in which such a node should.
        opened: Whether a target moves the pods → the claims opened for them.
        counts_existing: Whether spreads count only domains with nodes and those where the pod itself could get one.
    """

    context: SchedulingContext
    pending_groups: list[PendingGroup]
    leaving: frozenset[int]
    vanished: frozenset[int]
    first: frozenset[int] = frozenset()
    guide: GuidedSteps | None = None
    slots: Mapping[int, Sequence[tuple[int, int]]] = field(default_factory=dict)
    shares_node: bool = False
    compares_sharing: bool = False
    state: PlanState = field(init=False)
    domain_choice: DomainChoice = field(init=False)
    nodes: ExistingNodeSearch = field(init=False)
    claims: OpenClaimSearch = field(init=False)
    new: NewClaims = field(init=False)
    bound: list[tuple[Pod, int]] = field(default_factory=list)
    unplaceable: set[_Question] = field(default_factory=set)
    opened: dict[bool, ClaimMask] = field(default_factory=lambda: {False: NO_CLAIMS, True: NO_CLAIMS})
    counts_existing: bool = False

    def __post_init__(self) -> None:
        domain_counts = DomainCounts(self.context.topology, self._departures())
        self.state = PlanState(self.context, domain_counts, self.context.plan_constraints(sorted(self.vanished)))
        self.domain_choice, profiles = self._domain_choice(domain_counts), ClaimProfiles()
        self.nodes = ExistingNodeSearch(self.state, self.leaving)
        self.claims = OpenClaimSearch(self.state, self.domain_choice, profiles)
        self.new = NewClaims(self.state, self.domain_choice, profiles)

    def _departures(self) -> Departures:
        """Return the pods of the queue that run on nodes which the plan removes."""
        if not self.vanished:
            return NO_DEPARTURES
        at = self.context.positions
        pods = ((group.pod_group.signature, pod) for group in self.pending_groups for pod in group.pods)
        departing = ((signature, pod, at[pod.node_name]) for signature, pod in pods if pod.node_name in at)
        return Departures.of(self.vanished, (departure for departure in departing if departure[2] in self.vanished))

    def _domain_choice(self, domain_counts: DomainCounts) -> DomainChoice:
        together = self._unbound_requests() if self.shares_node or self.compares_sharing else None
        return DomainChoice(
            self.context.topology, domain_counts, self.pending_groups, together, only_compares=self.compares_sharing
        )

    def _unbound_requests(self) -> Callable[[], Vector]:
        """Return a function for the total requests of the pods that are not on an existing node so far."""
        groups, total = self.context.pod_groups, self.context.axis.total
        queue, bound = self.pending_groups, self.bound

        @cache
        def all_requests() -> Vector:
            return total(group.pod_group.requests for group in queue for _ in group.pods)

        @cache
        def without(pods: int) -> Vector:
            return minus(all_requests(), total(groups.of(pod).requests for pod, _ in bound[:pods]))

        return lambda: without(len(bound))

    def place_more(self, groups: list[PendingGroup]) -> bool:
        """Place further pods beside those of this plan, and return whether all of them have a place."""
        self.pending_groups += groups
        self._place_all(groups, self.context.axis.zero)
        return not any(group.waiting for group in groups)

    def so_far(self) -> Solution:
        """Return the plan of `place_more`, with the groups that have pods without a place."""
        unplaced = [group for group in self.pending_groups if group.waiting]
        return Solution(self.claims.claims, self.bound, unplaced, self.state)

    def run(self) -> Solution:
        """Place all pods that can be placed."""
        queue = [group for group in self.pending_groups if group.pod_group.steps]
        spare = [group for group in queue if is_spare(group.pods[0])]
        real = [group for group in queue if group not in spare] if spare else queue
        waiting = [group for group in real if not group.is_displaced] if any(g.is_displaced for g in real) else []
        leading = waiting or [group for group in real if group.pod_group.index in self.first]
        if leading:
            self._rounds(leading, least_requests_from(queue)[0])
        self._place_pinned(real)
        if self.slots:
            self._fill_slots([group for group in real if not group.placed])
        later = least_requests_from(spare)[0] if spare else None
        self._place_all([group for group in real if group.waiting], later)
        if self.guide is not None:
            self.guide = None
            self._place_all([group for group in real if group.waiting], later)
        if not self.nodes.opens_drained_later:
            self._open_drained_later(real, later)
        self._place_by_existing_domains([group for group in real if group.waiting and _has_spread(group)], later)
        before = self.state.copy() if spare and any(group.waiting for group in real) else None
        self._place_all(spare)
        unplaced = [group for group in self.pending_groups if group.waiting]
        fixed_pods = frozenset(pod.key for group in waiting for pod in group.pods)
        is_same = self.compares_sharing and not self.domain_choice.differs_if_shared
        return Solution(self.claims.claims, self.bound, unplaced, self.state, before, fixed_pods, is_same)

    def _open_drained_later(self, queue: list[PendingGroup], least: Vector | None) -> None:
        """Place pods that avoid nodes which the stored target drains later on these, where nothing else can hold them."""
        self.nodes.opens_drained_later = True
        waiting = [group for group in queue if group.waiting]
        if any(group.avoids_drained_later for group in waiting):
            self.unplaceable.clear()
            self._place_all(waiting, least)

    def _place_by_existing_domains(self, queue: list[PendingGroup], least: Vector | None) -> None:
        """Place pods that a spread keeps waiting for a domain without nodes in which they cannot get one, either.

        For kube-scheduler, only nodes make domains. Until now, all that NodePools could launch counted as empty, so that pods
        are spread over them. Each repetition places a pod, so the loop ends.
        """
        self.counts_existing = True
        before = -1
        while queue and sum(group.waiting for group in queue) != before:
            before = sum(group.waiting for group in queue)
            self.unplaceable.clear()
            for search in (self.nodes, self.claims, self.new):
                search.forget_refusals()
            self._place_all(queue, least)
            queue = [group for group in queue if group.waiting]
        self.counts_existing = False
        self.state.domain_counts.reachable = None

    def _keep_vacant(self, group: PendingGroup, step: RelaxationStep) -> None:
        """Keep further new nodes out of the domains that a pod's spreads did not count, because no node is there."""
        vacant, counts = self.state.constraints.vacant, self.state.domain_counts
        if vacant is None or counts.reachable is None:
            return
        signature = group.pod_group.signature
        rules = [rule for rule in (*step.host_rules, *step.zone_rules) if rule.kind == SPREAD]
        vacancies = [VacantDomain(rule.group, rule.key, d) for rule in rules for d in counts.vacant(rule, signature)]
        if vacant.keep(vacancies, self.context.topology.new_nodes.counts):
            self.new.forget_refusals()

    def _place_pinned(self, queue: list[PendingGroup]) -> None:
        """Place pods that keep their domains before those that a target lets leave theirs.

        Such a pod would otherwise return to its domain while others that also return are not counted there, although
        kube-scheduler may see it first and counts them.
        """
        released = [group for group in queue if group.is_released]
        if released:
            pinned = [group for group in queue if not group.is_released]
            self._fill_slots(pinned)
            self._rounds([group for group in pinned if group.waiting], least_requests_from(released)[0])

    def _fill_slots(self, queue: list[PendingGroup]) -> None:
        """Put pods on their intended nodes if every rule allows it; the others stay in the queue."""
        for group in queue:
            step = next(iter(group.pod_group.steps), None)
            wanted = self.slots.get(group.pod_group.index, ())
            if step is None or not wanted or any(rule.kind == AFFINITY for rule in step.host_rules):
                continue
            open_to = self.nodes.open_to(group, step)
            for position, pods in wanted:
                for pod in group.pods[group.placed : group.placed + pods if open_to >> position & 1 else group.placed]:
                    if not self.nodes.takes(position, group.pod_group, step):
                        break
                    self.nodes.place(position, group.pod_group)
                    self.bound.append((pod, position))
                    group.placed += 1

    def _place_all(self, queue: list[PendingGroup], least: Vector | None = None) -> None:
        """Place pods, and again while restricting claims makes room. Each repetition narrows a claim, so the loop ends."""
        waiting = self._rounds(queue, least)
        while waiting and (self._narrow_to_cheapest() or self.claims.fix_open_labels()):
            waiting = self._rounds(waiting, least)

    def _rounds(self, queue: list[PendingGroup], least: Vector | None = None) -> list[PendingGroup]:
        """Go through the queue until a round places no pod; every other round places at least one, so the loop ends.

        A pod that fails may fit after others: next to a pod that it must join, or once a spread is even.

        Args:
            queue: The waiting pods.
            least: The smallest requests of any pod after the queue.
        """
        while queue:
            before = sum(group.waiting for group in queue)
            waiting: list[PendingGroup] = []
            least_left = least
            least_from = memo(partial(least_requests_from, queue))
            for position, group in enumerate(queue):
                self._place(group, partial(_smallest, least_from, position, least_left))
                if group.waiting:
                    waiting.append(group)
                    least_left = least_of(group.pod_group.requests, least_left)
            if sum(group.waiting for group in waiting) == before:
                return waiting
            queue = waiting
        return []

    def _place(self, group: PendingGroup, smallest: Callable[[], Vector]) -> None:
        """Place the pods of a group until one finds no place: the others are equal to it."""
        steps = group.pod_group.steps
        alternatives = self._alternatives(group)
        for pod in group.pods[group.placed :]:
            self.context.watch()
            if not group.pod_group.is_plain and self.state.constraints.exhausted(group.pod_group):
                return
            if alternatives and any(self._joins(pod, group, step) for step in alternatives):
                group.placed += 1
                continue
            for step in steps if self.guide is None else self.guide.of(group.pod_group, group.placed):
                if self._try(pod, group, step, smallest):
                    break
            else:
                return
            group.placed += 1

    def _try(self, pod: Pod, group: PendingGroup, step: RelaxationStep, smallest: Callable[[], Vector]) -> bool:
        """Place a pod with its demands at one relaxation step."""
        pod_group = group.pod_group
        if self.counts_existing:
            launches = memo(partial(self._reaches, pod_group, step))
            self.state.domain_counts.reachable = ReachableDomains(launches, self.claims.claims)
        if self.unplaceable and _question(group, step) in self.unplaceable:
            return False
        if self._joins(pod, group, step):
            self._keep_vacant(group, step)
            return True
        if pod_group.refusal:
            return False
        # A pod that waits in any case gets its node from provisioning: a command neither launches nor pays for it.
        barred = self.opened[not group.is_displaced]
        if barred and is_spare(pod):
            barred = NO_CLAIMS
        placement = self.claims.find(pod_group, step, smallest, barred)
        placement = placement or self.new.open(len(self.claims.claims), pod_group, step)
        if placement is not None:
            if placement.claim.index == len(self.claims.claims):
                self.opened[group.is_displaced] |= ClaimMask(1 << placement.claim.index)
            self.claims.place(placement, pod, pod_group)
            self._keep_vacant(group, step)
            return True
        if step.is_monotone:
            self.unplaceable.add(_question(group, step))
        return False

    def _reaches(self, pod_group: PodGroup, step: RelaxationStep, key: str, value: str | None) -> bool:
        """Whether a pod could get a new node in a domain, where the volume of a claim that it shares may be.

        One that must join a pod on its host gets none, but others may get further hosts. Of other affinities, only that to the
        pod's own kind counts: another plan may put other pods elsewhere.
        """
        counts, groups = self.state.domain_counts, self.context.topology.groups
        shared = {shared_claim_label(name) for name in pod_group.signature.shared_claims}
        affinities = (rule for rule in step.zone_rules if rule.kind == AFFINITY and rule.key == key)
        near = (rule for rule in affinities if rule.selects_self or _labels_read(groups[rule.group]) <= shared)
        hosts = pod_group.steps[-1].host_rules if value else ()
        if any(rule.kind == AFFINITY and counts.bars_new_node(rule) for rule in hosts):
            return False
        is_near = value is None or all(counts.admits(rule, value, pod_group.signature, is_new=True) for rule in near)
        return is_near and self.new.reaches(pod_group, key, value)

    def _joins(self, pod: Pod, group: PendingGroup, step: RelaxationStep) -> bool:
        """Place a pod on an existing node, if one suits it at this step."""
        position = self.nodes.find(group, step)
        if position is None and group.avoids_recently_changed:
            position = self._doubled_up(group, step)
        if position is None:
            return False
        self.nodes.place(position, group.pod_group)
        self.bound.append((pod, position))
        return True

    def _doubled_up(self, group: PendingGroup, step: RelaxationStep) -> int | None:
        """Return an existing node for a pod that consolidation moves, where its spread over hosts counts existing nodes alone.

        The pod is evicted while no node is launched for it: kube-scheduler takes the least over the nodes that are there, and
        the new ones of the same command. Karpenter expects an empty node in any case.
        """
        is_karpenter = self.context.snapshot.options.karpenter_moves_only
        if is_karpenter or not any(rule.kind == SPREAD for rule in step.host_rules):
            return None
        counts = self.state.domain_counts
        before, counts.reachable = counts.reachable, ReachableDomains(_is_wide, self.claims.claims)
        position = self.nodes.find_unremembered(group, step)
        counts.reachable = before
        return position

    def _alternatives(self, group: PendingGroup) -> tuple[RelaxationStep, ...]:
        """Return one step for each alternative of the required node affinity of the pods.

        A place on an existing node costs nothing, whichever alternative it meets; a new node for the first alternative does.
        kube-scheduler binds the pod there. Under Karpenter's policy the result is empty: Karpenter launches that node.
        """
        is_karpenter = self.context.snapshot.options.karpenter_moves_only
        return () if is_karpenter else with_all_preferences(group.pod_group.steps)

    def _narrow_to_cheapest(self) -> bool:
        made_room = narrow_to_cheapest(self.state, self.claims, self.new.limited)
        for constraint in self.state.constraints.at_launch:
            made_room |= constraint.make_room(self.claims.claims, self.claims.restrict)
        if made_room:
            self.new.forget_refusals()
            self.unplaceable.clear()
        return made_room


def _has_spread(group: PendingGroup) -> bool:
    """Whether any required spread may keep the pods waiting."""
    rules = (rule for step in group.pod_group.steps[-1:] for rule in (*step.host_rules, *step.zone_rules))
    return any(rule.kind == SPREAD for rule in rules)


def _labels_read(group: TopologyGroup) -> set[str]:
    return {requirement.key for requirement in group.selector.requirements} if group.selector is not None else set()


def _is_wide(key: str, _: str | None) -> bool:
    """Whether domains along a key are of several nodes each."""
    return key != labels.HOSTNAME


def _smallest(least_from: Callable[[], Sequence[Vector]], position: int, least: Vector | None) -> Vector:
    """Return the smallest requests of a queue from a position on, and of pods that come later."""
    return least_of(least_from()[position], least)


def _question(group: PendingGroup, step: RelaxationStep) -> _Question:
    """Return what decides whether a pod of a group has a place at a step."""
    return group.pod_group.index, step.number, group.avoids, group.avoids_drained_later, group.is_displaced
