"""The naive judge for plans of many thousand pods: every pod, node and rule is looked at, in time linear in the plan.

What it does not know (volumes, host ports, limits, minValues, nodes on their way out) it names as a fault, so that no plan
passes unjudged. `judge.violations` knows all of that, for small plans.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from core import labels
from core.model.catalogue import InstanceType
from core.model.node_pool import NodePool
from core.model.plan import Plan, PlannedClaim
from core.model.pod import Pod, PodSpec
from core.model.snapshot import Snapshot
from tests.property.naive.large_topology import Site, large_topology_violations
from tests.property.naive.places import is_pending, node_labels, room_of, runs_daemon
from tests.property.naive.promises import cheapest
from tests.property.naive.reading import meets_all, tolerates, wants_node


def large_plan_violations(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Everything that is wrong with a plan, one line each; the first word names the rule."""
    unknown = list(_not_judged(snapshot))
    if unknown:
        return unknown
    pods = {pod.key: pod for pod in snapshot.pods}
    found = list(_each_pod_once(snapshot, plan, pods))
    if found:
        return found
    sites = [*_existing_sites(snapshot, plan, pods, found), *_new_sites(snapshot, plan, pods, found)]
    return found + list(large_topology_violations(sites, snapshot.namespaces))


def _not_judged(snapshot: Snapshot) -> Iterator[str]:
    for pod in snapshot.pods:
        if pod.spec.host_ports or pod.spec.volumes or pod.spec.resource_claims or pod.deleted_at is not None:
            yield f"not judged: {pod.key} has host ports, volumes or resource claims, or is going"
    for pool in snapshot.node_pools:
        if pool.limits or any(requirement.min_values for requirement in pool.requirements):
            yield f"not judged: NodePool {pool.name} has limits or minValues"
    if snapshot.marked_for_deletion or any(claim.deleted_at for claim in snapshot.node_claims):
        yield "not judged: nodes are going"
    if any(not claim.node_name for claim in snapshot.node_claims):
        yield "not judged: nodes are on their way"


def _each_pod_once(snapshot: Snapshot, plan: Plan, pods: dict[str, Pod]) -> Iterator[str]:
    seen: dict[str, int] = {}
    named = [key for claim in plan.claims for key in claim.pods]
    for key in (*named, *(binding.pod for binding in plan.bindings), *(entry.pod for entry in plan.unschedulable)):
        seen[key] = seen.get(key, 0) + 1
    waiting = {key for key, pod in pods.items() if is_pending(snapshot, pod)}
    for key in sorted(waiting | seen.keys()):
        if key not in waiting:
            yield f"lists: {key} is in the plan, but waits for nothing"
        elif seen.get(key, 0) != 1:
            yield f"lists: {key} is named {seen.get(key, 0)} times"


def _existing_sites(snapshot: Snapshot, plan: Plan, pods: dict[str, Pod], found: list[str]) -> Iterator[Site]:
    running: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        if pod.node_name and pod.phase not in ("Failed", "Succeeded"):
            running.setdefault(pod.node_name, []).append(pod)
    coming: dict[str, list[Pod]] = {}
    for binding in plan.bindings:
        coming.setdefault(binding.node, []).append(pods[binding.pod])
    for node in snapshot.nodes:
        own = {labels.HOSTNAME: node.name, **node.labels}
        here, new = running.get(node.name, []), coming.pop(node.name, [])
        missing = [daemon.spec for daemon in snapshot.daemon_sets if runs_daemon(daemon, own, node.taints)]
        if new:
            found += _overfull(node.name, _total([pod.spec for pod in (*here, *new)] + missing), node.allocatable)
        for pod in new:
            if not wants_node(pod.spec, own) or not tolerates(pod.spec.tolerations, node.taints):
                found.append(f"selector: {pod.key} does not want or tolerate {node.name}")
        yield Site(node.name, {key: (value,) for key, value in own.items()}, here, new)
    found += [f"lists: pods are bound to {name}, which is no node" for name in sorted(coming)]


def _new_sites(snapshot: Snapshot, plan: Plan, pods: dict[str, Pod], found: list[str]) -> Iterator[Site]:
    pools = {pool.name: pool for pool in snapshot.node_pools}
    offers: dict[object, _Offers] = {}
    for claim in plan.claims:
        terms = (
            claim.node_pool, claim.requirements, tuple(claim.labels.items()), claim.zones, claim.capacity_types, claim.taints,
            claim.instance_types,
        )  # fmt: skip
        if terms not in offers:
            offers[terms] = _Offers(snapshot, pools[claim.node_pool], claim)
        here = offers[terms]
        new = [pods[key] for key in claim.pods]
        found += [f"{problem}, {claim.name}" for problem in here.problems]
        if claim.price != here.price:
            found.append(f"price: {claim.name} says {claim.price}, the cheapest offering costs {here.price}")
        found += _overfull(claim.name, _total([pod.spec for pod in new]), here.room)
        found += [f"selector: {pod.key} cannot run on all that {claim.name} may be" for pod in new if not here.suits(pod)]
        yield Site(claim.name, {**here.values, labels.HOSTNAME: (claim.name,)}, [], new)


def _total(specs: list[PodSpec]) -> dict[str, int]:
    total: dict[str, int] = {}
    for spec in specs:
        for name, amount in spec.requests.items():
            total[name] = total.get(name, 0) + amount
    return total


def _overfull(name: str, needed: dict[str, int], room: dict[str, int]) -> Iterator[str]:
    for resource, amount in needed.items():
        if amount > room.get(resource, 0):
            yield f"room: {name} needs {amount} {resource} of {room.get(resource, 0)}"


@dataclass(eq=False)
class _Offers:
    """Every node that claims with the same terms may become.

    Attributes:
        faces: Labels of each.
        room: What the smallest of them leaves for pods, resource by resource.
        values: Label → the values that it may have.
    """

    snapshot: Snapshot
    pool: NodePool
    claim: PlannedClaim
    faces: list[dict[str, str]] = field(default_factory=list)
    room: dict[str, int] = field(default_factory=dict)
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    price: int = 0
    known: dict[object, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kinds = {kind.name: kind for kind in self.snapshot.catalogue.types_for(self.pool.node_class.name)}
        chosen = [kinds[name] for name in self.claim.instance_types if name in kinds]
        rooms = [self._take(kind) for kind in chosen]
        prices = [cheapest(kind, self.claim) for kind in chosen]
        if len(chosen) < len(self.claim.instance_types) or not chosen or None in prices:
            self.problems.append("offering: a type that is not on offer")
            return
        ranks = [(price or 0, kind.name) for price, kind in zip(prices, chosen, strict=True)]
        if ranks != sorted(ranks):
            self.problems.append("price order: not the cheapest first")
        if (self.claim.taints, self.claim.startup_taints) != (self.pool.taints, self.pool.startup_taints):
            self.problems.append("taints: not those of the NodePool")
        self.price = ranks[0][0]
        self.room = {name: min(room.get(name, 0) for room in rooms) for name in rooms[0]}
        values: dict[str, set[str]] = {}
        for face in self.faces:
            for key, value in face.items():
                values.setdefault(key, set()).add(value)
        self.values = {key: tuple(sorted(each)) for key, each in values.items()}

    def _take(self, kind: InstanceType) -> dict[str, int]:
        """Note the nodes of one type; returns the room of the smallest."""
        room = room_of(kind)
        least = dict(room)
        for offering in kind.offerings:
            is_bought = offering.zone in self.claim.zones and offering.capacity_type in self.claim.capacity_types
            for own in node_labels(kind, offering, dict(self.claim.labels)) if offering.available and is_bought else ():
                if not meets_all((r for r in self.claim.requirements if r.key in kind.labels), own):
                    continue
                self.faces.append(own)
                asked = (*self.pool.requirements, *self.claim.requirements)
                if not meets_all(asked, {**own, **self.pool.labels, labels.NODEPOOL: self.pool.name}):
                    self.problems.append(f"template: {kind.name} breaks a requirement")
                daemons = [d.spec for d in self.snapshot.daemon_sets if runs_daemon(d, own, self.claim.taints)]
                taken = _total(daemons)
                least = {name: min(least[name], amount - taken.get(name, 0)) for name, amount in room.items()}
        return least

    def suits(self, pod: Pod) -> bool:
        """Whether the pod can be on each of the nodes."""
        spec = pod.spec
        if not (self.claim.taints or spec.node_selector or spec.required_terms):
            return True
        question = (spec.node_selector, spec.required_terms, spec.tolerations)
        if question not in self.known:
            wanted = all(wants_node(spec, face) for face in self.faces)
            self.known[question] = wanted and tolerates(spec.tolerations, self.claim.taints)
        return self.known[question]
