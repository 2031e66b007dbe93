"""How many evictions a PodDisruptionBudget allows, now and ever."""

from __future__ import annotations

from typing import Any

import pytest

from core.pods.budget_arithmetic import disruptions_allowed, never_allows
from tests.unit.pods.test_disruption_budgets import budget, running


@pytest.mark.parametrize(
    ("changes", "pods", "expected"),
    [
        ({"disruptions_allowed": 2, "max_unavailable": "0"}, 4, 2),
        ({"max_unavailable": "0"}, 4, 0),
        ({"max_unavailable": "1"}, 4, 1),
        ({"max_unavailable": "30%"}, 4, 2),
        ({"min_available": "100%"}, 4, 0),
        ({"min_available": "50%"}, 3, 1),
        ({"min_available": "3"}, 4, 1),
        ({"min_available": "9"}, 4, 0),
        ({"min_available": "some"}, 4, 0),
        ({}, 4, 4),
    ],
)
def test_allowance(changes: dict[str, Any], pods: int, expected: int) -> None:
    """The status counts if there is one; before the controller has written it, the computed value does."""
    assert disruptions_allowed(budget(**changes), [running(str(n)) for n in range(pods)]) == expected


def test_unready_pods_use_up_the_allowance() -> None:
    """One of three is down already: with at most one unavailable, no other may go."""
    pods = [running("a"), running("b"), running("c", is_ready=False)]
    assert disruptions_allowed(budget(max_unavailable="1"), pods) == 0


def test_a_pod_that_does_not_run_yet_is_not_healthy() -> None:
    pods = [running("a"), running("b"), running("c", phase="Pending")]
    assert disruptions_allowed(budget(max_unavailable="1"), pods) == 0


@pytest.mark.parametrize(
    ("changes", "replicas", "why"),
    [
        ({"max_unavailable": "0"}, 3, "maxUnavailable 0 spares none of 3 pods"),
        ({"max_unavailable": "0%"}, 3, "maxUnavailable 0% spares none of 3 pods"),
        ({"max_unavailable": "1%"}, 3, ""),
        ({"min_available": "1"}, 1, "minAvailable 1 wants 1 of 1 pod"),
        ({"min_available": "3"}, 3, "minAvailable 3 wants 3 of 3 pods"),
        ({"min_available": "2"}, 3, ""),
        ({"min_available": "100%"}, 3, "minAvailable 100% wants 3 of 3 pods"),
        ({"min_available": "67%"}, 3, "minAvailable 67% wants 3 of 3 pods"),
        ({"min_available": "66%"}, 3, ""),
        ({"min_available": "50%"}, 1, "minAvailable 50% wants 1 of 1 pod"),
        ({"min_available": "1"}, 0, ""),
        ({}, 1, ""),
    ],
)
def test_budgets_that_never_let_a_pod_go(changes: dict[str, Any], replicas: int, why: str) -> None:
    """A node under such a budget cannot be drained; a node under another one only has to wait."""
    assert never_allows(budget(**changes), replicas) == why
