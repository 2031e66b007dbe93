"""Fields such as maxUnavailable: a whole number, or a percentage of something."""

from __future__ import annotations


def amount(value: int | str, total: int, *, round_up: bool) -> int:
    """Return the number. Kubernetes rounds budgets and surge up, and a rollout's maxUnavailable down."""
    if isinstance(value, int) or not value.endswith("%"):
        return int(value)
    share = int(value[:-1]) * total
    return -(-share // 100) if round_up else share // 100
