"""Narrows a claim by one more pod: to the pod's requirements, and to one value of each topology key of its rules."""

from __future__ import annotations

from collections.abc import Sequence

from core.scheduling.capacity.claim_draft import ClaimDraft
from core.scheduling.capacity.claim_profile import ClaimProfile, ClaimProfiles
from core.scheduling.greedy.plan_state import PlanState
from core.scheduling.pods.pod_group import PodSignature, RelaxationStep, TopologyRule
from core.scheduling.primitives.requirement_table import IMPOSSIBLE
from core.scheduling.topology.domain_choice import DomainChoice

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

    def _computed(self, profile: ClaimProfile, signature: PodSignature, step: RelaxationStep) -> Sequence[ClaimProfile]:
        question = (profile.index, step.index)
        granted = self._granted_by.get(question)
        if granted is not None:
            return self._chosen(granted, signature, step)
        granted = self._granted_by[question] = self._granted(profile, step)
        if not granted or not step.keys:
            self._steady[question] = granted
            return granted
        values = [self._values(one, step) for one in granted]
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
        return [choice for one in granted for choice in self._choices(one, signature, step)]

    def _of_one_key(
        self, profile: ClaimProfile, signature: PodSignature, step: RelaxationStep
    ) -> Sequence[ClaimProfile]:
        """`_choices` for most pods with rules, where only the order of the result changes within a plan."""
        key, draft = step.keys[0], self._draft(profile)
        targets = self._targets.setdefault((profile.index, key), {})
        found = []
        for value in self._domain_choice.options(draft, signature, step, key):
            if value not in targets:
                reqs = profile.reqs if value is None else self._context.table.with_value(profile.reqs, key, value)
                target = self._profiles.of(profile.template, reqs, profile.allowed) if reqs != IMPOSSIBLE else None
                targets[value] = target if target is not None and target.mask else None
            chosen = targets[value]
            if chosen is not None:
                found.append(chosen)
        return found

    def _granted(self, profile: ClaimProfile, step: RelaxationStep) -> tuple[ClaimProfile, ...]:
        """Return the profile narrowed to each alternative of the pod's node requirements that leaves any type."""
        template, table = profile.template, self._context.table
        if not self._context.open_templates(step)[template.index]:
            return ()
        asked = (table.narrowed(profile.reqs, asked=alternative) for alternative in step.alternatives)
        granted = (self._profiles.of(template, reqs, profile.allowed) for reqs in asked if reqs != IMPOSSIBLE)
        return tuple(one for one in granted if one.mask)

    def _values(self, profile: ClaimProfile, step: RelaxationStep) -> list[str | None]:
        return [self._context.table.single(profile.reqs, key) for key in step.keys]

    def _choices(self, profile: ClaimProfile, signature: PodSignature, step: RelaxationStep) -> list[ClaimProfile]:
        choices = self._domain_choice.choices(self._draft(profile), signature, step, step.keys)
        return [self._profiles.of(profile.template, choice.reqs, profile.allowed) for choice in choices]

    def _draft(self, profile: ClaimProfile) -> ClaimDraft:
        return ClaimDraft(profile.template, profile.reqs, profile.allowed, self._context.axis.zero)

    def _is_admitted(self, fixed: FixedDomains, signature: PodSignature) -> bool:
        for rule, value in fixed[1]:  # noqa: SIM110 - called for every pod with rules
            if not self._domain_counts.admits(rule, value, signature):
                return False
        return True
