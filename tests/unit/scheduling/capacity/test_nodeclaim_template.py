"""Zone ids and open labels of NodePools: existing nodes have a zone id, new ones cannot be chosen by it."""

from __future__ import annotations

import msgspec

from core import labels
from core.model.values.requirements import Requirement
from core.reasons.pod import PodReason
from core.scheduling.capacity.nodeclaim_template import any_value, why_unusable
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.reading import places, plan_of

TYPE = a_type("m")
ASKED = Requirement.one_of(labels.ZONE_ID, "use1-az1")


def test_no_node_is_launched_for_a_zone_id() -> None:
    """A node in the wrong zone would be launched, and another one after it, again and again."""
    (entry,) = plan_of(types=(TYPE,), pods=(a_pod("p", node_selector=(ASKED,)),)).unschedulable
    assert entry.reason == PodReason.REQUIREMENT_NOT_MET
    assert labels.ZONE_ID in entry.message


def test_a_node_that_carries_the_zone_id_is_used() -> None:
    """Otherwise, a pod would wait although a node fits."""
    claim, node = a_node_of(TYPE, "n")
    node = msgspec.structs.replace(node, labels={**node.labels, labels.ZONE_ID: "use1-az1"})
    plan = plan_of(types=(TYPE,), nodes=(node,), node_claims=(claim,), pods=(a_pod("p", node_selector=(ASKED,)),))
    assert places(plan) == {"p": "n"}


def test_a_pool_that_requires_a_zone_id_is_told_the_alternative() -> None:
    """Otherwise, its nodes would be labelled with a zone id that is not theirs."""
    (entry,) = plan_of(types=(TYPE,), node_pools=(a_pool("default", ASKED),), pods=(a_pod("p"),)).unschedulable
    assert entry.reason == PodReason.NO_NODE_POOL
    assert f"use {labels.ZONE}" in entry.message


def test_a_pool_says_why_it_launches_nothing() -> None:
    """Otherwise, pods wait for a NodePool that is broken without any report."""
    snapshot = a_snapshot(types=(TYPE,))
    contradiction = a_pool("p", Requirement.one_of("team", "a"), Requirement.one_of("team", "b"))
    assert why_unusable(a_pool("p"), snapshot) == ""
    assert why_unusable(a_pool("p", is_ready=False), snapshot) == "is not ready"
    assert "no value of team" in why_unusable(contradiction, snapshot)


def test_an_open_label_gets_the_first_free_value() -> None:
    """Otherwise, two nodes that must differ in it get the same one."""
    assert any_value(Requirement.one_of("team", "a", "b"), ("a",)) == "b"
    assert any_value(Requirement.one_of("team", "a"), ("a",)) is None
    assert any_value(Requirement.of("rack", "Gt", ["3"]), ("4",)) == "5"
