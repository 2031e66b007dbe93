"""Computes how many pods a PodDisruptionBudget allows to be evicted, now and ever, like the Kubernetes controller."""

from __future__ import annotations

from collections.abc import Iterable

from core.model.pod import Pod
from core.model.policy import PodDisruptionBudget


def scaled(text: str, total: int) -> int:
    """Return a number, or a percentage of `total` rounded up. Any other value counts as `total`: no pod may be evicted."""
    number = text.removesuffix("%")
    if not number.isdecimal():
        return total
    return -(-total * int(number) // 100) if text.endswith("%") else int(number)


def disruptions_allowed(budget: PodDisruptionBudget, members: Iterable[Pod]) -> int:
    """Return how many of its pods may be evicted now: the number in its status, else healthy pods minus required ones.

    Without a status, the number of selected pods, `members`, counts as the workload's replicas.
    """
    if budget.disruptions_allowed is not None:
        return budget.disruptions_allowed
    pods = list(members)
    healthy = sum(pod.is_active and pod.is_ready is not False and pod.phase == "Running" for pod in pods)
    if budget.max_unavailable is not None:
        wanted = max(0, len(pods) - scaled(budget.max_unavailable, len(pods)))
    elif budget.min_available is not None:
        wanted = scaled(budget.min_available, len(pods))
    else:
        wanted = 0
    return max(0, healthy - wanted)


def never_allows(budget: PodDisruptionBudget, expected: int) -> str:
    """Return why the budget never lets a healthy pod go; empty if it may do so later.

    Args:
        budget: The budget.
        expected: How many pods its workload should have: `budget.expected_pods` if its status has the number.
    """
    if expected <= 0:
        return ""
    pods = f"{expected} pod" if expected == 1 else f"{expected} pods"
    if budget.max_unavailable is not None:
        spares = scaled(budget.max_unavailable, expected)
        return "" if spares > 0 else f"maxUnavailable {budget.max_unavailable} spares none of {pods}"
    if budget.min_available is None:
        return ""
    wanted = scaled(budget.min_available, expected)
    return "" if wanted < expected else f"minAvailable {budget.min_available} wants {wanted} of {pods}"
