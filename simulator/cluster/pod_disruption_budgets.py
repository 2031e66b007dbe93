"""The PodDisruptionBudget controller: counts healthy, required and disruptable pods."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from simulator.cluster.int_or_percent import amount
from simulator.cluster.objects import (
    Key,
    controller_of,
    is_deleting,
    is_finished,
    is_ready,
    key_of,
    moment_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from simulator.cluster.selectors import selects
from simulator.cluster.store import Change, Store
from simulator.cluster.work_queue import WorkQueue

DISRUPTED_TIMEOUT: Final = timedelta(minutes=2)
"""How long an evicted pod counts as leaving although its deletion was not observed."""

_SCALED: Final = {
    resource.kind: resource
    for resource in (kinds.REPLICA_SETS, kinds.REPLICATION_CONTROLLERS, kinds.STATEFUL_SETS, kinds.DEPLOYMENTS)
}


class UnknownScaleError(Exception):
    """A pod's controller has no scale, so a percentage of its pods cannot be computed."""


class PodDisruptionBudgets:
    """Keeps the status of each PodDisruptionBudget."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue = WorkQueue(store.clock, self._reconcile)
        store.watch(self._budget_changed, kinds.POD_DISRUPTION_BUDGETS)
        store.watch(self._pod_changed, kinds.PODS)
        store.watch(self._scale_changed, *_SCALED.values())

    def _budget_changed(self, change: Change) -> None:
        if change.new is not None and (change.old is None or spec_of(change.old) != spec_of(change.new)):
            self._queue.add(key_of(change.new))

    def _pod_changed(self, change: Change) -> None:
        if change.old is not None and change.new is not None and _health(change.old) == _health(change.new):
            return
        for budget in self._store.in_namespace(kinds.POD_DISRUPTION_BUDGETS, namespace_of(change.obj)):
            selector = spec_of(budget).get("selector")
            if any(obj is not None and selects(selector, obj) for obj in (change.old, change.new)):
                self._queue.add(key_of(budget))

    def _scale_changed(self, change: Change) -> None:
        before = spec_of(change.old).get("replicas") if change.old else None
        after = spec_of(change.new).get("replicas") if change.new else None
        if before != after:
            for budget in self._store.in_namespace(kinds.POD_DISRUPTION_BUDGETS, namespace_of(change.obj)):
                self._queue.add(key_of(budget))

    def _reconcile(self, key: Key) -> None:
        budget = self._store.find(kinds.POD_DISRUPTION_BUDGETS, key[1], key[0])
        if budget is None:
            return
        in_namespace = self._store.in_namespace(kinds.PODS, key[0])
        pods = [pod for pod in in_namespace if not is_finished(pod) and selects(spec_of(budget).get("selector"), pod)]
        disrupted = self._still_disrupted(budget, pods)
        healthy = sum(is_ready(p) and not is_deleting(p) and name_of(p) not in disrupted for p in pods)
        try:
            expected, desired = self._expectation(budget, pods)
        except UnknownScaleError:
            expected, desired = len(pods), len(pods)
        allowed = max(0, healthy - desired) if expected > 0 else 0
        before = status_of(budget).get("disruptedPods") or {}
        self._store.patch_status(
            kinds.POD_DISRUPTION_BUDGETS,
            budget,
            expectedPods=expected,
            desiredHealthy=desired,
            currentHealthy=healthy,
            disruptionsAllowed=allowed,
            disruptedPods={**dict.fromkeys(before), **disrupted},
            observedGeneration=budget["metadata"]["generation"],
        )

    def _still_disrupted(self, budget: JsonObject, pods: list[JsonObject]) -> dict[str, str]:
        """The evicted pods whose deletion has not been seen yet."""
        present = {name_of(pod) for pod in pods if not is_deleting(pod)}
        noted: dict[str, str] = status_of(budget).get("disruptedPods") or {}
        since = self._store.clock.now() - DISRUPTED_TIMEOUT
        return {name: when for name, when in noted.items() if name in present and moment_of(when) > since}

    def _expectation(self, budget: JsonObject, pods: list[JsonObject]) -> tuple[int, int]:
        """Return the expected number of pods and how many of them must be healthy. Percentages are rounded up."""
        spec = spec_of(budget)
        if "maxUnavailable" in spec:
            expected = self._expected_scale(pods)
            return expected, max(0, expected - amount(spec["maxUnavailable"], expected, round_up=True))
        wanted = spec.get("minAvailable", 1)
        if isinstance(wanted, int) or not wanted.endswith("%"):
            return len(pods), int(wanted)
        expected = self._expected_scale(pods)
        return expected, amount(wanted, expected, round_up=True)

    def _expected_scale(self, pods: list[JsonObject]) -> int:
        """Return the sum of the replicas of the pods' controllers; pods without one are ignored."""
        scales: dict[tuple[str, str], int] = {}
        for pod in pods:
            reference = controller_of(pod)
            if reference is not None:
                scales.update(self._scale_of(reference, namespace_of(pod)))
        return sum(scales.values())

    def _scale_of(self, reference: JsonObject, namespace: str) -> dict[tuple[str, str], int]:
        """The controller at the top (a ReplicaSet's is its Deployment) and its replicas."""
        resource: Resource | None = _SCALED.get(reference["kind"])
        if resource is None:
            raise UnknownScaleError(reference["kind"])
        owner = self._store.find(resource, reference["name"], namespace)
        if owner is None:
            return {}
        above = controller_of(owner)
        if above is not None and above["kind"] in _SCALED:
            return self._scale_of(above, namespace)
        return {(reference["kind"], reference["name"]): int(spec_of(owner)["replicas"])}


def _health(pod: JsonObject) -> tuple[object, ...]:
    return is_ready(pod), is_deleting(pod), is_finished(pod), pod["metadata"].get("labels")
