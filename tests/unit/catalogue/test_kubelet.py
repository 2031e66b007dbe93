"""The kubelet settings that affect a node's size."""

from __future__ import annotations

from tests.unit.catalogue.sized_types import (
    one_type,
)


def test_reservations_given_as_expressions_are_ignored() -> None:
    """Karpenter's feature gate for expressions is off by default; sizes must agree with that."""
    assert one_type("m5.large", kubelet={"kubeReserved": {"cpu": "vcpus * 10"}}) == one_type("m5.large")
