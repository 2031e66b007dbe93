"""Explanations of a whole workload and of a NodePool."""

from __future__ import annotations

from core.explain_group import explain_pods, explain_pool
from core.model.values.taints import Taint
from tests.builders import a_pod, a_pool, a_snapshot, a_type


def test_a_workload_says_where_its_pods_go_and_why_one_has_no_place() -> None:
    pods = (a_pod("web-0", cpu="1"), a_pod("web-1", cpu="64"), a_pod("web-2", cpu="64"))
    snapshot = a_snapshot(types=(a_type(),), pods=pods, node_pools=(a_pool("general"),))
    found = explain_pods(snapshot, "Deployment default/web", pods)
    text = str(found)
    assert text.startswith("Deployment default/web has 3 pods, 2 of them without a place [NoOfferingFits]\n")
    assert "  1 gets a new node, general-0\n" in text
    assert "  2 have no place [NoOfferingFits]\n  default/web-1:\n" in text
    assert found.has_no_place
    assert [pool.node_pool for pool in found.pools] == ["general"]


def test_a_workload_whose_pods_all_run_or_have_a_place_is_no_negative_answer() -> None:
    pods = (a_pod("web-0", node_name="n", phase="Running"), a_pod("web-1"))
    snapshot = a_snapshot(types=(a_type(),), pods=pods, node_pools=(a_pool("general"),))
    found = explain_pods(snapshot, "Deployment default/web", pods)
    assert not found.has_no_place
    assert found.details == ("1 runs on n", "1 gets a new node, general-0")


def test_a_node_pool_says_what_it_can_launch_what_limits_leave_and_what_is_launched() -> None:
    pool = a_pool("general", limits={"cpu": 8_000}, taints=(Taint("team", "NoSchedule", "a"),))
    pod = a_pod("web-0")
    snapshot = a_snapshot(types=(a_type(),), pods=(pod,), node_pools=(pool,))
    text = str(explain_pool(snapshot, pool))
    assert text.startswith("NodePool general can launch 1 instance type, from ")
    assert "limit of cpu: 8 of 8 left" in text
    assert "pods need a toleration of team=a:NoSchedule" in text
    assert "this plan launches nothing from it" in text


def test_a_node_pool_that_launches_nothing_says_why() -> None:
    pool = a_pool("general", replicas=2)
    snapshot = a_snapshot(types=(a_type(),), node_pools=(pool,))
    assert explain_pool(snapshot, pool).outcome.startswith("is static")
