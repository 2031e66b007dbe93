"""The cluster's default topology spread constraints, for pods that have none of their own."""

from __future__ import annotations

import msgspec

from core.model.pod import DO_NOT_SCHEDULE, LabelSelector, Pod, TopologySpread
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement

_WORKLOADS = ("ReplicationController", "ReplicaSet", "StatefulSet", "Deployment")
"""Kinds whose selector is used; pods expanded from a Deployment in a file are owned by it directly."""


class DefaultSpreads:
    """Gives a pod the default constraints, selecting what its Services and its controller select (Kubernetes)."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._defaults = snapshot.options.default_spreads
        self._may_bind = any(default.when_unsatisfiable == DO_NOT_SCHEDULE for default in self._defaults)
        self._services = sorted(snapshot.services, key=lambda s: (s.namespace, s.name))
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
        # Defaults that need not hold are common, and giving them a selector reads all Services: a millisecond for 1,000.
        if not pod.spec.spreads and not self._may_bind:
            return ()
        return tuple(spread for spread in self.of(pod) if spread.when_unsatisfiable == DO_NOT_SCHEDULE)

    def _selector(self, pod: Pod) -> LabelSelector | None:
        parts: set[Requirement] = set()
        for service in self._services:
            chosen = service.namespace == pod.namespace and service.selector
            if chosen and service.selector.items() <= pod.labels.items():
                parts.update(Requirement(key, False, (value,)) for key, value in service.selector.items())
        for owner in pod.owners:
            if owner.is_controller and owner.kind in _WORKLOADS:
                found = self._workloads.get((pod.namespace, owner.kind, owner.name))
                parts.update(found.requirements if found is not None else ())
        return LabelSelector(tuple(sorted(parts))) if parts else None
