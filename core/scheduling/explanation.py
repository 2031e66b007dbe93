"""Finds why a pod has no place: what each NodePool, constraint and rule refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Final

import msgspec

from core import labels
from core.model.node_pool import NodePool
from core.model.pod import DO_NOT_SCHEDULE, Pod
from core.model.snapshot import BEST_EFFORT
from core.model.values import quantity
from core.model.values.requirements import Requirements
from core.model.values.taints import Taint, first_untolerated
from core.reasons.code import Refusal, on_one_line
from core.reasons.pods import RANK, DomainsRefused, FewDomains, KeyLacking, NobodySelected, PodReason, SpreadBehind
from core.scheduling.claim_search import PlanState, Solution
from core.scheduling.context import SchedulingContext
from core.scheduling.explanation_text import (
    PodFinding,
    PoolFinding,
    TypeElimination,
    amount_of,
    closed_reservation,
    conflict,
    contradiction,
    limits_left,
    nearness,
    own_conflict,
    shown,
)
from core.scheduling.instance_types import unmet
from core.scheduling.new_node import ClaimDraft, InFlightClaim, NodeClaimTemplate, largest_amount, why_unusable
from core.scheduling.pods import PodGroup, PodSignature, RelaxationStep, TopologyRule
from core.scheduling.primitives import IMPOSSIBLE, TypeMask, positions
from core.scheduling.topology.domains import DomainChoice
from core.scheduling.topology.groups import AFFINITY, SPREAD

# Attributes a required node label to its source: the node selector, the node affinity, or a volume.


_THE_POD = "the pod"


def demand_source(
    context: SchedulingContext, pod: Pod | None, pod_group: PodGroup, step: RelaxationStep, key: str
) -> str:
    """Return the source of a requirement on a label, as the subject of a sentence."""
    spec = pod_group.signature.spec
    terms = step.demands.terms[0].requirements if step.demands.terms else ()
    sources = ["the pod's nodeSelector"] if any(requirement.key == key for requirement in spec.node_selector) else []
    sources += ["the pod's node affinity"] if any(requirement.key == key for requirement in terms) else []
    if any(key in way for way in pod_group.volumes.alternatives):
        sources.append(_fixed_place(context, pod, pod_group, key))
    return " with ".join(sources) or _THE_POD


def disagreement(context: SchedulingContext, pod: Pod | None, pod_group: PodGroup, step: RelaxationStep) -> str:
    """Return the pod's own requirement and the volume's if they contradict each other, else an empty text."""
    terms = step.demands.terms[0].requirements if step.demands.terms else ()
    requirements = Requirements((*pod_group.signature.spec.node_selector, *terms))
    keys = [requirements.conflict(way) for way in pod_group.volumes.alternatives]
    key = keys[0] if keys and all(keys) else None
    if key is None:
        return ""
    return f"{_fixed_place(context, pod, pod_group, key)} is where {key} is another than the pod itself demands"


def _fixed_place(context: SchedulingContext, pod: Pod | None, pod_group: PodGroup, key: str) -> str:
    """Return what fixes the value of a label besides the pod's own fields: one of its volumes, or its group."""
    if pod_group.volumes.is_group or (pod is not None and not pod.spec.volumes):
        return "the domain of the pod's group"
    return next(iter(() if pod is None else context.volumes.volumes_that_demand(pod, key)), "a volume of the pod")


_BY_KIND: Final[Mapping[str, PodReason]] = {SPREAD: PodReason.TOPOLOGY_SPREAD, AFFINITY: PodReason.POD_AFFINITY}


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
        vacant = constraints.vacant
        for constraint in (listed for listed in constraints.at_launch if listed is not vacant):
            narrowed = constraint.narrowed(draft)
            if narrowed is not draft and not narrowed.is_possible:
                return elimination.refused(constraint.shortage(draft))
            draft = narrowed
        # A limit comes first: without it, the pod would have had its place before.
        if vacant is not None and not vacant.narrowed(draft).is_possible and self._is_within_limits(draft):
            return elimination.refused(vacant.shortage(draft))
        rule = self._broken(draft, signature, step)
        if rule is not None:
            return elimination.refused(self._of_rule(rule, draft, signature))
        allowed = draft.mask
        for constraint in constraints.at_launch:
            allowed = constraint.launchable(template, allowed)
            if not allowed:
                refusal = constraint.shortage(draft)
                more = self._of_limits(draft) if refusal.reason is PodReason.LIMIT_REACHED else ""
                return elimination.finding(refusal.reason, f"{refusal.message}{more}")
        return self._by_values(elimination, step, draft, allowed)

    def _is_within_limits(self, draft: ClaimDraft) -> bool:
        allowed = draft.mask
        for constraint in self._state.constraints.at_launch:
            allowed = constraint.launchable(draft.template, allowed)
        return bool(allowed)

    def _by_values(
        self, elimination: TypeElimination, step: RelaxationStep, draft: ClaimDraft, allowed: TypeMask
    ) -> PoolFinding:
        """Return a finding if minValues keep the pod off, or limits that allow too few types for them."""
        template, signature = elimination.template, elimination.pod_group.signature
        missing = unmet(template.types, draft.mask, template.min_values, draft.reqs)
        if missing:
            cause = " under the pod's requirements"
            if unmet(template.types, template.mask, template.min_values, template.offered):
                cause = ""
            message = f"too few values for minValues ({_few(missing, template)}){cause}"
            return elimination.finding(PodReason.MIN_VALUES_NOT_MET, message)
        remaining = self._state.limits[template.index]
        message_start = f"its limits leave {limits_left(remaining.bounds(template.pool), remaining.left)}"
        within_limits = draft.restricted_to(allowed)
        if self._broken(within_limits, signature, step) is not None:
            message = f"{message_start}, no room where the pod's rules allow it{self._of_limits(draft)}"
            return elimination.finding(PodReason.LIMIT_REACHED, message)
        missing = self._missing_values(within_limits, signature, step)
        if not missing:
            return elimination.finding(None, "would do")
        few = _few(missing, template)
        if allowed != draft.mask and not self._missing_values(draft, signature, step):
            message = f"{message_start}, and so too few instance types for minValues ({few}){self._of_limits(draft)}"
            return elimination.finding(PodReason.LIMIT_REACHED, message)
        return elimination.finding(
            PodReason.MIN_VALUES_NOT_MET, f"too few values for minValues ({few}) where the pod's rules allow it"
        )

    def _of_limits(self, draft: ClaimDraft) -> str:
        """Return the pod's requests of limited resources, and the amounts that the plan's new nodes reserve until launched."""
        template, limits = draft.template, self._state.limits[draft.template.index]
        types = [template.types.types[position] for position in positions(draft.mask)]
        for name in (name for name in limits.left if name != quantity.NODES and types):
            least = min(instance_type.capacity.get(name, 0) for instance_type in types)
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

    def _of_rule(self, rule: TopologyRule, draft: ClaimDraft, signature: PodSignature) -> Refusal:
        code = _BY_KIND.get(rule.kind, PodReason.POD_ANTI_AFFINITY)
        if not rule.is_hostname and not draft.template.types.values(draft.mask, draft.reqs, rule.key):
            return KeyLacking(code, rule.key, rule.kind)
        counts = self._state.domain_counts.of(rule.group)
        if rule.kind == AFFINITY and not sum(counts.values()):
            return NobodySelected(self._selected_by(rule))
        return DomainsRefused(
            reason=code,
            key=rule.key,
            kind=rule.kind,
            is_affinity=rule.kind == AFFINITY,
            counts=None if rule.is_hostname else tuple(sorted(counts.items())),
            lack=self._out_of_reach(rule, draft, signature) if rule.kind == SPREAD else None,
        )

    def _out_of_reach(
        self, rule: TopologyRule, draft: ClaimDraft, signature: PodSignature
    ) -> SpreadBehind | FewDomains | None:
        """Return which of the emptiest domains of a spread this NodePool cannot fill, and who makes them count."""
        if rule.is_hostname:
            return None
        reach = draft.template.types.values(draft.mask, draft.reqs, rule.key)
        counts = self._state.domain_counts.of(rule.group)
        counting = [d for d in sorted(counts) if self._context.topology.may_run_at(signature, rule.key, d)]
        least = min((counts[domain] for domain in counting), default=0)
        missing = [domain for domain in counting if counts[domain] == least and domain not in reach]
        if not missing:
            min_domains = self._context.topology.groups[rule.group].min_domains
            return FewDomains(min_domains, len(counting)) if min_domains > len(counting) else None
        pools = [
            f"NodePool {template.pool.name}"
            for template in self._context.templates
            if set(missing) & {*template.types.values(template.mask, template.offered, rule.key)}
        ]
        owners = ", ".join(sorted(pools)) or "nodes that exist"
        return SpreadBehind(tuple(missing), owners, self._context.topology.groups[rule.group].max_skew)

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
        everywhere = {
            key: draft.template.types.distinct(draft.mask, key, draft.reqs) for key in draft.template.min_values
        }
        missing = (choice.missing_values() for choice in domain_choice.choices(strict, signature, step, step.keys))
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
            if not any(domain_counts.admits(rule, value, signature, is_new=True) for value in values or (None,)):
                return rule
        domain_choice = DomainChoice(self._context.topology, domain_counts, ())
        if step.zone_rules and domain_choice.best(draft, signature, step) is None:
            return step.zone_rules[0]
        return None

    def _selected_by(self, rule: TopologyRule) -> str:
        """Return which pods a rule selects."""
        group = self._context.topology.groups[rule.group]
        selectors = [selector for _, selector in ((group.namespaces, group.selector), *group.further)]
        demands = {} if None in selectors else dict.fromkeys(r for s in selectors if s for r in s.requirements)
        selector = " and ".join(shown(requirement) for requirement in demands) or "no label at all"
        where = "any namespace" if group.namespaces is None else f"namespace {' or '.join(group.namespaces)}"
        return f"{selector} in {where}"


def _few(missing: Mapping[str, int], template: NodeClaimTemplate) -> str:
    return ", ".join(f"{key}: {count} of {template.min_values[key]}" for key, count in missing.items())


# Diagnoses pods without a place: for each NodePool, what ruled out how many instance types, and the nearest miss.


_COMMON_LABELS: Final = frozenset(
    {labels.ZONE, labels.ZONE_ID, labels.REGION, labels.CAPACITY_TYPE, labels.ARCH, labels.OS, labels.HOSTNAME}
)
_COMMON_RESOURCES: Final = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
"""Labels that any NodePool offers: a requirement on them does not show for which pool the pods are meant."""


class Diagnosis:
    """Explains pods without a place from the final state of a plan."""

    def __init__(self, context: SchedulingContext, solution: Solution) -> None:
        self._context = context
        self._state = solution.refusing_state
        self._claims = solution.claims

    def of(self, pod_group: PodGroup, pod: Pod | None = None) -> PodFinding:
        """Return why such pods have no place; the pod given names its volumes."""
        refusal = pod_group.refusal or self._state.constraints.exhausted(pod_group)
        if refusal is not None:
            return PodFinding(reason=refusal.reason, message=on_one_line(refusal.message))
        findings = self.findings(pod_group, pod)
        if not findings:
            return PodFinding(reason=PodReason.NO_NODE_POOL, message="there is no NodePool")
        nearest_first = sorted(findings, key=nearness, reverse=True)
        reason = next(
            (nearest.reason for nearest in nearest_first if nearest.reason is not None), PodReason.NO_OFFERING_FITS
        )
        lines = (on_one_line(f"NodePool {finding.node_pool}: {finding.message}") for finding in nearest_first)
        message = "\n".join(lines)
        return PodFinding(reason=reason, message=message, pools=findings)

    def findings(self, pod_group: PodGroup, pod: Pod | None = None) -> tuple[PoolFinding, ...]:
        """Return the finding for every NodePool, in the order in which they are tried, unusable ones last."""
        nearest = [self._nearest(template, pod_group, pod) for template in self._context.templates]
        unusable = ((pool, why_unusable(pool, self._context.snapshot)) for pool in _by_name(self._context))
        nearest += [
            PoolFinding(node_pool=pool.name, reason=PodReason.NO_NODE_POOL, message=why.message)
            if pool.name not in self._closed
            else self._of_closed(self._closed[pool.name], pod_group, why)
            for pool, why in unusable
            if why is not None
        ]
        return tuple(nearest)

    @cached_property
    def _closed(self) -> dict[str, NodeClaimTemplate]:
        return {template.pool.name: template for template in self._context.closed_templates()}

    def _of_closed(self, template: NodeClaimTemplate, pod_group: PodGroup, why: Refusal) -> PoolFinding:
        """Return whether its hours alone keep the pod off a NodePool; rules about other pods are not applied."""
        types, table = template.types, self._context.table
        for step in _without_preferences(pod_group.steps):
            if first_untolerated(template.taints, step.demands.tolerations) is not None:
                continue
            for alternative in step.alternatives:
                reqs = table.narrowed(template.offered, required=alternative)
                if reqs == IMPOSSIBLE:
                    continue
                if types.cheapest(types.mask(reqs) & template.mask, pod_group.requests, reqs) is not None:
                    return _finding(template, PodReason.OUTSIDE_HOURS, why.message)
        return _finding(template, PodReason.NO_NODE_POOL, f"{why}, and its nodes could not run the pod either")

    def _nearest(self, template: NodeClaimTemplate, pod_group: PodGroup, pod: Pod | None) -> PoolFinding:
        """Return the finding for the alternative of the node affinity that comes nearest, without preferences."""
        plain = _without_preferences(pod_group.steps)
        findings = [self._of_template(template, pod_group, step, pod) for step in plain]
        return max(findings, key=lambda finding: len(RANK) if finding.reason is None else RANK[finding.reason])

    def _of_template(
        self, template: NodeClaimTemplate, pod_group: PodGroup, step: RelaxationStep, pod: Pod | None
    ) -> PoolFinding:
        taint = first_untolerated(template.taints, step.demands.tolerations)
        if taint is None:
            return self._of_labels(template, pod_group, step, pod)
        message = f"taint {taint} is not tolerated{_near_toleration(taint, step)}"
        otherwise = self._of_labels(template, pod_group, step, pod)
        if otherwise.reason is not None and RANK[otherwise.reason] < RANK[PodReason.LIMIT_REACHED]:
            return _finding(template, PodReason.TAINT_NOT_TOLERATED, message)
        nearest = f"a toleration of {taint} is missing" + f", and then {otherwise.message}" * (
            otherwise.reason is not None
        )
        finding = _finding(template, PodReason.TAINT_NOT_TOLERATED, f"{message}; nearest: {nearest}", nearest)
        return msgspec.structs.replace(finding, is_asked_for=_asks_for_something(self._context, pod_group, step))

    def _of_labels(
        self, template: NodeClaimTemplate, pod_group: PodGroup, step: RelaxationStep, pod: Pod | None
    ) -> PoolFinding:
        if not template.mask:
            why, offered = own_conflict(template), self._context.table[template.offered]
            ends = closed_reservation(self._context.snapshot, template, template.types.full, offered)
            return _finding(template, PodReason.REQUIREMENT_NOT_MET, f"{why}; {ends}" if ends else why, ends)
        if not step.alternatives:
            why = disagreement(self._context, pod, pod_group, step) or contradiction(pod_group, step)
            return _finding(template, PodReason.REQUIREMENT_NOT_MET, why)
        narrowed = [
            self._context.table.narrowed(template.offered, required=alternative) for alternative in step.alternatives
        ]
        possible = [number for number in narrowed if number != IMPOSSIBLE]
        if not possible:
            who = partial(demand_source, self._context, pod, pod_group, step)
            return _finding(template, PodReason.REQUIREMENT_NOT_MET, conflict(template, step.alternatives[0], who))
        elimination = TypeElimination(self._context, self._state.constraints, template, pod_group, possible[0])
        if not elimination.left:
            return elimination.finding()
        return NewNodeRefusal(self._context, self._state, self._claims).finding(elimination, step)


def _without_preferences(steps: Sequence[RelaxationStep]) -> list[RelaxationStep]:
    """Return the relaxation steps with only hard rules left, one for each alternative of the node affinity."""
    fewest = min(_preferences_in(step) for step in steps)
    plain = {step.alternatives: step for step in steps if _preferences_in(step) == fewest}
    return list(plain.values())


def _preferences_in(step: RelaxationStep) -> int:
    demands = step.demands
    soft = sum(spread.when_unsatisfiable != DO_NOT_SCHEDULE for spread in demands.spreads)
    weighted = (demands.preferred_terms, demands.preferred_affinity, demands.preferred_anti_affinity)
    return soft + sum(len(terms) for terms in weighted)


def _asks_for_something(context: SchedulingContext, pod_group: PodGroup, step: RelaxationStep) -> bool:
    """Whether a pod requests a device or requires a label that not every node has."""
    terms = step.demands.terms[0].requirements if step.demands.terms else ()
    keys = {requirement.key for requirement in (*pod_group.signature.spec.node_selector, *terms)}
    requested = {name for name, amount in zip(context.axis.names, pod_group.requests, strict=True) if amount}
    return bool(keys - _COMMON_LABELS) or bool(requested - _COMMON_RESOURCES)


def _near_toleration(taint: Taint, step: RelaxationStep) -> str:
    """Name a toleration with the taint's key but another value or effect."""
    near = next((toleration for toleration in step.demands.tolerations if toleration.key == taint.key), None)
    if near is None:
        return ""
    value = f"={near.value}" if near.value else ""
    effect = f":{near.effect}" if near.effect else ""
    return f" (the pod tolerates {near.key}{value}{effect})"


def _finding(template: NodeClaimTemplate, reason: str, message: str, nearest: str = "") -> PoolFinding:
    return PoolFinding(node_pool=template.pool.name, reason=reason, message=message, nearest=nearest)


def _by_name(context: SchedulingContext) -> Iterable[NodePool]:
    return sorted(context.snapshot.node_pools, key=lambda pool: pool.name)
