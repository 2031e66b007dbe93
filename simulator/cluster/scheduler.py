"""The scheduler's loop: tries pending pods, and sets the condition of those that fit nowhere."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import msgspec

from core.api.objects import JsonObject
from core.manifests.wire import resources
from simulator.cluster.controllers import (
    HARD_EFFECTS,
    UNSCHEDULABLE_TAINT,
    intolerable_taint,
    matches_node_term,
    selects_node,
    tolerates,
)
from simulator.cluster.scheduler_state import ClusterState, NodeRoom, PodClass, Spread, Term, nominated_node, shape_of
from simulator.cluster.store import (
    Change,
    Key,
    Store,
    condition_of,
    full_name,
    is_active,
    is_deleting,
    is_finished,
    key_of,
    labels_of,
    name_of,
    node_of,
    spec_of,
    uid_of,
    with_condition,
)
from simulator.cluster.volumes import (
    VolumeBinder,
    admits_node,
    can_provision,
    claim_names,
    claims_of,
    class_of,
    is_bound,
    suitable_volumes,
    topologies_admit,
    volume_of,
    waits_for_consumer,
)

# Topology spread and pod (anti-)affinity: which domains cannot take a pod now.


class SpreadRules:
    """The hard spread constraints of one pod, with the counts of this moment."""

    def __init__(self, state: ClusterState, pod_class: PodClass) -> None:
        keys = [spread.term.topology_key for spread in pod_class.spread]
        self._rules = [_limit(state, pod_class, spread, keys) for spread in pod_class.spread]

    def admit(self, room: NodeRoom) -> bool:
        """Whether the pod on this node keeps every skew within its bound."""
        for key, counts, most in self._rules:
            domain = room.labels.get(key)
            if domain is None or counts.get(domain, 0) > most:
                return False
        return True


class AffinityRules:
    """The required pod affinity and anti-affinity between one pod and those that run, both ways."""

    def __init__(self, state: ClusterState, pod_class: PodClass) -> None:
        counts = state.counts
        self._closed = [
            (term.topology_key, domains_of(state, term.topology_key, counts.on_nodes((term,), with_leaving=True)))
            for term in pod_class.anti_affinity
        ]
        self._repelled = [
            (term.topology_key, domains_of(state, term.topology_key, nodes))
            for term, nodes in counts.repelling(pod_class)
        ]
        terms = pod_class.affinity
        nodes = counts.on_nodes(terms, with_leaving=True) if terms else {}
        self._open = [(term.topology_key, domains_of(state, term.topology_key, nodes)) for term in terms]
        # The first pod of a group that wants to be with its own kind may go anywhere (Kubernetes, InterPodAffinity).
        nobody_yet = bool(terms) and not any(domains for _, domains in self._open)
        self._is_first = nobody_yet and all(counts.selects(term, pod_class) for term in terms)

    @property
    def is_open(self) -> bool:
        """Return whether no rule excludes any node."""
        return not (self._open or self._closed or self._repelled)

    def why_not(self, room: NodeRoom) -> str:
        """Return the rule that excludes the node, empty for none."""
        for key, domains in self._open:
            domain = room.labels.get(key)
            if domain is None or (domain not in domains and not self._is_first):
                return "node(s) didn't match pod affinity rules"
        if any(room.labels.get(key) in domains for key, domains in self._closed):
            return "node(s) didn't match pod anti-affinity rules"
        if any(room.labels.get(key) in domains for key, domains in self._repelled):
            return "node(s) didn't satisfy existing pods anti-affinity rules"
        return ""


def domains_of(state: ClusterState, key: str, nodes: Mapping[str, int]) -> dict[str, int]:
    """Counts by node added up by domain; nodes that are gone or lack the label are left out."""
    totals: dict[str, int] = {}
    for name, count in nodes.items():
        room = state.nodes.get(name)
        domain = room.labels.get(key) if room else None
        if domain is not None:
            totals[domain] = totals.get(domain, 0) + count
    return totals


def _limit(
    state: ClusterState, pod_class: PodClass, spread: Spread, keys: list[str]
) -> tuple[str, dict[str, int], int]:
    """The key, the pods in each domain that counts, and the most that a domain may hold already."""
    key = spread.term.topology_key
    on_nodes = state.counts.on_nodes((spread.term,), with_leaving=False)
    totals: dict[str, int] = {}
    for name in sorted(state.nodes):
        room = state.nodes[name]
        if all(k in room.labels for k in keys) and _counts(pod_class, spread, room):
            totals[room.labels[key]] = totals.get(room.labels[key], 0) + on_nodes.get(name, 0)
    least = min(totals.values(), default=0) if len(totals) >= spread.min_domains else 0
    itself = int(_selects_itself(state, spread.term, pod_class))
    return key, totals, least + spread.max_skew - itself


def _counts(pod_class: PodClass, spread: Spread, room: NodeRoom) -> bool:
    """Whether the node's domain takes part, by the constraint's node policies."""
    if spread.honors_affinity and not selects_node(pod_class.spec, room.node):
        return False
    return not (spread.honors_taints and intolerable_taint(pod_class.spec, room.node, HARD_EFFECTS))


def _selects_itself(state: ClusterState, term: Term, pod_class: PodClass) -> bool:
    return state.counts.selects(term, pod_class)


# A pod's volumes restrict its node: their zones, topologies of new volumes, and the node's attachment limit.


class VolumeRules:
    """The rules of one pod's claims. `problem` closes every node: a claim is missing or not ready to be used."""

    def __init__(self, store: Store, pod: JsonObject) -> None:
        self._store = store
        self._bound: list[JsonObject] = []
        self._open: list[JsonObject] = []
        self.problem = ""
        for name, claim in zip(claim_names(pod), claims_of(store, pod), strict=True):
            self._sort(name, claim)

    def why_not(self, room: NodeRoom) -> str:
        """Why the node cannot serve the pod's volumes, empty if it can."""
        if not all(admits_node(volume, room.node) for volume in self._bound):
            return "node(s) had volume node affinity conflict"
        if not all(self._can_open(claim, room.node) for claim in self._open):
            return "node(s) didn't find available persistent volumes to bind"
        return self._over_limit(room)

    def _sort(self, name: str, claim: JsonObject | None) -> None:
        if claim is None:
            self.problem = f'persistentvolumeclaim "{name}" not found'
        elif is_bound(claim):
            volume = volume_of(self._store, claim)
            if volume is None:
                self.problem = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume'
            else:
                self._bound.append(volume)
        elif waits_for_consumer(class_of(self._store, claim)):
            self._open.append(claim)
        else:
            self.problem = "pod has unbound immediate PersistentVolumeClaims"

    def _can_open(self, claim: JsonObject, node: JsonObject) -> bool:
        if any(admits_node(volume, node) for volume in suitable_volumes(self._store, claim)):
            return True
        storage_class = class_of(self._store, claim)
        return storage_class is not None and can_provision(storage_class) and topologies_admit(storage_class, node)

    def _over_limit(self, room: NodeRoom) -> str:
        csi_node = self._store.find(resources.CSI_NODES, room.name)
        drivers = (spec_of(csi_node).get("drivers") or ()) if csi_node else ()
        for driver in drivers:
            count = (driver.get("allocatable") or {}).get("count")
            if count is None:
                continue
            wanted = self._volumes_of(driver["name"])
            if wanted and len(wanted | self._on_node(room.name, driver["name"])) > count:
                return "node(s) exceed max volume count"
        return ""

    def _volumes_of(self, driver: str) -> set[str]:
        """The pod's volumes of a driver: those that exist, and those that would be made for its claims."""
        made = {name_of(volume) for volume in self._bound if _driver(volume) == driver}
        to_make = {
            full_name(claim)
            for claim in self._open
            if (class_of(self._store, claim) or {}).get("provisioner") == driver
        }
        return made | to_make

    def _on_node(self, node: str, driver: str) -> set[str]:
        volumes: set[str] = set()
        for pod in self._store.pods_on(node):
            if pod["spec"].get("volumes") and not is_finished(pod):
                bound = [volume_of(self._store, claim) for claim in claims_of(self._store, pod) if claim is not None]
                volumes |= {name_of(volume) for volume in bound if volume is not None and _driver(volume) == driver}
        return volumes


def _driver(volume: JsonObject) -> str:
    return str((spec_of(volume).get("csi") or {}).get("driver", ""))


# Finds the nodes that can take one pod now, the best of them, and why others cannot.


_SCORED: Final = ("cpu", "memory")
_FULL_SCORE: Final = 100


class Placement:
    """One attempt to place one pod."""

    def __init__(self, store: Store, state: ClusterState, pod_class: PodClass, pod: JsonObject) -> None:
        self._state = state
        self._class = pod_class
        self._key = key_of(pod)
        self._nominated = nominated_node(pod)
        self._spread = SpreadRules(state, pod_class) if pod_class.spread else None
        affinity = AffinityRules(state, pod_class)
        self._affinity = None if affinity.is_open else affinity
        self._volumes = VolumeRules(store, pod) if pod_class.has_volumes else None

    def best(self) -> NodeRoom | None:
        """Return the node that the scheduler chooses, None if no node can take the pod."""
        if self._volumes is not None and self._volumes.problem:
            return None
        expected = self.nominated()
        if expected is not None:
            return expected
        open_rooms = [room for room in self._state.admitting(self._class) if not self._closed_by(room)]
        return min(open_rooms, key=self._rank, default=None)

    def nominated(self) -> NodeRoom | None:
        """The node that the pod is nominated for, None if there is none or it is closed."""
        if not self._nominated or (self._volumes is not None and self._volumes.problem):
            return None
        rooms = [room for room in self._state.admitting(self._class) if room.name == self._nominated]
        return next((room for room in rooms if not self._closed_by(room)), None)

    def explain(self) -> str:
        """Return why no node can take the pod, in the scheduler's words."""
        if self._volumes is not None and self._volumes.problem:
            return f"0/{len(self._state.nodes)} nodes are available: {self._volumes.problem}."
        reasons = Counter(self._why_not(self._state.nodes[name]) for name in sorted(self._state.nodes))
        counted = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        return f"0/{len(self._state.nodes)} nodes are available: {counted or 'no nodes available to schedule pods'}."

    def why_not(self, node: str) -> str:
        """Return why the node cannot take the pod, empty if it can."""
        if self._volumes is not None and self._volumes.problem:
            return self._volumes.problem
        return self._why_not(self._state.nodes[node])

    def _closed_by(self, room: NodeRoom) -> str:
        """Return why a node that suits otherwise cannot take the pod, empty if it can."""
        reserved = self._state.nominations.reserved(room.name, self._key, self._class)
        scarce = room.lacks(self._class, reserved)
        if scarce:
            return "Too many pods" if scarce == "pods" else f"Insufficient {scarce}"
        if self._class.ports and not room.has_free_ports(self._class):
            return "node(s) didn't have free ports for the requested pod ports"
        if self._volumes is not None and (problem := self._volumes.why_not(room)):
            return problem
        if self._spread is not None and not self._spread.admit(room):
            return "node(s) didn't match pod topology spread constraints"
        return self._affinity.why_not(room) if self._affinity is not None else ""

    def _why_not(self, room: NodeRoom) -> str:
        taint = intolerable_taint(self._class.spec, room.node, ("NoSchedule", "NoExecute"))
        if taint is UNSCHEDULABLE_TAINT:
            return "node(s) were unschedulable"
        if taint is not None:
            return f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"
        if not selects_node(self._class.spec, room.node):
            return "node(s) didn't match Pod's node affinity/selector"
        return self._closed_by(room)

    def _rank(self, room: NodeRoom) -> tuple[int, int, int, int, str]:
        """Preferences of taints, nodes and pods first, then soft spread, then the emptiest node, then the name."""
        return (
            _unwanted_taints(self._class, room) if room.has_preference else 0,
            -self._preference(room) if self._class.has_preferences else 0,
            self._spread_counts(room) if self._class.soft_spread else 0,
            -_emptiness(self._class, room),
            room.name,
        )

    def _preference(self, room: NodeRoom) -> int:
        affinity = (self._class.spec.get("affinity") or {}).get("nodeAffinity") or {}
        total = 0
        for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            if matches_node_term(term["preference"], room.node):
                total += int(term["weight"])
        for weight, term in self._class.preferred:
            counts = self._state.counts.on_nodes((term,), with_leaving=True)
            domains = domains_of(self._state, term.topology_key, counts)
            total += weight * domains.get(room.labels.get(term.topology_key, ""), 0)
        return total

    def _spread_counts(self, room: NodeRoom) -> int:
        total = 0
        for spread in self._class.soft_spread:
            counts = self._state.counts.on_nodes((spread.term,), with_leaving=False)
            domains = domains_of(self._state, spread.term.topology_key, counts)
            total += domains.get(room.labels.get(spread.term.topology_key, ""), 0)
        return total


def _unwanted_taints(pod_class: PodClass, room: NodeRoom) -> int:
    tolerations = pod_class.spec.get("tolerations") or ()
    taints = [t for t in spec_of(room.node).get("taints") or () if t["effect"] == "PreferNoSchedule"]
    return sum(not any(tolerates(toleration, taint) for toleration in tolerations) for taint in taints)


def _emptiness(pod_class: PodClass, room: NodeRoom) -> int:
    """The share of CPU and memory that stays free, in percent added up (kube-scheduler, LeastAllocated)."""
    total = 0
    for name in _SCORED:
        offered = room.allocatable.get(name, 0)
        if offered:
            free = offered - room.used.get(name, 0) - pod_class.requests.get(name, 0)
            total += free * _FULL_SCORE // offered
    return total


SCHEDULER_DELAY: Final = timedelta(milliseconds=200)
"""From a pod's creation, or a change that may make room, to the attempt."""

VERDICT_DELAY: Final = timedelta(milliseconds=100)
"""From a failed attempt to its condition: 0.3 s after creation, as measured on a real scheduler."""

_DIGITS: Final = re.compile(r"\d+")
_DEFAULT: Final = "default-scheduler"


class _Waiting(msgspec.Struct):
    arrival: int
    pod_class: PodClass

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Pods that belong to one node first, then by priority, then in order of arrival."""
        return not self.pod_class.pinned, -self.pod_class.spec["priority"], self.arrival


class Scheduler:
    """Binds pods to nodes. Identical pods fail together: one failed attempt counts for all of them."""

    def __init__(self, store: Store, binder: VolumeBinder) -> None:
        self._store = store
        self._binder = binder
        self._state = ClusterState(store)
        self._waiting: dict[Key, _Waiting] = {}
        self._arrivals = 0
        self._is_due = False
        store.watch(self._pod_changed, resources.PODS)
        store.watch(self._node_changed, resources.NODES)
        store.watch(
            lambda _: self._wake(),
            resources.PERSISTENT_VOLUMES,
            resources.PERSISTENT_VOLUME_CLAIMS,
            resources.STORAGE_CLASSES,
            resources.CSI_NODES,
            resources.NAMESPACES,
        )

    def objection(self, pod: JsonObject, node: str, *, but_for: tuple[str, str]) -> str:
        """Why the scheduler would not bind the pod to the node now, empty if it would; a taint of this key and effect aside."""
        if node not in self._state.nodes:
            return f"there is no node {node}"
        with self._state.without_taint(*but_for):
            return Placement(self._store, self._state, self._state.classes.of(pod), pod).why_not(node)

    def any_room(self, pod: JsonObject) -> str:
        """Return the first node by name that has the resources, whatever its taints say; empty for none."""
        pod_class = self._state.classes.of(pod)
        rooms = (self._state.nodes[name] for name in sorted(self._state.nodes))
        return next((room.name for room in rooms if not room.lacks(pod_class, {})), "")

    def _pod_changed(self, change: Change) -> None:
        key = key_of(change.obj)
        if change.new is not None and _awaits_binding(change.new):
            self._await(key, change)
            return
        self._waiting.pop(key, None)
        self._state.nominations.note(key, None, "")
        if change.new is None or is_deleting(change.new) or is_finished(change.new):
            self._wake()

    def _await(self, key: Key, change: Change) -> None:
        pod, waiting = change.obj, self._waiting.get(key)
        if waiting is None:
            self._arrivals += 1
            self._waiting[key] = _Waiting(self._arrivals, self._state.classes.of(pod))
            self._wake()
        elif change.old is None or labels_of(change.old) != labels_of(pod) or change.old["spec"] != pod["spec"]:
            waiting.pod_class = self._state.classes.of(pod)
            self._wake()
        self._state.nominations.note(key, self._waiting[key].pod_class, nominated_node(pod))
        if change.old is not None and nominated_node(change.old) not in ("", nominated_node(pod)):
            self._wake()

    def _node_changed(self, change: Change) -> None:
        if change.new is not None and (change.old is None or shape_of(change.old) != shape_of(change.new)):
            self._wake()

    def _wake(self) -> None:
        if self._waiting and not self._is_due:
            self._is_due = True
            self._store.clock.after(SCHEDULER_DELAY, self._try_all)

    def _try_all(self) -> None:
        """Try every pending pod in turn, on its nominated node first; a failed attempt removes the nomination."""
        self._is_due = False
        failed: dict[int, str] = {}
        verdicts: list[tuple[JsonObject, str]] = []
        bound, others_may_help = 0, False
        for pod, pod_class in self._queue():
            is_first, nominated = pod_class.number not in failed, nominated_node(pod)
            if is_first or nominated:
                placement = Placement(self._store, self._state, pod_class, pod)
                room = placement.best() if is_first else placement.nominated()
                if room is not None:
                    self._bind(pod, pod_class, room.node)
                    bound += 1
                    continue
            if is_first:
                failed[pod_class.number] = placement.explain()
            if nominated or _is_news(pod, failed[pod_class.number]):
                verdicts.append((pod, failed[pod_class.number]))
            others_may_help |= pod_class.counts_others
        if bound and others_may_help:
            self._wake()
        if verdicts:
            self._store.clock.after(VERDICT_DELAY, lambda: self._say(verdicts))

    def _queue(self) -> list[tuple[JsonObject, PodClass]]:
        waiting = sorted(self._waiting.items(), key=lambda entry: entry[1].rank)
        return [(self._store.get(resources.PODS, key[1], key[0]), entry.pod_class) for key, entry in waiting]

    def _bind(self, pod: JsonObject, pod_class: PodClass, node: JsonObject) -> None:
        if pod_class.has_volumes:
            self._binder.bind_for(pod, node)
        namespace, name = key_of(pod)
        conditions = with_condition(pod, "PodScheduled", "True", self._store.clock.now())
        status = {"conditions": conditions, "nominatedNodeName": None}
        body = {"spec": {"nodeName": node["metadata"]["name"]}, "status": status}
        self._store.patch(resources.PODS, name, body, namespace=namespace)

    def _say(self, verdicts: list[tuple[JsonObject, str]]) -> None:
        for pod, message in verdicts:
            namespace, name = key_of(pod)
            present = self._store.find(resources.PODS, name, namespace)
            if present is None or uid_of(present) != uid_of(pod) or not _awaits_binding(present):
                continue
            now = self._store.clock.now()
            conditions = with_condition(present, "PodScheduled", "False", now, reason="Unschedulable", message=message)
            if not nominated_node(pod) or spec_of(pod).get("preemptionPolicy") == "Never":
                self._store.patch_status(resources.PODS, present, conditions=conditions)
            else:
                self._store.patch_status(resources.PODS, present, conditions=conditions, nominatedNodeName=None)


def _is_news(pod: JsonObject, message: str) -> bool:
    """Whether the verdict has other reasons than the pod's condition; a change of mere counts does not matter."""
    last_message = condition_of(pod, "PodScheduled").get("message", "")
    return _DIGITS.sub("", last_message) != _DIGITS.sub("", message)


def _awaits_binding(pod: JsonObject) -> bool:
    spec = pod["spec"]
    is_ours = spec["schedulerName"] == _DEFAULT and not spec.get("schedulingGates")
    return is_ours and not node_of(pod) and is_active(pod)


OTHER_DELAY: Final = timedelta(milliseconds=100)
"""The second scheduler is faster than the first one."""


class OtherScheduler:
    """A scheduler of somebody else's: it binds pods with certain labels wherever there is room, on closed nodes, too."""

    def __init__(self, store: Store, scheduler: Scheduler, labels: Mapping[str, str]) -> None:
        self._store = store
        self._scheduler = scheduler
        self._labels = labels
        self._is_due = self._is_over = False
        store.watch(lambda _: self._wake(), resources.PODS, resources.NODES)
        self._wake()

    def stop(self) -> None:
        """Bind nothing more."""
        self._is_over = True

    def _wake(self) -> None:
        if not self._is_due and not self._is_over:
            self._is_due = True
            self._store.clock.after(OTHER_DELAY, self._bind_all)

    def _bind_all(self) -> None:
        for pod in self._store.all(resources.PODS) if not self._is_over else ():
            node = self._scheduler.any_room(pod) if self._is_for(pod) else ""
            if node:
                namespace, name = key_of(pod)
                conditions = with_condition(pod, "PodScheduled", "True", self._store.clock.now())
                body = {"spec": {"nodeName": node}, "status": {"conditions": conditions, "nominatedNodeName": None}}
                self._store.patch(resources.PODS, name, body, namespace=namespace)
        self._is_due = False

    def _is_for(self, pod: JsonObject) -> bool:
        has_labels = all(labels_of(pod).get(key) == value for key, value in self._labels.items())
        return has_labels and not node_of(pod) and is_active(pod) and not spec_of(pod).get("schedulingGates")
