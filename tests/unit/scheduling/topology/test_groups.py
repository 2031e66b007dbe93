"""Topology spread, pod affinity and anti-affinity, rule by rule."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from core import labels
from core.model.catalogue import Offering
from core.model.node_pool import NodePool
from core.model.pod import (
    HONOR,
    IGNORE,
    SCHEDULE_ANYWAY,
    LabelSelector,
    NodeSelectorTerm,
    Owner,
    Pod,
    PodAffinityTerm,
    PodSpec,
    TopologySpread,
    WeightedPodAffinityTerm,
)
from core.model.snapshot import DaemonSet, Namespace, Node, Options, Service, WorkloadSelector
from core.model.values.requirements import Requirement, Requirements
from core.model.values.taints import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint, Toleration
from core.reasons.pods import PodReason
from core.scheduling.primitives import IMPOSSIBLE, TopologyGroupId
from core.scheduling.topology.groups import (
    AFFINITY,
    INVERSE,
    GroupDomains,
    GroupSelection,
    Namespaces,
    NewNodeMembership,
    Topology,
    TopologyGroup,
    TopologyNodeFilter,
    affinity_group,
    spread_group,
)
from core.scheduling.topology.groups import SPREAD as SPREAD_KIND
from tests.builders import NOW, ZONES, a_node_of, a_pod, a_pool, a_selector, a_type
from tests.unit.scheduling.reading import claim_of, context_of, group_of, places, plan_of, reasons_of, zones

# Which domains exist and which could be created.


GROUP_DOMAINS_TYPE = a_type("m", zones=ZONES[:2])
SPREAD = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=a_selector(app="web"))


def domains_for(**spec: object) -> GroupDomains:
    claim, node = a_node_of(GROUP_DOMAINS_TYPE, zone=ZONES[2])
    running = a_pod("r", labels={"app": "web"}, node_name=node.name, phase="Running")
    waiting = a_pod("w", labels={"app": "web"}, spreads=(SPREAD,), **spec)
    context = context_of(types=(GROUP_DOMAINS_TYPE,), pods=(running, waiting), nodes=(node,), node_claims=(claim,))
    return context.topology.domains


def test_a_spread_knows_zones_without_pods() -> None:
    """Otherwise, all pods go to the one zone that has some."""
    domains, group = domains_for(), TopologyGroupId(0)
    assert domains.possible(group) == ZONES[:2]
    assert domains.of_nodes(group) == {ZONES[2]: 1}
    assert domains.running(group) == {ZONES[0]: 0, ZONES[1]: 0, ZONES[2]: 1}
    assert domains.at(group, 0) == ZONES[2]


def test_nodes_that_the_owner_cannot_use_do_not_count() -> None:
    """Otherwise, a zone that the pod may not use stays its least loaded one forever (nodeAffinityPolicy Honor)."""
    domains = domains_for(node_selector=(Requirement.one_of(labels.ZONE, ZONES[0]),))
    group = TopologyGroupId(0)
    assert domains.possible(group) == ZONES[:1]
    assert (domains.of_nodes(group), domains.at(group, 0)) == ({}, None)


RACK = TopologySpread(topology_key="rack", max_skew=1, selector=a_selector(app="web"))


def possible(spread: TopologySpread, pools: tuple[NodePool, ...], *others: Pod, **spec: Any) -> tuple[str, ...]:
    """The domains that new nodes may have for a pod with the spread."""
    waiting = a_pod("w", labels={"app": "web"}, spreads=(spread,), **spec)
    context = context_of(types=(GROUP_DOMAINS_TYPE,), pods=(waiting, *others), node_pools=pools)
    return context.topology.domains.possible(TopologyGroupId(0))


def test_the_domains_of_new_nodes_are_those_that_their_pools_allow() -> None:
    """An open label may have each value that some pod requires, and the one that a node gets by default."""
    red, blue = (a_pod(rack, node_selector=(Requirement.one_of("rack", rack),)) for rack in ("red", "blue"))
    green = a_pod("green", required_terms=(NodeSelectorTerm((Requirement.one_of("rack", "green"),)),))
    for requirements, others, domains in (
        ((), (red,), ()),
        ((Requirement.one_of("rack", "b", "a"),), (red,), ("a", "b")),
        ((Requirement.of("rack", "Exists"),), (), ("0",)),
        ((Requirement.of("rack", "Exists"),), (red, blue, green), ("0", "blue", "green", "red")),
        ((Requirement.of("rack", "NotIn", ["red", "0"]),), (red, blue), ("1", "blue")),
        ((Requirement.of("rack", "DoesNotExist"),), (red,), ()),
        ((Requirement.of("rack", "Exists"), Requirement.one_of(labels.ARCH, "arm64")), (red,), ()),
    ):
        assert possible(RACK, (a_pool("default", *requirements),), *others) == domains


def test_several_pools_have_the_domains_of_each() -> None:
    """Those whose taints the owner does not tolerate have none for a spread that honors taints."""
    plain = a_pool("plain", Requirement.one_of("rack", "a"))
    tainted = a_pool("tainted", Requirement.one_of("rack", "b"), taints=(Taint("team", NO_SCHEDULE, "x"),))
    honoring = replace(RACK, node_taints_policy=HONOR)
    assert possible(RACK, (plain, tainted)) == ("a", "b")
    assert possible(honoring, (plain, tainted)) == ("a",)
    tolerant = (Toleration(key="team", operator="Exists"),)
    assert possible(honoring, (plain, tainted), tolerations=tolerant) == ("a", "b")


def test_only_alternatives_that_a_node_can_meet_have_domains() -> None:
    """Otherwise, a zone without any type stays the least loaded one forever."""
    first, second, nowhere = (Requirement.one_of(labels.ZONE, zone) for zone in (*ZONES[:2], "zone-x"))
    terms = tuple(NodeSelectorTerm((requirement,)) for requirement in (second, nowhere))
    assert possible(SPREAD, (a_pool(),), required_terms=terms) == ZONES[1:2]
    assert possible(SPREAD, (a_pool(),), required_terms=terms, node_selector=(first,)) == ()
    reserved = TopologySpread(topology_key=labels.RESERVATION_ID, max_skew=1, selector=a_selector(app="web"))
    not_one = a_pool("default", Requirement.of(labels.RESERVATION_ID, "NotIn", ["cr-1"]))
    assert possible(reserved, (not_one,)) == ()


def test_only_a_spread_over_shared_domains_knows_those_without_pods() -> None:
    """The others are met or barred by pods, so a domain without any does not matter to them."""
    web = a_selector(app="web")
    rules: dict[str, dict[str, Any]] = {
        "hosts": {"spreads": (TopologySpread(topology_key=labels.HOSTNAME, max_skew=1, selector=web),)},
        "near": {"affinity": (PodAffinityTerm(labels.ZONE, web),)},
        "far": {"anti_affinity": (PodAffinityTerm(labels.ZONE, web),)},
    }
    pairs = [a_node_of(GROUP_DOMAINS_TYPE, f"n{place}", zone=zone) for place, zone in enumerate(ZONES)]
    running = tuple(
        a_pod(f"r{number}", labels={"app": "web"}, node_name=name, phase="Running")
        for number, name in enumerate(("n1", "n2", "n2"))
    )
    for name, rule in rules.items():
        context = context_of(
            types=(GROUP_DOMAINS_TYPE,),
            pods=(*running, a_pod("w", labels={"app": "web"}, **rule)),
            nodes=tuple(node for _, node in pairs),
            node_claims=tuple(claim for claim, _ in pairs),
        )
        found = context.topology.domains.running(TopologyGroupId(0))
        assert found == ({"n1": 1, "n2": 2} if name == "hosts" else {ZONES[1]: 1, ZONES[2]: 2})


def test_each_node_is_admitted_by_itself() -> None:
    """Otherwise, pods of a node that the owner cannot use bar its zone, or those of one that it can use do not."""
    pairs = [a_node_of(GROUP_DOMAINS_TYPE, f"n{place}", zone=zone) for place, zone in enumerate((*ZONES, ZONES[1]))]
    selector = (Requirement.one_of(labels.ZONE, ZONES[0], ZONES[2]),)
    unlabelled = replace(pairs[3][1], labels={})
    waiting = a_pod("w", labels={"app": "web"}, spreads=(SPREAD,), node_selector=selector)
    near = a_pod("near", affinity=(PodAffinityTerm(labels.ZONE, a_selector(app="web")),))
    context = context_of(
        types=(GROUP_DOMAINS_TYPE,),
        pods=(waiting, near),
        nodes=(*(node for _, node in pairs[:3]), unlabelled),
        node_claims=tuple(claim for claim, _ in pairs),
    )
    domains = context.topology.domains
    honoring, every = (group_of(context, name).steps[0].zone_rules[0].group for name in ("w", "near"))
    assert [domains.at(honoring, position) for position in range(4)] == [ZONES[0], None, ZONES[2], None]
    assert [domains.at(every, position) for position in range(3)] == list(ZONES)
    assert domains.of_nodes(honoring) == {ZONES[0]: 1, ZONES[2]: 1}


# Which groups select which pods.


def test_the_index_agrees_with_checking_each_group() -> None:
    """Otherwise, a rule misses pods that it selects."""
    apart = PodAffinityTerm(labels.ZONE, a_selector(app="db"))
    pods = (a_pod("web", labels={"app": "web"}, anti_affinity=(apart,)), a_pod("db", labels={"app": "db"}))
    context = context_of(types=(a_type(),), pods=pods)
    for name in ("web", "db"):
        signature = group_of(context, name).signature
        expected = [n for n, g in enumerate(context.topology.groups) if g.selects("default", signature.labels)]
        assert list(signature.selected_by) == expected
    db, web = group_of(context, "db").signature, group_of(context, "web").signature
    assert [context.topology.groups[n].kind for n in db.repelled_by] == [INVERSE]
    assert (web.avoids, db.domain_keys) == (db.repelled_by, (labels.ZONE,))


def test_a_group_without_a_selector_selects_no_pod() -> None:
    """Otherwise, a term without a labelSelector keeps every pod away (in Kubernetes, it matches none)."""
    selected: list[list[object]] = [[]]
    context = context_of(types=(a_type(),), pods=(a_pod("p"),))
    signature = group_of(context, "p").signature
    GroupSelection([TopologyGroup(INVERSE, labels.ZONE, None, None)], set()).assign([signature], selected)
    assert (signature.selected_by, selected) == ((), [[]])


# Whether a group counts a node that does not exist yet.


FIRST = (Requirement.one_of(labels.ZONE, ZONES[0]),)
FILTERS = (TopologyNodeFilter(), TopologyNodeFilter(selector=FIRST), TopologyNodeFilter(tolerations=()))
GROUPS = [
    TopologyGroup(SPREAD_KIND, labels.ZONE, None, a_selector(app="web"), 1, 0, node_filter) for node_filter in FILTERS
]


def test_an_open_zone_may_count() -> None:
    """Otherwise, a pod on a new node is counted for a rule that later ignores the node."""
    context = context_of(types=(a_type(),))
    (template,) = context.templates
    new_nodes = NewNodeMembership(GROUPS, context.templates, context.table)
    within, outside = (context.table.with_value(template.offered, labels.ZONE, zone) for zone in ZONES[:2])

    def about(group: int, reqs: object) -> tuple[bool, bool]:
        number = TopologyGroupId(group)
        return new_nodes.counts(number, reqs, template), new_nodes.is_uncertain(number, reqs, template)

    assert about(0, template.offered) == (True, False)
    assert [about(1, reqs) for reqs in (template.offered, within)] == [(True, True), (True, False)]
    assert about(1, outside)[0] is False


def test_a_pool_with_taints_that_the_owner_does_not_tolerate_is_ignored() -> None:
    """Otherwise, its zones count for pods that never go there (nodeTaintsPolicy Honor)."""
    tainted = a_pool(taints=(Taint("team", NO_SCHEDULE, "a"),))
    context = context_of(types=(a_type(),), node_pools=(tainted,))
    new_nodes = NewNodeMembership(GROUPS, context.templates, context.table)
    (template,) = context.templates
    assert [new_nodes.counts(TopologyGroupId(n), template.offered, template) for n in (0, 2)] == [True, False]


def test_alternatives_of_the_owner_decide_like_its_selector() -> None:
    """Otherwise, a node that may come up in another zone counts for a rule that ignores it there."""
    context = context_of(types=(a_type(),))
    (template,) = context.templates
    in_terms = TopologyNodeFilter(terms=(NodeSelectorTerm(FIRST),))
    groups = [TopologyGroup(SPREAD_KIND, labels.ZONE, None, a_selector(app="web"), 1, 0, in_terms)]
    new_nodes = NewNodeMembership(groups, context.templates, context.table)
    within = context.table.with_value(template.offered, labels.ZONE, ZONES[0])
    number = TopologyGroupId(0)
    assert [new_nodes.is_uncertain(number, reqs, template) for reqs in (template.offered, within)] == [True, False]


TEAM = "example.com/team"
FAMILY = "example.com/family"
TEAMS = ("red", "blue", "green", "0", "7")
"""Stand for every value: those that the requirements below name, and others."""

TYPES = (
    a_type("a.1", zones=ZONES[:1], **{FAMILY: "a"}),
    a_type("a.2", zones=ZONES[:2], **{FAMILY: "a"}),
    a_type("b.1", zones=ZONES[1:2], **{FAMILY: "b"}),
    structs.replace(
        a_type("c.1", zones=ZONES[2:]),
        offerings=(
            Offering("c.1", ZONES[2], labels.ON_DEMAND, 10),
            Offering("c.1", ZONES[2], labels.RESERVED, 0, reservation_id="cr-1", reservation_capacity=1),
        ),
    ),
)
POOLS = (
    (),
    (Requirement.one_of(TEAM, "red"),),
    (Requirement.one_of(TEAM, "red", "blue"), Requirement.one_of(FAMILY, "a")),
    (Requirement.of(TEAM, "Exists"), Requirement.one_of(labels.ZONE, *ZONES[1:])),
    (Requirement.of(TEAM, "Exists"), Requirement.of(TEAM, "NotIn", ["green"])),
    (Requirement.of(TEAM, "DoesNotExist"),),
    (Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT),),
    (Requirement.one_of(labels.CAPACITY_TYPE, labels.RESERVED),),
)
NARROWED = (
    (),
    (Requirement.one_of(labels.ZONE, ZONES[1]),),
    (Requirement.of(FAMILY, "Exists"),),
    (Requirement.of(FAMILY, "DoesNotExist"),),
    (Requirement.of(FAMILY, "NotIn", ["a"]),),
    (Requirement.of(FAMILY, "NotIn", ["a", "b"]),),
    (Requirement.of(TEAM, "NotIn", ["blue"]),),
)
EXPRESSIONS = (
    Requirement.one_of(labels.ZONE, ZONES[0]),
    Requirement.one_of(labels.ZONE, *ZONES[:2]),
    Requirement.of(labels.ZONE, "NotIn", [ZONES[2]]),
    Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT),
    Requirement.one_of(labels.INSTANCE_TYPE, "a.1", "a.2"),
    Requirement.one_of(FAMILY, "a"),
    Requirement.of(FAMILY, "NotIn", ["a"]),
    Requirement.of(FAMILY, "Exists"),
    Requirement.of(FAMILY, "DoesNotExist"),
    Requirement.of(labels.RESERVATION_ID, "Exists"),
    Requirement.one_of(TEAM, "red"),
    Requirement.of(TEAM, "NotIn", ["green"]),
    Requirement.of(TEAM, "Exists"),
    Requirement.of(TEAM, "DoesNotExist"),
)
WAYS = (*((expression,) for expression in EXPRESSIONS), *combinations(EXPRESSIONS, 2))
"""What an owner may require of its node."""


def _nodes(pool: tuple[Requirement, ...], narrowed: tuple[Requirement, ...]) -> list[dict[str, str]]:
    """The labels of every node that a NodePool may launch under further requirements, one by one."""
    has_team = any(requirement.key == TEAM and requirement.operator != "DoesNotExist" for requirement in pool)
    nodes = []
    for instance_type, team in product(TYPES, TEAMS if has_team else ("",)):
        for offering in instance_type.offerings:
            node = {key: values[0] for key, values in instance_type.labels.items()} | {
                labels.INSTANCE_TYPE: instance_type.name
            }
            node |= {labels.ZONE: offering.zone, labels.CAPACITY_TYPE: offering.capacity_type}
            node |= offering.reservation_labels() | ({TEAM: team} if team else {})
            if _meets(node, pool) and _meets(node, narrowed):
                nodes.append(node)
    return nodes


def _meets(node: dict[str, str], asked: tuple[Requirement, ...]) -> bool:
    return all(
        requirement.has(node[requirement.key]) if requirement.key in node else requirement.tolerates_absence
        for requirement in asked
    )


@pytest.mark.parametrize("pool", POOLS)
def test_a_node_counts_where_one_that_may_come_up_does(pool: tuple[Requirement, ...]) -> None:
    """It is uncertain if another that may come up does not; both by launching every node that the NodePool may have."""
    context = context_of(types=TYPES, node_pools=(a_pool("default", *pool),))
    (template,), table = context.templates, context.table
    groups = [
        TopologyGroup(SPREAD_KIND, labels.ZONE, None, a_selector(app="web"), 1, 0, TopologyNodeFilter(selector=way))
        for way in WAYS
    ]
    new_nodes = NewNodeMembership(groups, context.templates, table)
    for narrowed in NARROWED:
        reqs = table.narrowed(template.offered, required=table.conjunction(narrowed))
        nodes = _nodes(pool, narrowed)
        assert (reqs != IMPOSSIBLE and template.types.mask(reqs) > 0) is bool(nodes)
        for number, way in enumerate(WAYS if nodes else ()):
            group, admitted = TopologyGroupId(number), [_meets(node, way) for node in nodes]
            assert new_nodes.counts(group, reqs, template) is any(admitted), (narrowed, way)
            assert new_nodes.is_uncertain(group, reqs, template) is not all(admitted), (narrowed, way)


def test_one_alternative_that_every_node_meets_makes_it_certain() -> None:
    """And one that some node meets is enough for the group to count it."""
    context = context_of(types=TYPES)
    (template,) = context.templates
    third, anywhere, nowhere = (
        NodeSelectorTerm((Requirement.one_of(labels.ZONE, *zones),)) for zones in (ZONES[2:], ZONES, ("zone-x",))
    )
    contradicted = NodeSelectorTerm((*third.requirements, *FIRST))
    cases = (
        ((third, anywhere), True, False),
        ((anywhere, third), True, False),
        ((nowhere, third), True, True),
        ((nowhere, nowhere), False, True),
        ((contradicted, nowhere), False, True),
        ((contradicted, third), True, True),
    )
    groups = [
        TopologyGroup(SPREAD_KIND, labels.ZONE, None, a_selector(app="web"), 1, 0, TopologyNodeFilter(terms=terms))
        for terms, *_ in cases
    ]
    new_nodes = NewNodeMembership(groups, context.templates, context.table)
    for number, (terms, may, may_not) in enumerate(cases):
        about = TopologyGroupId(number), template.offered, template
        assert (new_nodes.counts(*about), new_nodes.is_uncertain(*about)) == (may, may_not), terms


TYPE = a_type("m", cpu="4", memory="16Gi")
ONE_POD = a_type("one", pods="1")
WEB = a_selector(app="web")


def a_spread(key: str = labels.ZONE, skew: int = 1, **changes: Any) -> TopologySpread:
    return TopologySpread(**{"topology_key": key, "max_skew": skew, "selector": WEB, **changes})


def webs(count: int, **changes: Any) -> tuple[Pod, ...]:
    return tuple(a_pod(f"p{n}", **{"cpu": "100m", "labels": {"app": "web"}, **changes}) for n in range(count))


def a_node(name: str, zone: str, *, pods: str = "1", **own: Any) -> Node:
    room = {"cpu": 4000, "memory": 2**34, "pods": int(pods)}
    known = {labels.HOSTNAME: name, labels.ZONE: zone, **own.pop("labels", {})}
    return Node(name=name, labels=known, capacity=room, allocatable=room, is_ready=True, **own)


def running(name: str, node: str, app: str = "web", **changes: Any) -> Pod:
    return a_pod(name, cpu="1m", **{"node_name": node, "phase": "Running", "labels": {"app": app}, **changes})


def per_zone(plan: Any) -> list[int]:
    found = zones(plan)
    assert all(len(zones_of_pod) == 1 for zones_of_pod in found.values()), (
        "a zonal rule concerns the pod, so its zone is decided"
    )
    return sorted(Counter(zones_of_pod[0] for zones_of_pod in found.values()).values())


def test_a_dropped_preference_does_not_reset_a_spreads_counts() -> None:
    """Karpenter counts again for the relaxed pod, running pods only, and places the second beside the first."""
    node = a_node("n", ZONES[0], pods="9", labels={labels.CAPACITY_TYPE: labels.ON_DEMAND})
    pool = a_pool(taints=(Taint("unloved", PREFER_NO_SCHEDULE),))
    pods = webs(2, spreads=(a_spread(labels.CAPACITY_TYPE, node_taints_policy=HONOR),))
    plan = plan_of(types=(TYPE,), node_pools=(pool,), nodes=(node,), pods=pods)
    assert places(plan)["p0"] == "n"
    assert claim_of(plan, "p1").capacity_types == (labels.SPOT,)


def test_a_zonal_spread_is_even() -> None:
    """Otherwise, a zone's outage takes more than its share."""
    assert per_zone(plan_of(types=(TYPE,), pods=webs(7, spreads=(a_spread(),)))) == [2, 2, 3]


def test_running_pods_count_and_finished_or_foreign_ones_do_not() -> None:
    """Otherwise, the spread would be even among the new pods only."""
    nodes = (a_node("n1", ZONES[0], pods="4"),)
    pods = (
        running("r1", "n1"),
        running("r2", "n1"),
        running("done", "n1", phase="Succeeded"),
        running("other", "n1", namespace="elsewhere"),
    )
    plan = plan_of(types=(TYPE,), nodes=nodes, pods=(*pods, *webs(4, spreads=(a_spread(),))))
    assert Counter(zones_of_pod[0] for zones_of_pod in zones(plan).values()) == {ZONES[1]: 2, ZONES[2]: 2}


def test_a_hostname_spread_opens_nodes() -> None:
    """Otherwise, replicas would share a node."""
    plan = plan_of(types=(TYPE,), pods=webs(5, spreads=(a_spread(labels.HOSTNAME, 2),)))
    assert sorted(len(claim.pods) for claim in plan.claims) == [1, 2, 2]


def test_min_domains_hold_pods_back_until_there_are_enough() -> None:
    """With fewer zones than required, the minimum counts as zero, so one zone takes maxSkew pods at most."""
    pool = a_pool("default", Requirement.one_of(labels.ZONE, *ZONES[:2]))
    plan = plan_of(types=(TYPE,), node_pools=(pool,), pods=webs(4, spreads=(a_spread(min_domains=3),)))
    assert per_zone(plan) == [1, 1]
    assert set(reasons_of(plan).values()) == {PodReason.TOPOLOGY_SPREAD}


def test_min_domains_hold_pods_back_that_may_use_some_zones_only() -> None:
    """The zones that count are those of the pod itself, and they are too few, whatever others the NodePool has."""
    two = {"node_selector": (Requirement.one_of(labels.ZONE, *ZONES[:2]),)}
    plan = plan_of(types=(TYPE,), pods=webs(4, spreads=(a_spread(min_domains=3),), **two))
    assert per_zone(plan) == [1, 1]
    assert set(reasons_of(plan).values()) == {PodReason.TOPOLOGY_SPREAD}


@pytest.mark.parametrize(("policy", "expected"), [({}, {"p0": "n1"}), ({"node_affinity_policy": IGNORE}, {})])
def test_zones_that_a_pod_cannot_use_are_the_least_loaded_ones_under_ignore(
    policy: dict[str, str], expected: dict[str, str]
) -> None:
    """Kubernetes counts every domain that has nodes then, so the pod's own zone is one too full."""
    nodes = (a_node("n1", ZONES[0], pods="9"), a_node("n2", ZONES[1]))
    here = {"node_selector": (Requirement.one_of(labels.ZONE, ZONES[0]),), "spreads": (a_spread(**policy),)}
    plan = plan_of(types=(TYPE,), node_pools=(), nodes=nodes, pods=(running("r1", "n1"), *webs(1, **here)))
    assert places(plan) == expected


@pytest.mark.parametrize(("policy", "expected"), [({}, {ZONES[0]}), ({"node_affinity_policy": IGNORE}, {ZONES[1]})])
def test_the_affinity_policy_says_whether_unsuitable_nodes_count(policy: dict[str, str], expected: set[str]) -> None:
    """Pods on nodes that the new pod cannot use must count only under Ignore."""
    pool = a_pool("default", Requirement.one_of(labels.ZONE, *ZONES[:2]), labels={"side": "left"})
    crowded = a_node("n1", ZONES[0], labels={"side": "right"})
    quiet = a_node("n2", ZONES[1], labels={"side": "left"}, taints=(Taint("x", NO_SCHEDULE),))
    pods = (running("r1", "n1"), running("r2", "n1"), running("r3", "n2"))
    on_left_side = {"node_selector": (Requirement.one_of("side", "left"),), "spreads": (a_spread(**policy),)}
    plan = plan_of(types=(TYPE,), node_pools=(pool,), nodes=(crowded, quiet), pods=(*pods, *webs(1, **on_left_side)))
    assert set(zones(plan)["p0"]) == expected


def test_a_new_node_counts_once_its_type_is_certain() -> None:
    """While it might become a type that the spread ignores it counts nowhere, and a pod that it makes room for is left over."""
    large = a_type("large", cpu="16", zones=ZONES[:1])
    fits, ignored = (a_type(name, cpu=cpu, zones=ZONES[1:2]) for name, cpu in (("fits", "2"), ("ignored", "1")))
    choosy = {"node_selector": (Requirement.of(labels.INSTANCE_TYPE, "NotIn", ["ignored"]),), "spreads": (a_spread(),)}
    there = a_pod("w", cpu="1500m", labels={"app": "web"}, node_selector=(Requirement.one_of(labels.ZONE, ZONES[1]),))
    pool = a_pool("default", Requirement.one_of(labels.ZONE, *ZONES[:2]))
    plan = plan_of(types=(large, fits, ignored), node_pools=(pool,), pods=(*webs(2, **{**choosy, "cpu": "4"}), there))
    assert reasons_of(plan) == {}
    assert {name: zones_of_pod[0] for name, zones_of_pod in zones(plan).items()} == {
        "p0": ZONES[0],
        "p1": ZONES[0],
        "w": ZONES[1],
    }


def test_match_label_keys_distinguish_revisions() -> None:
    """Otherwise, during a rollout the old revision's pods would count against the new one."""
    old = running("old", "n1", labels={"app": "web", "rev": "1"})
    new = webs(3, labels={"app": "web", "rev": "2"}, spreads=(a_spread(match_label_keys=("rev",)),))
    plan = plan_of(types=(TYPE,), nodes=(a_node("n1", ZONES[0]),), pods=(old, *new))
    assert per_zone(plan) == [1, 1, 1]


def test_a_soft_spread_is_kept_if_possible_and_dropped_if_necessary() -> None:
    """Otherwise, a preference would be ignored, or would hold up pods."""
    soft = a_spread(when_unsatisfiable=SCHEDULE_ANYWAY)
    assert per_zone(plan_of(types=(ONE_POD,), pods=webs(3, spreads=(soft,)))) == [1, 1, 1]
    pool = a_pool("default", Requirement.one_of(labels.ZONE, ZONES[0]))
    busy = (a_node("n1", ZONES[1]), a_node("n2", ZONES[0]))
    plan = plan_of(types=(TYPE,), node_pools=(pool,), nodes=busy, pods=(running("r", "n2"), *webs(2, spreads=(soft,))))
    assert plan.unschedulable == ()


def test_with_preferences_ignored_soft_rules_never_shape_the_plan() -> None:
    """Otherwise, `--preference-policy Ignore` would still open a node for each pod."""
    soft = WeightedPodAffinityTerm(10, PodAffinityTerm(labels.HOSTNAME, WEB))
    pods = webs(4, preferred_anti_affinity=(soft,))
    assert len(plan_of(types=(TYPE,), pods=pods).claims) == 4
    assert len(plan_of(types=(TYPE,), pods=pods, options=Options(preference_policy="Ignore")).claims) == 1


def test_the_alternatives_of_a_node_affinity_all_count_as_domains() -> None:
    """With only the first alternative, all replicas would pile up in its zone."""
    terms = tuple(NodeSelectorTerm((Requirement.one_of(labels.ZONE, zone),)) for zone in ZONES[:2])
    plan = plan_of(types=(TYPE,), pods=webs(4, spreads=(a_spread(),), required_terms=terms))
    assert per_zone(plan) == [2, 2]


def test_an_alternative_that_needs_a_preference_dropped_is_tried_again() -> None:
    """Karpenter drops alternatives before preferences and would leave such pods pending."""
    terms = (
        NodeSelectorTerm((Requirement.one_of(labels.ZONE, ZONES[0]),)),
        NodeSelectorTerm((Requirement.one_of(labels.ZONE, "nowhere"),)),
    )
    away = WeightedPodAffinityTerm(1, PodAffinityTerm(labels.ZONE, WEB))
    plan = plan_of(types=(ONE_POD,), pods=webs(2, required_terms=terms, preferred_anti_affinity=(away,)))
    assert plan.unschedulable == ()


def test_followers_join_the_zone_of_a_pod_placed_in_the_same_plan() -> None:
    """Otherwise, they would wait for the next round although the zone is known."""
    follow = PodAffinityTerm(labels.ZONE, a_selector(app="db"))
    pods = (a_pod("db", labels={"app": "db"}), *webs(3, affinity=(follow,)))
    assert len(set(zones(plan_of(types=(ONE_POD,), pods=pods)).values())) == 1


def test_a_pod_is_placed_where_the_pods_that_need_it_can_go() -> None:
    """The cheapest zone is useless if the pods that must be near cannot run there."""
    follow = PodAffinityTerm(labels.ZONE, a_selector(app="db"))
    tied = {"affinity": (follow,), "node_selector": (Requirement.one_of(labels.ZONE, ZONES[2]),)}
    plan = plan_of(types=(ONE_POD,), pods=(a_pod("db", labels={"app": "db"}), *webs(1, **tied)))
    assert plan.unschedulable == ()
    assert claim_of(plan, "db").zones == (ZONES[2],)


def test_pods_with_affinity_to_their_own_group_start_in_one_place_only() -> None:
    """Otherwise, each starts in a zone of its own."""
    own_term = PodAffinityTerm(labels.ZONE, WEB)
    assert len(set(zones(plan_of(types=(ONE_POD,), pods=webs(4, affinity=(own_term,)))).values())) == 1


def test_a_pod_of_the_group_elsewhere_forbids_a_new_start() -> None:
    """kube-scheduler refuses a pod whose group runs where it may not go; Karpenter launches a node for it nevertheless."""
    own_rules = {
        "affinity": (PodAffinityTerm(labels.ZONE, WEB),),
        "node_selector": (Requirement.one_of(labels.ZONE, ZONES[1]),),
    }
    plan = plan_of(types=(TYPE,), nodes=(a_node("n1", ZONES[0]),), pods=(running("r", "n1"), *webs(1, **own_rules)))
    assert reasons_of(plan) == {"p0": PodReason.POD_AFFINITY}


TWO_TERMS = (
    PodAffinityTerm(labels.ZONE, WEB),
    PodAffinityTerm(labels.HOSTNAME, a_selector(tier="gold")),
)


def test_one_pod_must_meet_all_affinity_terms() -> None:
    """kube-scheduler counts only pods that all terms select, for each of their keys."""
    node, seeker = a_node("n", ZONES[0], pods="9"), a_pod("seeker", cpu="100m", affinity=TWO_TERMS)
    halves = (running("w", "n"), running("g", "n", labels={"tier": "gold"}))
    apart = plan_of(types=(TYPE,), nodes=(node,), pods=(*halves, seeker))
    assert reasons_of(apart) == {"seeker": PodReason.POD_AFFINITY}
    whole = running("both", "n", labels={"app": "web", "tier": "gold"})
    assert places(plan_of(types=(TYPE,), nodes=(node,), pods=(whole, seeker))) == {"seeker": "n"}


def test_the_first_pod_that_meets_all_its_terms_needs_no_other() -> None:
    """A pod that meets half of the terms does not count: kube-scheduler takes the waiting one for the first of its kind."""
    first = a_pod("first", cpu="100m", affinity=TWO_TERMS, labels={"app": "web", "tier": "gold"})
    nodes = (a_node("n", ZONES[0], pods="9"), a_node("full", ZONES[1], pods="1"))
    plan = plan_of(types=(TYPE,), nodes=nodes, pods=(running("half", "full"), first))
    assert places(plan) == {"first": "n"}
    elsewhere = plan_of(
        types=(TYPE,), nodes=nodes, pods=(running("whole", "full", labels={"app": "web", "tier": "gold"}), first)
    )
    assert reasons_of(elsewhere) == {"first": PodReason.POD_AFFINITY}


def test_a_terminating_pod_counts_for_affinity_and_anti_affinity_not_for_a_spread() -> None:
    """kube-scheduler skips it only in spreads; a pod that hangs in termination would break the plan."""
    node = a_node("n", ZONES[0], pods="9")
    leaving = replace(running("old", "n"), deleted_at=NOW)
    rule = (PodAffinityTerm(labels.HOSTNAME, WEB),)
    near, away = a_pod("near", cpu="100m", affinity=rule), a_pod("away", cpu="100m", anti_affinity=rule)
    even = a_pod("even", cpu="100m", spreads=(TopologySpread(labels.HOSTNAME, 1, selector=WEB),), labels={"app": "web"})
    plans = {pod.name: plan_of(types=(TYPE,), nodes=(node,), pods=(leaving, pod)) for pod in (near, away, even)}
    assert places(plans["near"]) == {"near": "n"}
    assert len(plans["away"].claims) == 1
    assert places(plans["even"]) == {"even": "n"}


@pytest.mark.parametrize(("keys", "is_left"), [((), False), (("app",), True)])
def test_an_empty_selector_of_a_spread_selects_no_pod(keys: tuple[str, ...], is_left: bool) -> None:
    """kube-scheduler counts none for it, unless matchLabelKeys add something to it."""
    spread = TopologySpread(labels.ZONE, 1, selector=LabelSelector(), match_label_keys=keys)
    nodes = (a_node("n", ZONES[0], pods="9"), a_node("full", ZONES[1], pods="0"))
    pods = (running("r", "n"), *webs(1, spreads=(spread,)))
    plan = plan_of(types=(), nodes=nodes, pods=pods)
    assert bool(plan.unschedulable) is is_left


def test_anti_affinity_keeps_zones_apart_and_uses_all_of_them() -> None:
    """Karpenter leaves the first claim's zone open and defers the rest; no pod needs to wait."""
    apart = PodAffinityTerm(labels.ZONE, WEB)
    plan = plan_of(types=(TYPE,), pods=webs(4, anti_affinity=(apart,)))
    assert per_zone(plan) == [1, 1, 1]
    assert set(reasons_of(plan).values()) == {PodReason.POD_ANTI_AFFINITY}


def test_a_flexible_pod_leaves_another_pods_only_zone_free() -> None:
    """Otherwise, a pod that can go anywhere takes the only place of the other."""
    apart = (PodAffinityTerm(labels.ZONE, WEB),)
    tied = a_pod(
        "tied",
        cpu="50m",
        labels={"app": "web"},
        anti_affinity=apart,
        node_selector=(Requirement.one_of(labels.ZONE, ZONES[0]),),
    )
    plan = plan_of(types=(TYPE,), pods=(*webs(2, anti_affinity=apart), tied))
    assert plan.unschedulable == ()


def test_running_pods_keep_new_pods_away() -> None:
    """kube-scheduler enforces anti-affinity in both directions."""
    guard = running("guard", "n1", app="x", anti_affinity=(PodAffinityTerm(labels.ZONE, WEB),))
    plan = plan_of(types=(TYPE,), nodes=(a_node("n1", ZONES[0]),), pods=(guard, *webs(1)))
    assert len(zones(plan)["p0"]) == 1
    assert ZONES[0] not in zones(plan)["p0"]


def test_namespaces_are_listed_or_selected() -> None:
    """Otherwise, a rule counts pods of other namespaces, or misses those that it selects."""
    there = Namespace(name="there", labels={"team": "b"})
    target = running("target", "n1", app="db", namespace="there")
    terms = {
        "own": PodAffinityTerm(labels.ZONE, a_selector(app="db")),
        "listed": PodAffinityTerm(labels.ZONE, a_selector(app="db"), namespaces=("there",)),
        "selected": PodAffinityTerm(labels.ZONE, a_selector(app="db"), namespace_selector=a_selector(team="b")),
        "all": PodAffinityTerm(labels.ZONE, a_selector(app="db"), namespace_selector=LabelSelector()),
    }
    pods = tuple(a_pod(name, affinity=(term,)) for name, term in terms.items())
    plan = plan_of(types=(TYPE,), nodes=(a_node("n1", ZONES[1]),), namespaces=(there,), pods=(target, *pods))
    assert reasons_of(plan) == {"own": PodReason.POD_AFFINITY}
    assert {zone for zones_of_pod in zones(plan).values() for zone in zones_of_pod} == {ZONES[1]}


def test_mismatch_label_keys_exclude_the_own_tenant() -> None:
    """Otherwise, a tenant's pods would repel each other instead of other tenants'."""
    rule = PodAffinityTerm(labels.HOSTNAME, LabelSelector(), mismatch_label_keys=("tenant",))
    pods = tuple(a_pod(f"{t}{n}", cpu="100m", labels={"tenant": t}, anti_affinity=(rule,)) for t in "ab" for n in "12")
    places_found = places(plan_of(types=(TYPE,), pods=pods))
    assert places_found["a1"] == places_found["a2"] != places_found["b1"] == places_found["b2"]


def test_a_pod_that_another_pods_rule_selects_gets_one_zone() -> None:
    """Otherwise, its zone is unknown, and so is the skew."""
    plan = plan_of(types=(ONE_POD,), pods=(*webs(1, spreads=(a_spread(),)), a_pod("plain", labels={"app": "web"})))
    assert len(claim_of(plan, "plain").zones) == 1


def test_a_rule_along_another_key_restricts_the_claim_to_one_value() -> None:
    """Otherwise, spot and on-demand are counted together."""
    spread = a_spread(labels.CAPACITY_TYPE)
    plan = plan_of(types=(TYPE,), pods=webs(2, spreads=(spread,)))
    assert sorted(claim.capacity_types for claim in plan.claims) == [("on-demand",), ("spot",)]


def test_a_misspelt_topology_key_is_met_nowhere() -> None:
    """Otherwise, a node is launched for the pod, and the pod is never bound."""
    plan = plan_of(types=(TYPE,), pods=webs(1, spreads=(a_spread("topology.kubernetes.io/zones"),)))
    assert reasons_of(plan) == {"p0": PodReason.TOPOLOGY_SPREAD}


def test_anti_affinity_along_a_label_that_no_node_has_keeps_no_pod_away() -> None:
    """A node without the label is in no domain, so kube-scheduler binds the pod to it; Karpenter launches no node for it."""
    apart = PodAffinityTerm("rack", WEB)
    assert len(plan_of(types=(TYPE,), pods=webs(2, anti_affinity=(apart,))).claims) == 1


def test_default_spreads_follow_services_and_controllers() -> None:
    """Otherwise, pods without constraints of their own would not get the cluster's."""
    default = TopologySpread(labels.ZONE, 1)
    options = Options(default_spreads=(default,))
    owned = {"owners": (Owner("ReplicaSet", "rs", is_controller=True),)}
    selectors = (WorkloadSelector(namespace="default", kind="ReplicaSet", name="rs", selector=WEB),)
    by_owner = plan_of(types=(TYPE,), pods=webs(3, **owned), options=options, workload_selectors=selectors)
    service = Service(namespace="default", name="web", selector={"app": "web"})
    by_service = plan_of(types=(TYPE,), pods=webs(3), options=options, services=(service,))
    assert per_zone(by_owner) == per_zone(by_service) == [1, 1, 1]
    assert len(plan_of(types=(TYPE,), pods=webs(3), options=options).claims) == 1


def test_with_several_default_spreads_a_node_with_all_their_labels_counts() -> None:
    """kube-scheduler ignores a node that lacks one of the labels; pods there would keep the others from its zone."""
    options = Options(default_spreads=(TopologySpread(labels.ZONE, 1), TopologySpread("rack", 9)))
    service = Service(namespace="default", name="web", selector={"app": "web"})
    nodes = (a_node("n1", ZONES[0], pods="3"),)
    pods = (*(running(f"r{n}", "n1") for n in range(3)), *webs(3))
    pool = a_pool(labels={"rack": "r1"})
    plan = plan_of(types=(TYPE,), nodes=nodes, pods=pods, options=options, services=(service,), node_pools=(pool,))
    assert per_zone(plan) == [1, 1, 1]


def test_a_pod_goes_where_the_pods_that_must_be_near_it_fit() -> None:
    """Otherwise, a cheaper family without accelerators is chosen, where the pods that must follow do not fit."""
    plain = a_type("plain", family="c")
    gpu = a_type("gpu", price=1.0, extra={"nvidia.com/gpu": "1"}, family="g")
    near = PodAffinityTerm("family", a_selector(app="db"))
    follower = a_pod("learner", cpu="500m", extra={"nvidia.com/gpu": "1"}, affinity=(near,))
    plan = plan_of(types=(plain, gpu), pods=(a_pod("db", labels={"app": "db"}), follower))
    assert claim_of(plan, "db").instance_types == ("gpu",)
    assert reasons_of(plan) == {}


def test_only_requirements_of_pods_are_hard() -> None:
    """Otherwise, repacking keeps counts without need, or breaks required ones."""
    soft = a_spread(labels.HOSTNAME, when_unsatisfiable="ScheduleAnyway")
    context = context_of(types=(a_type("m"),), pods=(a_pod("w", labels={"app": "web"}, spreads=(a_spread(), soft)),))
    topology, group = context.topology, group_of(context, "w")
    assert isinstance(topology, Topology)
    rules = topology.rules(group.signature, 0, group.steps[0].demands)
    assert [(rule.kind, rule.key, rule.selects_self) for rule in rules] == [
        (SPREAD_KIND, labels.ZONE, True),
        (SPREAD_KIND, labels.HOSTNAME, True),
    ]
    assert [topology.is_hard(rule.group) for rule in rules] == [True, False]
    assert list(topology.counted(rules[0].group)) == [group.signature]


# Topology rules as groups that pods share.


NAMESPACES = Namespaces({"web": {"team": "a"}, "db": {"team": "a"}, "other": {}})
TOPOLOGY_GROUP_TEAM = a_selector(team="a")


@pytest.mark.parametrize(
    ("term", "found"),
    [
        (PodAffinityTerm("k"), ("web",)),
        (PodAffinityTerm("k", namespaces=("other", "db", "db")), ("db", "other")),
        (PodAffinityTerm("k", namespace_selector=LabelSelector()), None),
        (PodAffinityTerm("k", namespace_selector=TOPOLOGY_GROUP_TEAM), ("db", "web")),
        (PodAffinityTerm("k", namespaces=("other",), namespace_selector=TOPOLOGY_GROUP_TEAM), ("db", "other", "web")),
        (PodAffinityTerm("k", namespace_selector=a_selector(**{"kubernetes.io/metadata.name": "db"})), ("db",)),
    ],
)
def test_a_term_speaks_of_its_namespaces_or_else_of_its_own(
    term: PodAffinityTerm, found: tuple[str, ...] | None
) -> None:
    assert NAMESPACES.of_term(term, "web") == found


def test_label_keys_add_the_pods_own_values_to_the_selector() -> None:
    """A rollout's new pods spread among themselves, not among the old ones."""
    own_labels = {"app": "a", "pod-template-hash": "x"}
    term = PodAffinityTerm(labels.HOSTNAME, a_selector(app="a"), match_label_keys=("pod-template-hash", "absent"))
    group = affinity_group(AFFINITY, term, "web", own_labels, NAMESPACES)
    assert group.is_hostname
    assert group.selects("web", own_labels)
    assert not group.selects("web", {**own_labels, "pod-template-hash": "y"})
    assert not group.selects("db", own_labels)
    unlike = PodAffinityTerm(labels.ZONE, a_selector(app="a"), mismatch_label_keys=("pod-template-hash",))
    other = affinity_group(AFFINITY, unlike, "web", own_labels, NAMESPACES)
    assert (other.selects("web", own_labels), other.selects("web", {**own_labels, "pod-template-hash": "y"})) == (
        False,
        True,
    )


def test_a_rule_without_a_selector_speaks_of_no_pod() -> None:
    assert not affinity_group(AFFINITY, PodAffinityTerm(labels.ZONE), "web", {}, NAMESPACES).selects("web", {})


def test_a_spread_considers_the_nodes_that_its_owner_may_use() -> None:
    """Otherwise, a node that the pod can never use keeps its domain the emptiest for good."""
    selector = (Requirement.one_of("pool", "a"),)
    spec = PodSpec(requests={}, node_selector=selector, tolerations=(Toleration(key="t", operator="Exists"),))
    zone, rack = TopologySpread(labels.ZONE, 1), TopologySpread("rack", 1, node_affinity_policy=IGNORE)
    soft = TopologySpread("rack", 1, when_unsatisfiable=SCHEDULE_ANYWAY)
    assert spread_group(zone, (zone, rack), spec, "web", {}).node_filter == TopologyNodeFilter(selector, keys=("rack",))
    assert spread_group(rack, (zone, rack), spec, "web", {}).node_filter == TopologyNodeFilter(keys=(labels.ZONE,))
    assert spread_group(zone, (zone, soft), spec, "web", {}).node_filter.keys == ()


@pytest.mark.parametrize(
    ("filtered", "counts"),
    [
        (TopologyNodeFilter(), True),
        (TopologyNodeFilter(selector=(Requirement.one_of("pool", "a"),)), True),
        (TopologyNodeFilter(selector=(Requirement.one_of("pool", "b"),)), False),
        (TopologyNodeFilter(keys=("pool",)), True),
        (TopologyNodeFilter(keys=("rack",)), False),
        (TopologyNodeFilter(tolerations=()), False),
        (TopologyNodeFilter(tolerations=(Toleration(key="t", operator="Exists"),)), True),
    ],
)
def test_a_node_counts_by_its_labels_and_taints(filtered: TopologyNodeFilter, counts: bool) -> None:
    offered = Requirements((Requirement.one_of("pool", "a"),))
    assert filtered.admits(offered, (Taint("t", "NoSchedule"),), frozenset()) == counts


# Domains without nodes count for a spread only while the pod itself could get a node there.


C_ONLY = (Requirement.one_of(labels.ZONE, ZONES[2]),)
A_AND_B = (Requirement.one_of(labels.ZONE, *ZONES[:2]),)
UNREACHABLE: dict[str, dict[str, Any]] = {
    "no CPU": {"limits": {"cpu": 0}},
    "no nodes": {"limits": {"nodes": 0}},
    "too little for a node": {"limits": {"cpu": 100}},
    "a taint": {"taints": (Taint("dedicated", NO_SCHEDULE, "x"),)},
}


@pytest.mark.parametrize("way", UNREACHABLE)
def test_a_zone_that_the_pod_cannot_reach_does_not_hold_its_spread(way: str) -> None:
    """For kube-scheduler, only nodes make domains: the pods would wait for a node that never comes."""
    pools = (a_pool("ab", *A_AND_B), a_pool("c", *C_ONLY, **UNREACHABLE[way]))
    spread = TopologySpread(labels.ZONE, 1, selector=WEB)
    plan = plan_of(types=(TYPE,), node_pools=pools, pods=webs(6, spreads=(spread,)))
    assert reasons_of(plan) == {}
    assert sorted(Counter(zones_of_pod[0] for zones_of_pod in zones(plan).values()).values()) == [3, 3]


def test_a_zone_with_too_small_types_does_not_hold_the_spread_of_a_large_pod() -> None:
    """Zone c counts for pods that fit its types, and for no others."""
    small = a_type("s", cpu="1", zones=ZONES[2:])
    spread = TopologySpread(labels.ZONE, 1, selector=WEB)
    large = webs(4, cpu="1500m", spreads=(spread,))
    plan = plan_of(types=(a_type("l", cpu="2", zones=ZONES[:2]), small), pods=large)
    assert reasons_of(plan) == {}


def test_a_zone_does_not_hold_the_spread_of_pods_that_must_share_a_node() -> None:
    """An empty node in another zone is none for them: they would wait for ever."""
    spread = TopologySpread(labels.ZONE, 1, selector=WEB)
    plan = plan_of(types=(TYPE,), pods=webs(3, spreads=(spread,), affinity=(PodAffinityTerm(labels.HOSTNAME, WEB),)))
    assert (reasons_of(plan), len(plan.claims)) == ({}, 1)


def test_a_zone_that_the_pod_can_reach_still_counts_as_empty() -> None:
    """Otherwise, all pods start in one zone."""
    spread = TopologySpread(labels.ZONE, 1, selector=WEB)
    assert per_zone(plan_of(types=(TYPE,), pods=webs(6, spreads=(spread,)))) == [2, 2, 2]


def test_pods_of_nodes_that_nobody_launches_double_up() -> None:
    """Each node of the group has one replica: the least is one, and a second fits (podtopologyspread, filtering.go)."""
    nodes = tuple(a_node(f"n{i}", ZONES[0], pods="9", labels={"grp": "g"}) for i in range(2))
    pods = (running("r0", "n0"), running("r1", "n1"))
    spread = TopologySpread(labels.HOSTNAME, 1, selector=WEB)
    wanted = {"spreads": (spread,), "node_selector": (Requirement.one_of("grp", "g"),)}
    plan = plan_of(types=(TYPE,), nodes=nodes, pods=(*pods, *webs(5, **wanted)))
    assert reasons_of(plan) == {}
    assert sorted(Counter(places(plan).values()).values()) == [2, 3]


def test_a_zone_is_no_empty_domain_for_a_pod_that_no_new_node_can_take() -> None:
    """New nodes lack a label along which the pod is spread: only nodes with both labels make domains of its zones."""
    nodes = (a_node("n0", ZONES[0], pods="9", labels={"rack": "r1"}), a_node("n1", ZONES[1], pods="9"))
    by_rack, by_zone = (TopologySpread(key, 1, selector=WEB) for key in ("rack", labels.ZONE))
    plan = plan_of(types=(TYPE,), nodes=nodes, pods=(running("r", "n0"), *webs(1, spreads=(by_rack, by_zone))))
    assert places(plan) == {"p0": "n0"}


def test_a_zone_is_no_empty_domain_for_pods_that_must_all_be_in_another() -> None:
    """Pods that must join their own kind in a zone cannot be spread over zones: kube-scheduler counts the one with nodes."""
    together = (PodAffinityTerm(labels.ZONE, WEB),)
    plan = plan_of(
        types=(TYPE,), pods=webs(5, spreads=(TopologySpread(labels.ZONE, 1, selector=WEB),), affinity=together)
    )
    assert reasons_of(plan) == {}
    assert len({zone for claim in plan.claims for zone in claim.zones}) == 1


# DaemonSets' pods come with a new node, and rules between pods count them there.


ARM = a_type("arm", price=0.01)
ARM = structs.replace(ARM, labels={**ARM.labels, labels.ARCH: ("arm64",)})


def a_cache(**spec: Any) -> DaemonSet:
    wanted = {"requests": {"cpu": 10, "pods": 1}, "node_selector": (Requirement.one_of(labels.ARCH, "amd64"),)}
    return DaemonSet(namespace="default", name="cache", labels={"app": "cache"}, spec=PodSpec(**{**wanted, **spec}))


@pytest.mark.parametrize("key", [labels.HOSTNAME, labels.ZONE])
def test_a_pod_that_must_be_near_a_daemon_set_gets_a_node_that_runs_its_pod(key: str) -> None:
    """Otherwise, it waits for ever: the DaemonSet has no pod before there is a node."""
    near = (PodAffinityTerm(key, a_selector(app="cache")),)
    plan = plan_of(types=(TYPE, ARM), daemon_sets=(a_cache(),), pods=webs(2, affinity=near))
    assert reasons_of(plan) == {}
    assert {claim.instance_types for claim in plan.claims} == {(TYPE.name,)}
    gone = plan_of(types=(ARM,), daemon_sets=(a_cache(),), pods=webs(1, affinity=near))
    assert reasons_of(gone) == {"p0": PodReason.POD_AFFINITY}


@pytest.mark.parametrize("is_own", [True, False], ids=["the pod's rule", "the DaemonSet's rule"])
def test_a_pod_that_must_be_away_from_a_daemon_set_gets_a_node_without_its_pod(is_own: bool) -> None:
    """One of the two would stay pending, whichever comes second."""
    away = {"anti_affinity": (PodAffinityTerm(labels.HOSTNAME, a_selector(app="cache" if is_own else "web")),)}
    daemon = a_cache(**({} if is_own else away))
    plan = plan_of(types=(TYPE, ARM), daemon_sets=(daemon,), pods=webs(1, **(away if is_own else {})))
    assert [claim.instance_types for claim in plan.claims] == [(ARM.name,)]


def test_a_daemon_set_that_takes_most_of_a_node_counts_in_rules_like_any_other() -> None:
    """Whether its pod comes is asked of the empty node, not of the room that it leaves there."""
    term = (PodAffinityTerm(labels.HOSTNAME, a_selector(app="cache")),)
    large = a_cache(requests={"cpu": 3000, "pods": 1})
    near = plan_of(types=(TYPE,), daemon_sets=(large,), pods=webs(1, affinity=term))
    assert (reasons_of(near), len(near.claims)) == ({}, 1)
    away = plan_of(types=(TYPE, ARM), daemon_sets=(large,), pods=webs(1, anti_affinity=term))
    assert [claim.instance_types for claim in away.claims] == [(ARM.name,)]


@pytest.mark.parametrize("is_own", [True, False], ids=["the pod's rule", "the DaemonSet's rule"])
def test_a_daemon_sets_pod_that_is_yet_to_come_keeps_pods_off_an_existing_node(is_own: bool) -> None:
    """The controller makes it at once, and the scheduler then refuses the second of the two."""
    claim, node = a_node_of(TYPE, "n")
    away = {"anti_affinity": (PodAffinityTerm(labels.HOSTNAME, a_selector(app="cache" if is_own else "web")),)}
    daemon = a_cache(**({} if is_own else away))
    cluster = {"types": (TYPE, ARM), "nodes": (node,), "node_claims": (claim,), "daemon_sets": (daemon,)}
    plan = plan_of(pods=(*webs(1, **(away if is_own else {})), a_pod("other")), **cluster)
    assert places(plan) == {"p0": "default-0", "other": "n"}


@pytest.mark.parametrize("key", [labels.HOSTNAME, labels.ZONE])
def test_a_pod_that_must_be_near_a_daemon_set_joins_a_node_that_is_yet_to_get_its_pod(key: str) -> None:
    """Otherwise, a second node is launched for it while the first one starts."""
    pairs = [a_node_of(kind, name) for kind, name in ((ARM, "a"), (TYPE, "n"))]
    near = (PodAffinityTerm(key, a_selector(app="cache")),)
    cluster = {"nodes": tuple(node for _, node in pairs), "node_claims": tuple(claim for claim, _ in pairs)}
    plan = plan_of(types=(TYPE, ARM), daemon_sets=(a_cache(),), pods=webs(1, affinity=near), **cluster)
    assert places(plan) == {"p0": "n"}


def test_a_daemon_set_of_one_zone_promises_no_company() -> None:
    """The new node may come up in another zone."""
    near = (PodAffinityTerm(labels.HOSTNAME, a_selector(app="cache")),)
    of_zone = a_cache(node_selector=(Requirement.one_of(labels.ZONE, ZONES[0]),))
    assert len(plan_of(types=(TYPE,), daemon_sets=(of_zone,), pods=webs(1, affinity=near)).claims) == 0
