"""Converts a solution to the scheduler's results: claims with their types in price order, bindings, reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from core import labels
from core.catalogue.reservations import paid_for
from core.labels import HASH_VERSION
from core.model.plan import Binding, BufferRoom, Cost, Plan, PlannedClaim, Unschedulable
from core.model.pod import Pod
from core.model.values.requirements import Requirement, Requirements
from core.pools.pool_template import SIMULATED
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate, any_value
from core.scheduling.context import SchedulingContext
from core.scheduling.explanation.diagnosis import Diagnosis
from core.scheduling.explanation.findings import PodFinding
from core.scheduling.greedy.solution import Solution
from core.scheduling.instance_types.min_values import cut
from core.scheduling.pods.pending_pods import buffer_of, is_virtual
from core.scheduling.primitives.handles import TypeMask
from core.scheduling.primitives.resource_vector import ResourceAxis, Vector, plus

TYPES_MAX: Final = 600
"""The most instance types that a claim names (Karpenter)."""


class SchedulingResults(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, with further results for disruption.

    The plan covers pending pods, pods of leaving nodes, and pods that `what_if` displaces. All of them appear in its claims,
    bindings and unschedulable pods by key.

    Attributes:
        displaced: Keys of the pods of the vanished nodes that need a new place.
        on_uninitialized: Displaced pods on an existing node that is not initialized yet, so that it is uncertain whether they
            will run (Karpenter does not consolidate then).
        buffer_nodes: Names of existing nodes whose free room serves a capacity buffer; they do not count as empty.
    """

    plan: Plan
    displaced: tuple[str, ...] = ()
    on_uninitialized: tuple[str, ...] = ()
    buffer_nodes: tuple[str, ...] = ()


def scheduling_results(
    context: SchedulingContext, solution: Solution, displaced: Iterable[Pod], explains: Callable[[Pod], bool]
) -> SchedulingResults:
    """Return the results of a solution; `displaced` are the pods that lose their node.

    A pod without a place gets a reason only if `explains` says so: finding reasons takes longer than planning.
    """
    keys = {pod.key for pod in displaced}
    claims = planned_claims(solution.claims, context.axis, context.table.well_known)
    existing_nodes = context.existing_nodes
    real = [(pod, existing_nodes[position]) for pod, position in solution.bound if not is_virtual(pod)]
    plan = Plan(
        now=context.snapshot.now,
        claims=claims,
        bindings=tuple(sorted(Binding(pod.key, node.name) for pod, node in real)),
        unschedulable=_unschedulable(context, solution, explains),
        buffers=buffer_rooms(context.pending, solution) if context.snapshot.buffers else (),
        cost=Cost(sum(claim.price for claim in claims)),
    )
    buffer_nodes = {existing_nodes[position].name for pod, position in solution.bound if is_virtual(pod)}
    return SchedulingResults(
        plan=plan,
        displaced=tuple(sorted(keys)),
        on_uninitialized=tuple(
            sorted(pod.key for pod, node in real if pod.key in keys and not node.state.is_initialized)
        ),
        buffer_nodes=tuple(sorted(buffer_nodes)),
    )


def planned_claims(
    claims: Sequence[InFlightClaim], axis: ResourceAxis, well_known: frozenset[str]
) -> tuple[PlannedClaim, ...]:
    """Return the planned claims, named `<pool>-<n>` in the order of opening."""
    forms = _Forms(well_known)
    numbers: dict[str, int] = {}
    planned = []
    for claim in claims:
        pool = claim.template.pool.name
        number = numbers[pool] = numbers.get(pool, -1) + 1
        planned.append(_filled(forms.of(claim), claim, f"{pool}-{number}", axis))
    return tuple(planned)


def buffer_rooms(pending: Iterable[Pod], solution: Solution) -> tuple[BufferRoom, ...]:
    """Return the room of each capacity buffer's virtual pods."""
    wanted = Counter(buffer_of(pod) for pod in pending if is_virtual(pod))
    existing = Counter(buffer_of(pod) for pod, _ in solution.bound if is_virtual(pod))
    new = Counter(buffer_of(pod) for claim in solution.claims for pod in claim.pods if is_virtual(pod))
    return tuple(
        BufferRoom(name, existing[name], new[name], wanted[name] - existing[name] - new[name])
        for name in sorted(wanted)
    )


def _unschedulable(
    context: SchedulingContext, solution: Solution, explains: Callable[[Pod], bool]
) -> tuple[Unschedulable, ...]:
    found = []
    diagnosis = Diagnosis(context, solution)
    for pending_group in solution.unplaced:
        shared: PodFinding | None = None
        for pod in pending_group.pods[pending_group.placed :]:
            if is_virtual(pod):
                continue
            if not explains(pod):
                found.append(Unschedulable(pod.key, reason="", message=""))
                continue
            if pod.spec.volumes:
                finding = diagnosis.of(pending_group.pod_group, pod)
            else:
                finding = shared = shared or diagnosis.of(pending_group.pod_group, None)
            found.append(Unschedulable(pod.key, finding.reason, finding.message))
    return tuple(sorted(found))


class _Form(msgspec.Struct, frozen=True):
    """The parts of a planned claim that do not depend on its pods."""

    blank: PlannedClaim
    overhead: Vector


class _Forms:
    """Shares one form among all claims of a plan that differ only in their pods."""

    def __init__(self, well_known: frozenset[str]) -> None:
        self._well_known = well_known
        self._known: dict[tuple[object, ...], _Form] = {}

    def of(self, claim: InFlightClaim) -> _Form:
        left = claim.fitting_types
        wanted = tuple(claim.min_values.items())
        coverage = (claim.reservations, claim.commitment)
        question = (claim.template.index, claim.reqs, left, coverage, wanted, claim.min_values_relaxed)
        known = self._known.get(question)
        if known is None:
            known = self._known[question] = self._form(claim, left)
        return known

    def _form(self, claim: InFlightClaim, left: TypeMask) -> _Form:
        template, types = claim.template, claim.template.types
        mask = cut(types, left, claim.reqs, claim.min_values, TYPES_MAX)
        zones, capacity_types = types.offerings.zones_and_capacity_types(mask, claim.reqs)
        price = types.offerings.cheapest(mask, claim.reqs) or 0
        requirements = _requirements(claim, types.names(mask), capacity_types)
        blank = PlannedClaim(
            name="",
            node_pool=template.pool.name,
            node_class=template.pool.node_class,
            labels=_labels(template, requirements, self._well_known),
            annotations=_annotations(claim),
            taints=template.taints,
            startup_taints=template.pool.startup_taints,
            requirements=requirements,
            instance_types=types.names_in_price_order(mask, claim.reqs),
            zones=zones,
            capacity_types=capacity_types,
            price=paid_for(price) if claim.commitment else price,
            expire_after=template.pool.expire_after,
            termination_grace_period=template.pool.termination_grace_period,
            min_values_relaxed=claim.min_values_relaxed,
        )
        return _Form(blank, types.room.least_overhead(mask))


def _filled(form: _Form, claim: InFlightClaim, name: str, axis: ResourceAxis) -> PlannedClaim:
    keys = sorted([pod.key for pod in claim.pods])
    virtual = {pod.key for pod in claim.pods if pod.annotations and is_virtual(pod)}
    return msgspec.structs.replace(
        form.blank,
        name=name,
        resources=axis.amounts(plus(claim.used, form.overhead)),
        pods=tuple(key for key in keys if key not in virtual) if virtual else tuple(keys),
        buffer_pods=tuple(sorted(virtual)),
    )


def _requirements(
    claim: InFlightClaim, names: tuple[str, ...], capacity_types: Iterable[str]
) -> tuple[Requirement, ...]:
    """Return the requirements on the launched node; minValues as lowered by BestEffort."""
    table = claim.template.types.table
    simulated = SIMULATED if claim.reservations else (*SIMULATED, labels.RESERVATION_ID)
    narrowed = table[claim.reqs].without(*simulated)
    chosen = (
        Requirement(labels.INSTANCE_TYPE, False, names),
        Requirement.one_of(labels.CAPACITY_TYPE, *capacity_types),
    )
    merged = Requirements((*narrowed.values(), *chosen))
    return tuple(_with_min_values(requirement, claim.min_values.get(key)) for key, requirement in merged.items())


def _with_min_values(requirement: Requirement, value: int | None) -> Requirement:
    if requirement.min_values == value:
        return requirement
    return Requirement(
        requirement.key, requirement.complement, requirement.values, requirement.gte, requirement.lte, value
    )


def _labels(
    template: NodeClaimTemplate, requirements: Iterable[Requirement], well_known: frozenset[str]
) -> dict[str, str]:
    """Return the template's labels, and a value for every label that only the NodePool's requirements define and leave open."""
    found = dict(template.labels)
    for requirement in requirements:
        if requirement.key not in well_known:
            value = any_value(requirement)
            if value is not None:
                found[requirement.key] = value
    return dict(sorted(found.items()))


def _annotations(claim: InFlightClaim) -> dict[str, str]:
    pool = claim.template.pool
    own = dict(pool.annotations)
    if pool.template_hash:
        own |= {labels.NODEPOOL_HASH: pool.template_hash, labels.NODEPOOL_HASH_VERSION: HASH_VERSION}
    if claim.commitment:
        own[labels.COMMITMENT] = claim.commitment
    if claim.min_values:
        own[labels.MIN_VALUES_RELAXED] = "true" if claim.min_values_relaxed else "false"
    return dict(sorted(own.items()))
