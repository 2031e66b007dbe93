"""Topology rules as groups that pods share."""

from __future__ import annotations

import pytest

from core import labels
from core.model.pod import IGNORE, SCHEDULE_ANYWAY, LabelSelector, PodAffinityTerm, PodSpec, TopologySpread
from core.model.values.requirements import Requirement, Requirements
from core.model.values.taints import Taint, Toleration
from core.scheduling.topology.topology_group import (
    AFFINITY,
    Namespaces,
    TopologyNodeFilter,
    affinity_group,
    spread_group,
)
from tests.builders import a_selector

NAMESPACES = Namespaces({"web": {"team": "a"}, "db": {"team": "a"}, "other": {}})
TEAM = a_selector(team="a")


@pytest.mark.parametrize(
    ("term", "found"),
    [
        (PodAffinityTerm("k"), ("web",)),
        (PodAffinityTerm("k", namespaces=("other", "db", "db")), ("db", "other")),
        (PodAffinityTerm("k", namespace_selector=LabelSelector()), None),
        (PodAffinityTerm("k", namespace_selector=TEAM), ("db", "web")),
        (PodAffinityTerm("k", namespaces=("other",), namespace_selector=TEAM), ("db", "other", "web")),
        (PodAffinityTerm("k", namespace_selector=a_selector(**{"kubernetes.io/metadata.name": "db"})), ("db",)),
    ],
)
def test_a_term_speaks_of_its_namespaces_or_else_of_its_own(
    term: PodAffinityTerm, found: tuple[str, ...] | None
) -> None:
    assert NAMESPACES.of_term(term, "web") == found


def test_label_keys_add_the_pods_own_values_to_the_selector() -> None:
    """A rollout's new pods spread among themselves, not among the old ones."""
    own = {"app": "a", "pod-template-hash": "x"}
    term = PodAffinityTerm(labels.HOSTNAME, a_selector(app="a"), match_label_keys=("pod-template-hash", "absent"))
    group = affinity_group(AFFINITY, term, "web", own, NAMESPACES)
    assert group.is_hostname
    assert group.selects("web", own)
    assert not group.selects("web", {**own, "pod-template-hash": "y"})
    assert not group.selects("db", own)
    unlike = PodAffinityTerm(labels.ZONE, a_selector(app="a"), mismatch_label_keys=("pod-template-hash",))
    other = affinity_group(AFFINITY, unlike, "web", own, NAMESPACES)
    assert (other.selects("web", own), other.selects("web", {**own, "pod-template-hash": "y"})) == (False, True)


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
