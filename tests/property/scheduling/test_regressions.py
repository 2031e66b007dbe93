"""Faults that random clusters found, each reduced to its smallest case and named after the law it broke."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.model.pod import HostPort, NodeSelectorTerm, PodAffinityTerm, TopologySpread
from core.model.snapshot import DaemonSet, Node, Snapshot
from core.model.values.requirements import Requirement
from core.model.values.taints import Toleration
from core.scheduling import schedule
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_selector, a_snapshot, a_type
from tests.property.naive.clusters import random_cluster
from tests.property.naive.extras import rich_cluster
from tests.property.naive.fuzz import disturbed, improving
from tests.property.naive.left_over import violations
from tests.unit.scheduling.reading import claim_of, places, reasons_of

TEAM = "example.com/team"
NOT_Z = Requirement.of(TEAM, "NotIn", ["z"])
WEB = {"app": "web"}
SELECTS_WEB = a_selector(app="web")

SEEDS = (
    49, 54, 73, 90, 122, 218, 303, 460, 629, 641, 1061, 1347, 1419, 1485, 1570, 2346, 2366, 2467, 2543, 2586, 2811, 2970, 2993,
    3109, 3157, 3324, 3329, 4182, 4337, 4354, 4850, 5192, 5303, 5411, 11068, 11572, 11867, 13888, 20276, 22552, 24420, 25398,
    27057, 27620, 32231,
)  # fmt: skip
"""Clusters of `random_cluster` on which the scheduler and the judge once disagreed."""


@pytest.mark.ci
@pytest.mark.parametrize("seed", SEEDS)
def test_clusters_that_once_failed(seed: int) -> None:
    """Each of these once broke a rule, or left a pod over although a place existed."""
    snapshot = random_cluster(seed)
    assert violations(snapshot, schedule(snapshot)) == []


RICH_SEEDS = (
    200030,
    200147,
    200188,
    200223,
    200243,
    200272,
    200348,
    200404,
    201063,
    201130,
    201177,
    201462,
    300035,
    300708,
    700263,
    710207,
    718120,
    807560,
    901438,
    907669,
    1001285,
    1102990,
    701484,
)
"""The same for `rich_cluster`: reservations, overlays, minValues, explanations, free machines in the search, and
improved plans that separated a pod from the volume's pod that it must follow.
"""


@pytest.mark.ci
@pytest.mark.parametrize("seed", RICH_SEEDS)
def test_richer_clusters_that_once_failed(seed: int) -> None:
    """As above; the improved plan too."""
    snapshot = rich_cluster(seed)
    plan = schedule(snapshot)
    assert violations(snapshot, plan) + disturbed(snapshot, plan) == []
    assert violations(snapshot, schedule(improving(snapshot))) == []


def test_pods_kept_apart_by_a_label_that_the_pool_leaves_open_get_different_values() -> None:
    """All new nodes used to come up with team=0, one domain, although the pods must not share one."""
    apart = (PodAffinityTerm(TEAM, SELECTS_WEB),)
    pods = tuple(a_pod(f"p{n}", labels=WEB, anti_affinity=apart) for n in range(3))
    plan = _sound(a_snapshot(types=(a_type(),), node_pools=(a_pool("default", NOT_Z),), pods=pods))
    assert len({claim.labels[TEAM] for claim in plan.claims}) == len(plan.claims) == 3


def test_a_value_that_pods_request_is_a_domain_of_an_open_label() -> None:
    """A second team appeared after the spread pods were all put on the first."""
    alternatives = a_pod("asks", cpu="100m", node_selector=(Requirement.one_of(TEAM, "y"),))
    plan = _sound(
        a_snapshot(
            types=(a_type(),), node_pools=(a_pool("default", NOT_Z),), pods=(alternatives, *_spread_pods(TEAM, 2))
        )
    )
    assert {claim_of(plan, f"p{n}").labels[TEAM] for n in range(2)} == {"0", "y"}


def test_a_spread_over_an_open_label_opens_no_domain_that_it_does_not_need() -> None:
    """A new value drew the minimum down to zero, and pods that were placed already were too many."""
    plan = _sound(
        a_snapshot(
            types=(a_type(cpu="4"),), node_pools=(a_pool("default", NOT_Z),), pods=_spread_pods(TEAM, 9, cpu="1")
        )
    )
    assert {claim.labels[TEAM] for claim in plan.claims} == {"0"}


def test_a_daemon_pod_that_has_not_started_keeps_its_host_port() -> None:
    """A pod took the port on an existing node, and the DaemonSet's pod could never start there."""
    claim, node = a_node_of(a_type())
    daemon = DaemonSet(namespace="kube-system", name="agent", spec=_daemon_spec())
    world = a_snapshot(
        node_pools=(),
        nodes=(node,),
        node_claims=(claim,),
        daemon_sets=(daemon,),
        pods=(a_pod(host_ports=(HostPort(9100),)),),
    )
    assert places(_sound(world)) == {}


def test_a_pool_that_contradicts_itself_launches_nothing() -> None:
    """The pool launched nodes without the label that it requires."""
    pool = a_pool("default", Requirement.one_of(TEAM, "z"), NOT_Z)
    plan = _sound(a_snapshot(types=(a_type(),), node_pools=(pool,), pods=(a_pod(),)))
    assert "contradictory requirements" in plan.unschedulable[0].message


def test_a_label_that_a_pool_requires_stays_when_pods_narrow_it() -> None:
    """One pod's NotIn made room for another's DoesNotExist, and the node came up without the label."""
    pool = a_pool("default", Requirement.of(TEAM, "Exists"))
    pods = (
        a_pod("not-x", node_selector=(Requirement.of(TEAM, "NotIn", ["x"]),)),
        a_pod("none", cpu="100m", node_selector=(Requirement.of(TEAM, "DoesNotExist"),)),
    )
    plan = _sound(a_snapshot(types=(a_type(),), node_pools=(pool,), pods=pods))
    assert reasons_of(plan) == {"none": "RequirementNotMet"}


def test_a_node_without_one_of_the_topology_keys_is_passed_over_for_all() -> None:
    """Pods on a node without a zone counted for the spread over architectures, and kept others out."""
    bare = _bare_node({labels.ARCH: "amd64"})
    running = a_pod("running", labels=WEB, node_name="bare", phase="Running")
    both = (
        TopologySpread(labels.ZONE, 1, selector=SELECTS_WEB),
        TopologySpread(labels.ARCH, 1, selector=SELECTS_WEB, min_domains=2),
    )
    pod = a_pod(labels=WEB, spreads=both)
    assert reasons_of(_sound(a_snapshot(types=(a_type(),), nodes=(bare,), pods=(running, pod)))) == {}


def test_a_choice_of_domain_leaves_as_many_types_as_min_values_requires() -> None:
    """The cheapest architecture was chosen and had too few types, and the other was never tried."""
    types = (a_type("cheap", price=0.01, **{labels.ARCH: "arm64"}), a_type("m1"), a_type("m2"), a_type("m3"))
    pool = a_pool("default", Requirement.of(labels.INSTANCE_TYPE, "Exists", min_values=3))
    pod = a_pod(labels=WEB, anti_affinity=(PodAffinityTerm(labels.ARCH, SELECTS_WEB),))
    plan = _sound(a_snapshot(types=types, node_pools=(pool,), pods=(pod,)))
    assert claim_of(plan, "p").instance_types == ("m1", "m2", "m3")


def test_limits_are_charged_for_the_types_that_are_left() -> None:
    """A type that the second pod ruled out was charged on, and the pool had no room for a third pod."""
    small = (a_type(f"small-{n}", cpu=str(4 + n), price=0.1 + n / 100) for n in range(3))
    types = (*small, a_type("large", cpu="16", pods="1"))
    pool = a_pool("default", Requirement.of(labels.INSTANCE_TYPE, "Exists", min_values=3), limits={"cpu": 18_000})
    pods = tuple(a_pod(f"p{n}", cpu="2") for n in range(4))
    assert reasons_of(_sound(a_snapshot(types=types, node_pools=(pool,), pods=pods))) == {}


def test_a_pool_without_a_type_makes_no_domain() -> None:
    """Teams that only an impossible pool offered stayed empty and kept the spread's minimum at zero."""
    pools = (
        a_pool("default", Requirement.one_of(TEAM, "y")),
        a_pool("empty", Requirement.one_of(TEAM, "x", "z"), Requirement.one_of(labels.ARCH, "arm64")),
    )
    plan = _sound(a_snapshot(types=(a_type(cpu="8"),), node_pools=pools, pods=_spread_pods(TEAM, 4)))
    assert reasons_of(plan) == {}


def test_a_domain_that_the_pods_other_labels_rule_out_does_not_count() -> None:
    """A zone with nodes of another team only held the spread down to one pod per zone."""
    pools = (
        a_pool("mine", Requirement.one_of(TEAM, "x"), Requirement.one_of(labels.ZONE, *ZONES[:2])),
        a_pool("theirs", Requirement.one_of(TEAM, "y"), Requirement.one_of(labels.ZONE, ZONES[2])),
    )
    pods = _spread_pods(labels.ZONE, 4, node_selector=(Requirement.one_of(TEAM, "x"),))
    assert reasons_of(_sound(a_snapshot(types=(a_type(),), node_pools=pools, pods=pods))) == {}


def test_affinity_policy_ignore_counts_nodes_that_the_pod_cannot_use() -> None:
    """kube-scheduler counts them; the pods beyond the skew would have stayed pending beside their node."""
    bare = _bare_node({labels.ZONE: ZONES[1]})
    pods = _spread_pods(
        labels.ZONE, 2, node_affinity_policy="Ignore", node_selector=(Requirement.one_of(labels.ZONE, ZONES[0]),)
    )
    plan = _sound(a_snapshot(types=(a_type(),), nodes=(bare,), pods=pods))
    assert list(reasons_of(plan).values()) == ["TopologySpread"]


def test_a_claim_in_flight_makes_a_domain() -> None:
    """Its zone did not count until its node had joined."""
    claim, node = a_node_of(a_type(cpu="8"), "here", zone=ZONES[0])
    coming, _ = a_node_of(a_type(), "there", zone=ZONES[1])
    full = a_pod("full", cpu="2", memory="8Gi", node_name=coming.name)
    pods = _spread_pods(labels.ZONE, 3, cpu="1")
    world = a_snapshot(node_pools=(), nodes=(node,), node_claims=(claim, coming), pods=(full, *pods))
    assert len(places(_sound(world))) == 3
    assert set(places(schedule(world)).values()) == {"here", coming.name}


def test_affinity_terms_that_contradict_themselves_admit_no_node() -> None:
    """A node without the label seemed to meet `team In [x]` with `team NotIn [x]`, and its zone counted."""
    impossible = NodeSelectorTerm((Requirement.one_of(TEAM, "x"), Requirement.of(TEAM, "NotIn", ["x"])))
    mine = NodeSelectorTerm((Requirement.one_of("example.com/mine", "yes"),))
    nodes = (
        _bare_node({labels.ZONE: ZONES[0], "example.com/mine": "yes"}, "mine"),
        _bare_node({labels.ZONE: ZONES[1]}, "theirs"),
    )
    pods = _spread_pods(labels.ZONE, 2, required_terms=(impossible, mine))
    assert set(places(_sound(a_snapshot(node_pools=(), nodes=nodes, pods=pods))).values()) == {"mine"}


def test_a_claim_that_cannot_become_an_eligible_node_does_not_count() -> None:
    """The claim was eligible while it had several types, and was not checked again once only one was left."""
    types = (a_type("small", cpu="2", family="b"), a_type("large", cpu="8", price=0.5, family="a"))
    large = a_pod("large", cpu="4", labels=WEB)
    only_b = (Requirement.one_of("family", "b"),)
    spread = (TopologySpread(labels.CAPACITY_TYPE, 1, selector=SELECTS_WEB, min_domains=3),)
    pod = a_pod("p", labels=WEB, spreads=spread, node_selector=only_b)
    pool = a_pool("default", Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT))
    assert reasons_of(_sound(a_snapshot(types=types, node_pools=(pool,), pods=(large, pod)))) == {}


def _sound(world: Snapshot) -> Any:
    plan = schedule(world)
    assert violations(world, plan) == []
    return plan


def _spread_pods(key: str, count: int, *, cpu: str = "100m", node_affinity_policy: str = "Honor", **spec: Any) -> Any:
    rule = TopologySpread(key, 1, selector=SELECTS_WEB, node_affinity_policy=node_affinity_policy)
    return tuple(a_pod(f"p{n}", cpu=cpu, labels=WEB, spreads=(rule,), **spec) for n in range(count))


def _bare_node(node_labels: dict[str, str], name: str = "bare") -> Node:
    room = {"cpu": 4000, "memory": 2**34, "pods": 20}
    return Node(
        name=name, labels={**node_labels, labels.HOSTNAME: name}, capacity=room, allocatable=room, is_ready=True
    )


def _daemon_spec() -> Any:
    everything = Toleration(operator="Exists")
    return a_pod("agent", cpu="100m", host_ports=(HostPort(9100),), tolerations=(everything,)).spec
