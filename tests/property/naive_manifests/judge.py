"""Judges rules that the scheduling judge leaves out: preferences, weights, the terms of claims, and the price."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from core import labels
from core.model.node_pool import NodePool
from core.model.plan import Plan, PlannedClaim
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import PREFER_NO_SCHEDULE, Taint
from tests.property.naive.large_plans import new_node_for, nodes_for
from tests.property.naive.places import Face, Place, places_after
from tests.property.naive.promises import is_usable
from tests.property.naive.reading import meets_all
from tests.property.naive.topology import Rules, too_near


def further_violations(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    """Every fault in preferences and in claims; the first word names the rule."""
    places = places_after(snapshot, plan)
    pools = {pool.name: pool for pool in snapshot.node_pools}
    for claim in plan.claims:
        yield from _terms(pools[claim.node_pool], claim)
    if any(pool.limits or any(r.min_values for r in pool.requirements) for pool in snapshot.node_pools):
        return  # the price of a node for one pod alone is unknown then
    repels = any(pod.spec.anti_affinity for pod in snapshot.pods)
    for place in places:
        for pod in place.coming:
            if place.claim is not None and snapshot.options.preference_policy == "Respect" and not _has_rules(pod):
                yield from _unpreferred(snapshot, places, place, pod)
        if place.claim is not None and not repels and not any(_has_rules(pod) for pod in place.coming):
            yield from _heavier(snapshot, pools[place.claim.node_pool], place)


def _terms(pool: NodePool, claim: PlannedClaim) -> Iterator[str]:
    """Faults of claims that lack a term of their NodePool's template."""
    wanted = (pool.expire_after, pool.termination_grace_period, pool.node_class)
    if (claim.expire_after, claim.termination_grace_period, claim.node_class) != wanted:
        yield f"terms: {claim.name} has {claim.expire_after}, {claim.termination_grace_period}, {claim.node_class}"
    if any(claim.annotations.get(key) != value for key, value in pool.annotations.items()):
        yield f"terms: {claim.name} is annotated {claim.annotations}"
    if any(claim.labels.get(key) != value for key, value in pool.labels.items()):
        yield f"terms: {claim.name} is labelled {claim.labels}"


def _has_rules(pod: Pod) -> bool:
    """Whether other pods' places matter to the pod: then the best node for the pod alone proves nothing."""
    spec = pod.spec
    near = (*spec.spreads, *spec.affinity, *spec.anti_affinity, *spec.preferred_affinity, *spec.preferred_anti_affinity)
    return bool(near or spec.volumes or len(spec.required_terms) > 1)


def _has_preferences(pod: Pod) -> bool:
    return bool(pod.spec.preferred_terms)


def _unpreferred(snapshot: Snapshot, places: list[Place], place: Place, pod: Pod) -> Iterator[str]:
    """New nodes that miss the pod's heaviest preference, or have a taint to avoid, although another node would not."""
    wished = sorted(pod.spec.preferred_terms, key=lambda preferred: -preferred.weight)
    least = PodRelaxation(snapshot, places, pod)
    if len({preferred.weight for preferred in wished}) == len(wished):
        for preferred in wished:  # only the heaviest preference counts; once it is given up, the next does (Karpenter)
            there = least.node(preferred.term.requirements, avoid=True)
            if there:
                if not all(meets_all(preferred.term.requirements, face.labels) for face in place.faces):
                    yield f"preference: {pod.key} is on {place.name}, and prefers {there} by {preferred.weight}"
                return
    avoided = [taint for taint in place.taints if taint.effect == PREFER_NO_SCHEDULE]
    if not _has_preferences(pod) and avoided and not _tolerates_softly(pod, avoided):
        there = least.node((), avoid=True)
        if there:
            yield f"preference: {pod.key} is on {place.name}, whose taint it would avoid on {there}"


class PodRelaxation:
    """The pod with some of its preferences turned into requirements; all other pods are where the finished plan has them.

    A pod with anti-affinity that was placed after it excuses a preference that was given up, too: a plan does not say in which
    order it placed its pods, and the judge would have to repeat the planner's queue, in which a pod that gives up a preference
    or finds no place is tried again later. So a preference that was given up without need, for a domain that such a pod took
    afterwards, is not found.
    """

    def __init__(self, snapshot: Snapshot, places: list[Place], pod: Pod) -> None:
        self._snapshot = snapshot
        self._pod = pod
        self._others = Rules(snapshot, places)

    def node(self, preferences: tuple[Requirement, ...], *, avoid: bool) -> str:
        """A new node that meets these requirements without a taint to avoid; empty if there is none.

        A node where the anti-affinity of another pod keeps the pod out is none: a preference does not outrank that.
        """
        selector = (*self._pod.spec.node_selector, *preferences)
        demanding = msgspec.structs.replace(
            self._pod, spec=msgspec.structs.replace(self._pod.spec, node_selector=selector)
        )
        for pool in self._snapshot.node_pools:
            soft = [taint for taint in pool.taints if taint.effect == PREFER_NO_SCHEDULE]
            if not (avoid and soft and not _tolerates_softly(self._pod, soft)):
                for kind, new_labels in nodes_for(self._snapshot, pool, demanding):
                    alone = Place(
                        f"a {kind.name} of {pool.name} in {new_labels[labels.ZONE]}", [Face(new_labels, {}, [], kind)]
                    )
                    if not too_near(self._others, self._pod, alone):
                        return alone.name
        return ""


def _tolerates_softly(pod: Pod, taints: list[Taint]) -> bool:
    return all(
        any(
            t.effect in ("", taint.effect)
            and (t.key in ("", taint.key) if t.operator == "Exists" else (t.key, t.value) == (taint.key, taint.value))
            for t in pod.spec.tolerations
        )
        for taint in taints
    )


def _heavier(snapshot: Snapshot, pool: NodePool, place: Place) -> Iterator[str]:
    """A claim whose pods, preferences aside, could each have a node of a heavier NodePool."""
    pods = place.coming
    if any(_has_preferences(pod) for pod in pods):
        return
    for other in snapshot.node_pools:
        soft = [taint for taint in other.taints if taint.effect == PREFER_NO_SCHEDULE]
        if other.weight <= pool.weight or not is_usable(other):
            continue
        if all(_tolerates_softly(pod, soft) and new_node_for(snapshot, other, pod) for pod in pods):
            yield f"weight: {place.name} is of {pool.name}, {other.name} is heavier and would do for all its pods"
