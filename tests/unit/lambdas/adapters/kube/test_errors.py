from __future__ import annotations

from core.manifests.wire import api_resources as kinds
from lambdas.adapters.kube.errors import of_listing
from lambdas.ports import DeniedError


def test_a_kind_that_is_not_served_says_what_to_apply() -> None:
    """Otherwise, a cluster with definitions of another release fails with a bare 404, which elsewhere means success."""
    error = of_listing("kube:list nodepools", kinds.NODE_POOLS, 404, b"404 page not found\n")
    assert isinstance(error, DeniedError)
    assert "karpenter.sh/v1" in str(error)
    assert "fleetwright crds" in str(error)
