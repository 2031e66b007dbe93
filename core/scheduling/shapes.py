"""Sorts pods into shapes: everything about a pod that scheduling reads, but for how much it requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from core.model.pod import LabelSelector, Pod, PodSpec, TopologySpread
from core.model.snapshot import Snapshot
from core.scheduling.default_spreads import DefaultSpreads
from core.scheduling.pod_class import Shape
from core.scheduling.resource_axis import ResourceAxis, Vector


class Shapes:
    """The shapes of all pods of a snapshot."""

    def __init__(self, snapshot: Snapshot, pods: Iterable[Pod], axis: ResourceAxis) -> None:
        self._defaults = DefaultSpreads(snapshot)
        self._has_defaults = bool(snapshot.options.default_spreads)
        by_key = {pod.key: pod for pod in pods}
        specs = {id(pod.spec): pod.spec for pod in by_key.values()}
        terms: dict[tuple[object, ...], int] = {}
        self._terms = {identity: terms.setdefault(_terms(spec), len(terms)) for identity, spec in specs.items()}
        self._requests = {identity: axis.vector(spec.requests) for identity, spec in specs.items()}
        distinct = {self._terms[identity]: spec for identity, spec in specs.items()}
        self._read_keys = sorted(_label_keys_read(snapshot, distinct.values()))
        self._known: dict[tuple[object, ...], Shape] = {}
        self.all: list[Shape] = []
        self._of = {key: self._sized(by_key[key]) for key in sorted(by_key)}

    def of(self, pod: Pod) -> Shape:
        """The shape of a pod of the snapshot."""
        return self._of[pod.key][0]

    def sized(self, pod: Pod) -> tuple[Shape, Vector]:
        """The shape of a pod of the snapshot, and what it requests."""
        return self._of[pod.key]

    def _sized(self, pod: Pod) -> tuple[Shape, Vector]:
        spec, own = pod.spec, pod.labels
        read = tuple([(key, own[key]) for key in self._read_keys if key in own])
        spreads = self._defaults.of(pod) if self._has_defaults else spec.spreads
        question = (self._terms[id(spec)], pod.namespace, read, spreads if self._has_defaults else ())
        shape = self._known.get(question)
        if shape is None:
            shape = self._known[question] = Shape(len(self.all), pod.namespace, dict(read), spec, spreads)
            self.all.append(shape)
        return shape, self._requests[id(spec)]


def _terms(spec: PodSpec) -> tuple[object, ...]:
    """All of a spec that scheduling reads, but for what it requests."""
    return (
        spec.node_selector,
        spec.required_terms,
        spec.preferred_terms,
        spec.tolerations,
        spec.spreads,
        spec.affinity,
        spec.anti_affinity,
        spec.preferred_affinity,
        spec.preferred_anti_affinity,
        spec.host_ports,
        spec.resource_claims,
    )


def _label_keys_read(snapshot: Snapshot, specs: Iterable[PodSpec]) -> frozenset[str]:
    """Keys of pod labels that any rule looks at; the other labels tell pods apart for nothing."""
    keys: set[str] = set()
    for spec in specs:
        for selector, extra in _selectors(spec, snapshot.options.default_spreads):
            keys.update(extra)
            keys.update(r.key for r in selector.requirements) if selector is not None else None
    if snapshot.options.default_spreads:
        keys.update(key for service in snapshot.services for key in service.selector)
        keys.update(r.key for w in snapshot.workload_selectors if w.selector for r in w.selector.requirements)
    return frozenset(keys)


def _selectors(
    spec: PodSpec, defaults: tuple[TopologySpread, ...]
) -> Iterator[tuple[LabelSelector | None, tuple[str, ...]]]:
    for spread in (*spec.spreads, *defaults):
        yield spread.selector, spread.match_label_keys
    weighted = (*spec.preferred_affinity, *spec.preferred_anti_affinity)
    for term in (*spec.affinity, *spec.anti_affinity, *(w.term for w in weighted)):
        yield term.selector, (*term.match_label_keys, *term.mismatch_label_keys)
