"""Diagnoses pods without a place: for each NodePool, what ruled out how many instance types, and the nearest miss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from core import labels
from core.model.node_pool import NodePool
from core.model.pod import DO_NOT_SCHEDULE, Pod
from core.model.values.taints import Taint, first_untolerated
from core.reasons.pod import RANK, PodReason
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate, why_unusable
from core.scheduling.context import SchedulingContext
from core.scheduling.explanation.demand_sources import demand_source, disagreement
from core.scheduling.explanation.findings import PodFinding, PoolFinding, nearness
from core.scheduling.explanation.new_node_refusal import NewNodeRefusal
from core.scheduling.explanation.type_elimination import TypeElimination
from core.scheduling.explanation.wording import closed_reservation, conflict, contradiction, own_conflict
from core.scheduling.greedy.solution import Solution
from core.scheduling.pods.pod_group import PodGroup, RelaxationStep
from core.scheduling.primitives.requirement_table import IMPOSSIBLE

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
        if pod_group.reason:
            return PodFinding(reason=pod_group.reason, message=pod_group.message)
        findings = self.findings(pod_group, pod)
        if not findings:
            return PodFinding(reason=PodReason.NO_NODE_POOL, message="there is no NodePool")
        nearest_first = sorted(findings, key=nearness, reverse=True)
        reason = next((found.reason for found in nearest_first if found.reason is not None), PodReason.NO_OFFERING_FITS)
        message = "\n".join(f"NodePool {finding.node_pool}: {finding.message}" for finding in findings)
        return PodFinding(reason=reason, message=message, pools=findings)

    def findings(self, pod_group: PodGroup, pod: Pod | None = None) -> tuple[PoolFinding, ...]:
        """Return the finding for every NodePool, in the order in which they are tried, unusable ones last."""
        found = [self._nearest(template, pod_group, pod) for template in self._context.templates]
        unusable = ((pool, why_unusable(pool, self._context.snapshot)) for pool in _by_name(self._context))
        found += [
            PoolFinding(node_pool=pool.name, reason=PodReason.NO_NODE_POOL, message=why)
            for pool, why in unusable
            if why
        ]
        return tuple(found)

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
        found = _finding(template, PodReason.TAINT_NOT_TOLERATED, f"{message}; nearest: {nearest}", nearest)
        return msgspec.structs.replace(found, is_asked_for=_asks_for_something(self._context, pod_group, step))

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
            self._context.table.narrowed(template.offered, asked=alternative) for alternative in step.alternatives
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
    asked = {requirement.key for requirement in (*pod_group.signature.spec.node_selector, *terms)}
    requested = {name for name, amount in zip(context.axis.names, pod_group.requests, strict=True) if amount}
    return bool(asked - _COMMON_LABELS) or bool(requested - _COMMON_RESOURCES)


def _near_toleration(taint: Taint, step: RelaxationStep) -> str:
    """Name a toleration with the taint's key but another value or effect."""
    near = next((known for known in step.demands.tolerations if known.key == taint.key), None)
    if near is None:
        return ""
    value = f"={near.value}" if near.value else ""
    effect = f":{near.effect}" if near.effect else ""
    return f" (the pod tolerates {near.key}{value}{effect})"


def _finding(template: NodeClaimTemplate, reason: str, message: str, nearest: str = "") -> PoolFinding:
    return PoolFinding(node_pool=template.pool.name, reason=reason, message=message, nearest=nearest)


def _by_name(context: SchedulingContext) -> Iterable[NodePool]:
    return sorted(context.snapshot.node_pools, key=lambda pool: pool.name)
