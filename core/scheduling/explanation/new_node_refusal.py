"""Explains why a pod gets no new node although instance types would suit: constraints, minValues, or other pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from core.model.snapshot import BEST_EFFORT
from core.model.values import quantity
from core.reasons.pod import PodReason
from core.scheduling.capacity.claim_draft import ClaimDraft
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.node_pool_limits import largest_amount
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.context import SchedulingContext
from core.scheduling.explanation.findings import PoolFinding
from core.scheduling.explanation.type_elimination import TypeElimination
from core.scheduling.explanation.wording import amount_of, limits_left, shown
from core.scheduling.greedy.plan_state import PlanState
from core.scheduling.instance_types.min_values import unmet
from core.scheduling.pods.pod_group import PodSignature, RelaxationStep, TopologyRule
from core.scheduling.primitives.bit_set import positions
from core.scheduling.primitives.handles import TypeMask
from core.scheduling.topology.domain_choice import DomainChoice
from core.scheduling.topology.topology_group import AFFINITY, SPREAD

_BY_KIND: Final[Mapping[str, str]] = {SPREAD: PodReason.TOPOLOGY_SPREAD, AFFINITY: PodReason.POD_AFFINITY}


class NewNodeRefusal:
    """Explains refused new nodes from the final state of a plan."""

    def __init__(self, context: SchedulingContext, state: PlanState, claims: Sequence[InFlightClaim] = ()) -> None:
        """Take a plan's state, and the claims that it opened."""
        self._context = context
        self._state = state
        self._claims = claims

    def finding(self, elimination: TypeElimination, step: RelaxationStep) -> PoolFinding:
        """Return what keeps a pod off a new node although instance types would suit: limits, minValues, or other pods."""
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
            return elimination.finding(*self._of_rule(rule, draft, signature))
        allowed = draft.mask
        for constraint in constraints.at_launch:
            allowed = constraint.launchable(template, allowed)
            if not allowed:
                reason, message = constraint.shortage(draft)
                more = self._of_limits(draft) if reason == PodReason.LIMIT_REACHED else ""
                return elimination.finding(reason, f"{message}{more}")
        return self._by_values(elimination, step, draft, allowed)

    def _by_values(
        self, elimination: TypeElimination, step: RelaxationStep, draft: ClaimDraft, allowed: TypeMask
    ) -> PoolFinding:
        """Return a finding if minValues keep the pod off, or limits that allow too few types for them."""
        template, signature = elimination.template, elimination.pod_group.signature
        missing = unmet(template.types, draft.mask, template.min_values)
        if missing:
            cause = " under the pod's requirements"
            if unmet(template.types, template.mask, template.min_values):
                cause = ""
            message = f"too few values for minValues ({_few(missing, template)}){cause}"
            return elimination.finding(PodReason.MIN_VALUES_NOT_MET, message)
        left = f"its limits leave {limits_left(template.pool.limits, self._state.limits[template.index].left)}"
        within_limits = draft.restricted_to(allowed)
        if self._broken(within_limits, signature, step) is not None:
            message = f"{left}, no room where the pod's rules allow it{self._of_limits(draft)}"
            return elimination.finding(PodReason.LIMIT_REACHED, message)
        missing = self._missing_values(within_limits, signature, step)
        if not missing:
            return elimination.finding(None, "would do")
        few = _few(missing, template)
        if allowed != draft.mask and not self._missing_values(draft, signature, step):
            message = f"{left}, and so too few instance types for minValues ({few}){self._of_limits(draft)}"
            return elimination.finding(PodReason.LIMIT_REACHED, message)
        return elimination.finding(
            PodReason.MIN_VALUES_NOT_MET, f"too few values for minValues ({few}) where the pod's rules allow it"
        )

    def _of_limits(self, draft: ClaimDraft) -> str:
        """Return the pod's requests of limited resources, and the amounts that the plan's new nodes reserve until launched."""
        template, limits = draft.template, self._state.limits[draft.template.index]
        types = [template.types.types[position] for position in positions(draft.mask)]
        for name in (name for name in limits.left if name != quantity.NODES and types):
            least = min(found.capacity.get(name, 0) for found in types)
            mine = [claim for claim in self._claims if claim.template is template]
            counted = sum(largest_amount(template.types, claim.charged, name) for claim in mine)
            if least > limits.left[name]:
                needed = f"; the smallest suitable instance type has {name} {amount_of(least, name)}"
                count = (
                    "1 new node of this plan counts" if len(mine) == 1 else f"{len(mine)} new nodes of this plan count"
                )
                under_way = (
                    f"{count} at the largest instance type until launched, {name} {amount_of(counted, name)} in all"
                )
                return f"{needed}; {under_way}" if mine else needed
        return ""

    def _of_rule(self, rule: TopologyRule, draft: ClaimDraft, signature: PodSignature) -> tuple[str, str]:
        code = _BY_KIND.get(rule.kind, PodReason.POD_ANTI_AFFINITY)
        if not rule.is_hostname and not draft.template.types.values(draft.mask, draft.reqs, rule.key):
            return code, f"its nodes do not have {rule.key}, the topologyKey of the pod's {rule.kind}"
        if rule.kind == AFFINITY and not sum(self._state.domain_counts.of(rule.group).values()):
            return code, f"no pod that has or gets a node matches the pod's affinity: {self._selected_by(rule)}"
        message = f"no {rule.key} satisfies the pod's {rule.kind} ({self._state_of(rule)})"
        return code, message + (self._out_of_reach(rule, draft, signature) if rule.kind == SPREAD else "")

    def _out_of_reach(self, rule: TopologyRule, draft: ClaimDraft, signature: PodSignature) -> str:
        """Return which of the emptiest domains of a spread this NodePool cannot fill, why they count, and what helps."""
        if rule.is_hostname:
            return ""
        reach = draft.template.types.values(draft.mask, draft.reqs, rule.key)
        counts = self._state.domain_counts.of(rule.group)
        counting = [d for d in sorted(counts) if self._context.topology.may_run_at(signature, rule.key, d)]
        least = min((counts[domain] for domain in counting), default=0)
        missing = [domain for domain in counting if counts[domain] == least and domain not in reach]
        if not missing:
            return _too_few_domains(self._context.topology.groups[rule.group].min_domains, counting, rule.key)
        pools = [
            f"NodePool {template.pool.name}"
            for template in self._context.templates
            if set(missing) & {*template.types.values(template.mask, template.offered, rule.key)}
        ]
        why = ", ".join(sorted(pools)) or "nodes that exist"
        skew = self._context.topology.groups[rule.group].max_skew
        count = "counts" if len(missing) == 1 else "count"
        return (
            f"; {', '.join(missing)} must fill up first (maxSkew {skew}) and {count} because of {why}; this NodePool cannot: "
            f"demand the values of {rule.key} that may be used in the pod's node affinity, set nodeTaintsPolicy: Honor, "
            f"or keep {why} out of it"
        )

    def _missing_values(self, draft: ClaimDraft, signature: PodSignature, step: RelaxationStep) -> dict[str, int]:
        """Return label key → number of remaining values, if minValues cannot be met within one domain of the pod's rules.

        The counts are those of the domain that has the most.
        """
        if self._context.snapshot.options.min_values_policy == BEST_EFFORT:
            return {}
        strict = draft.with_min_values(draft.template.min_values)
        domain_choice = DomainChoice(self._context.topology, self._state.domain_counts, ())
        in_domains = domain_choice.best(strict, signature, step)
        chosen = (
            None if in_domains is None else self._state.constraints.reservations.choose(strict.narrowed(in_domains))
        )
        if chosen is not None:
            return strict.narrowed(chosen[0]).missing_values()
        everywhere = {key: draft.template.types.distinct(draft.mask, key) for key in draft.template.min_values}
        missing = (one.missing_values() for one in domain_choice.choices(strict, signature, step, step.keys))
        few = (counts for counts in missing if counts)
        return min(few, key=lambda counts: (len(counts), -sum(counts.values())), default=everywhere)

    def _broken(self, draft: ClaimDraft, signature: PodSignature, step: RelaxationStep) -> TopologyRule | None:
        """Return the first rule that no reachable domain satisfies, or else the first that conflicts with other rules."""
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

    def _selected_by(self, rule: TopologyRule) -> str:
        """Return which pods a rule selects."""
        group = self._context.topology.groups[rule.group]
        demands = () if group.selector is None else group.selector.requirements
        selector = " and ".join(shown(requirement) for requirement in demands) or "no label at all"
        where = "any namespace" if group.namespaces is None else f"namespace {' or '.join(group.namespaces)}"
        return f"{selector} in {where}"

    def _state_of(self, rule: TopologyRule) -> str:
        if rule.is_hostname:
            return "a new node has none of the pods that it must be near" if rule.kind == AFFINITY else "on any node"
        counts = self._state.domain_counts.of(rule.group)
        shown = ", ".join(f"{domain}: {count}" for domain, count in sorted(counts.items()))
        return f"pods now: {shown or 'none'}"


def _few(missing: Mapping[str, int], template: NodeClaimTemplate) -> str:
    return ", ".join(f"{key}: {count} of {template.min_values[key]}" for key, count in missing.items())


def _too_few_domains(min_domains: int, counting: Sequence[str], key: str) -> str:
    """Explain how a spread's minDomains is not met; empty if it is."""
    if min_domains <= len(counting):
        return ""
    return f"; minDomains asks for {min_domains} values of {key}, and NodePools and nodes have {len(counting)}"
