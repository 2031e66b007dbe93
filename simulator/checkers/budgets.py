"""NodePool budgets: at every moment at which a node begins to go, no more go than the budgets admit then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Any, Final

from core.model.values.duration import parse_duration
from simulator.checkers import cron
from simulator.checkers.ledger import DISRUPTED, Ledger
from simulator.checkers.voluntary import REASONS, is_voluntary
from simulator.record import Event

TAINTED_AFTER_MAX: Final = timedelta(minutes=4)
"""How long after its place was taken (docs/adr/0026) a node may be tainted: a message that was lost is repeated in a later
round of `reconcile`. A window that opened since then does not hold the node back."""

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
        # A node that was never initialized is nobody's to count (Karpenter).
        if node is None or not node.pool or not node.is_initialized or is_voluntary(node):
            return
        found = [n for n in self._ledger.nodes.values() if n.pool == node.pool and n.is_initialized]
        alive = [n for n in found if self._is_there(n.instance)]
        total = len(alive)
        going = [n for n in alive if is_voluntary(n)]
        late = [n for n in going if n.disrupted_at is not None and now - n.disrupted_at <= TAINTED_AFTER_MAX]
        # Places are taken in an order that taints need not follow; they were if there is any order that bears them all.
        tops = sorted(
            self._most(node.pool, why, total, now) for why in (reason, *(n.disrupted_for or "" for n in late))
        )
        number = len(going) - len(late)
        for top in tops:
            number += 1
            if number > top:
                self._report(
                    f"{name} goes ({reason}) as number {len(going) + 1} of {total} in NodePool {node.pool}, "
                    f"allowed {top}"
                )
                return

    def _most(self, pool: str, reason: str, total: int, now: datetime) -> int:
        """How many may go at most, at any of the moments at which a place was taken by a node that is tainted now."""
        moments = (now, now - TAINTED_AFTER_MAX / 2, now - TAINTED_AFTER_MAX)
        tops = [self._allowed(pool, reason, total, moment) for moment in moments]
        return max(total + 1 if top is None else top for top in tops)

    def _is_there(self, instance: str) -> bool:
        found = self._ledger.instances.get(instance)
        return found is not None and found.ended_at is None

    def _allowed(self, pool: str, reason: str, total: int, now: datetime) -> int | None:
        """How many may go at once for this reason; None where nothing limits it, as where the NodePool was deleted."""
        if ("NodePool", "", pool) not in self._ledger.applied:
            return None
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
