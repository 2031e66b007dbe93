"""Paths of the API server."""

from __future__ import annotations

from core.manifests.wire.api_resources import ALL, BY_KIND, NODES, POD_DISRUPTION_BUDGETS, PODS


def test_paths() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("p", "shop", "eviction") == "/api/v1/namespaces/shop/pods/p/eviction"
    assert NODES.path("n") == "/api/v1/nodes/n"
    assert POD_DISRUPTION_BUDGETS.path(namespace="shop") == "/apis/policy/v1/namespaces/shop/poddisruptionbudgets"
    assert (PODS.api_version, POD_DISRUPTION_BUDGETS.api_version) == ("v1", "policy/v1")


def test_a_kind_is_listed_once() -> None:
    assert len(BY_KIND) == len(ALL)
