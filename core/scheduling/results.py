"""Converts a solution to the scheduler's results: claims with their types in price order, bindings, reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from core import labels
from core.containment import SetAside, internal_error
from core.errors import OutOfTimeError
from core.labels import HASH_VERSION
from core.model.catalogue import paid_for
from core.model.plan import Binding, BufferRoom, Cost, Plan, PlannedClaim, PlannedGroup, Unschedulable, WaitingPod
from core.model.pod import Pod
from core.model.values.requirements import Requirement, Requirements
from core.pods import is_to_come, why_waits
from core.pools import SIMULATED, with_charges
from core.reasons.pods import PodReason
from core.scheduling.claim_search import Solution
from core.scheduling.constraints.caps import price_for, why_no_fallback
from core.scheduling.context import SchedulingContext, buffer_of, is_spare, is_virtual
from core.scheduling.explanation import Diagnosis
from core.scheduling.explanation_text import PodFinding
from core.scheduling.instance_types import cut
from core.scheduling.new_node import InFlightClaim, NodeClaimTemplate, any_value
from core.scheduling.pods import PendingGroup
from core.scheduling.primitives import ResourceAxis, TypeMask, Vector, plus

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
        awaited: Existing node → a pod that does not exist yet and will come there: a group or ProvisioningRequest awaits it.
    """

    plan: Plan
    displaced: tuple[str, ...] = ()
    on_uninitialized: tuple[str, ...] = ()
    buffer_nodes: tuple[str, ...] = ()
    awaited: dict[str, str] = {}


def scheduling_results(
    context: SchedulingContext, solution: Solution, displaced: Iterable[Pod], explains: Callable[[Pod], bool]
) -> SchedulingResults:
    """Return the results of a solution; `displaced` are the pods that lose their node.

    A pod without a place gets a reason only if `explains` says so: finding reasons takes longer than planning.
    """
    keys = {pod.key for pod in displaced}
    claims = planned_claims(solution.claims, context.axis, context.table.well_known)
    claims = _named_for_groups(context, claims) if context.gangs else claims
    claims = _charged(context, solution.claims, claims) if context.remaining.caps.caps else claims
    existing_nodes = context.existing_nodes
    virtual = [
        (pod, existing_nodes[position]) for pod, position in solution.bound if pod.annotations and is_virtual(pod)
    ]
    bound = solution.bound if not virtual else [(pod, p) for pod, p in solution.bound if not is_virtual(pod)]
    real = [(pod.key, existing_nodes[position]) for pod, position in bound]
    plan = Plan(
        now=context.snapshot.now,
        claims=claims,
        bindings=tuple(sorted(Binding(key, node.name) for key, node in real)),
        unschedulable=_unschedulable(context, solution, explains),
        groups=_groups(context, solution, claims),
        buffers=buffer_rooms(context.pending, solution) if context.snapshot.buffers else (),
        waiting=_waiting(solution),
        cost=Cost(sum(claim.price for claim in claims)),
    )
    buffer_nodes = {node.name for _, node in virtual}
    return SchedulingResults(
        plan=plan,
        displaced=tuple(sorted(keys)),
        on_uninitialized=tuple(sorted(key for key, node in real if key in keys and not node.state.is_initialized)),
        buffer_nodes=tuple(sorted(buffer_nodes)),
        awaited={node.name: pod.key for pod, node in virtual if is_to_come(pod)},
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


def _waiting(solution: Solution) -> tuple[WaitingPod, ...]:
    """Return the pods that may wait with what they cost as planned, without those that found room."""
    if not solution.waiting:
        return ()
    costs = {pod.key: price_for(claim, pod) for claim in solution.claims for pod in claim.pods}
    bound = {pod.key for pod, _ in solution.bound}
    waiting = (solution.waiting[key] for key in sorted(solution.waiting) if key not in bound)
    return tuple(msgspec.structs.replace(pod, cost=costs.get(pod.pod, 0)) for pod in waiting)


def _charged(
    context: SchedulingContext, claims: Iterable[InFlightClaim], planned: Iterable[PlannedClaim]
) -> tuple[PlannedClaim, ...]:
    """Return the planned claims, each with the caps that count it."""
    shares = (context.remaining.caps.shares(claim) for claim in claims)
    return tuple(
        msgspec.structs.replace(claim, annotations=with_charges(claim.annotations, counted)) if counted else claim
        for claim, counted in zip(planned, shares, strict=True)
    )


def buffer_rooms(pending: Iterable[Pod], solution: Solution) -> tuple[BufferRoom, ...]:
    """Return the room of each capacity buffer's virtual pods."""
    wanted = Counter(buffer_of(pod) for pod in pending if is_spare(pod))
    existing = Counter(buffer_of(pod) for pod, _ in solution.bound if is_spare(pod))
    new = Counter(buffer_of(pod) for claim in solution.claims for pod in claim.pods if is_spare(pod))
    return tuple(
        BufferRoom(name, existing[name], new[name], wanted[name] - existing[name] - new[name])
        for name in sorted(wanted)
    )


class Reasons(msgspec.Struct, frozen=True):
    """Why pods have no place.

    Attributes:
        unschedulable: The pods with their reasons.
        set_aside: Pods for which the search for a reason raised.
        is_whole: Whether there was time for every pod and none raised, so that another search finds the same.
    """

    unschedulable: tuple[Unschedulable, ...]
    set_aside: tuple[SetAside, ...] = ()
    is_whole: bool = True


FindReasons = Callable[[Callable[[], None]], Reasons]
"""Takes what watches its time, as a planner's `watch`; nothing about a pod makes it raise."""


def _unschedulable(
    context: SchedulingContext, solution: Solution, explains: Callable[[Pod], bool]
) -> tuple[Unschedulable, ...]:
    unplaced = []
    diagnosis = Diagnosis(context, solution)
    has_time = True
    for pending_group in solution.unplaced:
        has_time = has_time and _has_time(context.watch)
        unplaced += _reasons_of(diagnosis, pending_group, explains, has_time=has_time)
    return _with_held(context, solution, unplaced)


def _with_held(
    context: SchedulingContext, solution: Solution, unplaced: Iterable[Unschedulable]
) -> tuple[Unschedulable, ...]:
    """Return the pods without a place with those that are held back; virtual ones are left out."""
    virtual = {pod.key for pod in context.pending if is_virtual(pod)} if solution.held else frozenset()
    held = (pod for pod in solution.held if pod.pod not in virtual)
    others = (_as_held(pod, context, solution) for pod in unplaced)
    return tuple(sorted((*others, *context.held_pods(), *held)))


def _as_held(pod: Unschedulable, context: SchedulingContext, solution: Solution) -> Unschedulable:
    """Return why a pod waits for which only some nodes are bought; another pod's reason is returned unchanged."""
    if pod.pod in solution.waiting:
        return Unschedulable(pod.pod, PodReason.HELD_BACK, why_waits(solution.waiting[pod.pod]))
    cap = solution.saving.get(pod.pod)
    return pod if cap is None else why_no_fallback(context.snapshot, pod.pod, cap)


def contained_reasons(context: SchedulingContext, solution: Solution, watch: Callable[[], None]) -> Reasons:
    """Return the reasons of all pods; a group whose reason raises is set aside, and the others are explained."""
    refusals, set_aside = list[Unschedulable](), list[SetAside]()
    diagnosis = Diagnosis(context, solution)
    has_time = True
    for pending_group in solution.unplaced:
        try:
            has_time = has_time and _has_time(watch)
            refusals += _reasons_of(diagnosis, pending_group, lambda _: True, has_time=has_time)
        except OutOfTimeError:
            has_time = False
            refusals += _reasons_of(diagnosis, pending_group, lambda _: True, has_time=has_time)
        except Exception as error:  # noqa: BLE001 - whatever an object causes is the object's
            without = [pod.key for pod in pending_group.pods[pending_group.placed :] if not is_virtual(pod)]
            out = [internal_error(f"Pod/{key}", error) for key in without]
            set_aside += out
            refusals += [Unschedulable(aside.pod, PodReason.SET_ASIDE, aside.message) for aside in out]
    unschedulable = _with_held(context, solution, refusals)
    return Reasons(unschedulable, tuple(set_aside), has_time and not set_aside)


def _reasons_of(
    diagnosis: Diagnosis, pending_group: PendingGroup, explains: Callable[[Pod], bool], *, has_time: bool
) -> list[Unschedulable]:
    unplaced = []
    shared = None if has_time else _NOT_EXAMINED
    for pod in pending_group.pods[pending_group.placed :]:
        if is_virtual(pod):
            continue
        if not explains(pod):
            unplaced.append(Unschedulable(pod.key, reason="", message=""))
            continue
        if pod.spec.volumes and has_time:
            finding = diagnosis.of(pending_group.pod_group, pod)
        else:
            finding = shared = shared or diagnosis.of(pending_group.pod_group, None)
        unplaced.append(Unschedulable(pod.key, finding.reason, finding.message))
    return unplaced


_NOT_EXAMINED: Final = PodFinding(
    reason=PodReason.NO_OFFERING_FITS, message="the time for the plan was over before anything could say why"
)


_PLACEMENTS_A_REASON: Final = 16
"""A reason takes as long as placing many pods, and counts as so many: who watches the time looks once in so many calls."""


def _has_time(watch: Callable[[], None]) -> bool:
    """Whether there is time to explain one more group of pods: what is placed is not planned again for want of reasons."""
    try:
        for _ in range(_PLACEMENTS_A_REASON):
            watch()
    except OutOfTimeError:
        return False
    return True


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
        fitting = claim.fitting_types
        wanted = tuple(claim.min_values.items())
        coverage = (claim.reservations, claim.commitment)
        question = (claim.template.index, claim.reqs, fitting, coverage, wanted, claim.min_values_relaxed)
        form = self._known.get(question)
        if form is None:
            form = self._known[question] = self._form(claim, fitting)
        return form

    def _form(self, claim: InFlightClaim, fitting: TypeMask) -> _Form:
        template, types = claim.template, claim.template.types
        mask = cut(types, fitting, claim.reqs, claim.min_values, TYPES_MAX)
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
            requirements=tuple(
                requirement for requirement in requirements if requirement.key != labels.PROVISIONING_REQUEST
            ),
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
    """Return the template's labels, and a value for every label that only the NodePool's requirements define and leave open.

    The label of nodes that are bought for a ProvisioningRequest comes from its pods alone.
    """
    label_values = dict(template.labels)
    for requirement in requirements:
        if requirement.key not in well_known or requirement.key == labels.PROVISIONING_REQUEST:
            value = any_value(requirement)
            if value is not None:
                label_values[requirement.key] = value
    return dict(sorted(label_values.items()))


def _annotations(claim: InFlightClaim) -> dict[str, str]:
    pool = claim.template.pool
    annotations = dict(pool.annotations)
    if pool.template_hash:
        annotations |= {labels.NODEPOOL_HASH: pool.template_hash, labels.NODEPOOL_HASH_VERSION: HASH_VERSION}
    if claim.commitment:
        annotations[labels.COMMITMENT] = claim.commitment
    if claim.min_values:
        annotations[labels.MIN_VALUES_RELAXED] = "true" if claim.min_values_relaxed else "false"
    return dict(sorted(annotations.items()))


def _named_for_groups(context: SchedulingContext, claims: tuple[PlannedClaim, ...]) -> tuple[PlannedClaim, ...]:
    from core.scheduling.gangs import named_for_groups

    return named_for_groups(context, claims)


def _groups(context: SchedulingContext, solution: Solution, claims: Sequence[PlannedClaim]) -> tuple[PlannedGroup, ...]:
    if not context.gangs:
        return ()
    from core.scheduling.gangs import planned_groups

    return planned_groups(context, solution, claims)
