"""NodePool budgets: at every moment at which a node begins to go, no more go than the budgets admit then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Any, Final

from core.model.duration import parse_duration
from simulator.checkers import cron
from simulator.checkers.ledger import DISRUPTED, Ledger
from simulator.checkers.voluntary import REASONS, is_voluntary
from simulator.record import Event

_DEFAULT: Final = ({"nodes": "10%"},)


class BudgetJudge:
    """Counts voluntary disruptions, expiry included, that a budget forbids."""

    name = "budgetViolations"

    def __init__(self, ledger: Ledger, report: Callable[[str], None]) -> None:
        self._ledger = ledger
        self._report = report

    def see(self, moment: datetime, event: Event) -> None:
        """Judge one event; the ledger holds the world as it was before."""
        fields = event.fields
        if event.event == "nodeTainted" and fields["key"] == DISRUPTED and fields.get("reason") in REASONS:
            self._begins(fields["node"], fields["reason"], moment)

    def _begins(self, name: str, reason: str, now: datetime) -> None:
        node = self._ledger.nodes.get(name)
        if node is None or not node.pool or is_voluntary(node):
            return
        alive = [n for n in self._ledger.nodes.values() if n.pool == node.pool and self._is_there(n.instance)]
        total = sum(1 for n in alive if n.is_initialized)
        going = 1 + sum(1 for n in alive if is_voluntary(n))
        allowed = self._allowed(node.pool, reason, total, now)
        if allowed is not None and going > allowed:
            self._report(
                f"{name} goes ({reason}) as number {going} of {total} in NodePool {node.pool}, allowed {allowed}"
            )

    def _is_there(self, instance: str) -> bool:
        found = self._ledger.instances.get(instance)
        return found is not None and found.ended_at is None

    def _allowed(self, pool: str, reason: str, total: int, now: datetime) -> int | None:
        """How many may go at once for this reason; None where nothing limits it."""
        spec = self._ledger.spec_of("NodePool", pool)
        budgets = (spec.get("disruption") or {}).get("budgets")
        limits = [
            _amount(str(budget.get("nodes", "0")), total)
            for budget in (_DEFAULT if budgets is None else budgets)
            if _concerns(budget, reason) and _is_open(budget, now)
        ]
        return min(limits, default=None)


def _concerns(budget: Mapping[str, Any], reason: str) -> bool:
    return budget.get("reasons") is None or reason in budget["reasons"]


def _is_open(budget: Mapping[str, Any], now: datetime) -> bool:
    if not budget.get("schedule"):
        return True
    lasting = parse_duration(str(budget.get("duration") or "")) or timedelta(0)
    return cron.is_open(budget["schedule"], lasting, now)


def _amount(text: str, total: int) -> int:
    if text.endswith("%"):
        return ceil(Fraction(text[:-1]) * total / 100)
    return int(text)
