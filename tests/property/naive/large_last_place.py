"""Whether topology spread and pod (anti-)affinity allow a pod to come last, to a new node of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from core import labels
from core.model.pod import DO_NOT_SCHEDULE, Pod, TopologySpread
from core.model.snapshot import Namespace, Snapshot
from tests.property.naive.large_topology import Site
from tests.property.naive.reading import spread_selects, term_selects


def has_rules(pod: Pod) -> bool:
    """Whether the pod has rules about other pods."""
    return bool(_hard(pod) or pod.spec.affinity or pod.spec.anti_affinity)


def can_be_asked(pod: Pod) -> bool:
    """Whether its spreads are over hosts and zones alone, each of which counts: a node selector may exclude some."""
    is_picky = pod.spec.node_selector or pod.spec.required_terms
    known = (labels.HOSTNAME, labels.ZONE)
    return not _hard(pod) or (not is_picky and all(spread.topology_key in known for spread in _hard(pod)))


def refusals(snapshot: Snapshot, sites: list[Site], pod: Pod, own: dict[str, str]) -> Iterator[str]:
    """The topology keys of the rules that keep the pod from a new node with these labels, beside all pods of the sites."""
    everyone = [(other, site) for site in sites for other in (*site.running, *site.coming)]
    names = snapshot.namespaces
    for spread in _hard(pod):
        if spread.topology_key == labels.ZONE and _is_crowded(snapshot, spread, everyone, pod, own[labels.ZONE]):
            yield spread.topology_key
    for term in pod.spec.affinity:
        selected = [site for other, site in everyone if _all_select(pod, other, names)]
        is_there = any(_is_beside(site, own, term.topology_key) for site in selected)
        if not is_there and (selected or not _all_select(pod, pod, names)):
            yield term.topology_key
    for other, site in everyone:
        both = [term for term in pod.spec.anti_affinity if term_selects(term, pod, other, names)]
        both += [term for term in other.spec.anti_affinity if term_selects(term, other, pod, names)]
        yield from (term.topology_key for term in both if _is_beside(site, own, term.topology_key))


def _all_select(pod: Pod, other: Pod, names: tuple[Namespace, ...]) -> bool:
    """Whether all terms of the pod's required affinity select another pod (kube-scheduler)."""
    return all(term_selects(term, pod, other, names) for term in pod.spec.affinity)


def _hard(pod: Pod) -> list[TopologySpread]:
    return [spread for spread in pod.spec.spreads if spread.when_unsatisfiable == DO_NOT_SCHEDULE]


def _is_beside(site: Site, own: dict[str, str], key: str) -> bool:
    """Whether a site may share the domain of the new node, which has its hostname for itself."""
    return key != labels.HOSTNAME and own.get(key) in site.values.get(key, ())


def _is_crowded(
    snapshot: Snapshot, spread: TopologySpread, everyone: list[tuple[Pod, Site]], pod: Pod, zone: str
) -> bool:
    """Whether one more pod in the zone would be too many, beside every zone in which any NodePool could launch."""
    counts = Counter(site.domain(labels.ZONE) for other, site in everyone if spread_selects(spread, pod, other))
    kinds = [kind for pool in snapshot.node_pools for kind in snapshot.catalogue.types_for(pool.node_class.name)]
    zones = {offering.zone for kind in kinds for offering in kind.offerings} | {*counts} - {None}
    least = 0 if len(zones) < (spread.min_domains or 0) else min(counts[name] for name in zones)
    return counts[zone] + spread_selects(spread, pod, pod) - least > spread.max_skew
