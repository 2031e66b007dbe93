"""What the simulated scheduler knows: classes of pods, room of nodes, counts of matching pods, nominations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec

from core.api.objects import JsonObject
from core.manifests.wire import resources
from core.model.values import quantity
from simulator.cluster.controllers import HARD_EFFECTS, intolerable_taint, pinned_node, selects_labels, selects_node
from simulator.cluster.store import (
    Change,
    Key,
    Store,
    is_deleting,
    is_finished,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    spec_of,
    status_of,
    uid_of,
)

PortKey = tuple[str, str, int]
"""Host IP, protocol, port."""


class Term(msgspec.Struct, frozen=True):
    """One term of pod (anti-)affinity, or the pods that a spread constraint counts.

    Attributes:
        group: Which pods it selects, as a key: terms with equal groups share their counts.
    """

    topology_key: str
    namespaces: tuple[str, ...]
    namespace_selector: JsonObject | None
    selector: JsonObject | None
    group: bytes


class Spread(msgspec.Struct, frozen=True):
    """One topology spread constraint."""

    term: Term
    max_skew: int
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


class PodClass(msgspec.Struct, frozen=True, eq=False):
    """Pods that the scheduler cannot tell apart."""

    number: int
    namespace: str
    labels: Mapping[str, str]
    spec: JsonObject
    requests: Mapping[str, int]
    ports: tuple[PortKey, ...]
    pinned: str
    affinity: tuple[Term, ...]
    anti_affinity: tuple[Term, ...]
    preferred: tuple[tuple[int, Term], ...]
    spread: tuple[Spread, ...]
    soft_spread: tuple[Spread, ...]
    has_volumes: bool
    has_preferences: bool

    @property
    def counts_others(self) -> bool:
        """Return whether other pods affect the choice of nodes for these, apart from resources."""
        return bool(self.affinity or self.anti_affinity or self.spread)

    def admits(self, node: JsonObject) -> bool:
        """Whether the node itself suits: selector, affinity, taints."""
        return selects_node(self.spec, node) and intolerable_taint(self.spec, node, HARD_EFFECTS) is None


class PodClasses:
    """All classes seen so far."""

    def __init__(self) -> None:
        self._known: dict[bytes, PodClass] = {}

    def of(self, pod: JsonObject) -> PodClass:
        """The pod's class."""
        spec = {key: value for key, value in pod["spec"].items() if key not in ("nodeName", "schedulingGates")}
        own_volumes = any("ephemeral" in volume for volume in spec.get("volumes") or ())
        key = msgspec.json.encode([namespace_of(pod), labels_of(pod), spec, name_of(pod) if own_volumes else ""])
        cached = self._known.get(key)
        if cached is None:
            cached = _read(len(self._known), pod, spec)
            self._known[key] = cached
        return cached


_CLAIMING: Final = ("persistentVolumeClaim", "ephemeral")


def _read(number: int, pod: JsonObject, spec: JsonObject) -> PodClass:
    namespace, labels = namespace_of(pod), labels_of(pod)
    affinity = spec.get("affinity") or {}
    attract, repel = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    required, preferred = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    preferences = [
        (sign * int(preference["weight"]), preference["podAffinityTerm"])
        for sign, source in ((1, attract), (-1, repel))
        for preference in source.get(preferred) or ()
    ]
    constraints = spec.get("topologySpreadConstraints") or ()
    hard = [c for c in constraints if c.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"]
    soft = [c for c in constraints if c.get("whenUnsatisfiable") == "ScheduleAnyway"]
    return PodClass(
        number=number,
        namespace=namespace,
        labels=labels,
        spec=spec,
        requests=effective_requests(spec),
        ports=_host_ports(spec),
        pinned=pinned_node(pod),
        affinity=tuple(_term(t, namespace, labels) for t in attract.get(required) or ()),
        anti_affinity=tuple(_term(t, namespace, labels) for t in repel.get(required) or ()),
        preferred=tuple((weight, _term(t, namespace, labels)) for weight, t in preferences),
        spread=tuple(_spread(c, namespace, labels) for c in hard),
        soft_spread=tuple(_spread(c, namespace, labels) for c in soft),
        has_volumes=any(kind in volume for volume in spec.get("volumes") or () for kind in _CLAIMING),
        has_preferences=bool(preferences or (affinity.get("nodeAffinity") or {}).get(preferred)),
    )


def effective_requests(spec: JsonObject) -> dict[str, int]:
    """Return the pod's requests: sidecars run beside the containers, other init containers before them."""
    beside: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        wanted = _parsed((container.get("resources") or {}).get("requests"))
        if container.get("restartPolicy") == "Always":
            beside = _sum(beside, wanted)
            peak = _most(peak, beside)
        else:
            peak = _most(peak, _sum(beside, wanted))
    total = beside
    for container in spec.get("containers") or ():
        total = _sum(total, _parsed((container.get("resources") or {}).get("requests")))
    total = _most(total, peak)
    total |= _parsed((spec.get("resources") or {}).get("requests"))
    return {**_sum(total, _parsed(spec.get("overhead"))), "pods": 1}


def _parsed(requests: Mapping[str, str] | None) -> dict[str, int]:
    return {name: quantity.parse(value, name) for name, value in sorted((requests or {}).items())}


def _sum(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {**first, **{name: first.get(name, 0) + value for name, value in second.items()}}


def _most(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {**first, **{name: max(first.get(name, 0), value) for name, value in second.items()}}


def _host_ports(spec: JsonObject) -> tuple[PortKey, ...]:
    containers = [
        *(spec.get("containers") or ()),
        *(c for c in spec.get("initContainers") or () if c.get("restartPolicy")),
    ]
    ports: list[PortKey] = []
    for container in containers:
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else None)
            if number:
                ports.append((port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", int(number)))  # noqa: S104
    return tuple(sorted(ports))


def _term(term: JsonObject, namespace: str, labels: Mapping[str, str]) -> Term:
    selector = _with_label_keys(term.get("labelSelector"), labels, term.get("matchLabelKeys"), "In")
    selector = _with_label_keys(selector, labels, term.get("mismatchLabelKeys"), "NotIn")
    namespaces, namespace_selector = term.get("namespaces") or [], term.get("namespaceSelector")
    if not namespaces and namespace_selector is None:
        namespaces = [namespace]
    return _a_term(term["topologyKey"], namespaces, namespace_selector, selector)


def _a_term(key: str, namespaces: Iterable[str], of_namespaces: JsonObject | None, selector: JsonObject | None) -> Term:
    names = tuple(sorted(namespaces))
    group = msgspec.json.encode([names, of_namespaces, selector], order="deterministic")
    return Term(key, names, of_namespaces, selector, group)


def _spread(constraint: JsonObject, namespace: str, labels: Mapping[str, str]) -> Spread:
    selector = _with_label_keys(constraint.get("labelSelector"), labels, constraint.get("matchLabelKeys"), "In")
    return Spread(
        term=_a_term(constraint["topologyKey"], [namespace], None, selector),
        max_skew=int(constraint.get("maxSkew", 1)),
        min_domains=int(constraint.get("minDomains") or 1),
        honors_affinity=constraint.get("nodeAffinityPolicy", "Honor") == "Honor",
        honors_taints=constraint.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )


def _with_label_keys(
    selector: JsonObject | None, labels: Mapping[str, str], keys: Iterable[str] | None, operator: str
) -> JsonObject | None:
    """The selector narrowed to the pod's own values of these keys; keys that the pod lacks are passed over."""
    added = [{"key": key, "operator": operator, "values": [labels[key]]} for key in keys or () if key in labels]
    if selector is None or not added:
        return selector
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *added]}


# Counts a group's bound pods on each node, updated as pods are bound and deleted.


NamespaceLabels = Callable[[str], Mapping[str, str]]
Placement = tuple[PodClass, str, bool]
"""A bound pod: its class, its node, whether it is being deleted."""


class MatchCounts:
    """Counts of pods by group and node. A group is counted from its first use on."""

    def __init__(self, namespace_labels: NamespaceLabels, placements: Callable[[], Iterable[Placement]]) -> None:
        self._namespace_labels = namespace_labels
        self._placements = placements
        self._groups: dict[tuple[bytes, bool], _Group] = {}
        self._repelling: dict[tuple[bytes, str], tuple[Term, dict[str, int]]] = {}

    def add(self, placement: Placement, change: int) -> None:
        """Count a pod in (`change` 1) or out (-1)."""
        pod_class, node, _ = placement
        for group in self._groups.values():
            group.add(placement, change)
        for term in pod_class.anti_affinity:
            _, counts = self._repelling.setdefault((term.group, term.topology_key), (term, {}))
            _change(counts, node, change)

    def on_nodes(self, terms: tuple[Term, ...], *, with_leaving: bool) -> Mapping[str, int]:
        """Return how many pods on each node all these terms select; pods that are being deleted count only if requested."""
        key = (b"\n".join(term.group for term in terms), with_leaving)
        group = self._groups.get(key)
        if group is None:
            group = _Group(lambda c: all(self.selects(t, c) for t in terms), with_leaving=with_leaving)
            for placement in self._placements():
                group.add(placement, 1)
            self._groups[key] = group
        return group.counts

    def repelling(self, pod_class: PodClass) -> list[tuple[Term, Mapping[str, int]]]:
        """The anti-affinity terms of bound pods that select such a pod, with the nodes of those pods."""
        entries = [self._repelling[key] for key in sorted(self._repelling)]
        return [(term, counts) for term, counts in entries if counts and self.selects(term, pod_class)]

    def selects(self, term: Term, pod_class: PodClass) -> bool:
        """Whether the term selects pods of the class."""
        if not selects_labels(term.selector, pod_class.labels):
            return False
        if pod_class.namespace in term.namespaces:
            return True
        return selects_labels(term.namespace_selector, self._namespace_labels(pod_class.namespace))

    def forget(self) -> None:
        """Drop the counts, since labels of namespaces have changed."""
        self._groups.clear()


class _Group:
    def __init__(self, selects: Callable[[PodClass], bool], *, with_leaving: bool) -> None:
        self.counts: dict[str, int] = {}
        self._selects = selects
        self._with_leaving = with_leaving
        self._known: dict[int, bool] = {}

    def add(self, placement: Placement, change: int) -> None:
        pod_class, node, is_leaving = placement
        if is_leaving and not self._with_leaving:
            return
        selected = self._known.get(pod_class.number)
        if selected is None:
            selected = self._known[pod_class.number] = self._selects(pod_class)
        if selected:
            _change(self.counts, node, change)


def _change(counts: dict[str, int], node: str, change: int) -> None:
    counts[node] = counts.get(node, 0) + change
    if not counts[node]:
        del counts[node]


# Pods that are expected on a node before they are bound to it (`status.nominatedNodeName`).


class Nominations:
    """Keeps room on the nominated node from pods of no higher priority, as kube-scheduler does. Only resources are kept."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[Key, PodClass]] = {}
        self._node_of: dict[Key, str] = {}

    def note(self, key: Key, pod_class: PodClass | None, node: str) -> None:
        """Record the nomination of a pending pod, or its absence; without a class, the pod is no longer pending."""
        former = self._node_of.pop(key, "")
        if former:
            self._by_node[former].pop(key)
        if node and pod_class is not None:
            self._node_of[key] = node
            self._by_node.setdefault(node, {})[key] = pod_class

    def reserved(self, node: str, key: Key, pod_class: PodClass) -> Mapping[str, int]:
        """Return the resources of the node that nominations of other pods reserve against this pod."""
        reserved: dict[str, int] = {}
        for other, reservation in self._by_node.get(node, {}).items():
            if other != key and reservation.spec["priority"] >= pod_class.spec["priority"]:
                for name, amount in reservation.requests.items():
                    reserved[name] = reserved.get(name, 0) + amount
        return reserved


def nominated_node(pod: JsonObject) -> str:
    """The node that the pod's status names, empty if none."""
    return str(status_of(pod).get("nominatedNodeName") or "")


# The scheduler's view of the nodes: their allocatable resources, and the requests of their pods.


class NodeRoom:
    """One node: its allocatable resources and the requests of its pods."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: JsonObject = {}
        self.labels: Mapping[str, str] = {}
        self.allocatable: dict[str, int] = {}
        self.used: dict[str, int] = {}
        self.ports: dict[PortKey, int] = {}
        self.has_preference = False

    def show(self, node: JsonObject) -> None:
        """Update from the Node object."""
        self.node = node
        self.labels = labels_of(node)
        offered = status_of(node).get("allocatable") or status_of(node).get("capacity") or {}
        self.allocatable = {name: quantity.parse(value, name) for name, value in sorted(offered.items())}
        self.has_preference = any(t["effect"] == "PreferNoSchedule" for t in spec_of(node).get("taints") or ())

    def take(self, pod_class: PodClass, change: int) -> None:
        """Count a pod in (1) or out (-1)."""
        for name, amount in pod_class.requests.items():
            self.used[name] = self.used.get(name, 0) + change * amount
        for port in pod_class.ports:
            self.ports[port] = self.ports.get(port, 0) + change
            if not self.ports[port]:
                del self.ports[port]

    def lacks(self, pod_class: PodClass, nominated: Mapping[str, int]) -> str:
        """The first resource that is too scarce for the pod, empty if it fits; `nominated` is reserved for others."""
        for name, amount in pod_class.requests.items():
            if amount and self.used.get(name, 0) + nominated.get(name, 0) + amount > self.allocatable.get(name, 0):
                return name
        return ""

    def has_free_ports(self, pod_class: PodClass) -> bool:
        """Whether the pod's host ports are free: an address conflicts with itself and with all addresses."""
        return not any(_conflict(wanted, taken) for wanted in pod_class.ports for taken in self.ports)


class ClusterState:
    """All nodes with their room, and the counts of pods by group; follows the store.

    Attributes:
        shape_version: Changes whenever a node comes, goes or changes what it admits.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.classes = PodClasses()
        self.nominations = Nominations()
        self.nodes: dict[str, NodeRoom] = {}
        self.shape_version = 0
        self._rooms: dict[str, NodeRoom] = {}
        self._placed: dict[str, Placement] = {}
        self.counts = MatchCounts(self._namespace_labels, self._placed.values)
        self._admitting: dict[int, tuple[int, list[NodeRoom]]] = {}
        store.watch(self._node_changed, resources.NODES)
        store.watch(self._pod_changed, resources.PODS)
        store.watch(self._namespace_changed, resources.NAMESPACES)

    def admitting(self, pod_class: PodClass) -> list[NodeRoom]:
        """Return the nodes that suit pods of the class apart from other pods, by name."""
        cached = self._admitting.get(pod_class.number)
        if cached is not None and cached[0] == self.shape_version:
            return cached[1]
        names = [pod_class.pinned] if pod_class.pinned else sorted(self.nodes)
        rooms = [self.nodes[name] for name in names if name in self.nodes and pod_class.admits(self.nodes[name].node)]
        self._admitting[pod_class.number] = (self.shape_version, rooms)
        return rooms

    @contextmanager
    def without_taint(self, key: str, effect: str) -> Iterator[None]:
        """Ignore this taint of nodes within the context."""
        shown = {name: room.node for name, room in self.nodes.items()}
        for room in self.nodes.values():
            kept = [t for t in spec_of(room.node).get("taints") or () if (t["key"], t["effect"]) != (key, effect)]
            room.node = {**room.node, "spec": {**spec_of(room.node), "taints": kept}}
        try:
            yield
        finally:
            for name, node in shown.items():
                self.nodes[name].node = node

    def _node_changed(self, change: Change) -> None:
        name = name_of(change.obj)
        if change.new is None:
            self.nodes.pop(name, None)
            self.shape_version += 1
            return
        room = self._room(name)
        room.show(change.new)
        self.nodes[name] = room
        if change.old is None or shape_of(change.old) != shape_of(change.new):
            self.shape_version += 1

    def _pod_changed(self, change: Change) -> None:
        if change.old is not None and change.new is not None and _takes(change.old) == _takes(change.new):
            return
        uid = uid_of(change.obj)
        before = self._placed.get(uid)
        after = self._placement(change.new)
        if before == after:
            return
        if before is not None:
            self._count(before, -1)
            del self._placed[uid]
        if after is not None:
            self._count(after, 1)
            self._placed[uid] = after

    def _placement(self, pod: JsonObject | None) -> Placement | None:
        if pod is None or not node_of(pod) or is_finished(pod):
            return None
        return self.classes.of(pod), node_of(pod), is_deleting(pod)

    def _count(self, placement: Placement, change: int) -> None:
        self._room(placement[1]).take(placement[0], change)
        self.counts.add(placement, change)

    def _room(self, name: str) -> NodeRoom:
        return self._rooms.setdefault(name, NodeRoom(name))

    def _namespace_labels(self, namespace: str) -> Mapping[str, str]:
        namespace_object = self._store.find(resources.NAMESPACES, namespace)
        return labels_of(namespace_object) if namespace_object else {}

    def _namespace_changed(self, change: Change) -> None:
        if change.old is not None:
            self.counts.forget()


def shape_of(node: JsonObject) -> tuple[object, ...]:
    """Return the parts of a node that decide which pods may run there."""
    spec = spec_of(node)
    return labels_of(node), spec.get("taints"), spec.get("unschedulable"), status_of(node).get("allocatable")


def _takes(pod: JsonObject) -> tuple[object, ...]:
    return id(pod["spec"]), labels_of(pod), is_deleting(pod), is_finished(pod)


def _conflict(first: PortKey, second: PortKey) -> bool:
    everywhere = "0.0.0.0"  # noqa: S104 - an address in a manifest, nothing is bound to it
    return first[1:] == second[1:] and (first[0] == second[0] or everywhere in (first[0], second[0]))
