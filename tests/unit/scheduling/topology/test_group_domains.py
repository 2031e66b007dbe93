"""Which domains exist and which could be created."""

from __future__ import annotations

from core import labels
from core.model.pod import TopologySpread
from core.model.values.requirements import Requirement
from core.scheduling.primitives.handles import TopologyGroupId
from core.scheduling.topology.group_domains import GroupDomains
from tests.builders import ZONES, a_node_of, a_pod, a_selector, a_type
from tests.unit.scheduling.reading import context_of

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
