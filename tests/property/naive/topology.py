"""Judges topology spread and pod (anti-)affinity as kube-scheduler reads them.

Spread and affinity apply at the moment when a pod is placed, so a plan is valid if the scheduler could place its pods one after
the other in some order. Anti-affinity applies at every moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random

from core import labels
from core.model.pod import Pod, PodAffinityTerm, TopologySpread
from core.model.snapshot import Snapshot
from tests.property.naive.places import OPEN, Place
from tests.property.naive.reading import spread_selects, spreads_of, term_selects, tolerates, wants_node

_ORDERS = 260
"""How many orders are tried before a plan is called impossible."""

_ORDERS_BY_TURN = 6
"""How many retries move the unplaced pods to the front; every second retry also moves pods without rules to the back."""

_ORDERS_GROUPED = 200
"""How many of the next retries keep equal pods together; all later ones shuffle single pods."""

Located = dict[str, int]
"""Pod key → number of the place where it is."""


@dataclass(eq=False)
class SpreadView:
    """One spread constraint of one pod over some places.

    Attributes:
        domain_of: Place number → domain, for the places that the constraint counts.
        domains: All domains that count.
        selected: Keys of the pods that count.
    """

    spread: TopologySpread
    domain_of: dict[int, str]
    domains: set[str]
    selected: set[str]
    selects_self: bool
    starts_at_zero: bool = False

    def refuses(self, domain: str | None, located: Located, at_least: SpreadView | None = None) -> str:
        """Why the pod may not be placed in a domain now; empty if it may.

        Args:
            domain: Where it would go.
            located: Where the others are.
            at_least: Another reading of the constraint, whose domains count for the minimum.
        """
        key = self.spread.topology_key
        if domain is None:
            return f"no {key}"
        if domain == OPEN:
            return ""
        here = self.counts(located).get(domain, 0)
        counts = (at_least or self).counts(located)
        least = min((here if other == domain else count for other, count in counts.items()), default=0)
        if len(counts) < (self.spread.min_domains or 0) or self.starts_at_zero:
            least = 0
        skew = here + self.selects_self - least
        return f"{key} {dict(sorted(counts.items()))}" if skew > self.spread.max_skew else ""

    def counts(self, located: Located) -> dict[str, int]:
        """Domain → selected pods."""
        counts = dict.fromkeys(self.domains, 0)
        for pod in self.selected:
            where = self.domain_of.get(located.get(pod, -1))
            if where is not None:
                counts[where] = counts.get(where, 0) + 1
        return counts


@dataclass(eq=False)
class TermView:
    """One (anti-)affinity term of one pod, with the keys of the other pods that it selects."""

    term: PodAffinityTerm
    selected: set[str]
    selects_self: bool


class Rules:
    """The hard topology rules of all pods over some places, each computed on first use."""

    def __init__(self, snapshot: Snapshot, places: list[Place]) -> None:
        self.snapshot = snapshot
        self.places = places
        self.pods = {pod.key: pod for place in places for pod in (*place.running, *place.coming)}
        self.fading = {pod.key for place in places for pod in place.running if pod.deleted_at is not None}
        self.located = {p.key: i for i, place in enumerate(places) for p in (*place.running, *place.coming)}

    def spreads(self, pod: Pod, *, eligible: Callable[[Iterable[bool]], bool] = any) -> list[SpreadView]:
        """The pod's DoNotSchedule constraints. `eligible` decides about claims that may or may not count."""
        hard = [s for s in spreads_of(self.snapshot, pod) if s.when_unsatisfiable == "DoNotSchedule"]
        keys = {spread.topology_key for spread in hard}
        views = []
        for spread in hard:
            seen: dict[int, str] = {}
            for number, place in enumerate(self.places):
                domain = place.domain(spread.topology_key)
                has_all = all(place.domain(key) is not None for key in keys)
                if has_all and domain not in (None, OPEN) and looks_at(spread, pod, place, eligible):
                    assert domain is not None
                    seen[number] = domain
            selected = {key for key, other in self.pods.items() if key != pod.key and self._counts(spread, pod, other)}
            domains = {
                domain for number, domain in seen.items() if self._counts_empty(pod, self.places[number], spread)
            }
            views.append(SpreadView(spread, seen, domains, selected, spread_selects(spread, pod, pod)))
        return views

    def _counts_empty(self, pod: Pod, place: Place, spread: TopologySpread) -> bool:
        """Whether a place creates a domain even without pods.

        A node that is launched for other pods may come too late. It counts if its domain was expected: not if only
        nodeAffinityPolicy Ignore makes it a domain, nor if a NodePool leaves the label open.
        """
        if place.claim is None:
            return True
        pool = next(pool for pool in self.snapshot.node_pools if pool.name == place.claim.node_pool)
        is_open = any(r.key == spread.topology_key and r.complement for r in pool.requirements)
        is_offered = spread.topology_key in self.snapshot.catalogue.label_keys()
        if is_open and not is_offered and spread.topology_key not in labels.WELL_KNOWN:
            return False
        return any(wants_node(pod.spec, face.labels) for face in place.faces)

    def affinity(self, pod: Pod) -> list[TermView]:
        """The pod's required affinity: for each term, the pods that all of its terms select (kube-scheduler)."""
        views = self.terms(pod, pod.spec.affinity)
        picked = set.intersection(*(view.selected for view in views)) if views else set()
        is_own = all(view.selects_self for view in views)
        return [TermView(view.term, picked, is_own) for view in views]

    def terms(self, pod: Pod, terms: Iterable[PodAffinityTerm]) -> list[TermView]:
        """The pods that each term selects."""
        views = []
        for term in terms:
            picked = {k for k, o in self.pods.items() if k != pod.key and self._picks(term, pod, o)}
            views.append(TermView(term, picked, self._picks(term, pod, pod)))
        return views

    def counts(self, pod: Pod) -> bool:
        """Whether a spread counts a pod: not a terminating one, but the successor of one that is planned for."""
        return pod.key not in self.fading

    def _counts(self, spread: TopologySpread, owner: Pod, other: Pod) -> bool:
        return self.counts(other) and spread_selects(spread, owner, other)

    def _picks(self, term: PodAffinityTerm, owner: Pod, other: Pod) -> bool:
        """Whether a term selects a pod, which counts until it is gone (kube-scheduler)."""
        return term_selects(term, owner, other, self.snapshot.namespaces)

    def lacks_company(self, owner: Pod, terms: list[TermView], place: Place, located: Located) -> str:
        """Why a required affinity is not met; empty if it is. The first pod of a group that selects itself needs no other."""
        keys = [view.term.topology_key for view in terms]
        is_first = all(view.selects_self for view in terms) and not any(
            self.places[located[pod]].domain(key) is not None
            for view in terms
            for pod in view.selected
            if pod in located
            for key in keys
        )
        comes_along = self._daemon_comes_along(owner, terms, place)
        for view in terms:
            key = view.term.topology_key
            domain = place.domain(key)
            if domain is None:
                return f"no {key}"
            if domain == OPEN or comes_along:
                continue
            where = [self.places[located[pod]].domain(key) for pod in view.selected if pod in located]
            if domain not in where and not is_first:
                return f"nobody by {key}={domain}"
        return ""

    def _daemon_comes_along(self, owner: Pod, terms: list[TermView], place: Place) -> bool:
        """Whether a DaemonSet's pod that every node of a claim, or a node that is there, has yet to get meets all terms."""
        met: list[set[str]] = []
        for face in place.faces:
            names = set()
            for daemon in face.daemons:
                other = Pod(name=daemon.name, namespace=daemon.namespace, labels=daemon.labels, spec=daemon.spec)
                if all(term_selects(view.term, owner, other, self.snapshot.namespaces) for view in terms):
                    names.add(daemon.name)
            met.append(names)
        return bool(met) and all(met)


def looks_at(spread: TopologySpread, owner: Pod, place: Place, eligible: Callable[[Iterable[bool]], bool]) -> bool:
    """Whether a constraint counts a node (nodeAffinityPolicy, nodeTaintsPolicy)."""
    if spread.node_taints_policy == "Honor" and not tolerates(owner.spec.tolerations, place.taints):
        return False
    if spread.node_affinity_policy != "Honor":
        return True
    return eligible(wants_node(owner.spec, face.labels) for face in place.faces)


def topology_violations(snapshot: Snapshot, places: list[Place]) -> Iterator[str]:
    """Every placement in the finished plan that the scheduler could not have made."""
    rules = Rules(snapshot, places)
    yield from _open_domains(rules)
    yield from too_near_violations(rules)
    yield from _stuck(rules, any) or _stuck(rules, all)


def too_near(rules: Rules, pod: Pod, place: Place) -> str:
    """Pods that are too near to the pod in a place, by its own rule or by theirs; empty if none."""
    if not rules.counts(pod):
        return ""
    for view in rules.terms(pod, pod.spec.anti_affinity):
        for other in sorted(view.selected):
            if _same(rules, view.term.topology_key, place, other):
                return f"{pod.key} keeps away from {other} by {view.term.topology_key}"
    for other, number in sorted(rules.located.items()):
        owner = rules.pods[other]
        if other == pod.key:
            continue
        for term in owner.spec.anti_affinity:
            domain = place.domain(term.topology_key)
            shared = domain is not None and domain == rules.places[number].domain(term.topology_key)
            if shared and term_selects(term, owner, pod, rules.snapshot.namespaces):
                return f"{other} keeps away from {pod.key} by {term.topology_key}"
    return _too_near_a_daemon(rules, pod, place)


def _too_near_a_daemon(rules: Rules, pod: Pod, place: Place) -> str:
    """The DaemonSet whose pod comes with a new node, as one of its faces at least, and keeps apart from the pod; else empty."""
    names = rules.snapshot.namespaces
    coming = {(d.namespace, d.name): d for face in place.faces for d in face.daemons} if _is_new(place) else {}
    for _, daemon in sorted(coming.items()):
        company = Pod(namespace=daemon.namespace, name=daemon.name, labels=daemon.labels, spec=daemon.spec)
        for owner, other in ((pod, company), (company, pod)):
            for term in owner.spec.anti_affinity:
                if place.domain(term.topology_key) is not None and term_selects(term, owner, other, names):
                    return f"{owner.key} keeps away from {other.key} by {term.topology_key}"
    return ""


def _is_new(place: Place) -> bool:
    """Whether a place is a new node, planned or possible; on existing ones, DaemonSets' pods count once they are there."""
    return all(face.instance_type is not None for face in place.faces)


def _same(rules: Rules, key: str, place: Place, other: str) -> bool:
    domain = place.domain(key)
    return domain is not None and other in rules.located and rules.places[rules.located[other]].domain(key) == domain


def too_near_violations(rules: Rules) -> Iterator[str]:
    for place in rules.places:
        for pod in place.coming:
            problem = too_near(rules, pod, place)
            if problem:
                yield f"anti-affinity: {problem} at {place.name}"


def _open_domains(rules: Rules) -> Iterator[str]:
    """Claims with a pod under a rule along some key must have exactly one value of it."""
    everyone = list(rules.pods.values())
    for place in rules.places:
        if place.claim is None:
            continue
        for key in sorted({key for face in place.faces for key in face.labels} - {labels.HOSTNAME}):
            if place.domain(key) == OPEN:
                for pod in place.coming:
                    owner = _concerning(rules, pod, key, everyone)
                    if owner is not None:
                        yield f"open: {pod.key} is on {place.name} with {key} open, a rule of {owner.key} concerns it"
                        break


def _concerning(rules: Rules, pod: Pod, key: str, everyone: list[Pod]) -> Pod | None:
    for owner in everyone:
        is_own = owner.key == pod.key
        for spread in spreads_of(rules.snapshot, owner):
            is_hard = spread.topology_key == key and spread.when_unsatisfiable == "DoNotSchedule"
            if is_hard and (is_own or spread_selects(spread, owner, pod)):
                return owner
        names = rules.snapshot.namespaces
        is_near = is_own or all(term_selects(term, owner, pod, names) for term in owner.spec.affinity)
        if is_near and any(term.topology_key == key for term in owner.spec.affinity):
            return owner
        for term in owner.spec.anti_affinity:
            speaks = is_own or term_selects(term, owner, pod, names)
            if term.topology_key == key and speaks:
                return owner
    return None


def _stuck(rules: Rules, eligible: Callable[[Iterable[bool]], bool]) -> list[str]:
    """The pods that cannot be placed in any order that was tried, with the reason; empty if some order works."""
    coming = {pod.key: number for number, place in enumerate(rules.places) for pod in place.coming}
    views = {key: rules.spreads(rules.pods[key], eligible=eligible) for key in coming}
    terms = {key: rules.affinity(rules.pods[key]) for key in coming}
    ruled = sorted(key for key in coming if views[key] or terms[key])
    mentioned = {pod for key in ruled for view in views[key] for pod in view.selected}
    mentioned |= {pod for key in ruled for term in terms[key] for pod in term.selected}
    free = sorted(key for key in coming if key in mentioned and key not in ruled)
    fixed = {key: number for key, number in rules.located.items() if key not in coming}

    def refusal(key: str, located: Located) -> str:
        place = rules.places[coming[key]]
        for view in views[key]:
            why = view.refuses(place.domain(view.spread.topology_key), located)
            if why:
                return f"spread: {key} at {place.name}: {why}"
        why = rules.lacks_company(rules.pods[key], terms[key], place, located)
        return f"affinity: {key} at {place.name}: {why}" if why else ""

    best: list[str] = []
    order = sorted([*ruled, *free], key=lambda key: _queue_place(rules.pods[key]))
    for attempt in range(_ORDERS):
        unplaced, located = _settle(list(order), dict(fixed), coming, refusal)
        if not unplaced:
            return []
        problems = [refusal(key, located) for key in unplaced]
        if not best or len(problems) < len(best):
            best = problems
        dice = Random(attempt)  # noqa: S311 - a test's dice
        if attempt < _ORDERS_BY_TURN:
            late = free if attempt % 2 else ()
            order.sort(key=lambda key: (key in late, key not in unplaced))
        elif attempt < _ORDERS_BY_TURN + _ORDERS_GROUPED:
            order = _reordered(rules, order, unplaced, dice)
        else:
            dice.shuffle(order)
    return best


def _queue_place(pod: Pod) -> tuple[int, int, str]:
    """Where the pod stands in the queue: the largest first (Karpenter)."""
    requests = pod.spec.requests
    return (-requests.get("cpu", 0), -requests.get("memory", 0), pod.key)


def _reordered(rules: Rules, order: list[str], unplaced: list[str], dice: Random) -> list[str]:
    """Another order to try: alike pods of a zone or a place together, groups shuffled, usually the unplaced pods first."""
    grain = dice.choice((None, labels.ZONE, labels.HOSTNAME))
    groups: dict[tuple[int, str | None], list[str]] = {}
    for key in order:
        where = rules.places[rules.located[key]].domain(grain) if grain else None
        groups.setdefault((id(rules.pods[key].spec), where), []).append(key)
    shuffled = list(groups.values())
    dice.shuffle(shuffled)
    if dice.random() < 0.7:
        shuffled.sort(key=lambda group: not any(key in unplaced for key in group))
    for group in shuffled:
        dice.shuffle(group)
        if dice.random() < 0.5:
            group.sort(key=lambda key: key not in unplaced)
    return [key for group in shuffled for key in group]


def _settle(
    order: list[str], located: Located, goal: Located, refusal: Callable[[str, Located], str]
) -> tuple[list[str], Located]:
    """Place pods on their planned nodes, always the first in order that is allowed; returns the rest."""
    while order:
        ready = next((key for key in order if not refusal(key, located)), None)
        if ready is None:
            break
        order.remove(ready)
        located[ready] = goal[ready]
    return order, located
