"""The scheduler's view of the nodes: their allocatable resources, and the requests of their pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from core.model.values import quantity
from simulator.cluster.objects import is_deleting, is_finished, labels_of, name_of, node_of, spec_of, status_of, uid_of
from simulator.cluster.scheduling.match_counts import MatchCounts, Placement
from simulator.cluster.scheduling.nominations import Nominations
from simulator.cluster.scheduling.pod_class import PodClass, PodClasses, PortKey
from simulator.cluster.store import Change, Store


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
        store.watch(self._node_changed, kinds.NODES)
        store.watch(self._pod_changed, kinds.PODS)
        store.watch(self._namespace_changed, kinds.NAMESPACES)

    def admitting(self, pod_class: PodClass) -> list[NodeRoom]:
        """Return the nodes that suit pods of the class apart from other pods, by name."""
        known = self._admitting.get(pod_class.number)
        if known is not None and known[0] == self.shape_version:
            return known[1]
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
        found = self._store.find(kinds.NAMESPACES, namespace)
        return labels_of(found) if found else {}

    def _namespace_changed(self, change: Change) -> None:
        if change.old is not None:
            self.counts.forget()


def shape_of(node: JsonObject) -> tuple[object, ...]:
    """Return the parts of a node that decide which pods may run there."""
    spec = spec_of(node)
    return labels_of(node), spec.get("taints"), spec.get("unschedulable"), status_of(node).get("allocatable")


def _takes(pod: JsonObject) -> tuple[object, ...]:
    return id(pod["spec"]), labels_of(pod), is_deleting(pod), is_finished(pod)


def _conflict(left: PortKey, right: PortKey) -> bool:
    everywhere = "0.0.0.0"  # noqa: S104 - an address in a manifest, nothing is bound to it
    return left[1:] == right[1:] and (left[0] == right[0] or everywhere in (left[0], right[0]))
