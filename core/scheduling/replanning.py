"""Plans made again: other orders, zones and limits for pods that were left over, and the best of all plans.

Tries other orders and other zones for pods that were left without a place by rules about each other.

Zones are chosen one pod at a time: pods of one workload may take the last zone that another workload's anti-affinity allows, or
stay together although another's spread or affinity needs them apart. The search looks for a variation of the plan that places
more pods in total.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

import msgspec

from core.model.pod import Pod
from core.pods import reschedulable
from core.scheduling.claim_search import Solution
from core.scheduling.context import SchedulingContext, is_virtual
from core.scheduling.new_node import InFlightClaim
from core.scheduling.pods import Avoids, PendingGroup, PodGroup
from core.scheduling.primitives import RequirementId, TypeMask, memo
from core.scheduling.scheduler import (
    DOMAINS_MAX,
    BarredDomain,
    DomainOrder,
    GreedyScheduler,
    GuidedSteps,
    RoundRobinPods,
    queue_of,
)
from core.scheduling.topology.groups import AFFINITY, SPREAD

# Plans again where the account limits a plan: EC2 quotas and free addresses that it exceeds, commitments that may cover it.


Extra = TypeVar("Extra")
"""What a plan comes with: its proven bound, or the pods that it displaces."""


class _Restrictions(NamedTuple):
    """What commitments, quotas and addresses change about a claim."""

    claim: InFlightClaim
    reqs: RequirementId
    allowed: TypeMask
    commitment: str


def planned_within_ec2_limits(
    context: SchedulingContext, plan: Callable[[SchedulingContext], tuple[Solution, Extra]]
) -> tuple[SchedulingContext, tuple[Solution, Extra]]:
    """Return a plan within EC2's quotas, the free addresses and caps, and its context.

    If the first plan exceeds one of them, further plans have it among their constraints, or leave out pods that are held back.
    """
    solution = plan(context)
    while (again := context.for_another_plan(solution[0].claims)) is not None:
        context = again
        solution = plan(context)
    solution[0].held = tuple(held for _, held in sorted(context.holds.held.items()))
    solution[0].waiting = context.holds.waiting
    solution[0].saving = context.holds.saving
    return context, solution


VOLUME_CHOICES_MAX: Final = 8
"""How many choices of free volumes are planned."""


def with_fitting_volumes(context: SchedulingContext) -> SchedulingContext:
    """Return the context in which free volumes are assigned to claims so that the most pods get a place.

    Volumes are assigned before pods are placed. A pod that finds no place with its volume gives it up for others, and tries the
    next that fits. One plan shows which pods find none with any volume: others come before these.
    """
    best, least = context, -1
    for _ in range(VOLUME_CHOICES_MAX):
        solution, _ = planned(context, frozenset(), consolidation=False)
        waiting = [pod for group in solution.unplaced for pod in group.pods[group.placed :]]
        if not context.volumes.binding.is_open and (least < 0 or len(waiting) < least):
            best, least = context, len(waiting)
        again = context.with_other_volumes(waiting)
        if again is None:
            break
        context = again
    return best


def commitment_contexts(context: SchedulingContext, gone: frozenset[int]) -> tuple[SchedulingContext, ...]:
    """Return the contexts to plan in: with commitments among the constraints, then with commitments applied afterwards."""
    return (context, context.with_commitments_last()) if any(context.remaining.uncommitted(gone)) else (context,)


def best_of(plans: Sequence[tuple[Solution, Extra]]) -> tuple[Solution, Extra]:
    """Return the best plan, the first among equals."""
    # Ranking a single plan would only compute its prices once more.
    return plans[0] if len(plans) == 1 else min(plans, key=lambda plan: plan_rank(plan[0]))


def plan_rank(solution: Solution) -> tuple[int, int]:
    """Return the number of unplaced pods and nano-dollars per hour: the smallest is the best plan."""
    return sum(group.waiting for group in solution.unplaced), sum(claim.price for claim in solution.claims)


def cheaper_within_ec2_limits(context: SchedulingContext, cheaper: Solution, before: Solution) -> Solution | None:
    """Return the cheaper solution after commitments, EC2's quotas and free addresses have restricted the claims of both.

    Restrictions may make either one more expensive: a claim may lose the zone of its cheapest type.

    Args:
        context: The context of both.
        cheaper: The result of a search that began with `before`. The two may share claims.
        before: The solution that it would replace.

    Returns:
        The solution, with its claims restricted. None if those of `cheaper` exceed what is left; then no claim is changed.
    """
    if cheaper is before:
        return before.settle_commitments()
    at_first = (*_restrictions(before), *_restrictions(cheaper))
    is_allowed = context.for_another_plan(before.settle_commitments().claims) is None
    rank, restricted = plan_rank(before), _restrictions(before)
    _restore(at_first)
    if context.for_another_plan(cheaper.settle_commitments().claims) is not None:
        _restore(at_first)
        return None
    if plan_rank(cheaper) <= rank or not is_allowed:
        return cheaper
    _restore(restricted)
    return before


def _restrictions(solution: Solution) -> tuple[_Restrictions, ...]:
    return tuple(_Restrictions(claim, claim.reqs, claim.allowed, claim.commitment) for claim in solution.claims)


def _restore(claims: Iterable[_Restrictions]) -> None:
    for claim, reqs, allowed, commitment in claims:
        claim.reqs, claim.allowed, claim.commitment = reqs, allowed, commitment


# Leftovers: the pods for which a plan has no place; and whether another plan is preferable.


Leftovers = Counter[int]
"""Pod group → how many of its pods have no place."""


def leftovers_of(solution: Solution) -> Leftovers:
    """Return the pods without a place, except pods that no node could help and virtual pods."""
    waiting: Leftovers = Counter()
    for pending_group in solution.unplaced:
        if not pending_group.pod_group.refusal and not is_virtual(pending_group.pods[0]):
            waiting[pending_group.pod_group.index] += pending_group.waiting
    return waiting


def is_fair(waiting: Mapping[int, PendingGroup], *, before: Leftovers, after: Leftovers) -> bool:
    """Whether only pods with rules along shared domains lose a place, and none loses it to pods of lower priority.

    Pods without such rules keep their places: otherwise small pods would permanently displace large ones at a limit.

    Args:
        waiting: Pod group → all of its pods that wait, in the order of the queue.
        before: The pods that one plan left.
        after: The pods that the other plan left.
    """
    gained: Counter[int] = Counter()
    for index in before | after:
        group, loses = waiting[index], after[index] > before[index]
        if loses and not any(step.keys for step in group.pod_group.steps):
            return False
        # Pods of a group get their places in order, so those that are left are its last ones. Their priorities may differ.
        fewer, more = sorted((before[index], after[index]))
        for pod in group.pods[len(group.pods) - more : len(group.pods) - fewer]:
            gained[pod.spec.priority] += -1 if loses else 1
    return next((gained[priority] > 0 for priority in sorted(gained, reverse=True) if gained[priority]), True)


# Finds the rules along shared topology domains that affect the pods of one signature.


class TopologyConflicts(NamedTuple):
    """Waiting signatures that may keep pods of one signature from a place, by topology key.

    Attributes:
        values: The values that any node has or may get.
        repelled: Signatures that anti-affinity, their own or the pods', keeps out of the pods' domains.
        followed: Signatures that an affinity or a spread of the pods counts, so that their domains decide the pods'.
    """

    values: Mapping[str, tuple[str, ...]]
    repelled: Mapping[str, tuple[int, ...]]
    followed: Mapping[str, tuple[int, ...]]

    @property
    def signatures(self) -> tuple[int, ...]:
        """Return all of them, the repelled ones first."""
        sides = (self.repelled, self.followed)
        return tuple(dict.fromkeys(signature for side in sides for distinct in side.values() for signature in distinct))

    def round_robin(self) -> frozenset[RoundRobinPods]:
        """Return all followed signatures, which are to be in every domain."""
        return frozenset(
            (follower, key, self.values[key]) for key, followers in self.followed.items() for follower in followers
        )


def conflicts_of(context: SchedulingContext, pod_group: PodGroup, waiting: frozenset[int]) -> TopologyConflicts:
    """Return the conflicts of a group's pods with the waiting signatures."""
    topology, signature = context.topology, pod_group.signature
    repelled: dict[str, dict[int, None]] = {}
    followed: dict[str, dict[int, None]] = {}
    rules = dict.fromkeys(rule for step in pod_group.steps for rule in step.zone_rules)
    for rule in rules:
        counted = [s.index for s in topology.counted(rule.group) if s.index in waiting and s is not signature]
        side = followed if rule.kind in (AFFINITY, SPREAD) else repelled
        side.setdefault(rule.key, {}).update(dict.fromkeys(counted))
    values = {key: _values(context, key) for key in sorted({rule.key for rule in rules})}
    sides = ({key: tuple(others) for key, others in side.items() if others} for side in (repelled, followed))
    return TopologyConflicts(values, *sides)


def _values(context: SchedulingContext, key: str) -> tuple[str, ...]:
    """Return the first few values of a label, sorted, that existing nodes have or NodePools offer."""
    values = {value for value in context.node_index.domains(key) if value is not None}
    for template in context.templates:
        values.update(template.types.values(template.mask, template.offered, key))
    return tuple(sorted(values))[:DOMAINS_MAX]


# Describes how a plan may differ from the greedy plan, and which changes may help pods without a place.


VALUES_TO_EXCLUDE_ONE: Final = 3
"""From this many values of a key on, pods may also take all but one in turn and leave that one to others."""


class PlanVariation(NamedTuple):
    """Changes to the order of the queue and to the choice of domains, by the numbers of signatures.

    Attributes:
        first: Signatures that are placed before the others, in this order.
        last: Signatures that are placed after the others, in this order.
        barred: Domains that signatures leave to others until all had their turn.
        round_robin: Signatures whose pods take the domains of a key in turn.
        order: The order in which all other pods with rules along a key try its domains; None for the usual order.
    """

    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    barred: frozenset[BarredDomain] = frozenset()
    round_robin: frozenset[RoundRobinPods] = frozenset()
    order: DomainOrder | None = None

    def rank(self, pending_group: PendingGroup) -> int:
        """Return a group's rank in the queue, which precedes all other criteria."""
        signature = pending_group.pod_group.signature.index
        if signature in self.first:
            return self.first.index(signature) - len(self.first)
        return self.last.index(signature) + 1 if signature in self.last else 0

    def neighbours(self, signature: int, conflicts: TopologyConflicts) -> Iterator[PlanVariation]:
        """Yield variations with one more change that may help pods of a signature, the most promising first."""
        ahead = self._ahead(signature)
        yield ahead
        for key, others in conflicts.followed.items():
            everywhere = [(other, key, conflicts.values[key]) for other in others]
            yield self._replace(round_robin=self.round_robin | {*everywhere})
            for triple in everywhere:
                yield self._replace(round_robin=self.round_robin | {triple})
            for value in conflicts.values[key] if len(conflicts.values[key]) >= VALUES_TO_EXCLUDE_ONE else ():
                remaining = tuple(triple for triple in conflicts.values[key] if triple != value)
                in_turn = self._replace(round_robin=self.round_robin | {(other, key, remaining) for other in others})
                yield in_turn
                kept_out = {(other, key, triple) for other in conflicts.repelled.get(key, ()) for triple in remaining}
                if kept_out:
                    yield in_turn._replace(barred=self.barred | kept_out)
        for key, others in conflicts.repelled.items():
            for value in conflicts.values[key]:
                barred = self.barred | {(other, key, value) for other in others}
                yield ahead._replace(barred=barred)
                yield self._replace(barred=barred)
        for other in conflicts.signatures:
            yield self._behind(other)
            for key, values in conflicts.values.items():
                for value in values:
                    yield self._replace(barred=self.barred | {(other, key, value)})
        for key, values in conflicts.values.items():
            for value in values:
                yield self._replace(
                    barred=self.barred | {(signature, key, triple) for triple in values if triple != value}
                )

    def _ahead(self, signature: int) -> PlanVariation:
        return self._replace(first=(signature, *_without(self.first, signature)), last=_without(self.last, signature))

    def _behind(self, signature: int) -> PlanVariation:
        return self._replace(first=_without(self.first, signature), last=(*_without(self.last, signature), signature))


def in_domain_orders(values: Mapping[str, tuple[str, ...]], drawn: int) -> Iterator[PlanVariation]:
    """Yield variations in which all pods try the domains in the same order, then `drawn` ones in which each has its own.

    Args:
        values: Topology key → its values. One order starts at each value and continues up the list, one down the list.
        drawn: How many variations have random orders.
    """
    for key, domain_values in values.items():
        for up in (domain_values, domain_values[::-1]):
            for first in range(len(domain_values)):
                yield PlanVariation(order=DomainOrder(key, up[first:] + up[:first]))
    for seed in range(drawn):
        for key, domain_values in values.items():
            yield PlanVariation(order=DomainOrder(key, domain_values, seed))


def _without(signatures: tuple[int, ...], signature: int) -> tuple[int, ...]:
    return tuple(other for other in signatures if other != signature)


# A best-first search for a variation of a plan that leaves fewer pods without a place.


class VariationResult(NamedTuple):
    """The result of one variation's plan.

    Attributes:
        left: How many pods have no place; a prohibitive number if the plan is not acceptable.
        signatures: Signatures that might get a place by further changes, those with the most pods first.
    """

    left: int
    signatures: tuple[int, ...]


class VariationSearch(msgspec.Struct, eq=False):
    """Repeatedly adds one change to the variation that leaves the fewest pods so far.

    Attributes:
        planned: Plans a variation.
        conflicts: The conflicts of a signature.
        plans_max: The most variations that are planned.
        idle_max: The most variations in a row without improvement.
        others: Variations that are not reached by single changes; they are planned alternately with those.
    """

    planned: Callable[[PlanVariation], VariationResult]
    conflicts: Callable[[int], TopologyConflicts]
    plans_max: int
    idle_max: int
    others: Iterator[PlanVariation]
    _queue: list[tuple[int, int, int, Iterator[PlanVariation]]] = msgspec.field(default_factory=list)

    def best(self, start: VariationResult) -> PlanVariation | None:
        """Return the variation that leaves the fewest pods, the first found among equals; None if none improves."""
        fewest, best, plans, idle = start.left, None, 0, 0
        self._extend(start, 0, 0, PlanVariation())
        for depth, variation in self._distinct():
            if plans == self.plans_max or idle == self.idle_max or not fewest:
                break
            result = self.planned(variation)
            plans, idle = plans + 1, idle + 1
            if result.left < fewest:
                fewest, best, idle = result.left, variation, 0
            self._extend(result, depth, plans, variation)
        return best

    def _distinct(self) -> Iterator[tuple[int, PlanVariation]]:
        """Yield alternately a change of the best variation and one of the others, each variation once, with its depth."""
        seen = {PlanVariation()}
        sources = [self._steps(), ((1, other) for other in self.others)]
        while sources:
            for source in tuple(sources):
                move = next((other for other in source if other[1] not in seen), None)
                if move is None:
                    sources.remove(source)
                else:
                    seen.add(move[1])
                    yield move

    def _steps(self) -> Iterator[tuple[int, PlanVariation]]:
        while self._queue:
            _, depth, _, moves = self._queue[0]
            variation = next(moves, None)
            if variation is None:
                heapq.heappop(self._queue)
            else:
                yield depth + 1, variation

    def _extend(self, result: VariationResult, depth: int, number: int, variation: PlanVariation) -> None:
        moves = [variation.neighbours(signature, self.conflicts(signature)) for signature in result.signatures]
        heapq.heappush(self._queue, (result.left, depth, number, _by_turns(moves)))


def _by_turns(moves: Sequence[Iterator[PlanVariation]]) -> Iterator[PlanVariation]:
    """Yield the first element of each, then the second of each, and so on."""
    waiting = [*moves]
    while waiting:
        turns = [(source, next(source, None)) for source in waiting]
        yield from (move for _, move in turns if move is not None)
        waiting = [source for source, move in turns if move is not None]


DRAWN_MAX: Final = 64
"""The most variations with random orders of zones for each pod."""

WORK_MAX: Final = 6_000
"""The most work of all variations together, in planned pods: one takes some 50 µs, so this is a third of a second."""

UNLIKELY_WORK_MAX: Final = 1_500
"""The same if no leftover group gains from a separate plan: variations then rarely help, and such pods may wait for days."""

IDLE_WORK_MAX: Final = 3_000
"""The most work in a row without improvement."""

PLAN_WORK: Final = 50
"""The fixed work of each plan, in pods."""

GROUPS_MAX: Final = 16
"""The most groups for which separate plans determine whether they would gain."""


class VariedPlans:
    """Variations of one plan.

    Args:
        context: The snapshot.
        queue: Creates a new queue for each plan.
    """

    def __init__(self, context: SchedulingContext, queue: Callable[[], list[PendingGroup]]) -> None:
        self._context = context
        self._queue = queue
        waiting = queue()
        self._groups: dict[int, PodGroup] = {
            pending_group.pod_group.index: pending_group.pod_group for pending_group in waiting
        }
        self._waiting: dict[int, PendingGroup] = {
            group.pod_group.index: group for group in waiting if not is_virtual(group.pods[0])
        }
        self._pods = sum(len(pending_group.pods) for pending_group in waiting)
        by_signature = {group.signature.index: group for group in self._groups.values() if group.steps}
        self._conflicts: Callable[[int], TopologyConflicts] = memo(
            lambda signature: conflicts_of(context, by_signature[signature], frozenset(by_signature))
        )

    def improved(self, solution: Solution, leftovers: Leftovers) -> Solution:
        """Return the solution, or one that leaves fewer pods; only pods with conflicting rules may lose a place."""
        if self._plans(WORK_MAX) == 0:
            return solution
        is_likely = self._gains_alone(leftovers)
        values = self._values(index for index in leftovers if is_likely or self._fits_some_type(self._groups[index]))
        if not values:
            return solution
        solutions: dict[PlanVariation, Solution] = {}
        search = VariationSearch(
            planned=partial(self._result, solutions, leftovers),
            conflicts=self._conflicts,
            plans_max=self._plans(WORK_MAX if is_likely else UNLIKELY_WORK_MAX),
            idle_max=self._plans(IDLE_WORK_MAX),
            others=in_domain_orders(values, DRAWN_MAX),
        )
        best = search.best(VariationResult(leftovers.total(), self._signatures(leftovers)))
        return solution if best is None else solutions[best]

    def _plans(self, work: int) -> int:
        """Return how many plans of all pods fit this work."""
        return work // (self._pods + PLAN_WORK)

    def _result(
        self, solutions: dict[PlanVariation, Solution], leftovers: Leftovers, variation: PlanVariation
    ) -> VariationResult:
        solution = solutions[variation] = self._plan(sorted(self._queue(), key=variation.rank), variation)
        left_now = leftovers_of(solution)
        fault = 0 if is_fair(self._waiting, before=leftovers, after=left_now) else self._pods
        return VariationResult(left_now.total() + fault, self._signatures(left_now))

    def _plan(self, queue: list[PendingGroup], variation: PlanVariation) -> Solution:
        guide = GuidedSteps(self._context.table, variation.barred, variation.round_robin, variation.order)
        return GreedyScheduler(self._context, queue, self._context.leaving, frozenset(), guide=guide).run()

    def _values(self, groups: Iterable[int]) -> dict[str, tuple[str, ...]]:
        """Return the topology keys of the groups' rules, with their values."""
        values: dict[str, tuple[str, ...]] = {}
        for index in groups:
            values.update(self._conflicts(self._groups[index].signature.index).values)
        return dict(sorted(values.items()))

    def _fits_some_type(self, pod_group: PodGroup) -> bool:
        templates = self._context.templates
        return any(template.types.room.fits(template.mask, pod_group.requests) for template in templates)

    def _gains_alone(self, leftovers: Leftovers) -> bool:
        """Whether fewer pods of some group are left if it is planned only with the groups that its rules follow, and theirs."""
        for index in [*leftovers][:GROUPS_MAX]:
            conflicts = self._conflicts(self._groups[index].signature.index)
            company = self._company(conflicts)
            members = {group.index for group in self._groups.values() if group.signature.index in company} | {index}
            together, apart = PlanVariation(), PlanVariation(round_robin=conflicts.round_robin())
            if conflicts.signatures:
                plans = (self._plan(self._only(members), group) for group in dict.fromkeys((together, apart)))
                if any(leftovers_of(plan)[index] < leftovers[index] for plan in plans):
                    return True
        return False

    def _company(self, conflicts: TopologyConflicts) -> set[int]:
        """Return the signatures that rules follow, and those that these follow in turn: without them they have no place."""
        company: set[int] = set()
        unread = [conflicts]
        while unread:
            new = {follower for followed in unread.pop().followed.values() for follower in followed} - company
            company |= new
            unread += [self._conflicts(follower) for follower in sorted(new)]
        return company

    def _only(self, members: Collection[int]) -> list[PendingGroup]:
        return [pending_group for pending_group in self._queue() if pending_group.pod_group.index in members]

    def _signatures(self, leftovers: Leftovers) -> tuple[int, ...]:
        """Return the signatures of the leftovers, the most pods first."""
        counts: Counter[int] = Counter()
        for index, count in leftovers.items():
            counts[self._groups[index].signature.index] += count
        return tuple(sorted(counts, key=lambda signature: (-counts[signature], signature)))


# Plans again if one order of placement is not enough.
#
# Pods that one node could hold are planned a second time as if they had to share it: otherwise, the first pod may choose a
# domain where a node for it alone is cheap, but a node for all of them is not. The first plan compares each choice of a domain
# with the one that the second plan would make; if none differs, both plans are the same, and the second is not made.
#
# Large pods are placed first, and may take the only zone, family or node that a smaller pod's rules allow. A second plan with
# the smaller pod first is used if no other pod loses its place. If pods' rules about each other are the cause, `VariedPlans`
# searches further.


RETRIES_MAX: Final = 4
"""The most groups that are retried one by one, after a retry of all together."""

PODS_MAX: Final = 1_000
"""With more pods, groups are retried only together: at a NodePool's limit, each retry costs a whole plan."""

SHARING_PODS_MAX: Final = 110
"""More pods are not planned on one node as well: a kubelet runs 110 by default, though some types have room for a thousand.

The second plan takes some 50 µs a pod with 400 types, and 110 µs with 800.
"""


class RequeuingScheduler:
    """Plans for all waiting pods, and again with unplaced pods first.

    Args:
        context: The snapshot.
        queue: Creates a new queue for each plan.
    """

    def __init__(self, context: SchedulingContext, queue: Callable[[], list[PendingGroup]]) -> None:
        self._context = context
        self._queue = queue

    def solution(self) -> Solution:
        """Return the greedy plan, or one that places more pods, or leaves the same pods over and costs less."""
        best = self._plan(frozenset(), compares_sharing=True)
        waiting = leftovers_of(best)
        if not best.is_same_if_shared and self._may_share_node(best):
            again = self._plan(frozenset(), shares_node=True)
            left_now = leftovers_of(again)
            if left_now < waiting or (left_now == waiting and _cost(again) < _cost(best)):
                best, waiting = again, left_now
        for first in self._retries(waiting):
            again = self._plan(first)
            left_now = leftovers_of(again)
            if left_now < waiting:
                best, waiting = again, left_now
        return VariedPlans(self._context, self._queue).improved(best, waiting) if waiting else best

    def _may_share_node(self, best: Solution) -> bool:
        """Whether some type has room for the few pods that no existing node takes, and rules leave them a choice of domains."""
        waiting = [group.pod_group for group in best.unplaced for _ in range(group.waiting)]
        groups = [group for claim in best.claims for group in claim.pod_groups] + waiting
        if not 2 <= len(groups) <= SHARING_PODS_MAX or not any(
            step.keys for group in dict.fromkeys(groups) for step in group.steps
        ):
            return False
        total = self._context.axis.total(group.requests for group in groups)
        return any(template.types.room.fits(template.mask, total) for template in self._context.templates)

    def _plan(
        self,
        first: frozenset[int],
        *,
        alone: bool = False,
        shares_node: bool = False,
        compares_sharing: bool = False,
    ) -> Solution:
        queue = self._queue()
        if alone:
            queue = [pending_group for pending_group in queue if pending_group.pod_group.index in first]
        compares = compares_sharing and sum(len(group.pods) for group in queue) <= SHARING_PODS_MAX
        return GreedyScheduler(
            self._context,
            queue,
            self._context.leaving,
            frozenset(),
            first,
            shares_node=shares_node,
            compares_sharing=compares,
        ).run()

    def _retries(self, leftovers: Leftovers) -> Iterator[frozenset[int]]:
        """Yield the groups to place first: all that would gain from a separate plan together, then one by one."""
        if not leftovers:
            return
        queue = self._queue()
        pod_groups = [pending_group.pod_group for pending_group in queue]
        late = dict.fromkeys(group for group in pod_groups if group.index in leftovers)
        together = [self._with_required(group, pod_groups) for group in [*late][:GROUPS_MAX]]
        gaining = [first for first, group in zip(together, late, strict=False) if self._gains(first, group, leftovers)]
        if gaining:
            yield frozenset().union(*gaining)
        if len(gaining) > 1 and sum(len(pending_group.pods) for pending_group in queue) <= PODS_MAX:
            yield from gaining[:RETRIES_MAX]

    def _gains(self, first: frozenset[int], pod_group: PodGroup, leftovers: Leftovers) -> bool:
        return leftovers_of(self._plan(first, alone=True))[pod_group.index] < leftovers[pod_group.index]

    def _with_required(self, pod_group: PodGroup, pod_groups: Iterable[PodGroup]) -> frozenset[int]:
        """Return a group together with those that its pods must be near."""
        rules = (*pod_group.steps[0].host_rules, *pod_group.steps[0].zone_rules)
        near = {rule.group for rule in rules if rule.kind == AFFINITY and not rule.selects_self}
        return frozenset(
            {pod_group.index} | {other.index for other in pod_groups if near.intersection(other.signature.selected_by)}
        )


def _cost(solution: Solution) -> int:
    return sum(claim.price for claim in solution.claims)


# Greedy plans with or without some nodes, and the pods that these nodes lose.


class Drains(msgspec.Struct, frozen=True, kw_only=True):
    """Many nodes that leave, by position.

    Attributes:
        leaving: Nodes whose pods must avoid nodes that `consolidateAfter` still protects.
        mandatory: Nodes that leave at any cost, whose pods may go anywhere.
        closed: Nodes that stay and take no pods, since they leave later.
        slots: Pod group → nodes and how many of its pods each takes.
    """

    leaving: frozenset[int] = frozenset()
    mandatory: frozenset[int] = frozenset()
    closed: frozenset[int] = frozenset()
    slots: dict[int, list[tuple[int, int]]] = {}


def greedy(
    context: SchedulingContext,
    gone: frozenset[int],
    *,
    consolidation: bool,
    closed: frozenset[int] = frozenset(),
    with_blocked: bool = False,
) -> tuple[Solution, list[Pod]]:
    """Return the greedy plan and the pods that it displaces; the best of several if commitments may cover claims."""
    solutions = [
        planned(variant, gone, consolidation=consolidation, closed=closed, with_blocked=with_blocked)
        for variant in commitment_contexts(context, gone)
    ]
    for solution, _ in solutions:
        solution.settle_commitments()
    return best_of(solutions)


def planned(
    context: SchedulingContext,
    gone: frozenset[int],
    *,
    consolidation: bool,
    closed: frozenset[int] = frozenset(),
    with_blocked: bool = False,
) -> tuple[Solution, list[Pod]]:
    """Return the greedy plan of one context, and the pods that it displaces.

    With `with_blocked`, these include pods that may not be evicted now: they are forced off later.
    """
    more = gone - context.leaving
    needing_place = reschedulable if with_blocked else context.budgets.currently_reschedulable
    displaced = [pod for p in sorted(more) for pod in needing_place(context.existing_nodes[p].state.pods)]
    avoided = Avoids.RECENTLY_CHANGED if consolidation else Avoids.UNPROVEN
    waiting = [((*context.pending, *context.moving), Avoids.NO_NODE), (displaced, avoided)]
    if more:
        queue, leaving = queue_of(context, waiting), context.leaving | more | closed
        first = _groups_bound_first(context)
        return GreedyScheduler(context, queue, leaving, more, first, shares_node=True).run(), displaced
    return RequeuingScheduler(context, lambda: queue_of(context, waiting)).solution(), displaced


def _groups_bound_first(context: SchedulingContext) -> frozenset[int]:
    """Return the groups of the pods that wait already: kube-scheduler binds them before a node's pods are evicted.

    Karpenter takes all pods by their size, so that one that is evicted may be expected where one that waits is bound.
    """
    if context.snapshot.options.karpenter_moves_only:
        return frozenset()
    return frozenset(context.pod_groups.of(pod).index for pod in (*context.pending, *context.moving))


def drained(context: SchedulingContext, drains: Drains) -> tuple[Solution, list[Pod]]:
    """Return the greedy plan without the drained nodes, and the pods that these lose."""
    gone = drains.leaving | drains.mandatory
    pods = {
        position: context.budgets.currently_reschedulable(context.existing_nodes[position].state.pods)
        for position in sorted(gone - context.leaving)
    }
    mandatory = [pod for position, node_pods in pods.items() if position in drains.mandatory for pod in node_pods]
    voluntary = [pod for position, node_pods in pods.items() if position not in drains.mandatory for pod in node_pods]
    waiting = (*context.pending, *context.moving)
    moved = [(mandatory, Avoids.UNPROVEN), (voluntary, Avoids.RECENTLY_CHANGED)]
    queue = queue_of(context, [(waiting, Avoids.NO_NODE)], moved)
    closed = context.leaving | gone | drains.closed
    solution = GreedyScheduler(context, queue, closed, frozenset(pods), slots=drains.slots).run()
    return solution.settle_commitments(), mandatory + voluntary
