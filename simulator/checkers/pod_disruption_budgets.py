"""Judges PodDisruptionBudgets: voluntary disruption removes no healthy pod that a budget needs (Kubernetes, eviction)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from fractions import Fraction
from math import ceil
from typing import Any

from simulator.checkers.facts import AppliedObject, PodFacts
from simulator.checkers.ledger import Ledger
from simulator.checkers.selectors import selects
from simulator.checkers.voluntary import time_is_up
from simulator.record import Event

_BY_PROGRAM = ("eviction", "forced")


class PodDisruptionBudgetJudge:
    """Counts evictions and forced deletions that leave fewer healthy pods than a budget requires."""

    name = "podDisruptionBudgetViolations"

    def __init__(self, ledger: Ledger, report: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._report = report

    def see(self, moment: datetime, event: Event) -> None:
        """Judge one event; the ledger holds the world as it was before."""
        if event.event == "podEvicted" and event.fields["by"] in _BY_PROGRAM:
            self._leaves(event.fields["pod"], event.fields["by"], moment)

    def _leaves(self, name: str, by: str, now: datetime) -> None:
        pod = self._ledger.pods.get(name)
        if pod is None or not pod.is_ready or pod.is_leaving:
            return
        node = self._ledger.nodes.get(pod.node)
        if by == "forced" and node is not None and time_is_up(self._ledger, node, pod, now):
            return
        for problem in self._problems(pod):
            self._report(f"{name} goes, {problem}")

    def forbids(self, pod: PodFacts) -> bool:
        """Whether some budget needs this pod where it is."""
        return any(True for _ in self._problems(pod))

    def _problems(self, pod: PodFacts) -> Iterator[str]:
        for budget in self._ledger.of_kind("PodDisruptionBudget"):
            if budget["metadata"].get("namespace", "default") == pod.namespace:
                yield from self._problem(budget, pod)

    def _problem(self, budget: AppliedObject, pod: PodFacts) -> Iterator[str]:
        spec = budget.get("spec") or {}
        if not selects(spec.get("selector"), pod.labels):
            return
        covered = [
            p
            for p in self._ledger.pods.values()
            if p.namespace == pod.namespace and not p.is_finished and selects(spec.get("selector"), p.labels)
        ]
        healthy = sum(1 for p in covered if p.is_ready and not p.is_leaving)
        wanted = self._wanted(spec, covered)
        if healthy - 1 < wanted:
            yield f"{budget['metadata']['name']} wants {wanted} healthy pods and has {healthy}"

    def _wanted(self, spec: AppliedObject, covered: Iterable[PodFacts]) -> int:
        expected = self._expected(covered)
        if spec.get("maxUnavailable") is not None:
            return max(0, expected - _amount(spec["maxUnavailable"], expected))
        return _amount(spec.get("minAvailable", 0), expected)

    def _expected(self, covered: Iterable[PodFacts]) -> int:
        """Return the expected number of pods: the replicas of controllers, plus one for each pod without such a controller."""
        total, counted = 0, set()
        for pod in covered:
            kind, _, name = self._scaled(pod)
            replicas = self._ledger.spec_of(kind, name, pod.namespace).get("replicas") if kind else None
            if replicas is None:
                total += 1
            elif (kind, name) not in counted:
                counted.add((kind, name))
                total += replicas
        return total

    def _scaled(self, pod: PodFacts) -> tuple[str, str, str]:
        """Return the controller that sets the number of these pods: for a ReplicaSet its Deployment, as in Kubernetes."""
        kind, slash, name = pod.owner.partition("/")
        replica_set = self._ledger.applied.get((kind, pod.namespace, name), {}) if kind == "ReplicaSet" else {}
        for owner in replica_set.get("metadata", {}).get("ownerReferences") or ():
            if owner.get("kind") == "Deployment" and owner.get("controller"):
                return owner["kind"], slash, owner["name"]
        return kind, slash, name


def _amount(given: Any, of: int) -> int:
    if isinstance(given, str) and given.endswith("%"):
        return ceil(Fraction(given[:-1]) * of / 100)
    return int(given)
