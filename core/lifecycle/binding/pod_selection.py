"""Selects the other pods that a pod's rule applies to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from core.model.pod import LabelSelector, Pod, PodAffinityTerm, TopologySpread
from core.model.values.requirements import Requirement


class PodSelection(msgspec.Struct, frozen=True):
    """Pods selected by several selectors at once, each within namespaces; no namespaces means all of them.

    Attributes:
        with_leaving: Whether pods whose deletion has begun count: they do for affinity, not for spreads (kube-scheduler).
    """

    parts: tuple[tuple[tuple[str, ...], LabelSelector | None], ...]
    with_leaving: bool

    def selects(self, pod: Pod) -> bool:
        """Whether the pod is selected, regardless of its node."""
        return all(
            selector is not None and (not namespaces or pod.namespace in namespaces) and selector.matches(pod.labels)
            for namespaces, selector in self.parts
        )

    def counts(self, pod: Pod) -> bool:
        """Whether the pod counts where it is bound."""
        return (self.with_leaving or not pod.is_terminating) and self.selects(pod)


def spread_selection(pod: Pod, rule: TopologySpread) -> PodSelection:
    """Return the pods among which the constraint spreads."""
    selector = _narrowed(rule.selector, pod.labels, rule.match_label_keys)
    return PodSelection((((pod.namespace,), selector),), with_leaving=False)


def affinity_selection(pod: Pod, terms: Iterable[PodAffinityTerm]) -> PodSelection:
    """Return the pods that all these terms of the pod select (kube-scheduler ignores a pod that only some of them select)."""
    return PodSelection(tuple(_part(pod, term) for term in terms), with_leaving=True)


def _part(pod: Pod, term: PodAffinityTerm) -> tuple[tuple[str, ...], LabelSelector | None]:
    """Namespaces selected by label are unknown here and count as all: this may keep a pod out, but breaks no rule."""
    selector = _narrowed(term.selector, pod.labels, term.match_label_keys, term.mismatch_label_keys)
    if term.namespace_selector is not None:
        return (), selector
    return term.namespaces or (pod.namespace,), selector


def _narrowed(
    selector: LabelSelector | None, labels: Mapping[str, str], same: Iterable[str], other: Iterable[str] = ()
) -> LabelSelector | None:
    """Return the selector narrowed to the pod's own values of the keys `same`, and to other values of the keys `other`."""
    more = [Requirement.one_of(key, labels[key]) for key in same if key in labels]
    more += [Requirement.of(key, "NotIn", (labels[key],)) for key in other if key in labels]
    return None if selector is None else LabelSelector((*selector.requirements, *more))
