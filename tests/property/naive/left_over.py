"""Finds pods without a place although one exists: an empty new node, an existing node, or a claim of the plan.

The finished plan is checked with all other pods on their planned nodes. If virtual pods of capacity buffers have a place, real
pods are not checked: the scheduler does not see virtual pods, and they come last. The same cluster without buffers leaves the
same pods over (`fuzz.disturbed`). An ambiguous rule (about a domain that exists only once a node is launched there) is read
strictly, so every fault is a real loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from core import labels
from core.model.catalogue import Catalogue, InstanceType
from core.model.node_pool import NodePool
from core.model.plan import INITIALIZED, LAUNCHED, REGISTERED, Condition, NodeClaim, Plan, PlannedClaim
from core.model.pod import Pod, TopologySpread
from core.model.snapshot import DaemonSet, Node, Snapshot
from core.model.values.requirements import Requirement
from tests.property.naive.limits import leaves_room
from tests.property.naive.market import places_left, types_by_pool, types_of
from tests.property.naive.node_rules import EBS, face_problems, is_overfull, node_violations, volume_fault
from tests.property.naive.places import (
    Face,
    Place,
    face_of,
    faces_of_claim,
    node_labels,
    places_after,
    room_of,
    runs_daemon,
    virtual_pods,
)
from tests.property.naive.promises import is_usable, own_values, promise_violations, taken, too_few
from tests.property.naive.reading import meets_all, spreads_of, term_selects, tolerates, wants_node
from tests.property.naive.topology import Rules, too_near, topology_violations

_FRESH = "(a new node)"


def left_unplaced(snapshot: Snapshot, plan: Plan, places: list[Place]) -> Iterator[str]:
    """Every pod that the plan leaves over although it could have a place."""
    pods = {pod.key: pod for pod in snapshot.pods}
    yield from _rooms_forgone(snapshot, plan, places)
    virtual = virtual_pods(snapshot)
    if any(pod.key in virtual for place in places for pod in place.coming):
        return
    seen_kinds: set[object] = set()
    for entry in plan.unschedulable:
        pod = pods[entry.pod]
        kind = (
            pod.namespace,
            tuple(sorted(pod.labels.items())),
            repr(pod.spec),
            "" if not pod.spec.volumes else pod.key,
        )
        if kind in seen_kinds or _is_refused_outright(snapshot, pod):
            continue
        seen_kinds.add(kind)
        possible_place = could_run_at(snapshot, plan, places, pod)
        if possible_place:
            yield f"left unplaced: {entry.pod} ({entry.reason}) could run at {possible_place}"


def _rooms_forgone(snapshot: Snapshot, plan: Plan, places: list[Place]) -> Iterator[str]:
    """Buffers that lack a pod although a NodePool could launch a node for one more."""
    lacking = {room.buffer for room in plan.buffers if room.without_room}
    for pod in virtual_pods(snapshot).values():
        buffer = f"{pod.namespace}/{pod.name.removeprefix('capacity-buffer-').rpartition('-')[0]}"
        if buffer in lacking:
            lacking.remove(buffer)
            for pool in filter(is_usable, snapshot.node_pools):
                new_node = tolerates(pod.spec.tolerations, pool.taints) and _new_node(snapshot, plan, places, pod, pool)
                if new_node:
                    yield f"left unplaced: a pod of buffer {buffer} could run at {new_node}"


def _is_refused_outright(snapshot: Snapshot, pod: Pod) -> bool:
    """Whether no node is looked for: broken volumes, resource claims."""
    return bool(volume_fault(snapshot, pod) or pod.spec.resource_claims)


def _has_no_new_node(snapshot: Snapshot, pod: Pod) -> bool:
    """Whether no node is launched for any alternative of the node affinity: names of nodes, restricted labels."""
    known_keys = labels.WELL_KNOWN | snapshot.catalogue.label_keys()
    terms = [term.requirements for term in pod.spec.required_terms if term.requirements and not term.uses_fields]
    return all(
        any(
            (r.key == labels.NODE_NAME and not r.complement)
            or (labels.is_restricted(r.key) and r.key not in known_keys)
            or (r.key == labels.NODEPOOL and r.operator == "DoesNotExist")
            for r in (*pod.spec.node_selector, *term)
        )
        for term in terms or [()]
    )


def could_run_at(snapshot: Snapshot, plan: Plan, places: list[Place], pod: Pod) -> str:
    """The first place that would hold the pod; empty if there is none."""
    for place in places:
        if place.is_leaving or not tolerates(pod.spec.tolerations, place.taints):
            continue
        if place.claim is not None and _has_min_values(snapshot, place):
            continue
        for face in place.faces:
            only = _narrowed(place, face)
            if is_overfull(only, face, pod) or any(face_problems(snapshot, only, face, [*place.coming, pod])):
                continue
            if not _meets_daemons(snapshot, pod, face) and _welcomes(snapshot, places, pod, only, place):
                return f"{place.name} as {face.labels}" if place.claim else place.name
    for pool in snapshot.node_pools if not _has_no_new_node(snapshot, pod) else ():
        if is_usable(pool) and tolerates(pod.spec.tolerations, pool.taints):
            new_node = _new_node(snapshot, plan, places, pod, pool)
            if new_node:
                return new_node
    return ""


def _meets_daemons(snapshot: Snapshot, pod: Pod, face: Face) -> bool:
    """Whether a DaemonSet's pod that comes with the node keeps the pod away, or the other way round (kube-scheduler)."""
    for daemon in face.daemons:
        company = Pod(name=daemon.name, namespace=daemon.namespace, labels=daemon.labels, spec=daemon.spec)
        for owner, other in ((pod, company), (company, pod)):
            for term in owner.spec.anti_affinity:
                if term.topology_key in face.labels and term_selects(term, owner, other, snapshot.namespaces):
                    return True
    return False


def _has_min_values(snapshot: Snapshot, place: Place) -> bool:
    pool = next(pool for pool in snapshot.node_pools if place.claim and pool.name == place.claim.node_pool)
    return any(requirement.min_values for requirement in pool.requirements)


def _narrowed(place: Place, face: Face) -> Place:
    return Place(
        place.name,
        [face],
        place.taints,
        place.running,
        place.coming,
        place.attach_limits,
        place.claim,
        exists=place.exists,
    )


def _welcomes(snapshot: Snapshot, places: list[Place], pod: Pod, there: Place, instead_of: Place | None) -> bool:
    """Whether the topology rules allow the pod at a place after all others."""
    others = [place for place in places if place is not instead_of]
    rules = Rules(snapshot, [*others, there])
    if too_near(rules, pod, there):
        return False
    for most, fewest in zip(rules.spreads(pod, eligible=any), rules.spreads(pod, eligible=all), strict=True):
        for view in (most, fewest):
            view.domains |= _possible_domains(snapshot, pod, view.spread)
            view.starts_at_zero = view.spread.topology_key == labels.HOSTNAME
        if most.refuses(there.domain(most.spread.topology_key), rules.located, fewest):
            return False
    return not rules.lacks_company(pod, rules.affinity(pod), there, rules.located)


def _possible_domains(snapshot: Snapshot, pod: Pod, spread: TopologySpread) -> set[str]:
    """Domains that a NodePool could create and the constraint counts."""
    key = spread.topology_key
    honors_taints = spread.node_taints_policy == "Honor"
    honors_affinity = spread.node_affinity_policy == "Honor"
    domains = set()
    for pool in snapshot.node_pools:
        if not is_usable(pool) or (honors_taints and not tolerates(pod.spec.tolerations, pool.taints)):
            continue
        for _, new_labels in new_nodes(snapshot, pool, pod):
            if key in new_labels and (not honors_affinity or wants_node(pod.spec, new_labels)):
                domains.add(new_labels[key])
    return domains


def new_nodes(snapshot: Snapshot, pool: NodePool, pod: Pod) -> Iterator[tuple[InstanceType, dict[str, str]]]:
    """Every node that a NodePool could launch: the type and its labels."""
    reference = f"{pool.node_class.group}/{pool.node_class.kind.lower()}"
    fixed = {**pool.labels, labels.NODEPOOL: pool.name, labels.HOSTNAME: _FRESH, reference: pool.node_class.name}
    known_keys = labels.WELL_KNOWN | snapshot.catalogue.label_keys()
    custom = {
        requirement.key: _choices(requirement.key, pool, pod)
        for requirement in pool.requirements
        if requirement.key not in known_keys and requirement.key not in fixed
    }
    for kind in types_of(snapshot, pool):
        for offering in kind.offerings:
            if offering.available:
                for offered_labels in node_labels(kind, offering, {}):
                    if all(offered_labels.get(key, value) == value for key, value in fixed.items()):
                        yield from (
                            (kind, node_labels)
                            for node_labels in _with_custom({**offered_labels, **fixed}, pool, custom)
                        )


def _with_custom(base_labels: dict[str, str], pool: NodePool, custom: dict[str, list[str]]) -> Iterator[dict[str, str]]:
    """The labels, with a value or none for each further label that the NodePool's requirements name."""
    ways = [base_labels]
    for key, values in custom.items():
        ways += [{**way, key: value} for way in ways for value in values]
    for way in ways:
        if meets_all(pool.requirements, way):
            yield way


def _choices(key: str, pool: NodePool, pod: Pod) -> list[str]:
    """Values worth trying: those that any object names, and the smallest numbers."""
    requirements = [*pool.requirements, *_asked(pod)]
    named = [value for requirement in requirements if requirement.key == key for value in requirement.values]
    lowest = max((requirement.gte or 0 for requirement in requirements if requirement.key == key), default=0)
    numbers = [str(lowest + step) for step in range(4)]
    required = [requirement for requirement in pool.requirements if requirement.key == key]
    return [value for value in dict.fromkeys((*named, *numbers)) if meets_all(required, {key: value})]


def _new_node(snapshot: Snapshot, plan: Plan, places: list[Place], pod: Pod, pool: NodePool) -> str:
    """A new node of the pool that the pod could have for itself."""
    used = taken(snapshot, pool, plan)
    if any(used.get(name, 0) > limit for name, limit in pool.limits.items()):
        return ""
    if used.get("nodes", 0) + 1 > pool.limits.get("nodes", 1 << 60):
        return ""
    answers: dict[object, bool] = {}
    keys = _rule_keys(snapshot)
    values: dict[object, dict[str, set[str]]] = {}
    nodes = list(new_nodes(snapshot, pool, pod))
    daemons = _daemons_by_type(snapshot, pool, nodes)
    free_places = places_left(snapshot, plan)
    for kind, new_labels in nodes:
        if labels.RESERVATION_ID in new_labels and free_places.get(new_labels[labels.RESERVATION_ID], 0) <= 0:
            continue
        if not wants_node(pod.spec, new_labels) or _breaks_limits(pool, kind, used):
            continue
        if snapshot.vcpu_quotas and not leaves_room(snapshot, plan, kind, new_labels[labels.CAPACITY_TYPE]):
            continue
        if not _fits_alone(snapshot, pod, Face(new_labels, room_of(kind), daemons[kind.name], kind)):
            continue
        face = face_of(snapshot, kind, new_labels, pool.taints)
        there = Place(_FRESH, [face], pool.taints, exists=False)
        question = (
            *(new_labels.get(key) for key in (*keys, labels.RESERVATION_ID, *(r.key for r in _asked(pod)))),
            *(f"{daemon.namespace}/{daemon.name}" for daemon in face.daemons),
        )
        if question not in answers:
            answers[question] = _welcomes(snapshot, places, pod, there, None)
        if answers[question]:
            values_left = values.setdefault(question, {})
            for key in {requirement.key for requirement in pool.requirements} & new_labels.keys():
                values_left.setdefault(key, set()).update({new_labels[key]} & own_values(kind, key))
            if not too_few(values_left, pool.requirements):
                return f"{pool.name} {kind.name} {new_labels[labels.ZONE]} {new_labels[labels.CAPACITY_TYPE]}"
    return ""


def _asked(pod: Pod) -> list[Requirement]:
    return [*pod.spec.node_selector, *(r for term in pod.spec.required_terms for r in term.requirements)]


def _rule_keys(snapshot: Snapshot) -> list[str]:
    keys = set()
    for pod in snapshot.pods:
        keys |= {spread.topology_key for spread in spreads_of(snapshot, pod)}
        keys |= {term.topology_key for term in (*pod.spec.affinity, *pod.spec.anti_affinity)}
    return sorted(keys - {labels.HOSTNAME})


def _daemons_by_type(
    snapshot: Snapshot, pool: NodePool, nodes: list[tuple[InstanceType, dict[str, str]]]
) -> dict[str, list[DaemonSet]]:
    """DaemonSets that count for a type: those with a pod on some node of that type in the pool (Karpenter)."""
    by_type: dict[str, list[DaemonSet]] = {kind.name: [] for kind, _ in nodes}
    for daemon in snapshot.daemon_sets:
        for name in {kind.name for kind, labels_there in nodes if runs_daemon(daemon, labels_there, pool.taints)}:
            by_type[name].append(daemon)
    return by_type


def _breaks_limits(pool: NodePool, kind: InstanceType, used: dict[str, int]) -> bool:
    return any(
        name != "nodes" and used.get(name, 0) + kind.capacity.get(name, 0) > limit
        for name, limit in pool.limits.items()
    )


def _fits_alone(snapshot: Snapshot, pod: Pod, face: Face) -> bool:
    """Whether an empty node would hold the pod."""
    there = Place(_FRESH, [face])
    return not is_overfull(there, face, pod) and not any(face_problems(snapshot, there, face, [pod]))


# A second, naive implementation of every hard constraint, to judge plans. It shares no code with the planner.


def violations(snapshot: Snapshot, plan: Plan) -> list[str]:
    """The faults of a plan, one line each; the first word names the rule."""
    places = places_after(snapshot, plan)
    faults = list(promise_violations(snapshot, plan, places))
    for place in places:
        faults += node_violations(snapshot, place)
    faults += topology_violations(snapshot, places)
    return faults or list(left_unplaced(snapshot, plan, places))


# Laws between plans: the order of the input does not matter, and a plan that is carried out needs no second plan.


def carried_out(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The cluster once every claim has become the cheapest node that it may be and every pod is on its planned node."""
    pods = {pod.key: pod for pod in snapshot.pods}
    nodes, claims = list(snapshot.nodes), list(snapshot.node_claims)
    for binding in plan.bindings:
        pods[binding.pod] = _bound(pods[binding.pod], binding.node)
    for planned in plan.claims:
        claim, node = launched(snapshot, planned, f"new-{planned.name}")
        claims.append(claim)
        nodes.append(node)
        for key in planned.pods:
            pods[key] = _bound(pods[key], node.name)
    return msgspec.structs.replace(
        snapshot,
        pods=tuple(pods.values()),
        nodes=tuple(nodes),
        node_claims=tuple(claims),
        catalogue=_with_places(snapshot.catalogue, places_left(snapshot, plan)),
    )


def _with_places(catalogue: Catalogue, free_places: dict[str, int]) -> Catalogue:
    """The catalogue once the claims have used their reservations."""
    types = tuple(
        msgspec.structs.replace(
            kind,
            offerings=tuple(
                msgspec.structs.replace(
                    o, reservation_capacity=free_places.get(o.reservation_id, o.reservation_capacity)
                )
                for o in kind.offerings
            ),
        )
        for kind in catalogue.default
    )
    return msgspec.structs.replace(catalogue, default=types)


def _bound(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, node_name=node, phase="Running")


def launched(snapshot: Snapshot, planned: PlannedClaim, name: str) -> tuple[NodeClaim, Node]:
    """The claim and node with that name that the cheapest offering of a planned claim becomes."""
    kinds = {kind.name: kind for kind in types_by_pool(snapshot, planned.node_pool)}

    def price(zone: str, capacity_type: str, kind: str) -> tuple[int, str, str, str]:
        offered = [
            o.price
            for o in kinds[kind].offerings
            if (o.zone, o.capacity_type, o.available) == (zone, capacity_type, True)
        ]
        return (min(offered), kind, zone, capacity_type)

    face = min(
        faces_of_claim(snapshot, planned),
        key=lambda f: price(f.labels[labels.ZONE], f.labels[labels.CAPACITY_TYPE], f.labels[labels.INSTANCE_TYPE]),
    )
    kind = kinds[face.labels[labels.INSTANCE_TYPE]]
    shape: dict[str, Any] = {"capacity": kind.capacity, "allocatable": face.room}
    claim_labels = {**face.labels, labels.HOSTNAME: name, labels.NODEPOOL: planned.node_pool}
    claim = NodeClaim(
        name=planned.name, labels=claim_labels, taints=planned.taints, startup_taints=planned.startup_taints,
        requirements=planned.requirements, resources=planned.resources, node_class=planned.node_class, created_at=snapshot.now,
        provider_id=f"aws:///i-{name}", node_name=name,
        conditions={c: Condition("True", changed_at=snapshot.now) for c in (LAUNCHED, REGISTERED, INITIALIZED)}, **shape,
    )  # fmt: skip
    node = Node(
        name=name, labels=claim_labels, taints=planned.taints, provider_id=claim.provider_id, created_at=snapshot.now,
        is_ready=True,
        attach_limits={EBS: kind.attach_limit} if kind.attach_limit is not None else {}, **shape,
    )  # fmt: skip
    return claim, node
