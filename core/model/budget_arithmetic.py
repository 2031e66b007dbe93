"""What a PodDisruptionBudget can ever allow, by the arithmetic of the Kubernetes controller."""

from __future__ import annotations

from core.model.policy import PodDisruptionBudget


def scaled(text: str, total: int) -> int:
    """A number, or a percentage of `total` rounded up. What is neither counts as all of them: nothing may go."""
    number = text.removesuffix("%")
    if not number.isdecimal():
        return total
    return -(-total * int(number) // 100) if text.endswith("%") else int(number)


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
