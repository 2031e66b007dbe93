"""PodDisruptionBudgets on the wire."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core.manifests.wire.pod_disruption_budget import WirePodDisruptionBudget


def a_budget(**spec: Any) -> WirePodDisruptionBudget:
    return msgspec.convert({"metadata": {"name": "web"}, "spec": spec}, WirePodDisruptionBudget)


@pytest.mark.parametrize("bound", [1, "50%"])
def test_a_bound_is_a_count_or_a_share(bound: int | str) -> None:
    assert a_budget(maxUnavailable=bound).spec.max_unavailable == bound
    assert a_budget(minAvailable=bound).spec.min_available == bound


def test_a_budget_without_a_status_says_nothing_of_what_it_allows() -> None:
    """Otherwise, an absent status would read as no disruption allowed."""
    assert a_budget().status.disruptions_allowed is None
