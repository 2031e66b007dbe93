"""Which pods may be evicted now: PodDisruptionBudgets, as the eviction API would answer and Karpenter asks."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from datetime import datetime
from typing import Final

from core.model.budget_arithmetic import never_allows, scaled
from core.model.pod import Pod
from core.model.policy import PodDisruptionBudget, WorkloadSelector
from core.model.snapshot import Snapshot
from core.model.values.taints import DISRUPTED

Key = tuple[str, str]
"""Namespace and name of a budget."""

_RUNNING: Final = "Running"


def is_evictable(pod: Pod, now: datetime) -> bool:
    """Whether draining would evict the pod: alive, no mirror pod, neither tolerant of the drain nor protected from it."""
    tolerates = any(toleration.tolerates(DISRUPTED) for toleration in pod.spec.tolerations)
    return pod.is_active and not tolerates and not pod.is_static and not pod.blocks_disruption(now)


class EvictionLedger:
    """What the budgets still allow while a plan is made.

    A node alone may hold more pods of a budget than may go at once: draining takes them one after the other. Nodes that go
    together must respect the allowance together.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._now = snapshot.now
        self._by_namespace: dict[str, list[PodDisruptionBudget]] = {}
        for budget in sorted(snapshot.budgets, key=lambda b: (b.namespace, b.name)):
            self._by_namespace.setdefault(budget.namespace, []).append(budget)
        members = self._selected(snapshot.pods)
        self._allowed = {
            (b.namespace, b.name): disruptions_allowed(b, members.get((b.namespace, b.name), []))
            for budgets in self._by_namespace.values()
            for b in budgets
        }
        self._members = members
        self._scales = {(w.namespace, w.kind, w.name): w for w in snapshot.workload_selectors}
        self._used: dict[Key, int] = {}
        self._guarded_by: dict[str, list[PodDisruptionBudget]] = {}

    def copy(self) -> EvictionLedger:
        """A ledger that starts from what this one has counted so far."""
        other = copy(self)
        other._used = dict(self._used)  # noqa: SLF001 - a copy of our own kind
        return other

    def blocking(self, pods: Iterable[Pod]) -> tuple[Pod, str] | None:
        """The first pod that may not be evicted now, and the budgets that say so; None where all may.

        One whose budget never lets go is passed over where its owner lets it be brought up elsewhere first (`may_surge`).
        """
        for pod in pods:
            budgets = self._guards(pod)
            names = ", ".join(budget.name for budget in budgets)
            if len(budgets) > 1:
                return pod, names
            if pod.may_surge and budgets and self._never_allows(budgets[0]):
                continue
            if any(self._allowed[b.namespace, b.name] <= 0 for b in budgets):
                return pod, names
        return None

    def objection(self, pods: Iterable[Pod]) -> str:
        """Why the first pod that may not be evicted now may not, in one sentence; empty where all may."""
        blocked = self.blocking(pods)
        if blocked is None:
            return ""
        pod, names = blocked
        return self.lasting_objection([pod]) or f"PodDisruptionBudget {names} does not let pod {pod.key} be evicted now"

    def lasting_objection(self, pods: Iterable[Pod]) -> str:
        """Why one of the pods cannot be evicted however long one waits; empty where waiting may help."""
        for pod in pods:
            budgets = self._guards(pod)
            if len(budgets) > 1:
                names = ", ".join(budget.name for budget in budgets)
                return f"PodDisruptionBudgets {names} all select pod {pod.key}, so it cannot be evicted at all"
            for budget in budgets:
                why = "" if pod.may_surge else self._never_allows(budget)
                if why:
                    return f"PodDisruptionBudget {budget.name} never lets pod {pod.key} be evicted: {why}"
        return ""

    def allows_together(self, nodes: Iterable[Iterable[Pod]]) -> bool:
        """Whether these nodes (the pods of each) may go besides those already taken."""
        used = dict(self._used)
        for pods in nodes:
            demand = self._demand(pods)
            for key, count in demand.items():
                before = used.get(key, 0)
                if before and before + count > self._allowed[key]:
                    return False
                used[key] = before + count
        return True

    def take(self, pods: Iterable[Pod]) -> None:
        """Count the pods of a node that goes."""
        for key, count in self._demand(pods).items():
            self._used[key] = self._used.get(key, 0) + count

    def _demand(self, pods: Iterable[Pod]) -> dict[Key, int]:
        demand: dict[Key, int] = {}
        for pod in pods:
            for budget in self._guards(pod):
                key = (budget.namespace, budget.name)
                demand[key] = demand.get(key, 0) + 1
        return demand

    def _guards(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The budgets that an eviction of the pod would be checked against; remembered, as a round asks often."""
        budgets = self._by_namespace.get(pod.namespace)
        if not budgets:
            return []
        known = self._guarded_by.get(pod.key)
        if known is None:
            found = [b for b in budgets if b.selects(pod) and not b.exempts(pod)]
            known = self._guarded_by[pod.key] = found if is_evictable(pod, self._now) else []
        return known

    def _never_allows(self, budget: PodDisruptionBudget) -> str:
        """Why the budget never lets a pod go, empty where it may; one that allows a disruption now may."""
        key = (budget.namespace, budget.name)
        if self._allowed[key] > 0:
            return ""
        expected = budget.expected_pods
        return never_allows(budget, self._scale(self._members.get(key, ())) if expected is None else expected)

    def _scale(self, members: Iterable[Pod]) -> int:
        """How many pods their workloads want: a Deployment counts for its ReplicaSets, a pod without workload for itself."""
        wanted: dict[tuple[str, str, str], int] = {}
        for pod in members:
            owner = next((owner for owner in pod.owners if owner.is_controller), None)
            found = self._scales.get((pod.namespace, owner.kind, owner.name)) if owner else None
            if found is not None and found.kind == "ReplicaSet":
                found = self._deployment_of(pod) or found
            if found is not None and found.replicas is not None:
                wanted[found.namespace, found.kind, found.name] = found.replicas
            else:
                wanted[pod.namespace, "Pod", pod.name] = 1
        return sum(wanted.values())

    def _deployment_of(self, pod: Pod) -> WorkloadSelector | None:
        found = [w for w in self._scales.values() if w.kind == "Deployment" and w.namespace == pod.namespace]
        matching = [w for w in found if w.selector is not None and w.selector.matches(pod.labels)]
        return min(matching, key=lambda w: w.name, default=None)

    def _selected(self, pods: Iterable[Pod]) -> dict[Key, list[Pod]]:
        members: dict[Key, list[Pod]] = {}
        for pod in pods:
            for budget in self._by_namespace.get(pod.namespace, []):
                if not pod.is_terminal and budget.selects(pod):
                    members.setdefault((budget.namespace, budget.name), []).append(pod)
        return members


def disruptions_allowed(budget: PodDisruptionBudget, members: Iterable[Pod]) -> int:
    """How many of its pods may be evicted now: what its status says, else by the arithmetic of the Kubernetes controller.

    Percentages round up. Without a status the selected pods stand for the workload's wanted replicas.
    """
    if budget.disruptions_allowed is not None:
        return budget.disruptions_allowed
    pods = list(members)
    healthy = sum(pod.is_active and pod.is_ready is not False and pod.phase == _RUNNING for pod in pods)
    if budget.max_unavailable is not None:
        wanted = max(0, len(pods) - scaled(budget.max_unavailable, len(pods)))
    elif budget.min_available is not None:
        wanted = scaled(budget.min_available, len(pods))
    else:
        wanted = 0
    return max(0, healthy - wanted)
