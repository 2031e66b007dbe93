"""Steps of dollars are read off at the times of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from cli.report import comparison
from cli.report.comparison import Comparison, sampled
from cli.terminal.progress import Steps
from core.counterfactual.simulated_period import SimulationRules
from core.model.plan import DisruptionCost
from core.model.values.quantity import nanodollars

START = datetime(2026, 11, 20, tzinfo=UTC)


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def test_a_step_holds_until_the_next_one() -> None:
    """A line that joined them would show prices that nothing ever had."""
    steps = ((at(1), nanodollars(0.5)), (at(3), nanodollars(0.25)))
    assert sampled(steps, [at(minute) for minute in range(5)]) == [None, 0.5, 0.5, 0.25, 0.25]
    assert sampled((), [at(0)]) == [None]


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_every_decision_is_simulated(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many, 160 were: what the last one before a quiet time changed was missing in all of that time."""
    seen: list[int] = []
    entries = [SimpleNamespace(snapshot=SimpleNamespace(now=number), plan=None) for number in range(count)]

    def simulated(snapshots: Iterable[Any], rules: Sequence[SimulationRules], until: object) -> Any:
        seen.extend(snapshot.now for snapshot in snapshots)
        assert (rules, until) == ((SimulationRules(karpenter_moves_only=True),), "the end")
        return None, (SimpleNamespace(series=((at(0), 7),)),)

    period = SimpleNamespace(decisions=lambda: iter(entries), until="the end")
    monkeypatch.setattr(comparison, "open_ledger", lambda where: where)
    monkeypatch.setattr(comparison, "PeriodReader", lambda *_: period)
    monkeypatch.setattr(comparison, "simulated_periods", simulated)
    steps = Steps(0)
    assert comparison.compared("ledger", steps) == Comparison(karpenter=((at(0), 7),), minimum=())
    assert seen == list(range(count))
    assert steps.total == count


def test_the_minimum_is_that_of_each_decision_that_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = (None, DisruptionCost(lower_bound=None), DisruptionCost(lower_bound=3))
    entries = [
        SimpleNamespace(snapshot=SimpleNamespace(now=at(n)), plan=None if cost is None else SimpleNamespace(cost=cost))
        for n, cost in enumerate(costs)
    ]
    monkeypatch.setattr(comparison, "open_ledger", lambda where: where)
    monkeypatch.setattr(comparison, "PeriodReader", lambda *_: SimpleNamespace(decisions=lambda: entries, until=at(3)))
    monkeypatch.setattr(comparison, "simulated_periods", lambda *_: (None, (SimpleNamespace(series=()),)))
    assert comparison.compared("ledger", Steps(0)).minimum == ((at(2), 3),)


def test_lines_have_four_digits() -> None:
    assert sampled([(datetime(2026, 1, 1, tzinfo=UTC), 123_456_789)], [datetime(2026, 1, 2, tzinfo=UTC)]) == [0.1235]
