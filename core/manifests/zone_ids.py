"""Replaces requirements for zone ids by requirements for zones.

Offerings have zone names, and each zone of an account has one id. Nodes get their id label from the cloud controller when they
join, so nothing else has it before that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from core import labels
from core.model.node import Node
from core.model.node_pool import NodeClass
from core.model.pod import (
    NodeSelectorTerm,
    PodAffinityTerm,
    PodSpec,
    PreferredTerm,
    TopologySpread,
    WeightedPodAffinityTerm,
)
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement

T = TypeVar("T", bound=msgspec.Struct)
replace = msgspec.structs.replace


def zones_by_id(node_classes: Iterable[NodeClass], nodes: Iterable[Node]) -> dict[str, str]:
    """Return zone id → zone, from the subnets of EC2NodeClasses and the labels of nodes."""
    found = {
        node.labels[labels.ZONE_ID]: node.labels[labels.ZONE]
        for node in sorted(nodes, key=lambda node: node.name)
        if labels.ZONE_ID in node.labels and labels.ZONE in node.labels
    }
    for node_class in sorted(node_classes, key=lambda node_class: node_class.name):
        found |= node_class.zone_ids
    return found


def with_zones(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with each requirement for a zone id replaced by one for its zone; unknown ids stay."""
    zones = zones_by_id(snapshot.node_classes, snapshot.nodes)
    return _Translation(zones).snapshot(snapshot) if zones else snapshot


def requirements_with_zones(requirements: Iterable[Requirement], zones: Mapping[str, str]) -> tuple[Requirement, ...]:
    """Return requirements outside of a snapshot, likewise replaced; `zones` maps zone ids to zones."""
    return _Translation(zones).all_of(tuple(requirements))


class _Translation:
    def __init__(self, zones: Mapping[str, str]) -> None:
        self._zones = zones
        self._specs: dict[int, PodSpec] = {}

    def snapshot(self, snapshot: Snapshot) -> Snapshot:
        owners: tuple[Any, ...] = (*snapshot.pods, *snapshot.daemon_sets, *snapshot.buffers)
        specs = {id(owner.spec): owner.spec for owner in owners}
        changed = {identity: self._spec(spec) for identity, spec in specs.items()}
        self._specs = {identity: spec for identity, spec in changed.items() if spec != specs[identity]}
        return replace(
            snapshot,
            options=_changed(snapshot.options, default_spreads=_spread(snapshot.options.default_spreads)),
            pods=self._owners(snapshot.pods),
            daemon_sets=self._owners(snapshot.daemon_sets),
            buffers=self._owners(snapshot.buffers),
            node_pools=tuple(_changed(p, requirements=self.all_of(p.requirements)) for p in snapshot.node_pools),
            overlays=tuple(_changed(o, requirements=self.all_of(o.requirements)) for o in snapshot.overlays),
            volumes=tuple(_changed(v, node_terms=self._terms(v.node_terms)) for v in snapshot.volumes),
            storage_classes=tuple(
                _changed(c, allowed_topologies=self._terms(c.allowed_topologies)) for c in snapshot.storage_classes
            ),
        )

    def _owners(self, owners: tuple[Any, ...]) -> tuple[Any, ...]:
        if not self._specs:
            return owners
        return tuple(replace(o, spec=self._specs[id(o.spec)]) if id(o.spec) in self._specs else o for o in owners)

    def _spec(self, spec: PodSpec) -> PodSpec:
        return _changed(
            spec,
            node_selector=self.all_of(spec.node_selector),
            required_terms=self._terms(spec.required_terms),
            preferred_terms=tuple(PreferredTerm(p.weight, self._term(p.term)) for p in spec.preferred_terms),
            spreads=_spread(spec.spreads),
            affinity=tuple(map(_near, spec.affinity)),
            anti_affinity=tuple(map(_near, spec.anti_affinity)),
            preferred_affinity=tuple(WeightedPodAffinityTerm(w.weight, _near(w.term)) for w in spec.preferred_affinity),
            preferred_anti_affinity=tuple(
                WeightedPodAffinityTerm(w.weight, _near(w.term)) for w in spec.preferred_anti_affinity
            ),
        )

    def _terms(self, terms: tuple[NodeSelectorTerm, ...]) -> tuple[NodeSelectorTerm, ...]:
        return tuple(map(self._term, terms))

    def _term(self, term: NodeSelectorTerm) -> NodeSelectorTerm:
        return _changed(term, requirements=self.all_of(term.requirements))

    def all_of(self, requirements: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
        return tuple(map(self._requirement, requirements))

    def _requirement(self, requirement: Requirement) -> Requirement:
        if requirement.key != labels.ZONE_ID or (requirement.gte, requirement.lte) != (None, None):
            return requirement
        known = {self._zones[value] for value in requirement.values if value in self._zones}
        if requirement.operator == "In" and not known:
            return requirement
        return replace(requirement, key=labels.ZONE, values=tuple(sorted(known)))


def _spread(spreads: Iterable[TopologySpread]) -> tuple[TopologySpread, ...]:
    return tuple(_changed(spread, topology_key=_key(spread.topology_key)) for spread in spreads)


def _near(term: PodAffinityTerm) -> PodAffinityTerm:
    return _changed(term, topology_key=_key(term.topology_key))


def _key(key: str) -> str:
    return labels.ZONE if key == labels.ZONE_ID else key


def _changed(old: T, **fields: object) -> T:
    """Return the struct with these fields; the same object if they are equal."""
    return old if all(getattr(old, name) == value for name, value in fields.items()) else replace(old, **fields)
