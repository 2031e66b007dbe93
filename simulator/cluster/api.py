"""The cluster's API for functions: the same port as the real one, with faults before and after each call."""

from __future__ import annotations

import copy
import re
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from adapters.ports import (
    ConflictError,
    DeniedError,
    EvictionBlockedError,
    ListChanges,
    Listing,
    NotFoundError,
    SeveralBudgetsError,
)
from core import labels
from core.api.objects import JsonObject
from core.errors import InvalidInputError
from core.manifests.wire import decoding, resources
from core.manifests.wire.resources import Resource
from core.pod_disruption_budgets import ignores_budgets, may_go_unready
from simulator.cluster.controllers import selects
from simulator.cluster.scheduler import Scheduler
from simulator.cluster.store import (
    PROGRAM,
    Change,
    Key,
    Store,
    is_deleting,
    is_ready,
    key_of,
    labels_of,
    name_of,
    node_of,
    phase_of,
    spec_of,
    status_of,
    timestamp,
    uid_of,
    with_condition,
)
from simulator.record import Recorder

# The eviction subresource of pods: PodDisruptionBudgets decide (Kubernetes, registry/core/pod/storage/eviction).


CALL: Final = "kube:create pods/eviction"
EVICTION: Final = "eviction"


class Evictions:
    """Evicts pods where their PodDisruptionBudget allows."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def evict(self, namespace: str, name: str, *, uid: str, by: str = PROGRAM) -> None:
        """Evict a pod.

        Raises:
            NotFoundError: If there is no such pod.
            ConflictError: If its uid differs.
            EvictionBlockedError: If the budget forbids it now; `detail` begins with the budget's name.
            SeveralBudgetsError: If several budgets select the pod, which the API answers with a server error.
        """
        pod = self._store.get(resources.PODS, name, namespace)
        if uid and uid != uid_of(pod):
            raise ConflictError(CALL, f"{name}: the uid in the precondition differs")
        if not ignores_budgets(phase_of(pod), is_going=is_deleting(pod)):
            self._charge(pod)
        self._store.delete(resources.PODS, name, namespace=namespace, uid=uid, by=by, cause=EVICTION)

    def budgets_of(self, pod: JsonObject) -> list[JsonObject]:
        """The PodDisruptionBudgets that select the pod."""
        namespace = key_of(pod)[0]
        budgets = self._store.in_namespace(resources.POD_DISRUPTION_BUDGETS, namespace)
        return [budget for budget in budgets if selects(spec_of(budget).get("selector"), pod)]

    def _charge(self, pod: JsonObject) -> None:
        """Take one disruption from the pod's budget, at once: the budget's controller counts later."""
        budgets = self.budgets_of(pod)
        if len(budgets) > 1:
            raise SeveralBudgetsError(
                CALL, "this pod has more than one PodDisruptionBudget, which eviction does not support"
            )
        if not budgets or _may_go_unhealthy(pod, budgets[0]):
            return
        budget, status = budgets[0], status_of(budgets[0])
        stale = status.get("observedGeneration", 0) < budget["metadata"]["generation"]
        allowed = status.get("disruptionsAllowed", 0)
        if stale or allowed <= 0:
            needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
            raise EvictionBlockedError(CALL, f"{name_of(budget)} needs {needs} healthy pods and has {has} currently")
        now = timestamp(self._store.clock.now())
        noted = {**(status.get("disruptedPods") or {}), name_of(pod): now}
        self._store.patch_status(
            resources.POD_DISRUPTION_BUDGETS, budget, disruptionsAllowed=allowed - 1, disruptedPods=noted
        )


def _may_go_unhealthy(pod: JsonObject, budget: JsonObject) -> bool:
    """Whether a pod that is not ready may be evicted freely."""
    if is_ready(pod):
        return False
    status = status_of(budget)
    healthy, wanted = int(status.get("currentHealthy", 0)), int(status.get("desiredHealthy", 0))
    return may_go_unready(spec_of(budget).get("unhealthyPodEvictionPolicy", ""), healthy, wanted)


# Selectors of a list request, as the Kubernetes API takes them: `spec.nodeName=,status.phase=Pending`, `!team,tier in (a)`.


Test = Callable[[JsonObject], bool]

_FIELDS: Final[dict[Resource, tuple[str, ...]]] = {
    resources.PODS: ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "status.phase"),
    resources.NODES: ("spec.unschedulable",),
}
"""Selectable fields besides `metadata.name` and `metadata.namespace`; the API server refuses any other field."""

_IN: Final = re.compile(r"(?P<key>\S+) (?P<operator>in|notin) \((?P<values>[^)]*)\)")
_COMMA: Final = re.compile(r",(?![^(]*\))")


def selection(resource: Resource, fields: str, labels: str) -> Test:
    """Whether an object is selected by both. Raises DeniedError for a field that the server does not know."""
    tests = [_field_test(resource, part) for part in _parts(fields)] + [_label_test(part) for part in _parts(labels)]
    return lambda obj: all(test(obj) for test in tests)


def node_of_selector(fields: str) -> str:
    """Return the node whose pods a field selector selects, empty if it selects by other fields."""
    return next(
        (part.removeprefix("spec.nodeName=") for part in _parts(fields) if part.startswith("spec.nodeName=")), ""
    )


def _parts(selector: str) -> Iterable[str]:
    return [part.strip() for part in _COMMA.split(selector)] if selector else []


def _field_test(resource: Resource, part: str) -> Test:
    path, wanted, equal = _comparison(part)
    if path not in ("metadata.name", "metadata.namespace", *_FIELDS.get(resource, ())):
        raise DeniedError(f"kube:list {resource.plural}", f"400 field label not supported: {path}")
    return lambda obj: (_value(obj, path) == wanted) is equal


def _label_test(part: str) -> Test:
    match = _IN.fullmatch(part)
    if match is not None:
        values, wanted = {value.strip() for value in match["values"].split(",")}, match["operator"] == "in"
        key = match["key"]
        return lambda obj: (labels_of(obj).get(key) in values) is wanted
    if "=" in part:
        key, value, equal = _comparison(part)
        return lambda obj: (labels_of(obj).get(key) == value) is equal
    if part.startswith("!"):
        return lambda obj: part[1:] not in labels_of(obj)
    return lambda obj: part in labels_of(obj)


def _comparison(part: str) -> tuple[str, str, bool]:
    key_part, _, right = part.partition("=")
    return key_part.rstrip("!"), right.removeprefix("="), not key_part.endswith("!")


def _value(obj: JsonObject, path: str) -> str:
    value: object = obj
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


# The binding subresource of pods, with the scheduler's own filters applied to each binding that others write.


BINDING_CALL: Final = "kube:create pods/binding"
SETTLES_WITHIN: Final = timedelta(seconds=1)
"""How long a kubelet takes to see a change of its node, and the scheduler to see a binding."""

_HELD: Final = (labels.UNREGISTERED_TAINT, "NoSchedule")


class PodBindings:
    """Binds pods as the API server does, without checks, and records objections of the scheduler's filters.

    Emits `bindingAgainstRule` if the scheduler would not bind the pod there, if the kubelet may still reject it for a taint,
    and if a node is opened so soon that the scheduler may not have seen its last pod.
    """

    def __init__(self, store: Store, scheduler: Scheduler, recorder: Recorder) -> None:
        self._store = store
        self._scheduler = scheduler
        self._recorder = recorder
        self._opened_at: dict[str, datetime] = {}
        self._bound_at: dict[str, tuple[datetime, str]] = {}
        store.watch(self._node_changed, resources.NODES)

    def bind(self, namespace: str, name: str, *, uid: str, node: str) -> None:
        """Bind a pod.

        Raises:
            NotFoundError: If there is no such pod.
            ConflictError: If it has a node, is being deleted, or is another pod.
            DeniedError: If it still has gates.
        """
        pod = self._store.get(resources.PODS, name, namespace)
        if uid != uid_of(pod) or node_of(pod) or is_deleting(pod):
            raise ConflictError(BINDING_CALL, f"pod {name} is already assigned to a node, is going, or is another one")
        if spec_of(pod).get("schedulingGates"):
            raise DeniedError(BINDING_CALL, f"pod {name} has non-empty .spec.schedulingGates")
        objection = self._objection(pod, node)
        if objection:
            self._recorder.emit("bindingAgainstRule", pod=f"{namespace}/{name}", node=node, rule=objection)
        now = self._store.clock.now()
        self._bound_at[node] = now, f"{namespace}/{name}"
        status = {"conditions": with_condition(pod, "PodScheduled", "True", now), "nominatedNodeName": None}
        body = {"spec": {"nodeName": node}, "status": status}
        self._store.patch(resources.PODS, name, body, namespace=namespace, by=PROGRAM)

    def _objection(self, pod: JsonObject, node: str) -> str:
        opened = self._opened_at.get(node)
        if opened is not None and self._store.clock.now() - opened < SETTLES_WITHIN:
            return "the kubelet may not know that a NoExecute taint is off"
        return self._scheduler.objection(pod, node, but_for=_HELD)

    def _node_changed(self, change: Change) -> None:
        if change.old is None or change.new is None:
            return
        name, now = name_of(change.new), self._store.clock.now()
        gone = _taints_of(change.old) - _taints_of(change.new)
        if any(effect == "NoExecute" for _, effect in gone):
            self._opened_at[name] = now
        at, pod = self._bound_at.get(name, (None, ""))
        if _HELD in gone and at is not None and now - at < SETTLES_WITHIN:
            self._recorder.emit(
                "bindingAgainstRule", pod=pod, node=name, rule="the scheduler may not know of the binding"
            )


def _taints_of(node: JsonObject) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in spec_of(node).get("taints") or ()}


FaultHook = Callable[[str, Literal["before", "after"]], None]
"""Called with the call's name before it reaches the cluster and after it was done; may raise."""

FORCED = "forced"

_DEFINED_BY_OTHERS: Final = (resources.PROVISIONING_REQUESTS.kind,)
"""Kinds that most clusters do not serve."""


HISTORY_MAX: Final = 5_000
"""How many events of a kind a watch may begin with; a real API server compacts after five minutes."""


class ClusterApi:
    """Implements `adapters.ports.Kubernetes` on the simulated cluster; all changes through it count as the program's.

    Attributes:
        continued_min: Lists of so many objects can be continued.
    """

    def __init__(self, store: Store, evictions: Evictions, bindings: PodBindings, recorder: Recorder) -> None:
        self.continued_min = 0
        self._events: dict[Resource, deque[tuple[int, Key, JsonObject | None]]] = {
            resource: deque(maxlen=HISTORY_MAX) for resource in decoding.KEPT_IN_PART
        }
        self._compacted_at = dict.fromkeys(self._events, 0)
        self._store = store
        self._evictions = evictions
        self._bindings = bindings
        self._recorder = recorder
        self._hooks: list[FaultHook] = []
        self._listings: dict[Resource, Listing] = {}
        self._decoded: dict[Resource, dict[Key, Any]] = {resource: {} for resource in resources.ALL}
        self._rejected: dict[Resource, dict[Key, str]] = {resource: {} for resource in resources.ALL}
        self._changed: dict[Resource, dict[Key, JsonObject | None]] = {resource: {} for resource in resources.ALL}
        store.watch(self._note)

    def on_fault_point(self, hook: FaultHook) -> None:
        """Call `hook` before and after each call."""
        self._hooks.append(hook)

    def list(self, resource: Resource, *, fields: str = "", labels: str = "") -> Listing:
        """The objects that are selected, by namespace and name. What did not change since is not decoded again."""
        with self._call(f"kube:list {resource.plural}"):
            self._require_served(resource)
            if resource not in self._listings:
                self._listings[resource] = self._decode_changed(resource)
            if fields or labels:
                return self._selected(resource, fields, labels)
            return self._listings[resource]

    def _require_served(self, resource: Resource) -> None:
        """Raise NotFoundError for a definition that the cluster does not have: it comes with the first object of its kind."""
        is_known = resource in self._decoded
        if is_known and resource.kind not in _DEFINED_BY_OTHERS:
            return
        if not is_known or not (self._decoded[resource] or self._changed[resource] or self._rejected[resource]):
            raise NotFoundError(f"kube:list {resource.plural}", f"the server serves no {resource.api_version}")

    def changes(self, resource: Resource, since: str) -> ListChanges | None:
        """What has happened since a version; None (410) if that is compacted, or if the server was restored since."""
        with self._call(f"kube:watch {resource.plural}"):
            version = int(since)
            if not self._compacted_at[resource] <= version <= self._store.version:
                return None
            events = tuple(
                ("/".join(filter(None, key)), None if obj is None else decoding.readable_or_rest(resource, obj))
                for at, key, obj in self._events[resource]
                if at > version
            )
            return ListChanges(events, str(self._store.version), len(self._store.all(resource)))

    def compact(self) -> None:
        """Forget all events, as the API server does some minutes after them, and at once when it is restored."""
        for resource, events in self._events.items():
            events.clear()
            self._compacted_at[resource] = self._store.version

    def count(self, resource: Resource) -> int | None:
        """Return the number of objects of the kind; to the cluster this is an ordinary list request."""
        with self._call(f"kube:list {resource.plural}"):
            return len(self._store.all(resource))

    def get(self, resource: Resource, name: str, namespace: str = "") -> Any:
        """One object as its wire struct. Raises NotFoundError."""
        with self._call(f"kube:get {resource.plural}"):
            return decoding.from_object(resource, self._store.get(resource, name, namespace))

    def create(self, resource: Resource, body: JsonObject, namespace: str = "") -> None:
        """Create an object. Raises ConflictError if it exists."""
        with self._call(f"kube:create {resource.plural}"):
            body = copy.deepcopy(body)
            metadata = body.setdefault("metadata", {})
            if not metadata.get("name") and not metadata.get("generateName"):
                raise DeniedError(f"kube:create {resource.plural}", "name or generateName is required")
            if namespace:
                metadata["namespace"] = namespace
            self._store.create(resource, body, by=PROGRAM)

    def patch(
        self, resource: Resource, name: str, body: JsonObject, *, namespace: str = "", subresource: str = ""
    ) -> None:
        """JSON merge patch. The status is only reached through its subresource, and nothing else is there."""
        with self._call(f"kube:patch {'/'.join(filter(None, (resource.plural, subresource)))}"):
            body = _reachable(copy.deepcopy(body), subresource)
            self._store.patch(resource, name, body, namespace=namespace, by=PROGRAM)

    def delete(
        self, resource: Resource, name: str, *, namespace: str = "", uid: str = "", grace_seconds: int | None = None
    ) -> None:
        """Delete an object. A pod deleted this way bypasses its budget and counts as forced."""
        with self._call(f"kube:delete {resource.plural}"):
            cause = FORCED if resource == resources.PODS else ""
            self._store.delete(
                resource, name, namespace=namespace, uid=uid, grace_seconds=grace_seconds, by=PROGRAM, cause=cause
            )

    def evict(self, namespace: str, name: str, *, uid: str) -> None:
        """Evict a pod through the eviction API."""
        with self._call("kube:create pods/eviction"):
            try:
                self._evictions.evict(namespace, name, uid=uid)
            except EvictionBlockedError as error:
                budget = error.detail.partition(" ")[0]
                self._recorder.emit("evictionRefused", pod=f"{namespace}/{name}", budget=budget)
                raise

    def bind(self, namespace: str, name: str, *, uid: str, node: str) -> None:
        """Bind a pod to a node."""
        with self._call("kube:create pods/binding"):
            self._bindings.bind(namespace, name, uid=uid, node=node)

    def _call(self, call: str) -> _Hooked:
        return _Hooked(self._hooks, call)

    def _note(self, change: Change) -> None:
        self._listings.pop(change.resource, None)
        self._changed[change.resource][key_of(change.obj)] = change.new
        if change.resource in self._events:
            events = self._events[change.resource]
            if len(events) == HISTORY_MAX:
                self._compacted_at[change.resource] = events[0][0]
            events.append((self._store.version, key_of(change.obj), change.new))

    def _selected(self, resource: Resource, fields: str, labels: str) -> Listing:
        is_selected = selection(resource, fields, labels)
        node = node_of_selector(fields)
        objects = self._store.pods_on(node) if node else self._store.all(resource)
        keys = [key_of(obj) for obj in objects if is_selected(obj)]
        decoded, rejected = self._decoded[resource], self._rejected[resource]
        problems = tuple(("/".join(filter(None, key)), rejected[key]) for key in keys if key in rejected)
        return Listing(tuple(decoded[key] for key in keys if key in decoded), problems)

    def _decode_changed(self, resource: Resource) -> Listing:
        """Return the current list; only objects that changed since the last one are decoded."""
        decoded, rejected, changed = self._decoded[resource], self._rejected[resource], self._changed[resource]
        has_new = any(key not in decoded for key in changed)
        for key, obj in changed.items():
            if obj is None or not self._decode(resource, key, obj):
                decoded.pop(key, None)
            if obj is None:
                rejected.pop(key, None)
        if has_new:
            decoded = self._decoded[resource] = {key: decoded[key] for key in sorted(decoded, key="/".join)}
        changed.clear()
        problems = sorted(("/".join(filter(None, key)), why) for key, why in rejected.items())
        is_long = resource in self._events and len(decoded) >= self.continued_min
        return Listing(tuple(decoded.values()), tuple(problems), str(self._store.version) if is_long else "")

    def _decode(self, resource: Resource, key: Key, obj: JsonObject) -> bool:
        """Decode the object; return whether that is possible."""
        self._rejected[resource].pop(key, None)
        try:
            self._decoded[resource][key] = decoding.from_object(resource, obj)
        except InvalidInputError as error:
            rest = decoding.rest_of(resource, obj)
            if rest is None:
                self._rejected[resource][key] = str(error)
                return False
            self._decoded[resource][key] = rest
        return True


class _Hooked:
    """Around a call: the hooks before it, and those after it unless it raised."""

    __slots__ = ("_call", "_hooks")

    def __init__(self, hooks: list[FaultHook], call: str) -> None:
        self._hooks = hooks
        self._call = call

    def __enter__(self) -> None:
        for hook in self._hooks:
            hook(self._call, "before")

    def __exit__(self, failed: object, *_: object) -> None:
        if failed is None:
            for hook in self._hooks:
                hook(self._call, "after")


def _reachable(body: JsonObject, subresource: str) -> JsonObject:
    if subresource == "status":
        version = (body.get("metadata") or {}).get("resourceVersion")
        kept: JsonObject = {"status": body.get("status") or {}}
        return {**kept, "metadata": {"resourceVersion": version}} if version is not None else kept
    return {key: value for key, value in body.items() if key != "status"}
