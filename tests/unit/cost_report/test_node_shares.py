"""Namespaces share a node by requests."""

from __future__ import annotations

from core.cost_report.node_shares import IDLE, node_shares
from core.model.state_node import state_nodes
from tests.builders import a_pod
from tests.unit.cost_report.period_for_tests import a_look


def test_namespaces_share_a_node_by_the_larger_request_share_and_never_more_than_all_of_it() -> None:
    (state,) = state_nodes(a_look())
    assert node_shares(state) == {"data": 0.25, "shop": 0.5, IDLE: 0.25}
    full = a_look(pods=tuple(a_pod(n, cpu="3", namespace=n, node_name="node-1") for n in ("x", "y")))
    assert node_shares(state_nodes(full)[0]) == {"x": 0.5, "y": 0.5}
    exact = a_look(pods=tuple(a_pod(n, cpu="2", namespace=n, node_name="node-1") for n in ("x", "y")))
    assert node_shares(state_nodes(exact)[0]) == {"x": 0.5, "y": 0.5, IDLE: 0.0}
