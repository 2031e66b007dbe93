"""A place on a new node: the emptiest open claim that takes the pod, or a new claim."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from core import labels
from core.model.plan import Unschedulable, WaitingPod
from core.model.pod import Pod
from core.model.snapshot import BEST_EFFORT
from core.model.values import quantity
from core.model.values.requirements import Requirement
from core.scheduling.constraints.ec2_quotas import Ec2Quotas
from core.scheduling.constraints.registry import PlanConstraints
from core.scheduling.context import SchedulingContext
from core.scheduling.instance_types import unmet
from core.scheduling.new_node import (
    ClaimDraft,
    ClaimIndex,
    ClaimProfile,
    ClaimProfiles,
    InFlightClaim,
    NodeClaimTemplate,
    RemainingLimits,
    RoomLevels,
    any_value,
    largest_amount,
)
from core.scheduling.pods import PendingGroup, PodGroup, PodSignature, RelaxationStep, TopologyRule
from core.scheduling.primitives import (
    IMPOSSIBLE,
    NO_CLAIMS,
    ClaimMask,
    PodGroupId,
    RequirementId,
    TypeMask,
    Vector,
    plus,
    positions,
)
from core.scheduling.topology.domains import DomainChoice, DomainCounts
from core.scheduling.topology.groups import AFFINITY, SPREAD

# Tracks what one plan has used: pods in topology domains, and the resources of constraints.


class PlanState(msgspec.Struct, frozen=True, eq=False):
    """Changes with every placed pod; shared by all searches that place pods.

    Attributes:
        context: The snapshot.
        domain_counts: The pods of every topology group by domain.
        constraints: The reservations of the constraints.
    """

    context: SchedulingContext
    domain_counts: DomainCounts
    constraints: PlanConstraints

    @property
    def limits(self) -> Sequence[RemainingLimits]:
        """[template], the rest of its NodePool's limits."""
        return self.constraints.limits.remaining

    def copy(self) -> PlanState:
        """Return an independent copy."""
        return replace(self, domain_counts=self.domain_counts.copy(), constraints=self.constraints.copy())


# Narrows a claim by one more pod: to the pod's requirements, and to one value of each topology key of its rules.


FixedDomains = tuple[ClaimProfile, tuple[tuple[TopologyRule, str], ...]]
"""The narrowed claim if it already has one value of every key, and the check whether the rules still admit these values."""


class ClaimNarrowing:
    """Narrows profiles, which many claims share, and caches results that cannot change within a plan."""

    def __init__(self, state: PlanState, domain_choice: DomainChoice, profiles: ClaimProfiles) -> None:
        self._context = state.context
        self._domain_counts = state.domain_counts
        self._domain_choice = domain_choice
        self._profiles = profiles
        self._steady: dict[tuple[int, int], Sequence[ClaimProfile]] = {}
        self._fixed: dict[tuple[int, int], FixedDomains] = {}
        self._granted_by: dict[tuple[int, int], tuple[ClaimProfile, ...]] = {}
        self._targets: dict[tuple[int, str], dict[str | None, ClaimProfile | None]] = {}

    def of(self, profile: ClaimProfile, signature: PodSignature, step: RelaxationStep) -> Sequence[ClaimProfile]:
        """Return the drafts of claims with a profile for a pod at a relaxation step, the best first; room is not checked."""
        # There are three kinds of results, the cheapest first: those that nothing can change, those that only counts
        # can refuse (the claim has one value of every key), and those whose order follows the counts.
        question = (profile.index, step.index)
        steady = self._steady.get(question)
        if steady is not None:
            return steady
        fixed = self._fixed.get(question)
        if fixed is not None:
            return (fixed[0],) if self._is_admitted(fixed, signature) else ()
        return self._computed(profile, signature, step)

    def never(self, profile: ClaimProfile, step: RelaxationStep) -> bool:
        """Whether claims with a profile, for which `of` was asked, refuse a pod at a step whatever else the plan does."""
        return self._steady.get((profile.index, step.index)) == ()

    def _computed(self, profile: ClaimProfile, signature: PodSignature, step: RelaxationStep) -> Sequence[ClaimProfile]:
        question = (profile.index, step.index)
        granted = self._granted_by.get(question)
        if granted is not None:
            return self._chosen(granted, signature, step)
        granted = self._granted_by[question] = self._granted(profile, step)
        if not granted or not step.keys:
            self._steady[question] = granted
            return granted
        values = [self._values(grant, step) for grant in granted]
        if len(granted) == 1 and None not in values[0]:
            by_key = dict(zip(step.keys, values[0], strict=True))
            rules = tuple((rule, by_key[rule.key] or "") for rule in step.zone_rules)
            self._fixed[question] = (granted[0], rules)
            if not rules:
                self._steady[question] = granted
            return self.of(profile, signature, step)
        return self._chosen(granted, signature, step)

    def _chosen(
        self, granted: tuple[ClaimProfile, ...], signature: PodSignature, step: RelaxationStep
    ) -> Sequence[ClaimProfile]:
        if len(granted) == 1 and len(step.keys) == 1:
            return self._of_one_key(granted[0], signature, step)
        return [choice for profile in granted for choice in self._choices(profile, signature, step)]

    def _of_one_key(
        self, profile: ClaimProfile, signature: PodSignature, step: RelaxationStep
    ) -> Sequence[ClaimProfile]:
        """`_choices` for most pods with rules, where only the order of the result changes within a plan."""
        key, draft = step.keys[0], self._draft(profile)
        targets = self._targets.setdefault((profile.index, key), {})
        choices = []
        for value in self._domain_choice.options(draft, signature, step, key):
            if value not in targets:
                reqs = profile.reqs if value is None else self._context.table.with_value(profile.reqs, key, value)
                target = self._profiles.of(profile.template, reqs, profile.allowed) if reqs != IMPOSSIBLE else None
                targets[value] = target if target is not None and target.mask else None
            chosen = targets[value]
            if chosen is not None:
                choices.append(chosen)
        return choices

    def _granted(self, profile: ClaimProfile, step: RelaxationStep) -> tuple[ClaimProfile, ...]:
        """Return the profile narrowed to each alternative of the pod's node requirements that leaves any type."""
        template, table = profile.template, self._context.table
        if not self._context.open_templates(step)[template.index]:
            return ()
        requirements = (table.narrowed(profile.reqs, required=alternative) for alternative in step.alternatives)
        granted = (self._profiles.of(template, reqs, profile.allowed) for reqs in requirements if reqs != IMPOSSIBLE)
        return tuple(grant for grant in granted if grant.mask)

    def _values(self, profile: ClaimProfile, step: RelaxationStep) -> list[str | None]:
        return [self._context.table.single(profile.reqs, key) for key in step.keys]

    def _choices(self, profile: ClaimProfile, signature: PodSignature, step: RelaxationStep) -> list[ClaimProfile]:
        choices = self._domain_choice.choices(self._draft(profile), signature, step, step.keys)
        return [self._profiles.of(profile.template, choice.reqs, profile.allowed) for choice in choices]

    def _draft(self, profile: ClaimProfile) -> ClaimDraft:
        return ClaimDraft(profile.template, profile.reqs, profile.allowed, self._context.axis.zero)

    def _is_admitted(self, fixed: FixedDomains, signature: PodSignature) -> bool:
        for rule, value in fixed[1]:  # noqa: SIM110 - called for every pod with rules
            if not self._domain_counts.admits(rule, value, signature, is_new=True):
                return False
        return True


# Opens a new claim for a pod from the first NodePool whose taints, limits, types and topology allow it.


class PodPlacement(msgspec.Struct, frozen=True):
    """A claim, and its draft with one more pod."""

    claim: InFlightClaim
    profile: ClaimProfile
    total: Vector
    reservations: tuple[str, ...] = ()
    commitment: str = ""


class NewClaims:
    """Opens the claims of one plan; they join the plan only when a pod is placed.

    Attributes:
        limited: Templates whose limits have kept pods out.
    """

    def __init__(self, state: PlanState, domain_choice: DomainChoice, profiles: ClaimProfiles) -> None:
        self._context = state.context
        self._domain_counts = state.domain_counts
        self._domain_choice = domain_choice
        self._constraints = state.constraints
        self._reservations = state.constraints.reservations
        self._commitments = state.constraints.commitments
        self._profiles = profiles
        self._infeasible: set[tuple[int, int, int]] = set()
        self._first_profiles: dict[tuple[int, int, int, int], ClaimProfile] = {}
        self.limited: set[int] = set()

    def open(self, index: int, pod_group: PodGroup, step: RelaxationStep) -> PodPlacement | None:
        """Return a claim with this number that takes one pod of the group, from the first suitable NodePool."""
        for template, tolerated in zip(self._context.templates, self._context.open_templates(step), strict=True):
            question = (pod_group.index, step.number, template.index)
            if not tolerated or question in self._infeasible:
                continue
            for size in template.sizes:
                placement = self._opened(
                    InFlightClaim(index, template, template.offered, size, self._context.axis.zero), pod_group, step
                )
                if placement is not None:
                    return placement
            if step.is_monotone:
                self._infeasible.add(question)
        return None

    def _opened(self, claim: InFlightClaim, pod_group: PodGroup, step: RelaxationStep) -> PodPlacement | None:
        """Return a claim that may become any type of one size step."""
        template, size = claim.template, claim.allowed
        for constraint in self._constraints.at_launch:
            claim.allowed = constraint.launchable(template, claim.allowed)
        claim.min_values = template.min_values
        question = (pod_group.index, step.number, template.index, claim.allowed)
        is_barred = any(self._domain_counts.bars_new_node(rule) for rule in step.host_rules)
        profile = self._first_profiles.get(question)
        if profile is not None and not is_barred:
            return PodPlacement(claim, profile, pod_group.requests)
        placement = None if is_barred else self._first_fit(claim, pod_group, step)
        if placement is None and claim.allowed != size:
            self.limited.add(template.index)
        if placement is not None and not (step.keys or claim.min_values or self._constraints.changes_drafts):
            self._first_profiles[question] = placement.profile
        return placement

    def _first_fit(self, claim: InFlightClaim, pod_group: PodGroup, step: RelaxationStep) -> PodPlacement | None:
        """Return the draft of an empty claim with its first pod."""
        allowed = claim.allowed
        for constraint in self._constraints.concerning(pod_group):
            allowed &= constraint.types(claim, pod_group)
        for alternative in step.alternatives:
            reqs = self._context.table.narrowed(claim.reqs, required=alternative)
            draft = ClaimDraft(claim.template, reqs, allowed, pod_group.requests, claim.min_values)
            if not draft.is_possible:
                continue
            placement = self._covered(claim, draft, pod_group, step)
            placement = placement or self._within_reservations(claim, draft, pod_group, step)
            if placement is not None:
                return placement
        return None

    def _covered(
        self, claim: InFlightClaim, draft: ClaimDraft, pod_group: PodGroup, step: RelaxationStep
    ) -> PodPlacement | None:
        """Return the draft of a claim that a commitment covers."""
        if self._commitments is None:
            return None
        narrowed = self._narrowed(draft)
        for choice in self._commitments.choices(narrowed) if narrowed.is_possible else ():
            placement = self._restricted(claim, choice.draft, pod_group, step)
            if placement is not None:
                return msgspec.structs.replace(placement, commitment=choice.name)
        return None

    def _within_reservations(
        self, claim: InFlightClaim, draft: ClaimDraft, pod_group: PodGroup, step: RelaxationStep
    ) -> PodPlacement | None:
        """Return the draft of a claim, without reservations if minValues cannot be met within them."""
        placement = self._restricted(claim, self._narrowed(draft), pod_group, step)
        if placement is None and claim.min_values and self._reservations.left:
            unreserved = self._narrowed(self._reservations.without_any(draft))
            placement = self._restricted(claim, unreserved, pod_group, step)
        return placement

    def _narrowed(self, draft: ClaimDraft) -> ClaimDraft:
        for constraint in self._constraints.at_launch:
            if draft.reqs == IMPOSSIBLE:
                break
            draft = constraint.narrowed(draft)
        return draft

    def _restricted(
        self, claim: InFlightClaim, draft: ClaimDraft, pod_group: PodGroup, step: RelaxationStep
    ) -> PodPlacement | None:
        """Return the draft, restricted to one value of each topology key and to reservations."""
        if not draft.is_possible:
            return None
        if step.keys:
            # Domains are compared by types that can hold the pod: the cheapest type of all may be too small.
            fitting = draft.restricted_to(draft.fitting_types)
            in_domains = self._domain_choice.best(fitting, pod_group.signature, step)
            if in_domains is None and self._may_relax(claim):
                in_domains = self._domain_choice.best(fitting.without_min_values(), pod_group.signature, step)
            if in_domains is None:
                return None
            draft = draft.narrowed(in_domains)
        for constraint in self._constraints.after_topology:
            draft = constraint.narrowed_after_topology(draft)
        reservations: tuple[str, ...] = ()
        if self._reservations.left:
            chosen = self._reservations.choose(draft)
            if chosen is None:
                return None
            draft, reservations = draft.narrowed(chosen[0]), chosen[1]
        if claim.min_values and not self._keeps_min_values(claim, draft):
            return None
        profile = self._profiles.of(claim.template, draft.reqs, draft.allowed)
        return PodPlacement(claim, profile, draft.total, reservations)

    def _keeps_min_values(self, claim: InFlightClaim, draft: ClaimDraft) -> bool:
        missing = draft.missing_values()
        if not missing:
            return True
        if not self._may_relax(claim):
            return False
        claim.min_values = {**claim.min_values, **missing}
        claim.min_values_relaxed = True
        return True

    def _may_relax(self, claim: InFlightClaim) -> bool:
        """Whether minValues may be lowered: only with BestEffort, and only by the first pod."""
        return bool(claim.min_values) and self._context.snapshot.options.min_values_policy == BEST_EFFORT

    def forget_refusals(self) -> None:
        """Try every NodePool again after limits got room, or after new claims were kept out of a domain."""
        self._infeasible.clear()
        self._first_profiles.clear()

    def reaches(self, pod_group: PodGroup, key: str, value: str | None) -> bool:
        """Whether these pods could get a new node now, in a domain if one is named; rules about other pods are left out."""
        for step in () if pod_group.refusal else pod_group.steps:
            for template, tolerated in zip(self._context.templates, self._context.open_templates(step), strict=True):
                if tolerated and self._is_launchable(template, pod_group, step, key, value):
                    return True
        return False

    def _is_launchable(
        self, template: NodeClaimTemplate, pod_group: PodGroup, step: RelaxationStep, key: str, value: str | None
    ) -> bool:
        table, allowed = self._context.table, template.mask
        for constraint in self._constraints.at_launch:
            allowed = constraint.launchable(template, allowed)
        claim = InFlightClaim(-1, template, template.offered, allowed, self._context.axis.zero)
        for constraint in self._constraints.concerning(pod_group):
            allowed &= constraint.types(claim, pod_group)
        near_others = [rule for rule in step.zone_rules if rule.kind in (SPREAD, AFFINITY)]
        for alternative in step.alternatives:
            reqs = table.narrowed(template.offered, required=alternative)
            if value is not None and reqs != IMPOSSIBLE:
                reqs = table.with_value(reqs, key, value)
            draft = self._narrowed(ClaimDraft(template, reqs, allowed, pod_group.requests))
            if draft.is_possible and all(self._may_have(draft, rule.key) for rule in near_others):
                return True
        return False

    def _may_have(self, draft: ClaimDraft, key: str) -> bool:
        """Whether a new node may have a label, without which a spread or an affinity along it excludes the node."""
        label = self._context.table[draft.reqs].get(key)
        is_open = label is not None and not label.is_finite and key not in self._context.table.well_known
        return is_open or bool(draft.template.types.values(draft.mask, draft.reqs, key))


class OpenClaimSearch:
    """The claims of one plan."""

    def __init__(self, state: PlanState, domain_choice: DomainChoice, profiles: ClaimProfiles) -> None:
        self._context = state.context
        self._domain_counts = state.domain_counts
        self._constraints = state.constraints
        self._profiles = profiles
        self._index = ClaimIndex()
        self._narrowing = ClaimNarrowing(state, domain_choice, profiles)
        self._room = RoomLevels()
        self._without_room: dict[Vector, ClaimMask] = {}
        self._unfit: dict[tuple[PodGroupId, int], ClaimMask] = {}
        self.claims: list[InFlightClaim] = []

    def find(
        self,
        pod_group: PodGroup,
        step: RelaxationStep,
        smallest: Callable[[], Vector],
        barred: ClaimMask = NO_CLAIMS,
    ) -> PodPlacement | None:
        """Return the claim with the fewest pods that takes one more of the group, ties by age.

        Args:
            pod_group: The waiting pods.
            step: Their demands.
            smallest: Returns the smallest requests of any waiting pod; a claim without room for these is not tried again.
            barred: Claims that they must not join.
        """
        candidates = self._candidates(pod_group, step) & ~barred
        # From the emptiest claims to the fullest; the lowest set bit of each set is the oldest claim in it.
        for pods in self._index.counts if candidates else ():
            here = self._index.by_count[pods] & candidates
            while here:
                bit = here & -here
                claim = self.claims[bit.bit_length() - 1]
                profile = (
                    self._index.profiles[claim.index] if pod_group.is_plain else self._constrained(claim, pod_group)
                )
                ways = self._narrowing.of(profile, pod_group.signature, step) if profile is not None else ()
                if profile is not None and not ways:
                    # A profile's result does not depend on room, so it excludes every claim that shares it.
                    candidates &= ~(profile.claims | bit)
                    here &= candidates
                    if pod_group.is_plain and self._narrowing.never(profile, step):
                        self._exclude(pod_group, step, profile.claims)
                    continue
                placement = self._placement(claim, ways, plus(claim.used, pod_group.requests))
                if placement is not None:
                    return placement
                self._pass_over(claim, pod_group, step, smallest)
                here ^= bit
        return None

    def _candidates(self, pod_group: PodGroup, step: RelaxationStep) -> ClaimMask:
        """Return the claims that are not excluded so far."""
        requests = pod_group.requests
        ruled_out = self._without_room.get(requests)
        if ruled_out is None:
            ruled_out = self._room.lacking(requests, self.claims, self._index.profiles)
            self._without_room[requests] = ruled_out
        if self._unfit:
            ruled_out |= self._unfit.get((pod_group.index, step.number), NO_CLAIMS)
        for rule in step.host_rules:
            ruled_out |= self._domain_counts.barred_claims(rule)
        return self._index.open & ~ruled_out

    def _constrained(self, claim: InFlightClaim, pod_group: PodGroup) -> ClaimProfile | None:
        """Return the claim's profile under the constraints that concern a pod; None if they leave no type."""
        allowed = claim.allowed
        for constraint in self._constraints.concerning(pod_group):
            allowed &= constraint.types(claim, pod_group)
        return self._profiles.of(claim.template, claim.reqs, allowed) if allowed else None

    def _placement(self, claim: InFlightClaim, ways: Sequence[ClaimProfile], total: Vector) -> PodPlacement | None:
        for way in ways:
            if way.holds(total) and not (claim.min_values and self._lacks_values(claim, way, total)):
                return PodPlacement(claim, way, total)
        return None

    def _lacks_values(self, claim: InFlightClaim, profile: ClaimProfile, total: Vector) -> bool:
        types = profile.template.types
        return bool(unmet(types, types.room.fitting(profile.mask, total), claim.min_values, profile.reqs))

    def _pass_over(
        self, claim: InFlightClaim, pod_group: PodGroup, step: RelaxationStep, smallest: Callable[[], Vector]
    ) -> None:
        """Exclude a claim for such pods if that is permanent: claims only fill up."""
        profile, bit = self._index.profiles[claim.index], ClaimMask(1 << claim.index)
        if not profile.holds(plus(claim.used, pod_group.requests)):
            self._without_room[pod_group.requests] |= bit
            if not profile.holds(plus(claim.used, smallest())):
                self._index.close(claim.index)
        elif step.is_monotone:
            self._exclude(pod_group, step, bit)

    def _exclude(self, pod_group: PodGroup, step: RelaxationStep, claims: ClaimMask) -> None:
        question = (pod_group.index, step.number)
        self._unfit[question] = self._unfit.get(question, NO_CLAIMS) | claims

    def forget_refusals(self) -> None:
        """Try every claim again for pods that rules about other pods kept off."""
        self._unfit.clear()

    def place(self, placement: PodPlacement, pod: Pod, pod_group: PodGroup) -> None:
        """Apply the placement to the claim, and count the pod."""
        claim, profile = placement.claim, placement.profile
        if claim.index == len(self.claims):
            self._admit(placement)
        if self._index.profiles[claim.index] is not profile:
            self._change_profile(claim, profile)
        claim.used = placement.total
        self._room.change(claim.index)
        self._index.add_pod(claim.index, len(claim.pods))
        claim.add_pod(pod, pod_group)
        for constraint in self._constraints.concerning(pod_group):
            constraint.reserve_on_claim(claim, pod_group)
        self._domain_counts.record_on_claim(pod_group.signature, profile, claim.index)

    def restrict(self, claim: InFlightClaim, allowed: TypeMask) -> None:
        """Restrict a claim to these types."""
        self._change_profile(claim, self._profiles.of(claim.template, claim.reqs, allowed))

    def _admit(self, placement: PodPlacement) -> None:
        claim, profile = placement.claim, placement.profile
        self.claims.append(claim)
        self._index.add(profile)
        claim.reqs, claim.allowed, claim.reservations = profile.reqs, profile.allowed, placement.reservations
        claim.commitment = placement.commitment
        claim.used = placement.total
        for constraint in self._constraints.at_launch:
            constraint.open(claim)

    def _change_profile(self, claim: InFlightClaim, profile: ClaimProfile) -> None:
        """Give a claim a narrower profile, which determines more precisely in which domains its pods count."""
        before = self._index.profiles[claim.index]
        for pod_group in claim.pod_groups:
            self._domain_counts.recount(pod_group.signature, before, profile, claim.index)
        self._index.change_profile(claim.index, profile)
        self._room.change(claim.index)
        claim.reqs, claim.allowed = profile.reqs, profile.allowed

    def fix_open_labels(self) -> bool:
        """Fix every claim to the types and labels that the plan would name now, and return whether that changed any.

        Until then its pods count as the worst case of a spread: the claim might become a node that the spread ignores.
        """
        changed = False
        for claim in self.claims:
            reqs = self._fixed_requirements(claim)
            if reqs != claim.reqs:
                self._change_profile(claim, self._profiles.of(claim.template, reqs, claim.allowed))
                changed = True
        return changed

    def _fixed_requirements(self, claim: InFlightClaim) -> RequirementId:
        table, types = self._context.table, claim.template.types
        fitting = claim.fitting_types
        names = Requirement.one_of(labels.INSTANCE_TYPE, *(types.types[i].name for i in positions(fitting)))
        reqs = table.narrowed(claim.reqs, required=table.conjunction((names,)))
        for key, requirement in table[claim.reqs].items():
            if key not in table.well_known:
                value = any_value(requirement)
                reqs = reqs if value is None else table.with_value(reqs, key, value)
        return reqs


# Makes room under a NodePool's limits by restricting claims to smaller types.
#
# A claim is charged its largest type until it is launched. A place for every pod is worth more than a choice between types.


def narrow_to_cheapest(state: PlanState, search: OpenClaimSearch, limited: Collection[int]) -> bool:
    """Restrict the claims of some NodePools to types no larger than their cheapest, and return whether that freed anything.

    Args:
        state: The plan.
        search: Its claims.
        limited: Templates whose limits have kept pods out.
    """
    made_room = False
    groups = {group for index in limited for group in state.limits[index].shared}
    for claim in search.claims:
        if claim.template.index in limited or not groups.isdisjoint(state.limits[claim.template.index].shared):
            made_room |= _restrict_to_cheapest(claim, state.limits[claim.template.index], search)
    return made_room


def _restrict_to_cheapest(claim: InFlightClaim, limits: RemainingLimits, search: OpenClaimSearch) -> bool:
    types = claim.template.types
    small = _no_larger_than_cheapest(claim, limits.left)
    if small == claim.charged:
        return False
    freed = any(largest_amount(types, claim.charged, name) > largest_amount(types, small, name) for name in limits.left)
    limits.refund(types, claim.charged)
    limits.charge(types, small)
    claim.charged = small
    search.restrict(claim, small)
    return freed


def _no_larger_than_cheapest(claim: InFlightClaim, limited: Iterable[str]) -> TypeMask:
    """Return the claim's types that exceed its cheapest one in no limited resource; all types if minValues need more."""
    types = claim.template.types
    fitting = claim.fitting_types
    small = fitting
    for name in limited:
        if name != quantity.NODES:
            cheapest = types.types[types.offerings.in_price_order(fitting, claim.reqs)[0][1]]
            small &= types.room.capacities(name).at_most(cheapest.capacity.get(name, 0))
    return fitting if unmet(types, small, claim.min_values, claim.reqs) else small


# The result of one plan: where pods go, and the claims of new nodes, before they become the plan's output.


class Solution(msgspec.Struct, eq=False):
    """The places of all pods.

    Attributes:
        bound: (pod, position of the node) for pods that an existing node takes.
        unplaced: Groups with pods left over.
        state: The state after the placements.
        before_buffers: The state before the virtual pods of capacity buffers, if real pods were left over then.
        is_same_if_shared: Whether the plan is known to be the same if one new node should take all pods.
        fixed_pods: Keys of pods that wait in any case, if a target moves others: their claims stay as they are.
        held: Pods for which nothing is planned because of a cap or because they may wait, with the reason.
        waiting: Key of a pod that may wait → how long, and what its node would cost at once.
        saving: Key of a pod for which no on-demand node is bought → the cap that says so.
    """

    claims: list[InFlightClaim]
    bound: list[tuple[Pod, int]]
    unplaced: list[PendingGroup]
    state: PlanState
    before_buffers: PlanState | None = None
    fixed_pods: frozenset[str] = frozenset()
    is_same_if_shared: bool = False
    held: tuple[Unschedulable, ...] = ()
    waiting: Mapping[str, WaitingPod] = {}
    saving: Mapping[str, str] = {}

    @property
    def refusing_state(self) -> PlanState:
        """The state in which unplaced pods were refused: without virtual pods, which are placed after them."""
        return self.before_buffers or self.state

    def settle_commitments(self) -> Solution:
        """Let commitments cover the present claims, and return this solution.

        With EC2's quotas among the constraints, no claim becomes on-demand capacity for this: the quotas chose its capacity
        type.
        """
        constraints = self.state.constraints
        if constraints.commitments is not None:
            constraints.commitments.settle(self.claims, extends=Ec2Quotas not in map(type, constraints.all))
        return self
