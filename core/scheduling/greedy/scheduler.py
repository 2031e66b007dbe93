"""Computes one plan: every waiting pod is tried on existing nodes, on the plan's claims, then on a new claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial

from core.model.pod import Pod
from core.scheduling.capacity.claim_profile import ClaimProfiles
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.existing_node_search import ExistingNodeSearch
from core.scheduling.greedy.guided_steps import GuidedSteps
from core.scheduling.greedy.limit_narrowing import narrow_to_cheapest
from core.scheduling.greedy.new_claims import NewClaims
from core.scheduling.greedy.open_claim_search import OpenClaimSearch
from core.scheduling.greedy.plan_state import PlanState
from core.scheduling.greedy.queue import least_of, least_requests_from
from core.scheduling.greedy.solution import Solution
from core.scheduling.pods.pending_pods import is_virtual
from core.scheduling.pods.pod_group import PendingGroup, RelaxationStep, with_all_preferences
from core.scheduling.primitives.handles import NO_CLAIMS, ClaimMask
from core.scheduling.primitives.memo import memo
from core.scheduling.primitives.resource_vector import Vector, minus
from core.scheduling.topology.departures import NO_DEPARTURES, Departures
from core.scheduling.topology.domain_choice import DomainChoice
from core.scheduling.topology.domain_counts import DomainCounts
from core.scheduling.topology.topology_group import AFFINITY

_Question = tuple[int, int, bool, bool, bool]


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
        found = ((signature, pod, at[pod.node_name]) for signature, pod in pods if pod.node_name in at)
        return Departures.of(self.vanished, (one for one in found if one[2] in self.vanished))

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

    def run(self) -> Solution:
        """Place all pods that can be placed."""
        queue = [group for group in self.pending_groups if not group.pod_group.reason]
        spare = [group for group in queue if is_virtual(group.pods[0])]
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
        before = self.state.copy() if spare and any(group.waiting for group in real) else None
        self._place_all(spare)
        unplaced = [group for group in self.pending_groups if group.waiting]
        fixed_pods = frozenset(pod.key for group in waiting for pod in group.pods)
        is_same = self.compares_sharing and not self.domain_choice.differs_if_shared
        return Solution(self.claims.claims, self.bound, unplaced, self.state, before, fixed_pods, is_same)

    def _open_drained_later(self, queue: list[PendingGroup], least: Vector | None) -> None:
        """Place pods that avoid nodes which the stored target drains later on these, where nothing else can hold them."""
        self.nodes.opens_drained_later = True
        left = [group for group in queue if group.waiting]
        if any(group.avoids_drained_later for group in left):
            self.unplaceable.clear()
            self._place_all(left, least)

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
        left = self._rounds(queue, least)
        while left and (self._narrow_to_cheapest() or self.claims.fix_open_labels()):
            left = self._rounds(left, least)

    def _rounds(self, queue: list[PendingGroup], least: Vector | None = None) -> list[PendingGroup]:
        """Go through the queue until a round places no pod; every other round places at least one, so the loop ends.

        A pod that fails may fit after others: next to a pod that it must join, or once a spread is even.

        Args:
            queue: The waiting pods.
            least: The smallest requests of any pod after the queue.
        """
        while queue:
            before = sum(group.waiting for group in queue)
            left: list[PendingGroup] = []
            least_left = least
            least_from = memo(partial(least_requests_from, queue))
            for position, group in enumerate(queue):
                self._place(group, partial(_smallest, least_from, position, least_left))
                if group.waiting:
                    left.append(group)
                    least_left = least_of(group.pod_group.requests, least_left)
            if sum(group.waiting for group in left) == before:
                return left
            queue = left
        return []

    def _place(self, group: PendingGroup, smallest: Callable[[], Vector]) -> None:
        """Place the pods of a group until one finds no place: the others are equal to it."""
        steps = group.pod_group.steps
        alternatives = self._alternatives_of_moved(group)
        for pod in group.pods[group.placed :]:
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
        if self.unplaceable and _question(group, step) in self.unplaceable:
            return False
        if self._joins(pod, group, step):
            return True
        # A pod that waits in any case gets its node from provisioning: a command neither launches nor pays for it.
        barred = self.opened[not group.is_displaced]
        if barred and is_virtual(pod):
            barred = NO_CLAIMS
        placement = self.claims.find(pod_group, step, smallest, barred)
        placement = placement or self.new.open(len(self.claims.claims), pod_group, step)
        if placement is not None:
            if placement.claim.index == len(self.claims.claims):
                self.opened[group.is_displaced] |= ClaimMask(1 << placement.claim.index)
            self.claims.place(placement, pod, pod_group)
            return True
        if step.is_monotone:
            self.unplaceable.add(_question(group, step))
        return False

    def _joins(self, pod: Pod, group: PendingGroup, step: RelaxationStep) -> bool:
        """Place a pod on an existing node, if one suits it at this step."""
        position = self.nodes.find(group, step)
        if position is None:
            return False
        self.nodes.place(position, group.pod_group)
        self.bound.append((pod, position))
        return True

    def _alternatives_of_moved(self, group: PendingGroup) -> tuple[RelaxationStep, ...]:
        """Return one step for each alternative of the required node affinity of pods that consolidation moves.

        A place on an existing node costs nothing, whichever alternative it meets; a new node for the first alternative does.
        Under Karpenter's policy the result is empty: Karpenter launches that node.
        """
        is_moved = group.avoids_recently_changed and not self.context.snapshot.options.karpenter_moves_only
        return with_all_preferences(group.pod_group.steps) if is_moved else ()

    def _narrow_to_cheapest(self) -> bool:
        made_room = narrow_to_cheapest(self.state, self.claims, self.new.limited)
        for constraint in self.state.constraints.at_launch:
            made_room |= constraint.make_room(self.claims.claims, self.claims.restrict)
        if made_room:
            self.new.forget_refusals()
            self.unplaceable.clear()
        return made_room


def _smallest(least_from: Callable[[], Sequence[Vector]], position: int, least: Vector | None) -> Vector:
    """Return the smallest requests of a queue from a position on, and of pods that come later."""
    return least_of(least_from()[position], least)


def _question(group: PendingGroup, step: RelaxationStep) -> _Question:
    """Return what decides whether a pod of a group has a place at a step."""
    return (
        group.pod_group.index,
        step.number,
        group.avoids_recently_changed,
        group.avoids_drained_later,
        group.is_displaced,
    )
