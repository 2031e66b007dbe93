"""The naive judge for plans of many thousand pods: checks every pod, node and rule in time linear in the plan.

What it does not support (volumes, host ports, limits, minValues, leaving nodes) is reported as a fault, so that no plan passes
unjudged. `judge.violations` supports all of it, for small plans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from core import labels
from core.model.catalogue import InstanceType
from core.model.node_pool import NodePool
from core.model.plan import Plan, PlannedClaim
from core.model.pod import DO_NOT_SCHEDULE, Pod, PodSpec, TopologySpread
from core.model.snapshot import Namespace, Snapshot
from core.model.values.requirements import Requirement
from tests.property.naive.large_topology import Site, large_topology_violations
from tests.property.naive.left_over import new_nodes
from tests.property.naive.places import is_pending, lasting_taints, node_labels, room_of, runs_daemon
from tests.property.naive.promises import cheapest, is_usable
from tests.property.naive.reading import meets_all, spread_selects, term_selects, tolerates, wants_node

# Whether topology spread and pod (anti-)affinity allow a pod to come last, to a new node of its own.


def has_rules(pod: Pod) -> bool:
    """Whether the pod has rules about other pods."""
    return bool(_hard(pod) or pod.spec.affinity or pod.spec.anti_affinity)


def can_be_asked(pod: Pod) -> bool:
    """Whether its spreads are over hosts and zones alone, each of which counts: a node selector may exclude some."""
    is_picky = pod.spec.node_selector or pod.spec.required_terms
    counted_keys = (labels.HOSTNAME, labels.ZONE)
    return not _hard(pod) or (not is_picky and all(spread.topology_key in counted_keys for spread in _hard(pod)))


def refusals(snapshot: Snapshot, sites: list[Site], pod: Pod, new_labels: dict[str, str]) -> Iterator[str]:
    """The topology keys of the rules that keep the pod from a new node with these labels, beside all pods of the sites."""
    everyone = [(other, site) for site in sites for other in (*site.running, *site.coming)]
    names = snapshot.namespaces
    for spread in _hard(pod):
        if spread.topology_key == labels.ZONE and _is_crowded(snapshot, spread, everyone, pod, new_labels[labels.ZONE]):
            yield spread.topology_key
    for term in pod.spec.affinity:
        selected = [site for other, site in everyone if _all_select(pod, other, names)]
        is_there = any(_is_beside(site, new_labels, term.topology_key) for site in selected)
        if not is_there and (selected or not _all_select(pod, pod, names)):
            yield term.topology_key
    for other, site in everyone:
        both = [term for term in pod.spec.anti_affinity if term_selects(term, pod, other, names)]
        both += [term for term in other.spec.anti_affinity if term_selects(term, other, pod, names)]
        yield from (term.topology_key for term in both if _is_beside(site, new_labels, term.topology_key))


def _all_select(pod: Pod, other: Pod, names: tuple[Namespace, ...]) -> bool:
    """Whether all terms of the pod's required affinity select another pod (kube-scheduler)."""
    return all(term_selects(term, pod, other, names) for term in pod.spec.affinity)


def _hard(pod: Pod) -> list[TopologySpread]:
    return [spread for spread in pod.spec.spreads if spread.when_unsatisfiable == DO_NOT_SCHEDULE]


def _is_beside(site: Site, new_labels: dict[str, str], key: str) -> bool:
    """Whether a site may share the domain of the new node, which has its hostname for itself."""
    return key != labels.HOSTNAME and new_labels.get(key) in site.values.get(key, ())


def _is_crowded(
    snapshot: Snapshot, spread: TopologySpread, everyone: list[tuple[Pod, Site]], pod: Pod, zone: str
) -> bool:
    """Whether one more pod in the zone would be too many, beside every zone in which any NodePool could launch."""
    counts = Counter(site.domain(labels.ZONE) for other, site in everyone if spread_selects(spread, pod, other))
    kinds = [kind for pool in snapshot.node_pools for kind in snapshot.catalogue.types_for(pool.node_class.name)]
    zones = {offering.zone for kind in kinds for offering in kind.offerings} | {*counts} - {None}
    least = 0 if len(zones) < (spread.min_domains or 0) else min(counts[name] for name in zones)
    return counts[zone] + spread_selects(spread, pod, pod) - least > spread.max_skew


# What pods need together, and where that is too much.


def total(specs: list[PodSpec]) -> dict[str, int]:
    """The sum of their requests."""
    total: dict[str, int] = {}
    for spec in specs:
        for name, amount in spec.requests.items():
            total[name] = total.get(name, 0) + amount
    return total


def overfull(name: str, needed: dict[str, int], room: dict[str, int]) -> Iterator[str]:
    """A line for each resource of which the node has too little."""
    for resource, amount in needed.items():
        if amount > room.get(resource, 0):
            yield f"room: {name} needs {amount} {resource} of {room.get(resource, 0)}"


# The pods that a large plan leaves without a place although a new node would hold them.


_FOUND_MAX = 20


def given_up(snapshot: Snapshot, plan: Plan, sites: list[Site]) -> Iterator[str]:
    """Unplaced pods that could have a new node for themselves after all others; of equal pods, only one, and a few at most.

    NodePool limits are not considered, nor pods of which `can_be_asked` says no.
    """
    pods = {pod.key: pod for pod in snapshot.pods}
    repelling = any(pod.spec.anti_affinity for pod in pods.values())
    seen_kinds: set[object] = set()
    count = 0
    for entry in plan.unschedulable:
        pod = pods[entry.pod]
        spec = msgspec.structs.replace(pod.spec, requests={})
        is_ruled = repelling or has_rules(pod)
        of = (pod.namespace, tuple(sorted(pod.labels.items()))) if is_ruled else ()
        kind = repr((spec, sorted(pod.spec.requests.items()), of))
        if kind in seen_kinds or not can_be_asked(pod):
            continue
        seen_kinds.add(kind)
        there = _place_for(snapshot, pod, sites if is_ruled else None)
        if there:
            count += 1
            yield f"left: {entry.pod} could have {there}"
        if count == _FOUND_MAX:
            return


def new_node_for(snapshot: Snapshot, pool: NodePool, pod: Pod) -> str:
    """A node of the NodePool that would hold the pod alone beside its DaemonSets; empty if there is none."""
    return next((_named(pool, kind, node_labels) for kind, node_labels in nodes_for(snapshot, pool, pod)), "")


def nodes_for(snapshot: Snapshot, pool: NodePool, pod: Pod) -> Iterator[tuple[InstanceType, dict[str, str]]]:
    """Every node of the NodePool, with its labels, that would hold the pod alone beside its DaemonSets."""
    if not is_usable(pool) or not tolerates(pod.spec.tolerations, pool.taints):
        return
    for kind, new_labels in new_nodes(snapshot, pool, pod):
        daemons = [daemon.spec for daemon in snapshot.daemon_sets if runs_daemon(daemon, new_labels, pool.taints)]
        if wants_node(pod.spec, new_labels) and not any(
            overfull(kind.name, total([pod.spec, *daemons]), room_of(kind))
        ):
            yield kind, new_labels


def _keys(snapshot: Snapshot) -> list[str]:
    """The topology keys of all rules, but for the hostname, which each new node has for itself."""
    terms = [term for pod in snapshot.pods for term in (*pod.spec.affinity, *pod.spec.anti_affinity)]
    return sorted({labels.ZONE, *(term.topology_key for term in terms)} - {labels.HOSTNAME})


def _place_for(snapshot: Snapshot, pod: Pod, sites: list[Site] | None) -> str:
    """A new node for the pod that breaks no rule of these sites, if there are any."""
    keys = _keys(snapshot) if sites is not None else []
    answers: dict[tuple[str | None, ...], bool] = {}
    for pool in snapshot.node_pools:
        for kind, new_labels in nodes_for(snapshot, pool, pod):
            where = tuple(new_labels.get(key) for key in keys)
            if where not in answers:
                answers[where] = sites is None or not any(refusals(snapshot, sites, pod, new_labels))
            if answers[where]:
                return _named(pool, kind, new_labels)
    return ""


def _named(pool: NodePool, kind: InstanceType, new_labels: dict[str, str]) -> str:
    return f"a {kind.name} of {pool.name} in {new_labels[labels.ZONE]}"


def large_plan_violations(snapshot: Snapshot, plan: Plan) -> list[str]:
    """The faults of a plan, one line each; the first word names the rule."""
    unknown = list(_not_judged(snapshot))
    if unknown:
        return unknown
    pods = {pod.key: pod for pod in snapshot.pods}
    faults = list(_each_pod_once(snapshot, plan, pods))
    if faults:
        return faults
    sites = [*_existing_sites(snapshot, plan, pods, faults), *_new_sites(snapshot, plan, pods, faults)]
    faults += given_up(snapshot, plan, sites)
    return faults + list(large_topology_violations(sites, snapshot.namespaces))


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


def _existing_sites(snapshot: Snapshot, plan: Plan, pods: dict[str, Pod], faults: list[str]) -> Iterator[Site]:
    running: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        if pod.node_name and pod.phase not in ("Failed", "Succeeded"):
            running.setdefault(pod.node_name, []).append(pod)
    coming: dict[str, list[Pod]] = {}
    for binding in plan.bindings:
        coming.setdefault(binding.node, []).append(pods[binding.pod])
    claims = {claim.provider_id: claim for claim in snapshot.node_claims if claim.provider_id}
    for node in snapshot.nodes:
        site_labels, taints = (
            {labels.HOSTNAME: node.name, **node.labels},
            lasting_taints(node, claims.get(node.provider_id)),
        )
        here, new = running.get(node.name, []), coming.pop(node.name, [])
        there = {owner.name for pod in here for owner in pod.owners if owner.kind == "DaemonSet"}
        missing = [d.spec for d in snapshot.daemon_sets if d.name not in there and runs_daemon(d, site_labels, taints)]
        if new:
            faults += overfull(node.name, total([pod.spec for pod in (*here, *new)] + missing), node.allocatable)
        for pod in new:
            if not wants_node(pod.spec, site_labels) or not tolerates(pod.spec.tolerations, taints):
                faults.append(f"selector: {pod.key} does not want or tolerate {node.name}")
        yield Site(node.name, {key: (value,) for key, value in site_labels.items()}, here, new)
    faults += [f"lists: pods are bound to {name}, which is no node" for name in sorted(coming)]


def _new_sites(snapshot: Snapshot, plan: Plan, pods: dict[str, Pod], faults: list[str]) -> Iterator[Site]:
    pools = {pool.name: pool for pool in snapshot.node_pools}
    kinds = {pool.name: _by_name(snapshot.catalogue.types_for(pool.node_class.name)) for pool in snapshot.node_pools}
    terms: dict[object, _Terms] = {}
    offers: dict[object, _Offers] = {}
    for claim in plan.claims:
        named = tuple(r for r in claim.requirements if r.key == labels.INSTANCE_TYPE)
        others = tuple(r for r in claim.requirements if r.key != labels.INSTANCE_TYPE)
        alike = (claim.node_pool, others, tuple(claim.labels.items()), claim.zones, claim.capacity_types, claim.taints)
        alike_terms = terms.setdefault(alike, _Terms(snapshot, pools[claim.node_pool], claim, kinds[claim.node_pool]))
        choice = (id(alike_terms), named, claim.instance_types)
        if choice not in offers:
            offers[choice] = _Offers(alike_terms, claim.instance_types, named)
        here = offers[choice]
        new = [pods[key] for key in claim.pods]
        faults += [f"{problem}, {claim.name}" for problem in here.problems]
        if claim.price != here.price:
            faults.append(f"price: {claim.name} says {claim.price}, the cheapest offering costs {here.price}")
        faults += overfull(claim.name, total([pod.spec for pod in new]), here.room)
        faults += [
            f"selector: {pod.key} cannot run on all that {claim.name} may be" for pod in new if not here.suits(pod)
        ]
        yield Site(claim.name, {**here.values, labels.HOSTNAME: (claim.name,)}, [], new)


def _by_name(kinds: tuple[InstanceType, ...]) -> dict[str, InstanceType]:
    return {kind.name: kind for kind in kinds}


@dataclass(eq=False)
class _Terms:
    """The restrictions of a claim besides its types, and the offerings of each type under them.

    Attributes:
        example: One claim with these terms.
        kinds: The NodePool's types by name.
    """

    snapshot: Snapshot
    pool: NodePool
    example: PlannedClaim
    kinds: dict[str, InstanceType]
    known: dict[str, _Bought] = field(default_factory=dict)

    def bought(self, name: str) -> _Bought:
        """A type under these terms."""
        if name not in self.known:
            self.known[name] = _Bought(self, self.kinds[name])
        return self.known[name]


@dataclass(eq=False)
class _Bought:
    """Every node that one type may become.

    Attributes:
        faces: Labels of each.
        room: What the smallest leaves for pods, resource by resource.
        values: Label → the values that it may have.
        is_allowed: Whether all of them meet the NodePool's and the claim's requirements.
    """

    terms: _Terms
    kind: InstanceType
    price: int | None = None
    faces: list[dict[str, str]] = field(default_factory=list)
    room: dict[str, int] = field(default_factory=dict)
    values: dict[str, set[str]] = field(default_factory=dict)
    is_allowed: bool = True
    known: dict[object, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pool, claim, daemons = self.terms.pool, self.terms.example, self.terms.snapshot.daemon_sets
        requirements = [r for r in claim.requirements if r.key != labels.INSTANCE_TYPE]
        own_rules = [r for r in requirements if r.key in self.kind.labels]
        self.price = cheapest(self.kind, claim)
        room = self.room = room_of(self.kind)
        for offering in self.kind.offerings:
            is_bought = offering.zone in claim.zones and offering.capacity_type in claim.capacity_types
            for face in (
                node_labels(self.kind, offering, dict(claim.labels)) if offering.available and is_bought else ()
            ):
                if not meets_all(own_rules, face):
                    continue
                self.faces.append(face)
                all_labels = {**face, **pool.labels, labels.NODEPOOL: pool.name}
                self.is_allowed = self.is_allowed and meets_all((*pool.requirements, *requirements), all_labels)
                taken = total([daemon.spec for daemon in daemons if runs_daemon(daemon, face, claim.taints)])
                self.room = {name: min(amount, room[name] - taken.get(name, 0)) for name, amount in self.room.items()}
                for key, value in face.items():
                    self.values.setdefault(key, set()).add(value)

    def suits(self, pod: Pod) -> bool:
        """Whether the pod can run on each of the nodes, taints aside."""
        question = (pod.spec.node_selector, pod.spec.required_terms)
        if question not in self.known:
            self.known[question] = all(wants_node(pod.spec, face) for face in self.faces)
        return self.known[question]


@dataclass(eq=False)
class _Offers:
    """Every node that claims with the same terms and types may become; `room` is that of the smallest."""

    terms: _Terms
    types: tuple[str, ...]
    named: tuple[Requirement, ...]
    bought: list[_Bought] = field(default_factory=list)
    room: dict[str, int] = field(default_factory=dict)
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    price: int = 0

    def __post_init__(self) -> None:
        pool, claim = self.terms.pool, self.terms.example
        self.bought = [self.terms.bought(name) for name in self.types if name in self.terms.kinds]
        if (
            not self.types
            or len(self.bought) < len(self.types)
            or any(bought_node.price is None for bought_node in self.bought)
        ):
            self.problems.append("offering: a type that is not on offer")
            return
        ranks = [(bought_node.price or 0, bought_node.kind.name) for bought_node in self.bought]
        self.price = ranks[0][0]
        if ranks != sorted(ranks):
            self.problems.append("price order: not the cheapest first")
        if not all(bought_node.is_allowed for bought_node in self.bought):
            self.problems.append("template: a type that breaks a requirement")
        if not all(meets_all(self.named, {labels.INSTANCE_TYPE: name}) for name in self.types):
            self.problems.append("template: a type that the claim's requirements do not name")
        if (claim.taints, claim.startup_taints) != (pool.taints, pool.startup_taints):
            self.problems.append("taints: not those of the NodePool")
        self.room = {
            name: min(bought_node.room.get(name, 0) for bought_node in self.bought) for name in self.bought[0].room
        }
        values: dict[str, set[str]] = {}
        for bought in self.bought:
            for key, label_values in bought.values.items():
                values.setdefault(key, set()).update(label_values)
        self.values = {key: tuple(sorted(key_values)) for key, key_values in values.items()}

    def suits(self, pod: Pod) -> bool:
        """Whether the pod can run on each of the nodes."""
        if not tolerates(pod.spec.tolerations, self.terms.example.taints):
            return False
        is_picky = pod.spec.node_selector or pod.spec.required_terms
        return not is_picky or all(bought_node.suits(pod) for bought_node in self.bought)
