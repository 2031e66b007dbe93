"""Controllers of nodes and PodDisruptionBudgets, and the selectors and queues that controllers share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

from core.api.objects import JsonObject
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource
from simulator.clock import VirtualClock
from simulator.cluster.store import (
    CONTROLLER,
    AdmissionError,
    Change,
    Key,
    Store,
    controller_of,
    is_deleting,
    is_finished,
    is_ready,
    key_of,
    labels_of,
    moment_of,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    spec_of,
    status_of,
    uid_of,
    with_condition,
)

# Fields such as maxUnavailable: a whole number, or a percentage of something.


def amount(value: int | str, total: int, *, round_up: bool) -> int:
    """Return the number. Kubernetes rounds budgets and surge up, and a rollout's maxUnavailable down."""
    if isinstance(value, int) or not value.endswith("%"):
        return int(value)
    share = int(value[:-1]) * total
    return -(-share // 100) if round_up else share // 100


# The control plane's handling of nodes: notices dead ones, deletes those whose instance is gone, and their pods.


NODE_GRACE: Final = timedelta(seconds=40)
"""From a kubelet's last heartbeat to NotReady (kube-controller-manager, node-monitor-grace-period)."""

CLOUD_CHECK_DELAY: Final = timedelta(seconds=5)
"""From NotReady to the deletion of a Node whose instance is terminated (cloud controller, node-monitor-period)."""

ORPHAN_QUARANTINE: Final = timedelta(seconds=40)
"""From a Node's deletion to that of its pods (pod garbage collector, quarantine)."""

NODE_LOST: Final = "nodeLost"

HARD_EFFECTS: Final = ("NoSchedule", "NoExecute")
NOT_READY_TAINTS: Final = tuple({"key": "node.kubernetes.io/not-ready", "effect": e} for e in HARD_EFFECTS)
UNREACHABLE_TAINTS: Final = tuple({"key": "node.kubernetes.io/unreachable", "effect": e} for e in HARD_EFFECTS)


class NodeLifecycle:
    """The node controller, the cloud controller and the collector of orphaned pods."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.watch(self._node_changed, resources.NODES)
        store.watch(self._pod_changed, resources.PODS)

    def lose(self, node: JsonObject) -> None:
        """Stop the node's heartbeats: its instance is terminated."""
        self._store.clock.after(NODE_GRACE, lambda: self._mark_unreachable(node))

    def note_unready(self, seen: JsonObject, *, is_silent: bool) -> bool:
        """Mark a node and its pods as not ready: its kubelet says so, or is silent. Return whether the node exists."""
        node = self._present(seen)
        if node is None:
            return False
        now = self._store.clock.now()
        status, reason = ("Unknown", "NodeStatusUnknown") if is_silent else ("False", "KubeletNotReady")
        conditions = with_condition(node, "Ready", status, now, reason=reason)
        taints = [*_without_trouble(node), *(UNREACHABLE_TAINTS if is_silent else NOT_READY_TAINTS)]
        body = {"spec": {"taints": taints}, "status": {"conditions": conditions}}
        self._store.patch(resources.NODES, name_of(node), body)
        for pod in self._store.pods_on(name_of(node)):
            if is_ready(pod):
                unready = with_condition(pod, "Ready", "False", now, reason=reason)
                self._store.patch_status(resources.PODS, pod, conditions=unready)
        return True

    def note_ready(self, seen: JsonObject) -> bool:
        """Mark a node as ready again, and its pods that run. Return whether the node exists."""
        node = self._present(seen)
        if node is None:
            return False
        now = self._store.clock.now()
        conditions = with_condition(node, "Ready", "True", now, reason="KubeletReady")
        body = {"spec": {"taints": _without_trouble(node)}, "status": {"conditions": conditions}}
        self._store.patch(resources.NODES, name_of(node), body)
        for pod in self._store.pods_on(name_of(node)):
            if phase_of(pod) == "Running" and not is_deleting(pod) and not is_ready(pod):
                ready = with_condition(pod, "Ready", "True", now)
                self._store.patch_status(resources.PODS, pod, conditions=ready)
        return True

    def _mark_unreachable(self, lost: JsonObject) -> None:
        if self.note_unready(lost, is_silent=True):
            self._store.clock.after(CLOUD_CHECK_DELAY, lambda: self._delete(lost))

    def _delete(self, lost: JsonObject) -> None:
        node = self._present(lost)
        if node is not None:
            self._store.delete(resources.NODES, name_of(node))

    def _present(self, lost: JsonObject) -> JsonObject | None:
        node = self._store.find(resources.NODES, name_of(lost))
        return node if node is not None and uid_of(node) == uid_of(lost) else None

    def _node_changed(self, change: Change) -> None:
        if change.new is None:
            name = name_of(change.obj)
            self._store.clock.after(ORPHAN_QUARANTINE, lambda: self._collect_orphans(name))

    def _pod_changed(self, change: Change) -> None:
        """Handle a pod that is bound to a node that no longer exists."""
        node = node_of(change.obj)
        is_new = change.old is None or not node_of(change.old)
        if change.new is not None and node and is_new and self._store.find(resources.NODES, node) is None:
            self._store.clock.after(ORPHAN_QUARANTINE, lambda: self._collect_orphans(node))

    def _collect_orphans(self, node: str) -> None:
        """Delete the pods of a node that is gone. A DaemonSet's pod belongs to its node: it is not evicted by that."""
        if self._store.find(resources.NODES, node) is not None:
            return
        for pod in self._store.pods_on(node):
            namespace, name = key_of(pod)
            owner = controller_of(pod)
            is_lost = not is_finished(pod) and (owner is None or owner["kind"] != "DaemonSet")
            cause = NODE_LOST if is_lost else ""
            self._store.delete(resources.PODS, name, namespace=namespace, grace_seconds=0, by=CONTROLLER, cause=cause)


def _without_trouble(node: JsonObject) -> list[JsonObject]:
    trouble = (*NOT_READY_TAINTS, *UNREACHABLE_TAINTS)
    return [taint for taint in spec_of(node).get("taints") or () if taint not in trouble]


def is_unreachable(node: JsonObject) -> bool:
    """Whether the node's kubelet has been silent for too long."""
    return any(c["type"] == "Ready" and c["status"] == "Unknown" for c in status_of(node).get("conditions") or ())


# Evaluates label selectors and node selectors as the Kubernetes API documents them.


_WHOLE: Final = re.compile(r"[-+]?[0-9]{1,40}")
_BOUND: Final = 2**63


def selects(selector: JsonObject | None, obj: JsonObject) -> bool:
    """Whether a label selector selects an object. None selects nothing, an empty one everything."""
    return selects_labels(selector, labels_of(obj))


def selects_labels(selector: JsonObject | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects these labels."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def matches_node_terms(terms: Iterable[JsonObject], node: JsonObject) -> bool:
    """Whether a node fits one of the node selector terms; an empty term fits no node."""
    return any(matches_node_term(term, node) for term in terms)


def matches_node_term(term: JsonObject, node: JsonObject) -> bool:
    """Whether a node fits all expressions and fields of a node selector term."""
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    by_field = {"metadata.name": name_of(node)}
    labels = labels_of(node)
    return all(_holds(e, labels) for e in expressions) and all(_holds(f, by_field) for f in fields)


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(expression["key"])
    values: list[str] = expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return _compared(value, values) == 1
        case "Lt":
            return _compared(value, values) == -1
        case _:
            return False


def _compared(value: str | None, bounds: list[str]) -> int:
    """1 where the value is above the one bound, -1 below; 0 where they are equal or one is no whole number of 64 bits."""
    if value is None or len(bounds) != 1 or not all(map(_WHOLE.fullmatch, (value, bounds[0]))):
        return 0
    parsed, bound = int(value), int(bounds[0])
    if not all(-_BOUND <= number < _BOUND for number in (parsed, bound)):
        return 0
    return (parsed > bound) - (parsed < bound)


# Whether a node suits a pod, apart from other pods: selectors, affinity, taints. Used by the scheduler and DaemonSets.


UNSCHEDULABLE_TAINT: JsonObject = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def required_terms(spec: JsonObject) -> list[JsonObject] | None:
    """The terms of the pod's required node affinity, None where it has none."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required.get("nodeSelectorTerms") or []


def selects_node(spec: JsonObject, node: JsonObject) -> bool:
    """Whether the pod's node selector and required node affinity admit the node."""
    labels = labels_of(node)
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    terms = required_terms(spec)
    return terms is None or matches_node_terms(terms, node)


def intolerable_taint(spec: JsonObject, node: JsonObject, effects: Sequence[str]) -> JsonObject | None:
    """The first of the node's taints with such an effect that the pod does not tolerate."""
    tolerations: list[JsonObject] = spec.get("tolerations") or []
    taints: list[JsonObject] = list(spec_of(node).get("taints") or [])
    if spec_of(node).get("unschedulable"):
        taints.append(UNSCHEDULABLE_TAINT)
    untolerated = (t for t in taints if t["effect"] in effects and not any(tolerates(x, t) for x in tolerations))
    return next(untolerated, None)


def tolerates(toleration: JsonObject, taint: JsonObject) -> bool:
    """Whether a toleration covers a taint: an empty key or effect covers all."""
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def pinned_node(pod: JsonObject) -> str:
    """The one node that the pod's affinity names, as a DaemonSet's pods do; empty for none."""
    terms = required_terms(pod["spec"]) or []
    if len(terms) != 1:
        return ""
    fields: list[JsonObject] = terms[0].get("matchFields") or []
    if len(fields) == 1 and fields[0]["operator"] == "In" and len(fields[0]["values"]) == 1:
        return str(fields[0]["values"][0])
    return ""


# Delays the reactions of controllers: changed objects are marked, and reconciled a fixed time later.


CONTROLLER_DELAY: Final = timedelta(milliseconds=100)


class WorkQueue:
    """Keys that wait to be reconciled, in the order of their marks (client-go's workqueue); a key marked twice waits once."""

    def __init__(
        self, clock: VirtualClock, reconcile: Callable[[Key], None], delay: timedelta = CONTROLLER_DELAY
    ) -> None:
        self._clock = clock
        self._reconcile = reconcile
        self._delay = delay
        self._waiting: dict[Key, None] = {}

    def add(self, key: Key) -> None:
        """Reconcile `key` soon."""
        if not self._waiting:
            self._clock.after(self._delay, self._run)
        self._waiting.setdefault(key)

    def _run(self) -> None:
        due, self._waiting = self._waiting, {}
        for key in due:
            try:
                self._reconcile(key)
            except AdmissionError as error:
                self._clock.after(max(error.wait, self._delay), partial(self.add, key))


DISRUPTED_TIMEOUT: Final = timedelta(minutes=2)
"""How long an evicted pod counts as leaving although its deletion was not observed."""

_SCALED: Final = {
    resource.kind: resource
    for resource in (
        resources.REPLICA_SETS,
        resources.REPLICATION_CONTROLLERS,
        resources.STATEFUL_SETS,
        resources.DEPLOYMENTS,
    )
}


class UnknownScaleError(Exception):
    """A pod's controller has no scale, so a percentage of its pods cannot be computed."""


class PodDisruptionBudgets:
    """Keeps the status of each PodDisruptionBudget."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue = WorkQueue(store.clock, self._reconcile)
        store.watch(self._budget_changed, resources.POD_DISRUPTION_BUDGETS)
        store.watch(self._pod_changed, resources.PODS)
        store.watch(self._scale_changed, *_SCALED.values())

    def _budget_changed(self, change: Change) -> None:
        if change.new is not None and (change.old is None or spec_of(change.old) != spec_of(change.new)):
            self._queue.add(key_of(change.new))

    def _pod_changed(self, change: Change) -> None:
        if change.old is not None and change.new is not None and _health(change.old) == _health(change.new):
            return
        for budget in self._store.in_namespace(resources.POD_DISRUPTION_BUDGETS, namespace_of(change.obj)):
            selector = spec_of(budget).get("selector")
            if any(obj is not None and selects(selector, obj) for obj in (change.old, change.new)):
                self._queue.add(key_of(budget))

    def _scale_changed(self, change: Change) -> None:
        before = spec_of(change.old).get("replicas") if change.old else None
        after = spec_of(change.new).get("replicas") if change.new else None
        if before != after:
            for budget in self._store.in_namespace(resources.POD_DISRUPTION_BUDGETS, namespace_of(change.obj)):
                self._queue.add(key_of(budget))

    def _reconcile(self, key: Key) -> None:
        budget = self._store.find(resources.POD_DISRUPTION_BUDGETS, key[1], key[0])
        if budget is None:
            return
        in_namespace = self._store.in_namespace(resources.PODS, key[0])
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
            resources.POD_DISRUPTION_BUDGETS,
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
