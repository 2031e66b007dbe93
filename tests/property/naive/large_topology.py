"""Topology spread and pod (anti-)affinity of large plans: is there an order in which a scheduler could place the pods?

Equal pods share their rules, and a rule keeps its counts, so that placing a pod takes constant time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random

from core import labels
from core.model.pod import Pod, PodAffinityTerm, TopologySpread
from core.model.snapshot import Namespace
from tests.property.naive.reading import spread_selects, term_selects

_SHUFFLES = 3
"""How many further orders are tried before a plan is called impossible."""

_PASSES_MAX = 5_000


@dataclass(eq=False)
class Site:
    """An existing or planned node.

    Attributes:
        values: Label → the values that the node may turn out to have.
    """

    name: str
    values: dict[str, tuple[str, ...]]
    running: list[Pod]
    coming: list[Pod]

    def domain(self, key: str) -> str | None:
        """Its value of a label; None if it has none or the value is still open."""
        label_values = self.values.get(key, ())
        return label_values[0] if len(label_values) == 1 else None


@dataclass(eq=False)
class Rule:
    """One rule of some pods about others: a spread constraint or an affinity term, with its counts so far."""

    key: str
    owner: Pod
    spread: TopologySpread | None = None
    term: PodAffinityTerm | None = None
    counts: Counter[str] = field(default_factory=Counter)
    domains_by_count: Counter[int] = field(default_factory=Counter)
    least: int = 0
    total: int = 0
    selects_own: bool = False

    def reset(self, domains: Iterable[str]) -> None:
        """Reset all counts to these domains."""
        self.counts = Counter(dict.fromkeys(domains, 0))
        self.domains_by_count = Counter({0: len(self.counts)})
        self.least = self.total = 0

    def add(self, domain: str | None) -> None:
        """Count one pod that the rule selects."""
        self.total += 1
        if domain is None:
            return
        before = self.counts[domain]
        self.counts[domain] = before + 1
        self.domains_by_count[before] -= 1
        self.domains_by_count[before + 1] += 1
        while not self.domains_by_count[self.least]:
            self.least += 1

    def allows(self, domain: str | None) -> bool:
        """Whether one of its owners may be placed in a domain now."""
        if domain is None:
            return False
        if self.spread is None:
            return self.counts[domain] > 0 or (self.total == 0 and self.selects_own)
        too_few = len(self.counts) < (self.spread.min_domains or 0)
        skew = self.counts[domain] + self.selects_own - (0 if too_few else self.least)
        return skew <= self.spread.max_skew


@dataclass(eq=False)
class Kind:
    """Pods with equal labels and rules.

    Attributes:
        holds: Rules that allow or refuse a place to these pods when they are placed.
        keeps_away: Their anti-affinity terms.
        counted_by: Rules for which they count.
    """

    example: Pod
    holds: list[Rule] = field(default_factory=list)
    keeps_away: list[Rule] = field(default_factory=list)
    counted_by: list[Rule] = field(default_factory=list)


def large_topology_violations(sites: list[Site], namespaces: tuple[Namespace, ...]) -> Iterator[str]:
    """Placements that the scheduler could not have made."""
    kinds: dict[object, Kind] = {}
    kind_of = {}
    for site in sites:
        for pod in (*site.running, *site.coming):
            alike = (pod.namespace, tuple(sorted(pod.labels.items())), *_rules_of(pod))
            kind_of[pod.key] = kinds.setdefault(alike, Kind(pod))
    rules = _connected(list(kinds.values()), namespaces)
    placed = [(pod, site, kind_of[pod.key]) for site in sites for pod in site.coming]
    for pod, _, kind in placed:
        picky = (kind.holds or kind.keeps_away) and (pod.spec.node_selector or pod.spec.required_terms)
        if picky and any(rule.key != labels.HOSTNAME for rule in kind.holds):
            yield f"not judged: {pod.key} has both topology rules and a node selector"
            return
    yield from _open(placed)
    yield from _too_near(sites, kind_of)
    yield from _stuck(sites, placed, kind_of, rules)


def _rules_of(pod: Pod) -> tuple[object, ...]:
    hard = tuple(spread for spread in pod.spec.spreads if spread.when_unsatisfiable == "DoNotSchedule")
    return (hard, pod.spec.affinity, pod.spec.anti_affinity)


def _connected(kinds: list[Kind], namespaces: tuple[Namespace, ...]) -> list[Rule]:
    """Every rule, linked to its owners and to the pods that it counts. Equal rules about the same pods are merged."""
    rules: dict[object, tuple[Rule, set[int], bool]] = {}
    for kind in kinds:
        example = kind.example
        for spread in example.spec.spreads:
            if spread.when_unsatisfiable == "DoNotSchedule":
                counted = {i for i, other in enumerate(kinds) if spread_selects(spread, example, other.example)}
                kind.holds.append(
                    _shared(rules, Rule(spread.topology_key, example, spread=spread), counted, kind, kinds)
                )
        near = [_selected(term, example, kinds, namespaces) for term in example.spec.affinity]
        for term in example.spec.affinity:  # only pods that all terms select count (kube-scheduler)
            counted = set.intersection(*near)
            kind.holds.append(_shared(rules, Rule(term.topology_key, example, term=term), counted, kind, kinds))
        for term in example.spec.anti_affinity:
            counted = _selected(term, example, kinds, namespaces)
            kind.keeps_away.append(_shared(rules, Rule(term.topology_key, example, term=term), counted, kind, kinds))
    for rule, counted, _ in rules.values():
        for position in sorted(counted):
            kinds[position].counted_by.append(rule)
    return [rule for rule, _, _ in rules.values()]


def _selected(term: PodAffinityTerm, owner: Pod, kinds: list[Kind], namespaces: tuple[Namespace, ...]) -> set[int]:
    return {i for i, other in enumerate(kinds) if term_selects(term, owner, other.example, namespaces)}


def _shared(
    rules: dict[object, tuple[Rule, set[int], bool]], rule: Rule, counted: set[int], kind: Kind, kinds: list[Kind]
) -> Rule:
    rule.selects_own = any(kinds[position] is kind for position in counted)
    same = (rule.spread, rule.term, frozenset(counted), rule.selects_own, kind.example.namespace)
    return rules.setdefault(same, (rule, counted, rule.selects_own))[0]


def _open(placed: list[tuple[Pod, Site, Kind]]) -> Iterator[str]:
    for pod, site, kind in placed:
        for rule in (*kind.holds, *kind.keeps_away, *kind.counted_by):
            if len(site.values.get(rule.key, ())) > 1:
                yield f"open: {pod.key} is on {site.name} with {rule.key} open, a rule of {rule.owner.key} concerns it"
                break


def _too_near(sites: list[Site], kind_of: dict[str, Kind]) -> Iterator[str]:
    owners: dict[tuple[int, str], list[str]] = {}
    selected: dict[tuple[int, str], list[str]] = {}
    names: dict[tuple[int, str], str] = {}
    for site in sites:
        for pod in (*site.running, *site.coming):
            kind = kind_of[pod.key]
            for rule, occupants in [(r, owners) for r in kind.keeps_away] + [(r, selected) for r in kind.counted_by]:
                domain = site.domain(rule.key)
                if rule.term is not None and domain is not None:
                    occupants.setdefault((id(rule), domain), []).append(pod.key)
                    names[id(rule), domain] = f"{rule.key}={domain}"
    for place, keepers in owners.items():
        others = selected.get(place, [])
        if len(others) > 1 or (others and set(others) != set(keepers)):
            yield f"anti-affinity: {keepers[0]} keeps away from {min(set(others) - {keepers[0]})}, {names[place]}"


def _stuck(
    sites: list[Site], placed: list[tuple[Pod, Site, Kind]], kind_of: dict[str, Kind], rules: list[Rule]
) -> Iterator[str]:
    """The pods that cannot be placed in any order that was tried."""
    ruled = [entry for entry in placed if entry[2].holds]
    if not ruled:
        return
    free = [entry for entry in placed if not entry[2].holds and entry[2].counted_by]
    best: list[str] = []
    for first, held in _orders(ruled, free):
        _start(sites, kind_of, rules)
        unplaced = _left_over(first, held)
        if not unplaced:
            return
        if not best or len(unplaced) < len(best):
            best = [_refusal(*entry) for entry in unplaced]
    yield from best


def _refusal(pod: Pod, site: Site, kind: Kind) -> str:
    rule = next(rule for rule in kind.holds if not rule.allows(site.domain(rule.key)))
    here = rule.counts[site.domain(rule.key) or ""]
    return f"spread or affinity: {pod.key} at {site.name}: {here} by {rule.key} there, at least {rule.least} elsewhere"


Entries = list[tuple[Pod, Site, Kind]]


def _orders(ruled: Entries, free: Entries) -> Iterator[tuple[Entries, Entries]]:
    """(pods in queue order, pods that wait until another pod needs them or all others are placed)."""
    yield _level(ruled), list(free)
    yield sorted([*ruled, *free], key=lambda entry: _queue_place(entry[0])), []
    for seed in range(_SHUFFLES):
        dice = Random(seed)  # noqa: S311 - a test's dice
        shuffled = list(ruled)
        dice.shuffle(shuffled)
        yield _level(shuffled), list(free)


def _queue_place(pod: Pod) -> tuple[int, int, str]:
    """Where the pod stands in the queue: the largest first (Karpenter)."""
    return (-pod.spec.requests.get("cpu", 0), -pod.spec.requests.get("memory", 0), pod.key)


def _level(entries: Entries) -> Entries:
    """For each rule, one domain after the other in turn, so that counts rise together."""
    ranks: Counter[object] = Counter()
    ranked = []
    for position, entry in enumerate(entries):
        rule = entry[2].holds[0]
        place = (id(rule), entry[1].domain(rule.key))
        ranks[place] += 1
        ranked.append((ranks[place], position, entry))
    ranked.sort(key=lambda entry_rank: entry_rank[:2])
    return [entry for _, _, entry in ranked]


def _start(sites: list[Site], kind_of: dict[str, Kind], rules: list[Rule]) -> None:
    domains: dict[str, list[str]] = {}
    for rule in rules:
        if rule.key not in domains:
            domains[rule.key] = sorted({domain for site in sites if (domain := site.domain(rule.key)) is not None})
        rule.reset(domains[rule.key])
    for site in sites:
        for pod in site.running:
            _put(site, kind_of[pod.key])


def _put(site: Site, kind: Kind) -> None:
    for rule in kind.counted_by:
        rule.add(site.domain(rule.key))


@dataclass(eq=False)
class _Hosts:
    """The final counts of rules over hosts: unlike counts over zones, they do not level out while pods are placed.

    Attributes:
        at_the_end: (rule, host) → how many it will have counted once all are placed.
        owners: (rule, host) → how many pods are still unplaced that the rule keeps off the host once its count is too
            high.
    """

    at_the_end: Counter[tuple[int, str | None]]
    owners: Counter[tuple[int, str | None]] = field(default_factory=Counter)

    def hurried(self, site: Site, kind: Kind) -> Iterator[Rule]:
        """The rules that could keep such a pod off a host if it is placed late."""
        for rule in kind.holds:
            if _is_of_host(rule) and rule.spread and self.at_the_end[_on_host(rule, site)] > rule.spread.max_skew:
                yield rule

    def is_in_the_way(self, site: Site, kind: Kind, *, is_patient: bool) -> bool:
        """Whether placing a pod now would keep others off the host.

        Args:
            site: Where it goes.
            kind: The pod's group.
            is_patient: Whether a pod without rules of its own waits for all others, not only for those that it would
                block.
        """
        host = site.domain(labels.HOSTNAME) or ""
        waits = is_patient and not any(self.hurried(site, kind))
        for rule in kind.counted_by:
            if _is_of_host(rule) and self.owners[_on_host(rule, site)] > (rule in kind.holds):
                assert rule.spread is not None
                if waits or rule.counts[host] + 1 + rule.selects_own > rule.spread.max_skew:
                    return True
        return False


def _left_over(waiting: Entries, held: Entries) -> Entries:
    """Pods that are never allowed on their planned node."""
    by_domain: dict[tuple[int, str | None], Entries] = {}
    for entry in held:
        for rule in entry[2].counted_by:
            by_domain.setdefault((id(rule), entry[1].domain(rule.key)), []).append(entry)
    everyone = (*waiting, *held)
    hosts = _Hosts(
        Counter(_on_host(rule, site) for _, site, kind in everyone for rule in kind.counted_by if _is_of_host(rule))
    )
    hosts.owners.update(_on_host(rule, site) for _, site, kind in waiting for rule in hosts.hurried(site, kind))
    used: set[str] = set()
    for _ in range(_PASSES_MAX):
        unplaced = _one_pass(waiting, hosts)
        if len(unplaced) == len(waiting) and not _let_in(unplaced, by_domain, used, hosts):
            unplaced = _one_pass(waiting, hosts, is_patient=False)
            if len(unplaced) == len(waiting):
                unplaced = _one_pass(waiting, hosts, heedless=1)
            if len(unplaced) == len(waiting):
                return unplaced
        if not unplaced:
            return []
        waiting = unplaced
    return waiting


def _one_pass(waiting: Entries, hosts: _Hosts, *, is_patient: bool = True, heedless: int = 0) -> Entries:
    """Place, in their order, the pods that are allowed and block no other; returns the rest.

    Args:
        waiting: Pods to place.
        hosts: Pods that could be placed too late.
        is_patient: As for `is_in_the_way`.
        heedless: How many may be placed although they block others.
    """
    unplaced = []
    for entry in waiting:
        _, site, kind = entry
        if not all(rule.allows(site.domain(rule.key)) for rule in kind.holds):
            unplaced.append(entry)
            continue
        if hosts.is_in_the_way(site, kind, is_patient=is_patient):
            if not heedless:
                unplaced.append(entry)
                continue
            heedless -= 1
        _put(site, kind)
        hosts.owners.subtract(_on_host(rule, site) for rule in hosts.hurried(site, kind))
    return unplaced


def _is_of_host(rule: Rule) -> bool:
    return rule.key == labels.HOSTNAME and rule.spread is not None


def _on_host(rule: Rule, site: Site) -> tuple[int, str | None]:
    return (id(rule), site.domain(labels.HOSTNAME))


def _let_in(unplaced: Entries, by_domain: dict[tuple[int, str | None], Entries], used: set[str], hosts: _Hosts) -> bool:
    """Place unrestricted pods where they unblock others; return whether there were any."""
    helped = False
    for rule in dict.fromkeys(rule for entry in unplaced for rule in entry[2].holds):
        wanting = [entry for entry in unplaced if rule in entry[2].holds and not rule.allows(entry[1].domain(rule.key))]
        for domain in _wanted_domains(rule, wanting):
            pool = by_domain.get((id(rule), domain), [])
            ready = (e for e in reversed(pool) if e[0].key not in used)
            unblocking = next((e for e in ready if not hosts.is_in_the_way(*e[1:], is_patient=False)), None)
            if unblocking is not None:
                used.add(unblocking[0].key)
                pool.remove(unblocking)
                _put(*unblocking[1:])
                helped = True
    return helped


def _wanted_domains(rule: Rule, wanting: Entries) -> list[str]:
    if not wanting:
        return []
    if rule.spread is None:
        return sorted({site_domain for _, site, _ in wanting if (site_domain := site.domain(rule.key)) is not None})
    return sorted(domain for domain, count in rule.counts.items() if count == rule.least)
