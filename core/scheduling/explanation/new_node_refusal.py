"""What keeps a pod off a new node although instance types would do: constraints, minValues, or other pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from core.model.snapshot import BEST_EFFORT
from core.reasons.pod import PodReason
from core.scheduling.capacity.claim_draft import ClaimDraft
from core.scheduling.context import SchedulingContext
from core.scheduling.explanation.type_elimination import TypeElimination
from core.scheduling.explanation.verdict import PoolFinding
from core.scheduling.greedy.plan_state import PlanState
from core.scheduling.instance_types.min_values import unmet
from core.scheduling.pods.pod_group import PodSignature, RelaxationStep, TopologyRule
from core.scheduling.topology.domain_choice import DomainChoice
from core.scheduling.topology.topology_group import AFFINITY, SPREAD

_BY_KIND: Final[Mapping[str, str]] = {SPREAD: PodReason.TOPOLOGY_SPREAD, AFFINITY: PodReason.POD_AFFINITY}


class NewNodeRefusal:
    """Judges by the state of a plan that left pods without a place."""

    def __init__(self, context: SchedulingContext, state: PlanState) -> None:
        self._context = context
        self._state = state

    def finding(self, elimination: TypeElimination, step: RelaxationStep) -> PoolFinding:
        """What keeps a pod off a new node although instance types would do: limits, minValues, or other pods."""
        template, constraints = elimination.template, self._state.constraints
        signature = elimination.pod_group.signature
        draft = ClaimDraft(template, elimination.reqs, elimination.left, elimination.pod_group.requests)
        for constraint in constraints.at_launch:
            narrowed = constraint.narrowed(draft)
            if narrowed is not draft and not narrowed.is_possible:
                return elimination.finding(*constraint.shortage(draft))
            draft = narrowed
        rule = self._broken(draft, signature, step)
        if rule is not None:
            return elimination.finding(*self._of_rule(rule, draft))
        allowed = draft.mask
        for constraint in constraints.at_launch:
            allowed = constraint.launchable(template, allowed)
            if not allowed:
                return elimination.finding(*constraint.shortage(draft))
        missing = unmet(template.types, draft.mask, template.min_values)
        if missing:
            shown = ", ".join(f"{key}: {count} of {template.min_values[key]}" for key, count in missing.items())
            return elimination.finding(PodReason.MIN_VALUES_NOT_MET, f"too few values for minValues ({shown})")
        if self._broken(draft.held_to(allowed), signature, step) is not None:
            return elimination.finding(
                PodReason.LIMIT_REACHED, "its limits leave no room where the pod's rules let it go"
            )
        if self._misses_values(draft.held_to(allowed), signature, step):
            return elimination.finding(
                PodReason.MIN_VALUES_NOT_MET, "too few values for minValues where the pod's rules let it go"
            )
        return elimination.finding("", "would do")

    def _of_rule(self, rule: TopologyRule, draft: ClaimDraft) -> tuple[str, str]:
        code = _BY_KIND.get(rule.kind, PodReason.POD_ANTI_AFFINITY)
        if not rule.is_hostname and not draft.template.types.values(draft.mask, draft.reqs, rule.key):
            return code, f"its nodes do not carry {rule.key}, the topologyKey of the pod's {rule.kind}"
        return code, f"no {rule.key} satisfies the pod's {rule.kind} ({self._state_of(rule)})"

    def _misses_values(self, draft: ClaimDraft, signature: PodSignature, step: RelaxationStep) -> bool:
        """Whether minValues cannot be met once the node is held to one value of what the pod's rules speak of."""
        if self._context.snapshot.options.min_values_policy == BEST_EFFORT:
            return False
        demanding = draft.demanding(draft.template.min_values)
        held = DomainChoice(self._context.topology, self._state.domain_counts, ()).best(demanding, signature, step)
        chosen = None if held is None else self._state.constraints.reservations.choose(demanding.narrowed(held))
        return chosen is None or bool(demanding.narrowed(chosen[0]).missing_values())

    def _broken(self, draft: ClaimDraft, signature: PodSignature, step: RelaxationStep) -> TopologyRule | None:
        """The first rule that no domain within the pool's reach satisfies, or the first one that must do with others."""
        domain_counts, types = self._state.domain_counts, draft.template.types
        for rule in step.host_rules:
            if domain_counts.bars_new_node(rule):
                return rule
        for rule in step.zone_rules:
            values = types.values(draft.mask, draft.reqs, rule.key)
            if not any(domain_counts.admits(rule, value, signature) for value in values or (None,)):
                return rule
        domain_choice = DomainChoice(self._context.topology, domain_counts, ())
        if step.zone_rules and domain_choice.best(draft, signature, step) is None:
            return step.zone_rules[0]
        return None

    def _state_of(self, rule: TopologyRule) -> str:
        if rule.is_hostname:
            return "a new node has none of the pods that it must be near" if rule.kind == AFFINITY else "on any node"
        counts = self._state.domain_counts.of(rule.group)
        shown = ", ".join(f"{domain}: {count}" for domain, count in sorted(counts.items()))
        return f"pods now: {shown or 'none'}"
