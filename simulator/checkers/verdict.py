"""Combines all judges and their findings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

import msgspec

from simulator.checkers.bindings import BindingJudge
from simulator.checkers.budgets import BudgetJudge
from simulator.checkers.do_not_disrupt import DoNotDisruptJudge
from simulator.checkers.eviction_rate import EvictionRateJudge
from simulator.checkers.killed_pods import KilledPodsJudge
from simulator.checkers.launches import DoubleLaunchJudge
from simulator.checkers.ledger import Ledger
from simulator.checkers.limits import CapacityOf, LimitJudge
from simulator.checkers.orphans import OrphanJudge
from simulator.checkers.pod_disruption_budgets import PodDisruptionBudgetJudge
from simulator.checkers.stranded_pods import StrandedPodsJudge
from simulator.record import Event


class Violation(msgspec.Struct, frozen=True):
    """One violation of a law."""

    at: datetime
    law: str
    message: str


class Verdict(msgspec.Struct, frozen=True):
    """The judges' findings: violations in order."""

    violations: tuple[Violation, ...]

    def count(self, law: str) -> int:
        """Return how often this law was violated."""
        return sum(1 for violation in self.violations if violation.law == law)


class _Judge(Protocol):
    def see(self, moment: datetime, event: Event) -> None: ...


class Judges:
    """Watches a record and reports violations at the end.

    Attributes:
        ledger: Their common view of the world.

    Args:
        capacity_of: Capacity of an instance type by name.
    """

    def __init__(self, capacity_of: CapacityOf) -> None:
        self.ledger = Ledger()
        self._found: list[Violation] = []
        self._now = datetime.min.replace(tzinfo=UTC)
        self._orphans = OrphanJudge(self.ledger, self._reporter(OrphanJudge.name))
        self._stranded = StrandedPodsJudge(self.ledger, self._reporter(StrandedPodsJudge.name), capacity_of)
        self._judges: tuple[_Judge, ...] = (
            BudgetJudge(self.ledger, self._reporter(BudgetJudge.name)),
            PodDisruptionBudgetJudge(self.ledger, self._reporter(PodDisruptionBudgetJudge.name)),
            DoNotDisruptJudge(self.ledger, self._reporter(DoNotDisruptJudge.name)),
            DoubleLaunchJudge(self.ledger, self._reporter(DoubleLaunchJudge.name)),
            LimitJudge(self.ledger, self._reporter(LimitJudge.name), capacity_of),
            KilledPodsJudge(self.ledger, self._reporter(KilledPodsJudge.name)),
            BindingJudge(self.ledger, self._reporter(BindingJudge.name)),
            EvictionRateJudge(self.ledger, self._reporter(EvictionRateJudge.name)),
            self._stranded,
        )

    def see(self, event: Event) -> None:
        """Judge one event of the record."""
        self._now = datetime.fromisoformat(event.t)
        for judge in self._judges:
            judge.see(self._now, event)
        self.ledger.see(self._now, event)

    def await_more(self) -> bool:
        """Whether something whose duration is judged has not ended yet."""
        return self._stranded.has_waiting()

    def finish(self) -> Verdict:
        """Return the verdict, after the last event."""
        self._orphans.finish(self._now)
        self._stranded.finish(self._now)
        return Verdict(tuple(self._found))

    def report(self, law: str, message: str) -> None:
        """Add a violation that another kind of judge found."""
        self._found.append(Violation(self._now, law, message))

    def _reporter(self, law: str) -> Callable[[str], None]:
        return partial(self.report, law)
