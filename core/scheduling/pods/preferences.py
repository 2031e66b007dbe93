"""Lists a pod's demands at each relaxation step; each step gives up one more preference (Karpenter, preferences)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from core.model.pod import (
    DO_NOT_SCHEDULE,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodSpec,
    PreferredTerm,
    TopologySpread,
    WeightedPodAffinityTerm,
)
from core.model.values.requirements import Requirement
from core.model.values.taints import PREFER_NO_SCHEDULE, Toleration

_Weighted = TypeVar("_Weighted", PreferredTerm, WeightedPodAffinityTerm)

TOLERATE_PREFERENCES: Final = Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE)


class PodDemands(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a pod demands at one relaxation step, including the preferences that it has not given up."""

    terms: tuple[NodeSelectorTerm, ...]
    preferred_terms: tuple[PreferredTerm, ...]
    spreads: tuple[TopologySpread, ...]
    affinity: tuple[PodAffinityTerm, ...]
    anti_affinity: tuple[PodAffinityTerm, ...]
    preferred_affinity: tuple[WeightedPodAffinityTerm, ...]
    preferred_anti_affinity: tuple[WeightedPodAffinityTerm, ...]
    tolerations: tuple[Toleration, ...]


def usable_terms(spec: PodSpec) -> tuple[NodeSelectorTerm, ...]:
    """Return the alternatives of the required node affinity that a node could meet: with expressions, without fields."""
    return tuple(term for term in spec.required_terms if term.requirements and not term.uses_fields)


def required_alternatives(spec: PodSpec) -> tuple[tuple[Requirement, ...], ...]:
    """Return the node selector combined with each alternative of the required node affinity; empty if none can be met."""
    terms = usable_terms(spec)
    if spec.required_terms and not terms:
        return ()
    return tuple((*spec.node_selector, *term.requirements) for term in terms) or (spec.node_selector,)


def relaxation_steps(
    spec: PodSpec, spreads: tuple[TopologySpread, ...], *, respect: bool, tolerate_at_last: bool
) -> Iterator[PodDemands]:
    """Return the demands of each step: first everything, then one preference less at a time.

    Order: all alternatives of the required node affinity except the last, preferred pod affinity, preferred pod anti-affinity,
    preferred node affinity (the heaviest first), ScheduleAnyway spreads, finally tolerating PreferNoSchedule. Karpenter stops
    there; here each dropped alternative is then tried once more without any preference.

    Args:
        spec: The pod.
        spreads: Its spread constraints, cluster defaults included.
        respect: Whether preferences are respected (`--preference-policy`).
        tolerate_at_last: Whether any taint with effect PreferNoSchedule exists.
    """
    hard = tuple(s for s in spreads if s.when_unsatisfiable == DO_NOT_SCHEDULE)
    demands = PodDemands(
        terms=usable_terms(spec),
        preferred_terms=_heaviest_first(spec.preferred_terms) if respect else (),
        spreads=spreads if respect else hard,
        affinity=spec.affinity,
        anti_affinity=spec.anti_affinity,
        preferred_affinity=_heaviest_first(spec.preferred_affinity) if respect else (),
        preferred_anti_affinity=_heaviest_first(spec.preferred_anti_affinity) if respect else (),
        tolerations=spec.tolerations,
    )
    step: PodDemands | None = demands
    last = demands
    while step is not None:
        yield step
        last, step = step, _relaxed(step, tolerate_at_last=tolerate_at_last)
    if _relaxed(msgspec.structs.replace(demands, terms=()), tolerate_at_last=tolerate_at_last) is not None:
        for dropped in range(len(demands.terms) - 1):
            yield msgspec.structs.replace(last, terms=demands.terms[dropped:])


def _relaxed(demands: PodDemands, *, tolerate_at_last: bool) -> PodDemands | None:
    replace = msgspec.structs.replace
    if len(demands.terms) > 1:
        return replace(demands, terms=demands.terms[1:])
    if demands.preferred_affinity:
        return replace(demands, preferred_affinity=demands.preferred_affinity[1:])
    if demands.preferred_anti_affinity:
        return replace(demands, preferred_anti_affinity=demands.preferred_anti_affinity[1:])
    if demands.preferred_terms:
        return replace(demands, preferred_terms=demands.preferred_terms[1:])
    soft = [i for i, spread in enumerate(demands.spreads) if spread.when_unsatisfiable != DO_NOT_SCHEDULE]
    if soft:
        return replace(demands, spreads=_without_swapping(demands.spreads, soft[0]))
    if tolerate_at_last and TOLERATE_PREFERENCES not in demands.tolerations:
        return replace(demands, tolerations=(*demands.tolerations, TOLERATE_PREFERENCES))
    return None


def _without_swapping(spreads: tuple[TopologySpread, ...], index: int) -> tuple[TopologySpread, ...]:
    """Remove a spread like Karpenter: the last element fills the gap, which determines what is dropped next."""
    moved = list(spreads)
    moved[index] = moved[-1]
    return tuple(moved[:-1])


def _heaviest_first(terms: tuple[_Weighted, ...]) -> tuple[_Weighted, ...]:
    return tuple(sorted(terms, key=lambda term: -term.weight))
