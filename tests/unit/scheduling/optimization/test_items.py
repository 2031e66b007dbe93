"""Which of a claim's pods may be moved alone."""

from __future__ import annotations

from typing import Any

from core import labels
from core.model.pod import HostPort, Pod, PodAffinityTerm, TopologySpread, WeightedPodAffinityTerm
from core.model.values.requirements import Requirement
from core.scheduling.context import SchedulingContext
from core.scheduling.optimization.items import (
    HostnameCaps,
    HostnameRuleState,
    ItemExtraction,
    MovablePods,
    PackingItem,
    merged,
)
from core.scheduling.pods import PodGroup
from tests.builders import ZONES, a_pod, a_pool, a_selector
from tests.unit.scheduling.optimization.clusters import ON_DEMAND, a_cluster, greedily_solved, plain_pods

# Topology rules along hostnames as amounts and caps.


OWN = a_selector(app="own")
APART = PodAffinityTerm(labels.HOSTNAME, OWN)


def caps_of(**rules: object) -> tuple[HostnameCaps, PodGroup]:
    pods = (a_pod("p", labels={"app": "own"}, **rules), a_pod("q", labels={"app": "own"}, **rules))
    context = SchedulingContext(a_cluster(pods=pods))
    return HostnameCaps(context.topology.groups), context.pod_groups.of(pods[0])


def test_anti_affinity_to_its_own_group_allows_one() -> None:
    caps, pod_group = caps_of(anti_affinity=(APART,))
    assert [cap for _, cap in caps.caps(pod_group.steps[0])] == [1]
    assert [amount for _, amount in caps.counted(pod_group.signature)] == [1]


def test_a_spread_allows_its_max_skew() -> None:
    caps, pod_group = caps_of(spreads=(TopologySpread(labels.HOSTNAME, 3, selector=OWN),))
    assert [cap for _, cap in caps.caps(pod_group.steps[0])] == [3]


def test_rules_along_zones_have_no_cap() -> None:
    """Pods keep the zone of the greedy plan, so no zone's count changes."""
    caps, pod_group = caps_of(spreads=(TopologySpread(labels.ZONE, 1, selector=OWN),))
    assert caps.caps(pod_group.steps[0]) == ()
    assert caps.counted(pod_group.signature) == ()


def test_affinity_says_which_pods_are_followed() -> None:
    caps, pod_group = caps_of(affinity=(APART,))
    assert len(caps.followed(pod_group)) == 1
    assert caps.caps(pod_group.steps[0]) == ()


def test_pods_that_share_a_node_already_may_stay_together() -> None:
    """They were bound in an order in which each was allowed; otherwise, their own node refuses them."""
    one_cap = (((7, 1),), ((7, 1),))
    assert merged([one_cap, one_cap]) == (((7, 2),), ((7, 2),))
    assert merged([(((7, 1),), ((7, 3),)), ((), ((7, 2),))]) == (((7, 1),), ((7, 2),))


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
    movable = [movable_pods for items in claims for movable_pods in items]
    assert all(len(movable_pods.pods) == 1 and not movable_pods.item.is_fixed for movable_pods in movable)
    assert len({movable_pods.item for movable_pods in movable}) == 2


def test_pods_with_ports_stay_together_and_come_first() -> None:
    """Otherwise, two pods open one port on a node."""
    _, claims = extracted(*own(2, host_ports=(HostPort(9100),)), *plain_pods(4))
    with_port = [items[0] for items in claims if any(pod.name.startswith("own") for pod in items[0].pods)]
    assert len(with_port) == 2
    assert all(movable_pods.item.is_fixed for movable_pods in with_port)


def test_pods_with_hostname_affinity_are_one_item() -> None:
    """Otherwise, a pod is moved away from those that it must join."""
    _, claims = extracted(*own(3, affinity=(PodAffinityTerm(labels.HOSTNAME, OWN),)), *plain_pods(4))
    together = [movable_pods for items in claims for movable_pods in items if len(movable_pods.pods) > 1]
    assert [sorted(pod.name for pod in movable_pods.pods) for movable_pods in together] == [["own0", "own1", "own2"]]
    assert not together[0].item.is_fixed


def test_a_pod_under_a_zone_rule_keeps_its_zone() -> None:
    """Otherwise, moving it changes the skew of its spread."""
    context, claims = extracted(*own(6, spreads=(TopologySpread(labels.ZONE, 1, selector=OWN),)))
    zones = {context.table.single(movable_pods.item.reqs, labels.ZONE) for items in claims for movable_pods in items}
    assert len(zones) == 3
    assert None not in zones


def test_a_preference_that_a_claim_meets_goes_with_its_pods() -> None:
    """The greedy plan gave each pod a node of its own: a repacking that forgets why puts them together again."""
    apart = WeightedPodAffinityTerm(100, PodAffinityTerm(labels.HOSTNAME, OWN))
    _, claims = extracted(*own(3, preferred_anti_affinity=(apart,)))
    assert len(claims) == 3
    assert all(movable_pods.item.caps for items in claims for movable_pods in items)


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


# Hostname rules of the items on one node.


GROUP = 7
COUNTED_WITH_RULE = PackingItem((1,), 0, 1, counted=((GROUP, 1),), caps=((GROUP, 1),))
COUNTED = PackingItem((1,), 0, 1, counted=((GROUP, 1),))
WITH_RULE = PackingItem((1,), 0, 1, caps=((GROUP, 0),))


def test_a_rule_holds_in_any_order_of_pods() -> None:
    """kube-scheduler binds pods in its own order; if a plan depends on one, some of them stay pending."""
    crowded, alone = HostnameRuleState(), HostnameRuleState()
    for item in (COUNTED, COUNTED):
        assert crowded.admits(item)
        crowded.add(item)
    assert not crowded.admits(COUNTED_WITH_RULE)
    assert not crowded.admits(WITH_RULE)
    alone.add(WITH_RULE)
    assert alone.admits(WITH_RULE)
    assert not alone.admits(COUNTED)


def test_the_strictest_of_several_caps_counts() -> None:
    node = HostnameRuleState()
    for cap in (3, 1, 2):
        node.add(PackingItem((1,), 0, 1, caps=((GROUP, cap),)))
    node.add(COUNTED)
    assert not node.admits(COUNTED)
