"""Where pods are once a plan is carried out: existing nodes, claims in flight, planned claims.

A claim may still become one of many nodes. Each of them is a `Face` of its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.plan import NodeClaim, Plan, PlannedClaim
from core.model.pod import Pod, PodSpec
from core.model.snapshot import DaemonSet, Node, Snapshot
from core.model.values.taints import Taint
from tests.property.naive.market import types_by_pool
from tests.property.naive.reading import is_protected, meets_all, selects, tolerates, wants_node

OPEN = "(open)"
"""In place of a domain: the claim may still get one value or another."""

_PASSING_TAINTS = (
    ("node.kubernetes.io/not-ready", "NoSchedule"),
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoSchedule"),
    ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
    (labels.UNREGISTERED_TAINT, "NoExecute"),
)


@dataclass(eq=False)
class Face:
    """One concrete node. `daemons` are the DaemonSets that will add a pod to it, beside those that already run there."""

    labels: dict[str, str]
    room: dict[str, int]
    daemons: list[DaemonSet]
    instance_type: InstanceType | None = None


@dataclass(eq=False)
class Place:
    """An existing or planned node.

    Attributes:
        running: Pods bound to it that have not finished, without those that move.
        coming: Pods that the plan puts there.
        attach_limits: CSI driver → how many volumes, for existing nodes.
    """

    name: str
    faces: list[Face]
    taints: tuple[Taint, ...] = ()
    running: list[Pod] = field(default_factory=list)
    coming: list[Pod] = field(default_factory=list)
    attach_limits: dict[str, int] = field(default_factory=dict)
    claim: PlannedClaim | None = None
    is_leaving: bool = False
    is_reclaimed: bool = False
    exists: bool = True

    def domain(self, key: str) -> str | None:
        """Its value of a topology label; None if it has none, `OPEN` if the value is still open."""
        label_values = {face.labels.get(key) for face in self.faces}
        return label_values.pop() if len(label_values) == 1 else OPEN


def is_pending(snapshot: Snapshot, pod: Pod) -> bool:
    """Whether a pod is pending."""
    if pod.node_name or pod.nominated_node_name or pod.is_gated or pod.phase != "Pending" or pod.deleted_at is not None:
        return False
    if any(owner.kind in ("DaemonSet", "Node") for owner in pod.owners):
        return False
    if not snapshot.options.requires_unschedulable_mark:
        return True
    return any(_speaks_for(other, pod, snapshot) for other in snapshot.pods)


def _speaks_for(other: Pod, pod: Pod, snapshot: Snapshot) -> bool:
    """Whether the scheduler's verdict on one pod holds for another.

    It does for itself, for an equal pod of the same controller, and, if only nodes refused it, for one that asks for as much.
    With a default spread that must hold, that is sure only of a pod with spreads of its own.
    """
    if not other.is_marked_unschedulable:
        return False
    if other.key == pod.key:
        return True
    waits = not (other.node_name or other.nominated_node_name or other.is_gated or other.deleted_at)
    common = {owner for owner in pod.owners if owner.is_controller} & {o for o in other.owners if o.is_controller}
    alike = (other.namespace, other.labels, other.spec) == (pod.namespace, pod.labels, pod.spec)
    has_default = any(spread.when_unsatisfiable == "DoNotSchedule" for spread in snapshot.options.default_spreads)
    only_nodes = not has_default or bool(other.spec.spreads)
    asks_for_as_much = only_nodes and _asks_for_as_much(pod.spec, other.spec)
    return waits and other.phase == "Pending" and ((bool(common) and alike) or asks_for_as_much)


def _asks_for_as_much(spec: PodSpec, refused: PodSpec) -> bool:
    """Whether whatever nodes refuse the one for, they refuse the other for."""
    required = [spread for spread in refused.spreads if spread.when_unsatisfiable == "DoNotSchedule"]
    about_others = required or refused.affinity or refused.anti_affinity or refused.host_ports or refused.volumes
    if about_others or refused.resource_claims or refused.workload or refused.problem:
        return False
    one_queue = spec.scheduler_name == refused.scheduler_name
    one_rank = (spec.priority, spec.priority_class) == (refused.priority, refused.priority_class)
    fewer_nodes = set(spec.node_selector) >= set(refused.node_selector) and set(spec.tolerations) <= set(
        refused.tolerations
    )
    same_terms = not refused.required_terms or refused.required_terms == spec.required_terms
    as_large = not any(amount > spec.requests.get(name, 0) for name, amount in refused.requests.items())
    return one_queue and one_rank and fewer_nodes and same_terms and as_large


def virtual_pods(snapshot: Snapshot) -> dict[str, Pod]:
    """The virtual pods of capacity buffers, by key."""
    if not snapshot.options.feature_gates.capacity_buffer:
        return {}
    names = [(b, f"capacity-buffer-{b.name}-{number + 1}") for b in snapshot.buffers for number in range(b.pods)]
    pods = [Pod(namespace=b.namespace, name=name, labels=b.labels, spec=b.spec) for b, name in names]
    return {pod.key: pod for pod in pods}


def places_after(snapshot: Snapshot, plan: Plan) -> list[Place]:
    """Every place, with its pods once the plan is carried out."""
    places = list(existing_places(snapshot))
    by_name = {place.name: place for place in places}
    pods = virtual_pods(snapshot) | {pod.key: pod for pod in snapshot.pods}
    moving = moving_pods(snapshot, places)
    for place in places:
        place.running = [pod for pod in place.running if pod.key not in moving]
    for binding in plan.bindings:
        if binding.node in by_name and binding.pod in pods:
            by_name[binding.node].coming.append(pods[binding.pod])
    for claim in plan.claims:
        faces = list(faces_of_claim(snapshot, claim))
        coming = [pods[key] for key in (*claim.pods, *claim.buffer_pods) if key in pods]
        places.append(Place(claim.name, faces, claim.taints, coming=coming, claim=claim, exists=False))
    return places


def moving_pods(snapshot: Snapshot, places: list[Place]) -> set[str]:
    """Keys of pods on leaving nodes that need a new place."""
    moving = set()
    for place in places:
        if place.is_leaving:
            evictable = (pod for pod in place.running if place.is_reclaimed or not stays(snapshot, pod))
            moving |= {pod.key for pod in evictable if must_move(pod)}
    return moving


def must_move(pod: Pod) -> bool:
    """Whether it runs elsewhere once its node is gone; a StatefulSet's pod is recreated even while it is being deleted."""
    if any(owner.kind in ("DaemonSet", "Node") for owner in pod.owners) or pod.phase in ("Failed", "Succeeded"):
        return False
    return pod.deleted_at is None or any(owner.kind == "StatefulSet" for owner in pod.owners)


def stays(snapshot: Snapshot, pod: Pod) -> bool:
    """Whether it may not be evicted, now or ever (Karpenter plans for such a pod only once it is gone)."""
    if pod.deleted_at is not None:
        return False
    if is_protected(pod, snapshot.now):
        return True
    if pod.phase == "Pending":
        return False  # the eviction API asks no budget about a pod that has not started
    guards = [b for b in snapshot.budgets if b.namespace == pod.namespace and selects(b.selector, pod.labels)]
    if tolerates(pod.spec.tolerations, [Taint(labels.DISRUPTED_TAINT, "NoSchedule")]):
        return False
    if len(guards) > 1:
        return True  # the eviction API answers with an error, whatever each of them says
    if pod.is_ready is False and any(guard.unhealthy_pod_eviction_policy == "AlwaysAllow" for guard in guards):
        return False
    return any(g.max_unavailable in ("0", "0%") or g.min_available == "100%" for g in guards)


def existing_places(snapshot: Snapshot) -> Iterator[Place]:
    """Nodes, and launched claims whose node has not joined."""
    claimed = set()
    for node in snapshot.nodes:
        claim = next((c for c in snapshot.node_claims if c.provider_id and c.provider_id == node.provider_id), None)
        if claim is not None:
            claimed.add(claim.name)
        yield _place(snapshot, node.name, node, claim)
    for claim in snapshot.node_claims:
        if claim.provider_id and claim.name not in claimed:
            yield _place(snapshot, claim.name, None, claim)


def lasting_taints(node: Node | None, claim: NodeClaim | None) -> tuple[Taint, ...]:
    """The taints that remain once the node is initialized; all of them if it is, or is none of ours."""
    source = node if node is not None else claim
    assert source is not None
    is_initialized = claim is None or (node is not None and node.labels.get(labels.INITIALIZED) == "true")
    if claim is None or is_initialized:
        return source.taints
    startup = {(taint.key, taint.effect, taint.value) for taint in claim.startup_taints}
    return tuple(t for t in source.taints if not _passes(t) and (t.key, t.effect, t.value) not in startup)


def _place(snapshot: Snapshot, name: str, node: Node | None, claim: NodeClaim | None) -> Place:
    source = node if node is not None else claim
    assert source is not None
    place_labels = {**source.labels}
    place_labels.setdefault(labels.HOSTNAME, name)
    if node is not None:
        place_labels[labels.NODE_NAME] = node.name
    taints = lasting_taints(node, claim)
    running = [
        pod
        for pod in snapshot.pods
        if node is not None and pod.node_name == node.name and pod.phase not in ("Failed", "Succeeded")
    ]
    here = {owner.name for pod in running for owner in pod.owners if owner.kind == "DaemonSet"}
    missing = [d for d in snapshot.daemon_sets if d.name not in here and runs_daemon(d, place_labels, taints)]
    is_leaving = node is not None and node.deleted_at is not None
    if claim is not None:
        is_ending = claim.is_true("InstanceTerminating")
        is_leaving |= is_ending or claim.deleted_at is not None or claim.name in snapshot.marked_for_deletion
    return Place(
        name,
        [Face(place_labels, dict(source.allocatable), missing)],
        taints,
        running,
        attach_limits=dict(node.attach_limits) if node is not None else {},
        is_leaving=is_leaving,
        is_reclaimed=claim is not None and claim.ends_at is not None,
        exists=node is not None,
    )


def _passes(taint: Taint) -> bool:
    return (taint.key, taint.effect) in _PASSING_TAINTS or taint.key.startswith("readiness.k8s.io/")


def runs_daemon(daemon_set: DaemonSet, labels_of_node: dict[str, str], taints: tuple[Taint, ...]) -> bool:
    """Whether a node gets the DaemonSet's pod."""
    return tolerates(daemon_set.spec.tolerations, taints) and wants_node(daemon_set.spec, labels_of_node)


def faces_of_claim(snapshot: Snapshot, claim: PlannedClaim) -> Iterator[Face]:
    """Every node that a planned claim may become: each type, zone and capacity type with an available offering."""
    catalogue = {kind.name: kind for kind in types_by_pool(snapshot, claim.node_pool)}
    for name in claim.instance_types:
        kind = catalogue.get(name)
        if kind is None:
            continue
        for offering in kind.offerings:
            bought = offering.zone in claim.zones and offering.capacity_type in claim.capacity_types
            if offering.available and bought:
                extra = {**claim.labels, labels.HOSTNAME: claim.name}
                for face_labels in node_labels(kind, offering, extra):
                    if meets_all((r for r in claim.requirements if r.key in known_keys(kind)), face_labels):
                        yield face_of(snapshot, kind, face_labels, claim.taints)


def known_keys(kind: InstanceType) -> set[str]:
    """Labels that distinguish the nodes that a type may become."""
    return {labels.RESERVATION_ID, *kind.labels}


def face_of(snapshot: Snapshot, kind: InstanceType, face_labels: dict[str, str], taints: tuple[Taint, ...]) -> Face:
    """A new node of a type with these labels."""
    daemons = [d for d in snapshot.daemon_sets if runs_daemon(d, face_labels, taints)]
    return Face(face_labels, room_of(kind), daemons, kind)


def node_labels(kind: InstanceType, offering: Offering, extra: dict[str, str]) -> Iterator[dict[str, str]]:
    """The labels of a new node, one set for each choice that the type leaves open."""
    keys = sorted(key for key in kind.labels if kind.labels[key])
    for values in product(*(kind.labels[key] for key in keys)):
        yield {
            **dict(zip(keys, values, strict=True)),
            labels.INSTANCE_TYPE: kind.name,
            labels.ZONE: offering.zone,
            labels.CAPACITY_TYPE: offering.capacity_type,
            labels.REGISTERED: "true",
            labels.INITIALIZED: "true",
            **({labels.RESERVATION_ID: offering.reservation_id} if offering.reservation_id else {}),
            **extra,
        }


def room_of(kind: InstanceType) -> dict[str, int]:
    """What pods may request on a new node of the type."""
    room = {name: amount - kind.overhead.get(name, 0) for name, amount in kind.capacity.items()}
    huge = sum(amount for name, amount in kind.capacity.items() if name.startswith("hugepages-"))
    if "memory" in room:
        room["memory"] = max(0, room["memory"] - huge)
    return room
