"""Which domains exist and which could be created."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from core import labels
from core.model.node_pool import NodePool
from core.model.pod import HONOR, NodeSelectorTerm, Pod, PodAffinityTerm, TopologySpread
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint, Toleration
from core.scheduling.primitives.handles import TopologyGroupId
from core.scheduling.topology.group_domains import GroupDomains
from tests.builders import ZONES, a_node_of, a_pod, a_pool, a_selector, a_type
from tests.unit.scheduling.reading import context_of, group_of

TYPE = a_type("m", zones=ZONES[:2])
SPREAD = TopologySpread(topology_key=labels.ZONE, max_skew=1, selector=a_selector(app="web"))


def domains_for(**spec: object) -> GroupDomains:
    claim, node = a_node_of(TYPE, zone=ZONES[2])
    running = a_pod("r", labels={"app": "web"}, node_name=node.name, phase="Running")
    waiting = a_pod("w", labels={"app": "web"}, spreads=(SPREAD,), **spec)
    context = context_of(types=(TYPE,), pods=(running, waiting), nodes=(node,), node_claims=(claim,))
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
    context = context_of(types=(TYPE,), pods=(waiting, *others), node_pools=pools)
    return context.topology.domains.possible(TopologyGroupId(0))


def test_the_domains_of_new_nodes_are_those_that_their_pools_allow() -> None:
    """An open label may have each value that some pod requires, and the one that a node gets by default."""
    red, blue = (a_pod(rack, node_selector=(Requirement.one_of("rack", rack),)) for rack in ("red", "blue"))
    green = a_pod("green", required_terms=(NodeSelectorTerm((Requirement.one_of("rack", "green"),)),))
    for requirements, others, found in (
        ((), (red,), ()),
        ((Requirement.one_of("rack", "b", "a"),), (red,), ("a", "b")),
        ((Requirement.of("rack", "Exists"),), (), ("0",)),
        ((Requirement.of("rack", "Exists"),), (red, blue, green), ("0", "blue", "green", "red")),
        ((Requirement.of("rack", "NotIn", ["red", "0"]),), (red, blue), ("1", "blue")),
        ((Requirement.of("rack", "DoesNotExist"),), (red,), ()),
        ((Requirement.of("rack", "Exists"), Requirement.one_of(labels.ARCH, "arm64")), (red,), ()),
    ):
        assert possible(RACK, (a_pool("default", *requirements),), *others) == found


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
    terms = tuple(NodeSelectorTerm((one,)) for one in (second, nowhere))
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
    pairs = [a_node_of(TYPE, f"n{place}", zone=zone) for place, zone in enumerate(ZONES)]
    running = tuple(
        a_pod(f"r{number}", labels={"app": "web"}, node_name=name, phase="Running")
        for number, name in enumerate(("n1", "n2", "n2"))
    )
    for name, rule in rules.items():
        context = context_of(
            types=(TYPE,),
            pods=(*running, a_pod("w", labels={"app": "web"}, **rule)),
            nodes=tuple(node for _, node in pairs),
            node_claims=tuple(claim for claim, _ in pairs),
        )
        found = context.topology.domains.running(TopologyGroupId(0))
        assert found == ({"n1": 1, "n2": 2} if name == "hosts" else {ZONES[1]: 1, ZONES[2]: 2})


def test_each_node_is_admitted_by_itself() -> None:
    """Otherwise, pods of a node that the owner cannot use bar its zone, or those of one that it can use do not."""
    pairs = [a_node_of(TYPE, f"n{place}", zone=zone) for place, zone in enumerate((*ZONES, ZONES[1]))]
    selector = (Requirement.one_of(labels.ZONE, ZONES[0], ZONES[2]),)
    unlabelled = replace(pairs[3][1], labels={})
    waiting = a_pod("w", labels={"app": "web"}, spreads=(SPREAD,), node_selector=selector)
    near = a_pod("near", affinity=(PodAffinityTerm(labels.ZONE, a_selector(app="web")),))
    context = context_of(
        types=(TYPE,),
        pods=(waiting, near),
        nodes=(*(node for _, node in pairs[:3]), unlabelled),
        node_claims=tuple(claim for claim, _ in pairs),
    )
    domains = context.topology.domains
    honoring, every = (group_of(context, name).steps[0].zone_rules[0].group for name in ("w", "near"))
    assert [domains.at(honoring, position) for position in range(4)] == [ZONES[0], None, ZONES[2], None]
    assert [domains.at(every, position) for position in range(3)] == list(ZONES)
    assert domains.of_nodes(honoring) == {ZONES[0]: 1, ZONES[2]: 1}
