"""The kubelet settings that size a node."""

from __future__ import annotations

from tests.unit.catalogue.sized_types import (
    one_type,
)


def test_reservations_by_expression_count_for_nothing() -> None:
    """Karpenter's gate for expressions is off by default; sizes must agree with its default."""
    assert one_type("m5.large", kubelet={"kubeReserved": {"cpu": "vcpus * 10"}}) == one_type("m5.large")
