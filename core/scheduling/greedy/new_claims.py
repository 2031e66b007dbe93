"""Opens a new claim for a pod from the first NodePool whose taints, limits, types and topology allow it."""

from __future__ import annotations

import msgspec

from core.model.snapshot import BEST_EFFORT
from core.scheduling.capacity.claim_draft import ClaimDraft
from core.scheduling.capacity.claim_profile import ClaimProfile, ClaimProfiles
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.greedy.plan_state import PlanState
from core.scheduling.pods.pod_group import PodGroup, RelaxationStep
from core.scheduling.primitives.requirement_table import IMPOSSIBLE
from core.scheduling.primitives.resource_vector import Vector
from core.scheduling.topology.domain_choice import DomainChoice


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
            reqs = self._context.table.narrowed(claim.reqs, asked=alternative)
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
        """Try every NodePool again after limits got room."""
        self._infeasible.clear()
