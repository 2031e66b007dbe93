"""What every plan guarantees: each pod once, real offerings, prices, limits, the NodePool's own terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from core import labels
from core.model.catalogue import InstanceType
from core.model.node_pool import NodePool
from core.model.plan import Plan, PlannedClaim
from core.model.snapshot import Snapshot
from core.model.values.requirements import Requirement
from tests.property.naive.limits import quota_violations
from tests.property.naive.market import held_by, places_left, types_of
from tests.property.naive.places import Place, existing_places, is_pending, moving_pods, virtual_pods
from tests.property.naive.reading import meets


def promise_violations(snapshot: Snapshot, plan: Plan, places: list[Place]) -> Iterator[str]:
    """Every broken guarantee."""
    yield from _each_pod_once(snapshot, plan)
    yield from _known_nodes(places, plan)
    for place in places:
        if place.claim is not None:
            pool = next((pool for pool in snapshot.node_pools if pool.name == place.claim.node_pool), None)
            if pool is None or not is_usable(pool):
                yield f"pool: {place.name} is of NodePool {place.claim.node_pool}, which launches nothing"
            else:
                yield from claim_violations(snapshot, pool, place.claim, place)
    for pool in snapshot.node_pools:
        yield from limit_violations(snapshot, pool, plan)
    yield from quota_violations(snapshot, plan)
    yield from _reservations(snapshot, plan, places)
    yield from _rooms(snapshot, plan)
    yield from _explanations(plan)


def _reservations(snapshot: Snapshot, plan: Plan, places: list[Place]) -> Iterator[str]:
    """A claim uses at most one reservation, and all claims together use no more than is left."""
    for identity, free_places in sorted(places_left(snapshot, plan).items()):
        if free_places < 0:
            yield f"reservation: {-free_places} claims too many count on {identity}"
    for place in places:
        if place.claim is not None:
            may_be = {face.labels.get(labels.RESERVATION_ID, "") for face in place.faces}
            if may_be != set(held_by(place.claim) or ("",)):
                yield f"reservation: {place.name} holds {held_by(place.claim)} and may become one of {sorted(may_be)}"


def _rooms(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    """Every pod of a buffer is accounted for once."""
    virtual = sorted(virtual_pods(snapshot))
    named = [key for claim in plan.claims for key in claim.buffer_pods]
    if sorted(set(named)) != sorted(named) or not set(named) <= set(virtual):
        yield f"buffer: {named} are no virtual pods, or named twice"
    told = sum(room.on_existing + room.on_new + room.without_room for room in plan.buffers)
    if told != len(virtual) or sum(room.on_new for room in plan.buffers) != len(named):
        yield f"buffer: {plan.buffers} for {len(virtual)} virtual pods, {len(named)} of them on new nodes"


def _explanations(plan: Plan) -> Iterator[str]:
    """No pod is reported as unschedulable although a NodePool could take it."""
    for entry in plan.unschedulable:
        if not entry.reason or not entry.message or ": would do" in entry.message:
            yield f"explain: {entry.pod} is told {entry.reason}: {entry.message}"


def is_usable(pool: NodePool) -> bool:
    """Whether a NodePool launches nodes for pods."""
    return not pool.problem and pool.deleted_at is None and pool.replicas is None and pool.is_ready is not False


def _each_pod_once(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    named = [key for claim in plan.claims for key in claim.pods]
    named += [binding.pod for binding in plan.bindings]
    named += [entry.pod for entry in plan.unschedulable]
    waiting = {pod.key for pod in snapshot.pods if is_pending(snapshot, pod)}
    waiting |= moving_pods(snapshot, list(existing_places(snapshot)))
    for key in sorted(waiting | set(named)):
        if key not in waiting:
            yield f"lists: {key} is in the plan, but waits for nothing"
        elif named.count(key) != 1:
            yield f"lists: {key} is named {named.count(key)} times"


def _known_nodes(places: list[Place], plan: Plan) -> Iterator[str]:
    node_names = {place.name for place in places if place.claim is None}
    for binding in plan.bindings:
        if binding.node not in node_names:
            yield f"lists: {binding.pod} is bound to {binding.node}, which is no node"
    names = [claim.name for claim in plan.claims]
    if len(set(names)) != len(names):
        yield "lists: two claims share a name"


def claim_violations(snapshot: Snapshot, pool: NodePool, claim: PlannedClaim, place: Place) -> Iterator[str]:
    kinds = {kind.name: kind for kind in types_of(snapshot, pool)}
    if not claim.pods and not claim.buffer_pods:
        yield f"empty: {claim.name} is for nobody"
    if not claim.instance_types or any(name not in kinds for name in claim.instance_types):
        yield f"types: {claim.name} names {claim.instance_types}"
        return
    prices = [cheapest(kinds[name], claim) for name in claim.instance_types]
    if None in prices:
        yield f"offering: {claim.name} names types that are on offer nowhere: {claim.instance_types} {prices}"
        return
    ordered = sorted((price or 0, name) for price, name in zip(prices, claim.instance_types, strict=True))
    if [name for _, name in ordered] != list(claim.instance_types):
        yield f"price order: {claim.name} {list(zip(prices, claim.instance_types, strict=True))}"
    listed = ordered[0][0]
    if claim.price != (min(listed, max(1, listed // 10_000_000)) if claim.commitment else listed):
        yield f"price: {claim.name} says {claim.price}, the cheapest offering costs {listed}"
    if (claim.taints, claim.startup_taints) != (pool.taints, pool.startup_taints):
        yield f"taints: {claim.name} has not those of its NodePool"
    yield from _template(pool, claim, place)
    yield from _resources(snapshot, claim)
    if snapshot.options.min_values_policy == "Strict":
        chosen = [kinds[name] for name in claim.instance_types]
        for key in too_few(_values_left(chosen, pool, claim), pool.requirements):
            yield f"minValues: {claim.name} has too few values of {key}"


def cheapest(kind: InstanceType, claim: PlannedClaim) -> int | None:
    """The lowest price at which the claim may buy a type; None if it may nowhere."""
    prices = [
        offering.price
        for offering in kind.offerings
        if offering.available and offering.zone in claim.zones and offering.capacity_type in claim.capacity_types
        if not offering.reservation_id or offering.reservation_id in held_by(claim)
    ]
    return min(prices) if prices else None


def _template(pool: NodePool, claim: PlannedClaim, place: Place) -> Iterator[str]:
    """The NodePool allows every node that the claim may become, and the claim describes it."""
    wanted = {**pool.labels, labels.NODEPOOL: pool.name}
    for face in place.faces:
        kind = face.instance_type.name if face.instance_type else ""
        for key, value in wanted.items():
            if face.labels.get(key) != value:
                yield f"template: {claim.name} as {kind} has {key}={face.labels.get(key)}, not {value}"
        for requirement in (*pool.requirements, *claim.requirements):
            if not meets(requirement, face.labels):
                yield f"template: {claim.name} as {kind} breaks {requirement}"
        for key, value in claim.labels.items():
            if face.instance_type and value not in face.instance_type.labels.get(key, (value,)):
                yield f"template: {claim.name} as {kind} cannot have {key}={value}"


def _resources(snapshot: Snapshot, claim: PlannedClaim) -> Iterator[str]:
    pods = virtual_pods(snapshot) | {pod.key: pod for pod in snapshot.pods}
    total: dict[str, int] = {}
    for key in (*claim.pods, *claim.buffer_pods):
        if key in pods:
            for name, amount in pods[key].spec.requests.items():
                total[name] = total.get(name, 0) + amount
    for name, amount in sorted(total.items()):
        if claim.resources.get(name, 0) < amount:
            yield f"resources: {claim.name} states {claim.resources.get(name)} {name}, its pods request {amount}"


def _values_left(kinds: Iterable[InstanceType], pool: NodePool, claim: PlannedClaim) -> dict[str, set[str]]:
    """The values of each label of these types that the claim and its NodePool admit, for the labels with minValues."""
    values = {
        requirement.key: {value for kind in kinds for value in own_values(kind, requirement.key)}
        for requirement in pool.requirements
    }
    for requirement in (*pool.requirements, *claim.requirements):
        if requirement.key in values:
            values[requirement.key] = {value for value in values[requirement.key] if requirement.has(value)}
    for key, offered in ((labels.ZONE, claim.zones), (labels.CAPACITY_TYPE, claim.capacity_types)):
        values[key] = values.get(key, set()) & set(offered)
    return values


def too_few(values: Mapping[str, set[str]], requirements: Iterable[Requirement]) -> list[str]:
    """Keys of the requirements whose minValues these values, by key, do not reach (Karpenter 1.15, SatisfiesMinValues).

    Only values that a node may still have are counted, as of 1.15: a pod that demands a zone leaves one.
    """
    return [
        requirement.key
        for requirement in requirements
        if requirement.min_values and len(values.get(requirement.key, ())) < requirement.min_values
    ]


def own_values(kind: InstanceType, key: str) -> set[str]:
    """The values of a label that nodes of a type may have."""
    if key == labels.INSTANCE_TYPE:
        return {kind.name}
    if key == labels.ZONE:
        return {offering.zone for offering in kind.offerings if offering.available}
    if key == labels.CAPACITY_TYPE:
        return {offering.capacity_type for offering in kind.offerings if offering.available}
    return set(kind.labels.get(key, ()))


def taken(snapshot: Snapshot, pool: NodePool, plan: Plan) -> dict[str, int]:
    """A NodePool's usage once the plan is carried out with the largest types that its claims allow."""
    used: dict[str, int] = {}

    def take(amounts: dict[str, int]) -> None:
        for name, amount in {**amounts, "nodes": 1}.items():
            used[name] = used.get(name, 0) + amount

    joined = {node.provider_id for node in snapshot.nodes if node.provider_id}
    leaving = [c for c in snapshot.node_claims if c.deleted_at or c.is_true("InstanceTerminating")]
    leaving += [c for c in snapshot.node_claims if c.name in snapshot.marked_for_deletion]
    going = {c.provider_id for c in leaving}
    for node in snapshot.nodes:
        is_going = (node.provider_id and node.provider_id in going) or node.deleted_at is not None
        if node.labels.get(labels.NODEPOOL) == pool.name and not is_going:
            take(node.capacity)
    for unjoined in snapshot.node_claims:
        is_ours = unjoined.node_pool == pool.name and unjoined.provider_id not in joined
        if is_ours and unjoined not in leaving:
            take(unjoined.capacity if unjoined.provider_id else unjoined.resources)
    kinds = {kind.name: kind for kind in types_of(snapshot, pool)}
    for claim in plan.claims:
        if claim.node_pool == pool.name:
            sizes = [kinds[name].capacity for name in claim.instance_types if name in kinds]
            names = {name for size in sizes for name in size}
            take({name: max(size.get(name, 0) for size in sizes) for name in names})
    return used


def limit_violations(snapshot: Snapshot, pool: NodePool, plan: Plan) -> Iterator[str]:
    if not any(claim.node_pool == pool.name for claim in plan.claims):
        return
    used = taken(snapshot, pool, plan)
    for name, limit in pool.limits.items():
        if used.get(name, 0) > limit:
            yield f"limit: NodePool {pool.name} may come to {used.get(name, 0)} {name} of {limit}"
