"""Finds the emptiest claim of the plan that takes a pod, or opens a new one from the first suitable NodePool."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from core import labels
from core.model.pod import Pod
from core.model.values.requirements import Requirement
from core.scheduling.capacity.claim_index import ClaimIndex
from core.scheduling.capacity.claim_profile import ClaimProfile, ClaimProfiles
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.nodeclaim_template import any_value
from core.scheduling.greedy.claim_narrowing import ClaimNarrowing
from core.scheduling.greedy.new_claims import PodPlacement
from core.scheduling.greedy.plan_state import PlanState
from core.scheduling.instance_types.min_values import unmet
from core.scheduling.pods.pod_group import PodGroup, RelaxationStep
from core.scheduling.primitives.bit_set import positions
from core.scheduling.primitives.handles import NO_CLAIMS, ClaimMask, PodGroupId, RequirementId, TypeMask
from core.scheduling.primitives.resource_vector import Vector, plus
from core.scheduling.topology.domain_choice import DomainChoice


class OpenClaimSearch:
    """The claims of one plan."""

    def __init__(self, state: PlanState, domain_choice: DomainChoice, profiles: ClaimProfiles) -> None:
        self._context = state.context
        self._domain_counts = state.domain_counts
        self._constraints = state.constraints
        self._profiles = profiles
        self._index = ClaimIndex()
        self._narrowing = ClaimNarrowing(state, domain_choice, profiles)
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
        left = self._candidates(pod_group, step) & ~barred
        # From the emptiest claims to the fullest; the lowest set bit of each set is the oldest claim in it.
        for pods in self._index.counts if left else ():
            here = self._index.by_count[pods] & left
            while here:
                bit = here & -here
                claim = self.claims[bit.bit_length() - 1]
                profile = (
                    self._index.profiles[claim.index] if pod_group.is_plain else self._constrained(claim, pod_group)
                )
                ways = self._narrowing.of(profile, pod_group.signature, step) if profile is not None else ()
                if profile is not None and not ways:
                    # A profile's result does not depend on room, so it excludes every claim that shares it.
                    left &= ~(profile.claims | bit)
                    here &= left
                    continue
                placement = self._placement(claim, ways, plus(claim.used, pod_group.requests))
                if placement is not None:
                    return placement
                self._pass_over(claim, pod_group, step, smallest)
                here ^= bit
        return None

    def _candidates(self, pod_group: PodGroup, step: RelaxationStep) -> ClaimMask:
        """Return the claims that are not excluded so far."""
        ruled_out = self._without_room.get(pod_group.requests, NO_CLAIMS)
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
        return bool(unmet(types, types.room.fitting(profile.mask, total), claim.min_values))

    def _pass_over(
        self, claim: InFlightClaim, pod_group: PodGroup, step: RelaxationStep, smallest: Callable[[], Vector]
    ) -> None:
        """Exclude a claim for such pods if that is permanent: claims only fill up."""
        profile, bit = self._index.profiles[claim.index], 1 << claim.index
        if not profile.holds(plus(claim.used, pod_group.requests)):
            self._without_room[pod_group.requests] = self._without_room.get(pod_group.requests, NO_CLAIMS) | bit
            if not profile.holds(plus(claim.used, smallest())):
                self._index.close(claim.index)
        elif step.is_monotone:
            question = (pod_group.index, step.number)
            self._unfit[question] = self._unfit.get(question, NO_CLAIMS) | bit

    def place(self, placement: PodPlacement, pod: Pod, pod_group: PodGroup) -> None:
        """Apply the placement to the claim, and count the pod."""
        claim, profile = placement.claim, placement.profile
        if claim.index == len(self.claims):
            self._admit(placement)
        if self._index.profiles[claim.index] is not profile:
            self._change_profile(claim, profile)
        claim.used = placement.total
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
        left = claim.fitting_types
        names = Requirement.one_of(labels.INSTANCE_TYPE, *(types.types[i].name for i in positions(left)))
        reqs = table.narrowed(claim.reqs, asked=table.conjunction((names,)))
        for key, requirement in table[claim.reqs].items():
            if key not in table.well_known:
                value = any_value(requirement)
                reqs = reqs if value is None else table.with_value(reqs, key, value)
        return reqs
