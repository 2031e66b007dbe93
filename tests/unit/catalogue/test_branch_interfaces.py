"""Pods with their own security groups."""

from __future__ import annotations

import pytest

from tests.unit.catalogue.sized_types import (
    default_types,
)


@pytest.mark.parametrize(
    ("name", "limit"), [("m5.large", 9), ("c5.18xlarge", 107), ("p4d.24xlarge", None), ("t3.large", 0)]
)
def test_pods_with_their_own_security_groups_are_counted(name: str, limit: int | None) -> None:
    """Such pods request a branch interface each, and would find no node without it."""
    found = default_types()[name].capacity.get("vpc.amazonaws.com/pod-eni", 0)
    assert found == limit if limit is not None else found > 0
