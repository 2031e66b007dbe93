"""Which label keys users may set or require."""

from __future__ import annotations

import pytest

from core.api.schemas.label_keys import cel_is_free, is_restricted


@pytest.mark.parametrize(
    ("key", "of_pools", "of_overlays"),
    [
        ("team", False, False),
        ("example.com/team", False, False),
        ("kubernetes.io/hostname", True, True),
        ("karpenter.sh/capacity-type", False, False),
        ("karpenter.sh/initialized", True, True),
        ("sub.karpenter.sh/any", True, True),
        ("karpenter.k8s.aws/instance-family", False, False),
        ("karpenter.k8s.aws/unknown", True, True),
        ("karpenter.k8s.aws/instance-tenancy", False, True),
        ("karpenter.k8s.aws/capacity-reservation-id", False, True),
    ],
)
def test_domains_of_the_provisioner_are_its_own_but_for_labels_of_types(
    key: str, of_pools: bool, of_overlays: bool
) -> None:
    assert is_restricted(key) is of_pools
    assert is_restricted(key, for_overlay=True) is of_overlays


def test_the_api_server_is_told_the_same_keys() -> None:
    assert "karpenter.k8s.aws/instance-tenancy" in cel_is_free("key")
    assert "karpenter.k8s.aws/instance-tenancy" not in cel_is_free("key", for_overlay=True)
