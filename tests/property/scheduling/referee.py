"""A second, naive reading of the Kubernetes scheduler's hard rules, to judge plans by. It shares no code with the planner.

It looks at the end of a plan, pod by pod and node by node, without any index. What a launched node may turn out to be is
tried out value by value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.node_pool import NodePool
from core.model.plan import Plan, PlannedClaim
from core.model.pod import LabelSelector, NodeSelectorTerm, Pod, PodAffinityTerm, TopologySpread
from core.model.requirements import Requirement
from core.model.snapshot import Snapshot
from core.model.taints import Taint


@dataclass
class Place:
    """A node, there or planned, with the labels that are certain."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    pods: list[Pod] = field(default_factory=list)
    claim: PlannedClaim | None = None


def complaints(world: Snapshot, plan: Plan) -> Iterator[str]:
    """Everything that the Kubernetes scheduler would refuse, or that breaks a promise of the plan."""
    places = places_of(world, plan)
    yield from _each_pod_once(world, plan)
    for place in places:
        yield from _room(world, place)
        yield from _ports(place)
        for pod in place.pods:
            if not pod.node_name:
                yield from _own_rules(pod, place)
    yield from _neighbours(places)
    yield from _spreads(world, places)
    yield from _limits(world, plan)


def left_behind(world: Snapshot, plan: Plan) -> Iterator[str]:
    """Pods without a place although a node that could be launched would hold them."""
    places = places_of(world, plan)
    pods = {pod.key: pod for pod in world.pods}
    for entry in plan.unschedulable:
        pod = pods[entry.pod]
        for pool in world.node_pools:
            for instance_type in world.catalogue.default:
                for offering in instance_type.offerings:
                    if _would_hold(world, plan, places, pod, pool, instance_type, offering):
                        yield f"{pod.key} ({entry.reason}) would do on {pool.name} {instance_type.name} {offering.zone}"


def places_of(world: Snapshot, plan: Plan) -> list[Place]:
    """Every node with its pods as they are after the plan."""
    pods = {pod.key: pod for pod in world.pods}
    places = {node.name: Place(node.name, node.labels, node.taints) for node in world.nodes}
    for pod in world.pods:
        if pod.node_name in places and pod.phase == "Running":
            places[pod.node_name].pods.append(pod)
    for binding in plan.bindings:
        places[binding.node].pods.append(pods[binding.pod])
    for claim in plan.claims:
        places[claim.name] = Place(
            claim.name, _certain(world, claim), claim.taints, [pods[k] for k in claim.pods], claim
        )
    return list(places.values())


def _certain(world: Snapshot, claim: PlannedClaim) -> dict[str, str]:
    found = {**claim.labels, labels.HOSTNAME: claim.name}
    types = [t for t in world.catalogue.default if t.name in claim.instance_types]
    for key in {key for t in types for key in t.labels}:
        values = {t.labels.get(key) for t in types}
        if len(values) == 1 and (only := values.pop()) is not None and len(only) == 1:
            found[key] = only[0]
    if len(claim.zones) == 1:
        found[labels.ZONE] = claim.zones[0]
    if len(claim.capacity_types) == 1:
        found[labels.CAPACITY_TYPE] = claim.capacity_types[0]
    return found


def _each_pod_once(world: Snapshot, plan: Plan) -> Iterator[str]:
    named = (
        [b.pod for b in plan.bindings] + [u.pod for u in plan.unschedulable] + [p for c in plan.claims for p in c.pods]
    )
    waiting = sorted(pod.key for pod in world.pods if not pod.node_name)
    if sorted(named) != waiting:
        yield f"pods {sorted(set(waiting) ^ set(named))} are missing or named twice"


def _room(world: Snapshot, place: Place) -> Iterator[str]:
    if place.claim is None:
        node = next(n for n in world.nodes if n.name == place.name)
        sizes = [(node.name, node.allocatable)]
    else:
        chosen = [t for t in world.catalogue.default if t.name in place.claim.instance_types]
        sizes = [(t.name, t.allocatable()) for t in chosen]
        for t in chosen:
            zones_and_kinds = [(o.zone, o.capacity_type) for o in t.offerings if o.available]
            if not any(z in place.claim.zones and k in place.claim.capacity_types for z, k in zones_and_kinds):
                yield f"{place.name}: {t.name} is on offer nowhere"
    taken: dict[str, int] = {}
    for spec in [pod.spec for pod in place.pods] + [daemon.spec for daemon in world.daemon_sets]:
        for name, amount in spec.requests.items():
            taken[name] = taken.get(name, 0) + amount
    for size, room in sizes:
        for name, amount in taken.items():
            if amount > room.get(name, 0):
                yield f"{place.name} as {size}: {name} {amount} of {room.get(name, 0)}"


def _ports(place: Place) -> Iterator[str]:
    seen: set[int] = set()
    for pod in place.pods:
        for port in pod.spec.host_ports:
            if port.port in seen and not pod.node_name:
                yield f"{place.name}: port {port.port} twice"
            seen.add(port.port)


def _own_rules(pod: Pod, place: Place) -> Iterator[str]:
    if not _tolerates(pod, place.taints):
        yield f"{pod.key} does not tolerate {place.name}"
    if not _node_affinity(pod, place.labels):
        yield f"{pod.key} does not want a node such as {place.name} {dict(place.labels)}"


def _tolerates(pod: Pod, taints: tuple[Taint, ...]) -> bool:
    hard = [taint for taint in taints if taint.effect in ("NoSchedule", "NoExecute")]
    return all(
        any((t.key in ("", taint.key)) and t.effect in ("", taint.effect) and (t.operator == "Exists" or t.value == taint.value)
            for t in pod.spec.tolerations)
        for taint in hard
    )  # fmt: skip


def _node_affinity(pod: Pod, own: Mapping[str, str]) -> bool:
    if not all(_holds(requirement, own) for requirement in pod.spec.node_selector):
        return False
    return not pod.spec.required_terms or any(_term(term, own) for term in pod.spec.required_terms)


def _term(term: NodeSelectorTerm, own: Mapping[str, str]) -> bool:
    return bool(term.requirements) and all(_holds(requirement, own) for requirement in term.requirements)


def _holds(requirement: Requirement, own: Mapping[str, str]) -> bool:
    value = own.get(requirement.key)
    if requirement.operator == "In":
        return value in requirement.values
    if requirement.operator == "NotIn":
        return value not in requirement.values
    return (value is not None) == (requirement.operator == "Exists")


def _selected(selector: LabelSelector | None, pod: Pod) -> bool:
    return selector is not None and all(_holds(requirement, pod.labels) for requirement in selector.requirements)


def _near(term: PodAffinityTerm, place: Place, places: list[Place], me: Pod) -> list[Pod]:
    domain = place.labels.get(term.topology_key)
    if domain is None:
        return []
    same = [other for other in places if other.labels.get(term.topology_key) == domain]
    return [pod for other in same for pod in other.pods if pod is not me and _selected(term.selector, pod)]


def _neighbours(places: list[Place]) -> Iterator[str]:
    for place in places:
        for pod in place.pods:
            for term in pod.spec.anti_affinity:
                for other in _near(term, place, places, pod):
                    if not (pod.node_name and other.node_name):
                        yield f"{pod.key} is too near {other.key} by {term.topology_key}"
                if term.topology_key not in place.labels and not pod.node_name:
                    yield f"{pod.key}: {place.name} is not held to one {term.topology_key}"
            if not pod.node_name:
                yield from _affinity(pod, place, places)


def _affinity(pod: Pod, place: Place, places: list[Place]) -> Iterator[str]:
    for term in pod.spec.affinity:
        if term.topology_key not in place.labels:
            yield f"{pod.key}: {place.name} is not held to one {term.topology_key}"
        elif not _near(term, place, places, pod):
            others = [p for other in places for p in other.pods if p is not pod and _selected(term.selector, p)]
            elsewhere = [p for p in others if p.node_name or place.name == "fresh"]
            if not _selected(term.selector, pod) or elsewhere:
                yield f"{pod.key} is near nobody by {term.topology_key}"


def _spreads(world: Snapshot, places: list[Place]) -> Iterator[str]:
    for place in places:
        for pod in place.pods:
            for spread in pod.spec.spreads:
                if not pod.node_name and spread.when_unsatisfiable == "DoNotSchedule":
                    yield from _spread(spread, pod, place, places)


def _spread(spread: TopologySpread, pod: Pod, place: Place, places: list[Place]) -> Iterator[str]:
    """The skew at the end is at most the skew at the moment of placing, where all newcomers obey the constraint."""
    domain = place.labels.get(spread.topology_key)
    if domain is None:
        yield f"{pod.key}: {place.name} is not held to one {spread.topology_key}"
        return
    eligible = [other for other in places if spread.topology_key in other.labels and _node_affinity(pod, other.labels)]
    counts: dict[str, int] = {}
    newcomers = []
    for other in eligible:
        selected = [p for p in other.pods if _selected(spread.selector, p)]
        newcomers += [p for p in selected if not p.node_name]
        where = other.labels[spread.topology_key]
        counts[where] = counts.get(where, 0) + len(selected)
    if not all(p.spec is pod.spec for p in newcomers):
        return
    least = 0 if spread.topology_key == labels.HOSTNAME else min(counts.values())
    if counts[domain] + (not _selected(spread.selector, pod)) * 0 - least > spread.max_skew:
        yield f"{pod.key}: {spread.topology_key} has {counts}"


def _limits(world: Snapshot, plan: Plan) -> Iterator[str]:
    for pool in world.node_pools:
        for name, limit in pool.limits.items():
            if _launched(world, plan, pool, name) > limit:
                yield f"{pool.name} may launch {_launched(world, plan, pool, name)} {name} of {limit}"


def _launched(world: Snapshot, plan: Plan, pool: NodePool, name: str) -> int:
    own = [claim for claim in plan.claims if claim.node_pool == pool.name]
    if name == "nodes":
        return len(own)
    sizes = {t.name: t.capacity.get(name, 0) for t in world.catalogue.default}
    return sum(max(sizes[t] for t in claim.instance_types) for claim in own)


def _would_hold(
    world: Snapshot, plan: Plan, places: list[Place], pod: Pod, pool: NodePool, kind: InstanceType, offering: Offering
) -> bool:
    asked = {r.key: r for r in pool.requirements}
    own = {**pool.labels, **{key: values[0] for key, values in kind.labels.items()}, labels.NODEPOOL: pool.name}
    own |= {labels.ZONE: offering.zone, labels.CAPACITY_TYPE: offering.capacity_type, labels.HOSTNAME: "fresh"}
    if not offering.available or not all(_holds(r, own) for r in asked.values()):
        return False
    for name, limit in pool.limits.items():
        more = 1 if name == "nodes" else kind.capacity.get(name, 0)
        if _launched(world, plan, pool, name) + more > limit:
            return False
    fresh = Place("fresh", own, pool.taints, [pod])
    claim = PlannedClaim(
        name="fresh", node_pool=pool.name, node_class=pool.node_class, instance_types=(kind.name,),
        zones=(offering.zone,), capacity_types=(offering.capacity_type,),
    )  # fmt: skip
    fresh.claim = claim
    after = [*places, fresh]
    broken = [*_room(world, fresh), *_own_rules(pod, fresh), *_affinity(pod, fresh, after)]
    broken += [c for c in _neighbours(after) if pod.key in c]
    return not broken and all(
        _spread_admits(world, spread, pod, fresh, after)
        for spread in pod.spec.spreads
        if spread.when_unsatisfiable == "DoNotSchedule"
    )


def _spread_admits(world: Snapshot, spread: TopologySpread, pod: Pod, fresh: Place, after: list[Place]) -> bool:
    """Strictly, as Karpenter counts: every domain that some NodePool could make counts, empty or not."""
    if spread.topology_key == labels.HOSTNAME:
        return True
    most = dict.fromkeys(_possible(world, spread.topology_key), 0)
    least = dict(most)
    for place in after:
        where = place.labels.get(spread.topology_key)
        if where is not None:
            here = sum(1 for p in place.pods if _selected(spread.selector, p) and p is not pod)
            most[where] = most.get(where, 0) + here * _might_suit(pod, place)
            least[where] = least.get(where, 0) + here * _node_affinity(pod, place.labels)
    where = fresh.labels[spread.topology_key]
    least[where] = most[where]
    reachable = [n for domain, n in least.items() if _may_be_at(pod, spread.topology_key, domain) or domain == where]
    return most[where] + _selected(spread.selector, pod) - min(reachable) <= spread.max_skew


def _might_suit(pod: Pod, place: Place) -> bool:
    """Whether a node could meet the pod's node affinity; a claim may still become what it does not say."""
    if place.claim is None or place.name == "fresh":
        return _node_affinity(pod, place.labels)
    open_keys = {labels.ZONE, labels.CAPACITY_TYPE, labels.INSTANCE_TYPE} - set(place.labels)
    certain = [r for r in pod.spec.node_selector if r.key not in open_keys]
    terms = [[r for r in term.requirements if r.key not in open_keys] for term in pod.spec.required_terms]
    own = place.labels
    return all(_holds(r, own) for r in certain) and (not terms or any(all(_holds(r, own) for r in t) for t in terms))


def _may_be_at(pod: Pod, key: str, domain: str) -> bool:
    chosen = [r for r in pod.spec.node_selector if r.key == key]
    terms = [[r for r in term.requirements if r.key == key] for term in pod.spec.required_terms]
    own = {key: domain}
    return all(_holds(r, own) for r in chosen) and (
        not terms or any(all(_holds(r, own) for r in term) for term in terms)
    )


def _possible(world: Snapshot, key: str) -> set[str]:
    found: set[str] = set()
    for pool in world.node_pools:
        for kind in world.catalogue.default:
            for offering in kind.offerings:
                own = {**pool.labels, labels.ZONE: offering.zone, labels.CAPACITY_TYPE: offering.capacity_type}
                if all(_holds(r, own) for r in pool.requirements) and key in own:
                    found.add(own[key])
    return found
