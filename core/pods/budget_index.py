"""Finds the PodDisruptionBudgets that select a pod without checking every budget of its namespace."""

from __future__ import annotations

from collections.abc import Iterable

from core.model.pod import Pod
from core.model.policy import PodDisruptionBudget
from core.model.values.requirements import Requirement


class BudgetIndex:
    """Budgets by namespace, and by the values that they require of one label; most require one value of one label."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._open: dict[str, list[PodDisruptionBudget]] = {}
        self._by_value: dict[tuple[str, str, str], list[PodDisruptionBudget]] = {}
        keys: dict[str, set[str]] = {}
        self._known: dict[tuple[str, tuple[str | None, ...]], tuple[PodDisruptionBudget, ...]] = {}
        for budget in budgets:
            keys.setdefault(budget.namespace, set()).update(_keys_read(budget))
            required = _required(budget)
            if required is None:
                self._open.setdefault(budget.namespace, []).append(budget)
                continue
            for value in required.values:
                self._by_value.setdefault((budget.namespace, required.key, value), []).append(budget)
        self._keys = {namespace: tuple(sorted(read)) for namespace, read in keys.items()}

    def selecting(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        """Return the budgets that select the pod, by name."""
        keys = self._keys.get(pod.namespace)
        if keys is None:
            return ()
        # Pods with equal labels among those that budgets read have the same budgets; most have those of a whole workload.
        question = pod.namespace, tuple(map(pod.labels.get, keys))
        found = self._known.get(question)
        if found is None:
            found = self._known[question] = self._selecting(pod)
        return found

    def _selecting(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        near = list(self._open.get(pod.namespace, ()))
        for key, value in pod.labels.items():
            near += self._by_value.get((pod.namespace, key, value), ())
        return tuple(sorted((budget for budget in near if budget.selects(pod)), key=lambda budget: budget.name))


def _keys_read(budget: PodDisruptionBudget) -> set[str]:
    return {requirement.key for requirement in budget.selector.requirements} if budget.selector is not None else set()


def _required(budget: PodDisruptionBudget) -> Requirement | None:
    """Return the first label of which the budget requires certain values, and these; None if there is none."""
    requirements = budget.selector.requirements if budget.selector is not None else ()
    return next((r for r in requirements if r.operator == "In"), None)
