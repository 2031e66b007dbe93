"""Assigns each pod its signature: everything that scheduling reads of it, except its requests and volumes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from core.model.pod import LabelSelector, Pod, PodSpec, TopologySpread
from core.model.snapshot import Snapshot
from core.scheduling.pods.default_topology_spread import DefaultSpreads
from core.scheduling.pods.pod_group import ConstraintFacts, PodGroup, PodSignature
from core.scheduling.primitives.resource_vector import ResourceAxis, Vector


class SizedSignature(msgspec.Struct, eq=False):
    """Everything that pods of a group have in common except their volumes.

    Attributes:
        group: The cached group of pods without volumes: clusters may have a group for every pod.
    """

    signature: PodSignature
    requests: Vector
    group: PodGroup | None = None


_NO_FACTS: Final[ConstraintFacts] = ()

Question = tuple[int, str, tuple[str | None, ...], tuple[TopologySpread, ...] | None, ConstraintFacts]
"""What sorts a pod: the identity of its spec, its namespace, the labels that any rule reads, default spreads, and facts."""


QUESTIONS_KEPT: Final = 10_000
"""How many questions are kept to find an equal one; a cluster of 300 nodes has some hundreds."""


class KnownQuestions:
    """The questions of one snapshot's pods, for those that the next snapshot has unchanged; most equal ones are one object."""

    def __init__(self) -> None:
        self._keys: Sequence[str] = ()
        self._known: dict[int, tuple[Pod, Question]] = {}
        self._distinct: dict[Question, Question] = {}

    def of(self, pods: Iterable[Pod], keys: Sequence[str]) -> Mapping[int, tuple[Pod, Question]]:
        """Return identity → pod and its question, in the order of the pods, by the labels of these keys alone."""
        before, self._keys = self._known if self._keys == keys else {}, keys
        if len(self._distinct) > QUESTIONS_KEPT:
            self._distinct.clear()
        # An entry keeps its pod alive, so no other pod has its identity.
        self._known = {id(pod): before.get(id(pod)) or (pod, self._question(pod)) for pod in pods}
        return self._known

    def _question(self, pod: Pod) -> Question:
        question = id(pod.spec), pod.namespace, tuple(map(pod.labels.get, self._keys)), None, _NO_FACTS
        return self._distinct.setdefault(question, question)


class PodSignatures:
    """The signatures of all pods of a snapshot, numbered in the order of the given pods."""

    def __init__(
        self,
        snapshot: Snapshot,
        pods: Sequence[Pod],
        axis: ResourceAxis,
        reads: Callable[[Pod], ConstraintFacts] | None = None,
        known: KnownQuestions | None = None,
    ) -> None:
        """Sort the pods.

        Args:
            snapshot: The cluster.
            pods: Pods that need a place, and running pods.
            axis: The relevant resources.
            reads: What constraints read of a pod besides its spec, namespace and labels.
            known: The questions of an earlier snapshot's pods, if any are kept.
        """
        self._defaults = DefaultSpreads(snapshot)
        self._reads = reads
        self._has_defaults = bool(snapshot.options.default_spreads)
        specs = {id(pod.spec): pod.spec for pod in pods}
        numbers: dict[tuple[object, ...], int] = {}
        self._terms = {identity: numbers.setdefault(_terms(spec), len(numbers)) for identity, spec in specs.items()}
        self._requests = {identity: axis.vector(spec.requests) for identity, spec in specs.items()}
        distinct = {self._terms[identity]: spec for identity, spec in specs.items()}
        self._read_keys = sorted(_label_keys_read(snapshot, distinct.values()))
        self._signatures: dict[tuple[object, ...], PodSignature] = {}
        self._sized_signatures: dict[Question, SizedSignature] = {}
        if known is None or self._has_defaults or reads is not None:
            self._of = {id(pod): sized for pod, sized in zip(pods, self._all_sized(pods), strict=True)}
        else:
            self._of = self._known_sized(known.of(pods, self._read_keys))

    @property
    def all(self) -> list[PodSignature]:
        """Every signature, by index."""
        return list(self._signatures.values())

    def of(self, pod: Pod) -> SizedSignature:
        """Return the signature of a pod of the snapshot; lookup by object identity is faster than by name."""
        return self._of[id(pod)]

    def requests(self, pod: Pod) -> Vector:
        """Return the requests of a pod of the snapshot."""
        return self._requests[id(pod.spec)]

    def _all_sized(self, pods: Iterable[Pod]) -> Iterator[SizedSignature]:
        known, keys = self._sized_signatures, self._read_keys
        spreads: tuple[TopologySpread, ...] | None = None
        facts = _NO_FACTS
        for pod in pods:
            if self._has_defaults:
                spreads = self._defaults.of(pod)
            if self._reads:
                facts = self._reads(pod)
            question = id(pod.spec), pod.namespace, tuple(map(pod.labels.get, keys)), spreads, facts
            yield known.get(question) or self._new(question, pod)

    def _known_sized(self, questions: Mapping[int, tuple[Pod, Question]]) -> dict[int, SizedSignature]:
        """Return identity of each pod → its signature; a question is compared by value once for each of its objects."""
        known = self._sized_signatures
        by_question: dict[int, SizedSignature] = {}
        found = {}
        for identity, (pod, question) in questions.items():
            sized = by_question.get(id(question))
            if sized is None:
                sized = by_question[id(question)] = known.get(question) or self._new(question, pod)
            found[identity] = sized
        return found

    def _new(self, question: Question, pod: Pod) -> SizedSignature:
        terms = self._terms[id(pod.spec)]
        signature = self._signature((terms, *question[1:]), pod, question[3], question[4])
        found = self._sized_signatures[question] = SizedSignature(signature, self._requests[id(pod.spec)])
        return found

    def _signature(
        self,
        question: tuple[object, ...],
        pod: Pod,
        spreads: tuple[TopologySpread, ...] | None,
        facts: ConstraintFacts,
    ) -> PodSignature:
        known = self._signatures.get(question)
        if known is None:
            read = {key: pod.labels[key] for key in self._read_keys if key in pod.labels}
            own = pod.spec.spreads if spreads is None else spreads
            known = self._signatures[question] = PodSignature(
                len(self._signatures), pod.namespace, read, pod.spec, own, dict(facts)
            )
        return known


def _terms(spec: PodSpec) -> tuple[object, ...]:
    """Return everything in a spec that scheduling reads, except requests."""
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
    """Return the keys of pod labels that any rule reads; other labels do not distinguish signatures."""
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
