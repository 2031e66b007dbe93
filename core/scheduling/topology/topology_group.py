"""Topology groups: pods that share a rule share its counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from core import labels
from core.model.pod import (
    DO_NOT_SCHEDULE,
    HONOR,
    LabelSelector,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodSpec,
    TopologySpread,
)
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement, Requirements
from core.model.values.taints import PREFER_NO_SCHEDULE, Taint, Toleration, first_untolerated
from core.scheduling.pods.preferences import usable_terms

SPREAD: Final = "spread"
AFFINITY: Final = "affinity"
ANTI_AFFINITY: Final = "anti-affinity"
INVERSE: Final = "inverse"
"""The inverse of a required anti-affinity: it counts the owners, and keeps the pods that they avoid away."""


class TopologyNodeFilter(msgspec.Struct, frozen=True, order=True):
    """The nodes that a spread constraint considers (`nodeAffinityPolicy`, `nodeTaintsPolicy`).

    Attributes:
        selector, terms: The owner's node selector and alternatives; both empty if the policy is Ignore.
        tolerations: The owner's tolerations, None if taints are ignored.
        keys: Labels without which a node is ignored, with all its pods (Kubernetes: every topology key of the owner).
    """

    selector: tuple[Requirement, ...] = ()
    terms: tuple[NodeSelectorTerm, ...] = ()
    tolerations: tuple[Toleration, ...] | None = None
    keys: tuple[str, ...] = ()

    def admits(self, offered: Requirements, taints: Iterable[Taint], well_known: frozenset[str]) -> bool:
        """Whether nodes with these labels and taints count."""
        if self.tolerations is not None and first_untolerated(_hard(taints), self.tolerations) is not None:
            return False
        for key in self.keys:
            if key not in well_known and (key not in offered or offered[key].operator == "DoesNotExist"):
                return False
        return any(
            all(offered.compatible(Requirements((asked,)), allow_undefined=well_known) for asked in way)
            for way in self.alternatives()
        )

    def alternatives(self) -> tuple[tuple[Requirement, ...], ...]:
        """Return the node selector combined with each alternative of the affinity; one empty alternative if neither counts."""
        return tuple((*self.selector, *term.requirements) for term in self.terms) or (self.selector,)


ANY_NODE: Final = TopologyNodeFilter()
"""Every node counts."""


class TopologyGroup(msgspec.Struct, frozen=True, order=True):
    """One rule along one topology key, shared by all pods that have it. `namespaces` None stands for all."""

    kind: str
    key: str
    namespaces: tuple[str, ...] | None
    selector: LabelSelector | None
    max_skew: int = 0
    min_domains: int = 0
    node_filter: TopologyNodeFilter = ANY_NODE

    @property
    def is_hostname(self) -> bool:
        """Whether each node is a domain of its own."""
        return self.key == labels.HOSTNAME

    @property
    def counts_ending(self) -> bool:
        """Whether terminating pods count: a required anti-affinity holds until its pod is gone (Karpenter, kube-scheduler)."""
        return self.kind == INVERSE

    def selects(self, namespace: str, pod_labels: Mapping[str, str]) -> bool:
        """Whether the rule selects a pod."""
        if self.selector is None or (self.namespaces is not None and namespace not in self.namespaces):
            return False
        return self.selector.matches(pod_labels)


def spread_group(
    spread: TopologySpread,
    spreads: Iterable[TopologySpread],
    spec: PodSpec,
    namespace: str,
    pod_labels: Mapping[str, str],
) -> TopologyGroup:
    """Return the group of a spread constraint; `spreads` are all of the owner's, its own or the cluster's defaults.

    Node filters use the owner's complete affinity even after relaxation.
    """
    others = {labels.normalized(s.topology_key) for s in spreads if s.when_unsatisfiable == DO_NOT_SCHEDULE}
    others -= {labels.normalized(spread.topology_key), labels.HOSTNAME}
    honors_affinity = spread.node_affinity_policy == HONOR
    node_filter = TopologyNodeFilter(
        selector=spec.node_selector if honors_affinity else (),
        terms=usable_terms(spec) if honors_affinity else (),
        tolerations=tuple(sorted(spec.tolerations)) if spread.node_taints_policy == HONOR else None,
        keys=tuple(sorted(others)) if spread.when_unsatisfiable == DO_NOT_SCHEDULE else (),
    )
    selector = _with_label_keys(spread.selector, pod_labels, spread.match_label_keys, ())
    minimum = spread.min_domains or 0
    return TopologyGroup(
        SPREAD, labels.normalized(spread.topology_key), (namespace,), selector, spread.max_skew, minimum, node_filter
    )


def affinity_group(
    kind: str, term: PodAffinityTerm, namespace: str, pod_labels: Mapping[str, str], namespaces: Namespaces
) -> TopologyGroup:
    """Return the group of an affinity or anti-affinity term, or of the inverse of the latter."""
    selector = _with_label_keys(term.selector, pod_labels, term.match_label_keys, term.mismatch_label_keys)
    return TopologyGroup(kind, labels.normalized(term.topology_key), namespaces.of_term(term, namespace), selector)


class Namespaces:
    """The cluster's namespaces, for terms that select them. One that is only known from its pods has its name as label."""

    def __init__(self, known: Mapping[str, Mapping[str, str]]) -> None:
        self._labels = {name: {"kubernetes.io/metadata.name": name, **own} for name, own in sorted(known.items())}

    @classmethod
    def of(cls, snapshot: Snapshot) -> Namespaces:
        """Return the namespaces of the snapshot's pods and objects."""
        known: dict[str, Mapping[str, str]] = {name: {} for name in sorted({pod.namespace for pod in snapshot.pods})}
        known.update({namespace.name: namespace.labels for namespace in snapshot.namespaces})
        return cls(known)

    def of_term(self, term: PodAffinityTerm, own: str) -> tuple[str, ...] | None:
        """Return the namespaces whose pods the term selects, None for all."""
        selector = term.namespace_selector
        if selector is None:
            return tuple(sorted(set(term.namespaces))) or (own,)
        if not selector.requirements:
            return None
        selected = (name for name, found in self._labels.items() if selector.matches(found))
        return tuple(sorted({*term.namespaces, *selected}))


def _with_label_keys(
    selector: LabelSelector | None, own: Mapping[str, str], same: Iterable[str], other: Iterable[str]
) -> LabelSelector | None:
    if selector is None:
        return None
    added = [Requirement(key, False, (own[key],)) for key in sorted(set(same)) if key in own]
    added += [Requirement(key, True, (own[key],)) for key in sorted(set(other)) if key in own]
    return LabelSelector(tuple(sorted({*selector.requirements, *added}))) if added else selector


def _hard(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    return tuple(taint for taint in taints if taint.effect != PREFER_NO_SCHEDULE)
