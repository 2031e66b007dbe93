"""Topology rules along hostnames as amounts and caps."""

from __future__ import annotations

from core import labels
from core.model.pod import PodAffinityTerm, TopologySpread
from core.scheduling.context import SchedulingContext
from core.scheduling.optimization.items.hostname_caps import HostnameCaps, merged
from core.scheduling.pods.pod_group import PodGroup
from tests.builders import a_pod, a_selector
from tests.unit.scheduling.optimization.clusters import a_cluster

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
    one = (((7, 1),), ((7, 1),))
    assert merged([one, one]) == (((7, 2),), ((7, 2),))
    assert merged([(((7, 1),), ((7, 3),)), ((), ((7, 2),))]) == (((7, 1),), ((7, 2),))
