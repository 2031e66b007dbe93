"""Judges NodePool budgets: when a node takes its place among the leaving ones (docs/adr/0026), budgets must admit it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import Any, Final

from core.model.values.duration import parse_duration
from simulator.checkers import cron
from simulator.checkers.ledger import DISRUPTED, Ledger
from simulator.checkers.places import Place
from simulator.checkers.voluntary import REASONS, SKEW_MAX, is_voluntary
from simulator.record import Event

READ_BEFORE: Final = timedelta(seconds=2)
"""How long before the call that takes a place the function may have read the budgets: retries after conflicts take time."""

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
        if node is None or not node.pool or not node.is_initialized or is_voluntary(node):
            return
        place = self._ledger.places.of(node.instance)
        if place is None:
            # No function took a place for the node, so the budgets must admit it now.
            going, total = self._ledger.places.count(node.pool, now)
            place = Place(pool=node.pool, since=now, asked=now, at=now, number=going + 1, total=total)
        tops = [self._allowed(node.pool, reason, place.total, moment) for moment in _moments(place)]
        top = max(place.number if found is None else found for found in tops)
        if place.number > top:
            self._report(
                f"{name} goes ({reason}) as number {place.number} of {place.total} in NodePool {node.pool}, allowed {top}, "
                f"since {place.at:%H:%M:%S}"
            )

    def _allowed(self, pool: str, reason: str, total: int, now: datetime) -> int | None:
        """Return how many nodes may leave at once for this reason; None if unlimited, as for a deleted NodePool."""
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


def _moments(place: Place) -> Iterator[datetime]:
    """Return the minutes in which the budgets for a place may have been read: from just before its call to its transaction."""
    moment = place.asked - READ_BEFORE - SKEW_MAX
    while moment < place.at + SKEW_MAX:
        yield moment
        moment = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
    yield place.at + SKEW_MAX


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
