"""Computes how many pods a PodDisruptionBudget lets go, now and ever, as the Kubernetes controller does."""

from __future__ import annotations

from collections.abc import Iterable

from core.model.pod import Pod
from core.model.policy import PodDisruptionBudget


def scaled(text: str, total: int) -> int:
    """Return a number, or a percentage of `total` rounded up. Any other value counts as all of them: nothing may go."""
    number = text.removesuffix("%")
    if not number.isdecimal():
        return total
    return -(-total * int(number) // 100) if text.endswith("%") else int(number)


def disruptions_allowed(budget: PodDisruptionBudget, members: Iterable[Pod]) -> int:
    """Return how many of its pods may be evicted now: what its status says, else healthy pods minus the required ones.

    Without a status the selected pods, `members`, stand for the workload's wanted replicas.
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
    """Why the budget lets no healthy pod go, however long one waits; empty where waiting may help.

    Args:
        budget: The budget.
        expected: How many pods its workload wants, `budget.expected_pods` where its status says so.
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
