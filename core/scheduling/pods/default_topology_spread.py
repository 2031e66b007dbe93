"""The cluster's default topology spread constraints, for pods that have none of their own."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from core.model.pod import DO_NOT_SCHEDULE, LabelSelector, Pod, PodSpec, TopologySpread
from core.model.policy import Service
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement

_WORKLOADS = ("ReplicationController", "ReplicaSet", "StatefulSet", "Deployment")
"""Kinds whose selector is used; pods expanded from a Deployment in a file are owned by it directly."""


class DefaultSpreads:
    """Gives a pod the default constraints, selecting what its Services and its controller select (Kubernetes)."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._defaults = snapshot.options.default_spreads
        self._may_bind = snapshot.options.requires_default_spreads
        self._services = _by_label(snapshot.services)
        self._workloads = {(w.namespace, w.kind, w.name): w.selector for w in snapshot.workload_selectors}

    def of(self, pod: Pod) -> tuple[TopologySpread, ...]:
        """Return the pod's constraints: its own, or the defaults if it has none and something selects it."""
        if pod.spec.spreads or not self._defaults:
            return pod.spec.spreads
        selector = self._selector(pod)
        if selector is None:
            return ()
        return tuple(msgspec.structs.replace(default, selector=selector) for default in self._defaults)

    def required_of(self, pod: Pod) -> tuple[TopologySpread, ...]:
        """Return those of the pod's constraints that must hold."""
        # Defaults that need not hold are common, and their selectors need not be found.
        if not pod.spec.spreads and not self._may_bind:
            return ()
        return tuple(spread for spread in self.of(pod) if spread.when_unsatisfiable == DO_NOT_SCHEDULE)

    def as_own(self, pods: Iterable[Pod]) -> tuple[Pod, ...]:
        """Return the pods, where those with default constraints that must hold have these as their own.

        Pods that shared a spec still do if their constraints are equal.
        """
        if not self._may_bind:
            return tuple(pods)
        known: dict[tuple[object, ...], tuple[TopologySpread, ...]] = {}
        specs: dict[tuple[int, tuple[TopologySpread, ...]], PodSpec] = {}
        found = []
        for pod in pods:
            if pod.spec.spreads:
                found.append(pod)
                continue
            question = (pod.namespace, tuple(pod.labels.items()), pod.owners)
            spreads = known.get(question)
            if spreads is None:
                spreads = known[question] = self.required_of(pod)
            spec = specs.get((id(pod.spec), spreads))
            if spec is None:
                spec = specs[id(pod.spec), spreads] = _with_spreads(pod.spec, spreads)
            found.append(pod if spec is pod.spec else msgspec.structs.replace(pod, spec=spec))
        return tuple(found)

    def _selector(self, pod: Pod) -> LabelSelector | None:
        parts: set[Requirement] = set()
        for label in pod.labels.items():
            for service in self._services.get((pod.namespace, *label), ()):
                if service.selector.items() <= pod.labels.items():
                    parts.update(Requirement(key, False, (value,)) for key, value in service.selector.items())
        for owner in pod.owners:
            if owner.is_controller and owner.kind in _WORKLOADS:
                found = self._workloads.get((pod.namespace, owner.kind, owner.name))
                parts.update(found.requirements if found is not None else ())
        return LabelSelector(tuple(sorted(parts))) if parts else None


def _with_spreads(spec: PodSpec, spreads: tuple[TopologySpread, ...]) -> PodSpec:
    return msgspec.structs.replace(spec, spreads=spreads) if spreads else spec


def _by_label(services: Iterable[Service]) -> dict[tuple[str, str, str], list[Service]]:
    """Return namespace, label and value → the Services whose selector begins with it: a thousand are not read for each pod."""
    found: dict[tuple[str, str, str], list[Service]] = {}
    for service in services:
        for label in list(service.selector.items())[:1]:
            found.setdefault((service.namespace, *label), []).append(service)
    return found
