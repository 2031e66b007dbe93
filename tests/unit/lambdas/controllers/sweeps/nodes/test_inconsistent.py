"""A node that is smaller than its type is reported, and stays."""

from __future__ import annotations

import pytest

from core.manifests.wire import api_resources as kinds
from tests.fakes.lab import Lab
from tests.unit.lambdas.controllers.sweeps.one_node import a_working_node, event_objects, sweep


def a_small_node(cpu: str) -> Lab:
    """A working node, launched with two processors and a pod that requests some, whose status says it has `cpu`."""
    lab = a_working_node()
    assert (lab.claim.machine or pytest.fail("no machine")).capacity["cpu"] == 2000
    (name,) = lab.kubernetes.names(kinds.NODES)
    lab.kubernetes.amend(kinds.NODES, name, {"status": {"capacity": {"cpu": cpu}}})
    lab.clock.advance(minutes=10)
    return lab


def test_a_node_smaller_than_its_type_is_reported_once_and_stays() -> None:
    """Otherwise, it is unknown why pods that were planned for it do not fit (Karpenter, consistency checks)."""
    lab = a_small_node("1799m")
    for _ in range(2):
        report = lab.reconcile()
        assert report.counts["inconsistentNodes"] == 1
        lab.tick(2)
        lab.clock.advance(minutes=70)
    (name,) = lab.kubernetes.names(kinds.NODES)
    assert event_objects(lab, "FailedConsistencyCheck") == [("Node", name)]
    assert lab.claim.message == f"node {name} has 1799m of cpu where 2 was expected"
    assert lab.claim.deletion is None


def test_a_node_with_nine_tenths_of_its_type_is_large_enough() -> None:
    """Memory is estimated before a first boot."""
    lab = a_small_node("1800m")
    report = lab.reconcile()
    lab.tick(2)
    assert not report.counts.get("inconsistentNodes")
    assert event_objects(lab, "FailedConsistencyCheck") == []


def test_a_claim_whose_node_is_gone_is_compared_with_nothing() -> None:
    lab = a_small_node("1000m")
    (name,) = lab.kubernetes.names(kinds.NODES)
    lab.kubernetes.drop(kinds.NODES, name)
    assert sweep(lab, "inconsistentNodes").counts == {"inconsistentNodes": 0}
