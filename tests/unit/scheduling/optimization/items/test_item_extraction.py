"""Which of a claim's pods may be moved alone."""

from __future__ import annotations

from typing import Any

from core import labels
from core.model.pod import HostPort, Pod, PodAffinityTerm, TopologySpread, WeightedPodAffinityTerm
from core.model.values.requirements import Requirement
from core.scheduling.context import SchedulingContext
from core.scheduling.optimization.items.hostname_caps import HostnameCaps
from core.scheduling.optimization.items.item_extraction import ItemExtraction
from core.scheduling.optimization.items.packing_item import MovablePods
from tests.builders import ZONES, a_pod, a_pool, a_selector
from tests.unit.scheduling.optimization.clusters import ON_DEMAND, a_cluster, greedily_solved, plain_pods

OWN = a_selector(app="own")


def own(count: int, **rules: Any) -> tuple[Pod, ...]:
    return tuple(a_pod(f"own{i}", cpu="100m", memory="64Mi", labels={"app": "own"}, **rules) for i in range(count))


def extracted(*pods: Pod) -> tuple[SchedulingContext, list[list[MovablePods]]]:
    """Each claim's pods as items."""
    context, solution = greedily_solved(a_cluster(pods=pods))
    extraction = ItemExtraction(context, HostnameCaps(context.topology.groups))
    return context, [extraction.items_of(claim, extraction.scope(claim)) for claim in solution.claims]


def test_every_pod_is_in_one_item() -> None:
    pods = (*plain_pods(20), *own(3, host_ports=(HostPort(9100),)))
    _, claims = extracted(*pods)
    found = [pod.key for items in claims for movable in items for pod in movable.pods]
    assert sorted(found) == sorted(pod.key for pod in pods)


def test_plain_pods_are_moved_alone_and_equal_ones_are_one_item() -> None:
    _, claims = extracted(*plain_pods(20))
    movable = [one for items in claims for one in items]
    assert all(len(one.pods) == 1 and not one.item.is_fixed for one in movable)
    assert len({one.item for one in movable}) == 2


def test_pods_with_ports_stay_together_and_come_first() -> None:
    """Otherwise, two pods open one port on a node."""
    _, claims = extracted(*own(2, host_ports=(HostPort(9100),)), *plain_pods(4))
    with_port = [items[0] for items in claims if any(pod.name.startswith("own") for pod in items[0].pods)]
    assert len(with_port) == 2
    assert all(one.item.is_fixed for one in with_port)


def test_pods_with_hostname_affinity_are_one_item() -> None:
    """Otherwise, a pod is moved away from those that it must join."""
    _, claims = extracted(*own(3, affinity=(PodAffinityTerm(labels.HOSTNAME, OWN),)), *plain_pods(4))
    together = [one for items in claims for one in items if len(one.pods) > 1]
    assert [sorted(pod.name for pod in one.pods) for one in together] == [["own0", "own1", "own2"]]
    assert not together[0].item.is_fixed


def test_a_pod_under_a_zone_rule_keeps_its_zone() -> None:
    """Otherwise, moving it changes the skew of its spread."""
    context, claims = extracted(*own(6, spreads=(TopologySpread(labels.ZONE, 1, selector=OWN),)))
    zones = {context.table.single(one.item.reqs, labels.ZONE) for items in claims for one in items}
    assert len(zones) == 3
    assert None not in zones


def test_a_preference_that_a_claim_meets_goes_with_its_pods() -> None:
    """The greedy plan gave each pod a node of its own: a repacking that forgets why puts them together again."""
    apart = WeightedPodAffinityTerm(100, PodAffinityTerm(labels.HOSTNAME, OWN))
    _, claims = extracted(*own(3, preferred_anti_affinity=(apart,)))
    assert len(claims) == 3
    assert all(one.item.caps for items in claims for one in items)


def test_a_scope_has_the_values_of_its_pools_own_labels_that_a_claim_was_narrowed_to() -> None:
    """Otherwise, pods move to a node of another team. What the pool's types have by themselves stays open."""
    team = Requirement.one_of("team", "a", "b")
    pods = (a_pod("p", node_selector=(Requirement.one_of("team", "b"), Requirement.one_of(labels.ZONE, ZONES[0]))),)
    for waiting, teams in ((pods, ("b",)), ((a_pod("p"),), ("a", "b"))):
        context, solution = greedily_solved(a_cluster(pods=waiting, node_pools=(a_pool("default", ON_DEMAND, team),)))
        scope = ItemExtraction(context, HostnameCaps(context.topology.groups)).scope(solution.claims[0])
        offered = context.table[scope.offered]
        assert (offered["team"].values, labels.ZONE in offered) == (teams, False)
        assert (scope.offered == context.templates[0].offered) is (teams == ("a", "b"))
