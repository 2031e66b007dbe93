"""Reading an EC2NodeClass."""

from __future__ import annotations

from tests.unit.catalogue.sized_types import (
    one_type,
)


def test_nulls_mean_not_set() -> None:
    """Manifests written by tools contain nulls; the API server drops them."""
    assert one_type("m5.large", kubelet=None, blockDeviceMappings=None, userData=None) == one_type("m5.large")
