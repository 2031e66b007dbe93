"""Sorts pods into shapes and classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from core import labels
from core.model.pod import LabelSelector, Pod, PodSpec, TopologySpread
from core.model.snapshot import Snapshot
from core.model.taints import PREFER_NO_SCHEDULE
from core.scheduling import reasons
from core.scheduling.default_spreads import DefaultSpreads
from core.scheduling.pod_class import PodClass, Rule, Shape, Stage
from core.scheduling.preferences import Wishes, ladder, required_alternatives
from core.scheduling.requirement_table import IMPOSSIBLE, RequirementTable
from core.scheduling.resource_axis import ResourceAxis
from core.scheduling.topology import Topology
from core.scheduling.topology_group import AFFINITY, SPREAD
from core.scheduling.volumes import VolumeIndex, VolumeNeeds

_SpecKey = tuple[object, ...]


class Shapes:
    """The shapes of all pods of a snapshot."""

    def __init__(self, snapshot: Snapshot, pods: Iterable[Pod], axis: ResourceAxis) -> None:
        self._axis = axis
        self._defaults = DefaultSpreads(snapshot)
        self._has_defaults = bool(snapshot.options.default_spreads)
        self._spec_keys: dict[int, tuple[PodSpec, _SpecKey]] = {}
        self._known: dict[object, Shape] = {}
        self.all: list[Shape] = []
        ordered = sorted(pods, key=lambda pod: pod.key)
        self._read_keys = _label_keys_read(snapshot, ordered)
        self._of: dict[str, Shape] = {pod.key: self._shape(pod) for pod in ordered}

    def of(self, pod: Pod) -> Shape:
        """The shape of a pod of the snapshot."""
        return self._of[pod.key]

    def _shape(self, pod: Pod) -> Shape:
        read = {key: value for key, value in sorted(pod.labels.items()) if key in self._read_keys}
        spreads = self._defaults.of(pod) if self._has_defaults else pod.spec.spreads
        key = (self._spec_key(pod.spec), pod.namespace, tuple(read.items()), spreads if self._has_defaults else ())
        shape = self._known.get(key)
        if shape is None:
            requests = self._axis.vector(pod.spec.requests)
            shape = Shape(len(self.all), pod.namespace, read, pod.spec, spreads, requests)
            self._known[key] = shape
            self.all.append(shape)
        return shape

    def _spec_key(self, spec: PodSpec) -> _SpecKey:
        known = self._spec_keys.get(id(spec))
        if known is None:
            known = self._spec_keys[id(spec)] = (spec, _spec_key(spec))
        return known[1]


class Classes:
    """Classes of pods and what they ask for, step by step."""

    def __init__(
        self, snapshot: Snapshot, shapes: Shapes, volumes: VolumeIndex, topology: Topology, table: RequirementTable
    ) -> None:
        self._shapes = shapes
        self._volumes = volumes
        self._topology = topology
        self._table = table
        self._respect = snapshot.options.preference_policy != "Ignore"
        taints = [t for pool in snapshot.node_pools for t in pool.taints]
        taints += [t for node in snapshot.nodes for t in node.taints]
        self._tolerate_at_last = any(taint.effect == PREFER_NO_SCHEDULE for taint in taints)
        self._known: dict[tuple[int, VolumeNeeds], PodClass] = {}

    def of(self, pod: Pod) -> PodClass:
        """The class of a pod that needs a place."""
        shape = self._shapes.of(pod)
        needs = self._volumes.needs(pod)
        known = self._known.get((shape.index, needs))
        if known is None:
            reason, message = self._hopeless(shape.spec, needs)
            known = PodClass(len(self._known), shape, needs, reason, message)
            self._known[shape.index, needs] = known
            if not reason:
                known.stages = list(self._stages(known))
        return known

    def _hopeless(self, spec: PodSpec, needs: VolumeNeeds) -> tuple[str, str]:
        """Why no node could help, if so (Karpenter refuses to plan for such pods)."""
        if spec.resource_claims:
            return reasons.UNSUPPORTED_RESOURCE_CLAIM, f"it has resource claims: {', '.join(spec.resource_claims)}"
        if any(term.uses_fields for term in spec.required_terms):
            return reasons.UNSUPPORTED_AFFINITY, "its required node affinity uses matchFields"
        alternatives = required_alternatives(spec)
        if not alternatives:
            return reasons.UNSUPPORTED_AFFINITY, "every alternative of its required node affinity is empty"
        for requirement in (r for parts in alternatives for r in parts):
            if requirement.key == labels.NODEPOOL and requirement.operator == "DoesNotExist":
                return reasons.OPTED_OUT, f"it demands that {labels.NODEPOOL} does not exist"
            if labels.is_restricted(requirement.key) and requirement.key not in self._table.well_known:
                return reasons.RESTRICTED_LABEL, f"it selects nodes by {requirement.key}, which is restricted"
        return needs.reason, needs.message

    def _stages(self, pod_class: PodClass) -> Iterator[Stage]:
        shape = pod_class.shape
        steps = ladder(shape.spec, shape.spreads, respect=self._respect, tolerate_at_last=self._tolerate_at_last)
        for number, wishes in enumerate(steps):
            rules = self._topology.rules(shape, wishes)
            zone_rules = tuple(rule for rule in rules if not rule.is_hostname)
            own = {rule.key for rule in zone_rules}
            yield Stage(
                number=number,
                wishes=wishes,
                asks=self._asks(shape.spec, wishes, pod_class.volumes),
                host_rules=tuple(rule for rule in rules if rule.is_hostname),
                zone_rules=zone_rules,
                keys=tuple(sorted({*own, *shape.pinned_keys})),
                is_monotone=all(_is_monotone(rule) for rule in rules),
            )

    def _asks(self, spec: PodSpec, wishes: Wishes, needs: VolumeNeeds) -> tuple[int, ...]:
        required = wishes.terms[0].requirements if wishes.terms else ()
        preferred = wishes.preferred_terms[0].term.requirements if wishes.preferred_terms else ()
        own = (*spec.node_selector, *required, *preferred)
        found = (self._table.conjunction((*own, *volume.values())) for volume in needs.alternatives)
        return tuple(dict.fromkeys(number for number in found if number != IMPOSSIBLE))


def _is_monotone(rule: Rule) -> bool:
    return rule.kind != AFFINITY and (rule.kind != SPREAD or rule.is_hostname)


def _spec_key(spec: PodSpec) -> _SpecKey:
    return (
        tuple(sorted(spec.requests.items())),
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


def _label_keys_read(snapshot: Snapshot, pods: Iterable[Pod]) -> frozenset[str]:
    """Keys of pod labels that any rule looks at; the other labels tell pods apart for nothing."""
    specs: Mapping[int, PodSpec] = {id(pod.spec): pod.spec for pod in pods}
    keys: set[str] = set()
    for spec in specs.values():
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
